"""Disentangled attention (DeBERTa): scores from contents and relative positions, each with projections of its own.

    score_ij = (q_i · k_j  +  q_i · pk_b(i-j)  +  k_j · pq_b(i-j)) · scale
                content to    content to          position to
                content       position            content

pk and pq are a layer's projections of relative position embeddings, a table that all layers share; b is the bucket of a
distance. The last two terms are a bias of the scores that depends on q and k: each query is multiplied with the few
rows of the table, not with S vectors, and the products are looked up by distance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.attention import Attention, AttentionSpec
from glassformer.core.checks import Count, Probability, check_widths
from glassformer.core.flow import Flow
from glassformer.core.norms import NormSpec, make_norm
from glassformer.core.position_bias import PositionBias, PositionBiasSpec
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, kw_only=True, slots=True)
class RelativeEmbeddingSpec(PositionBiasSpec):
    """Relative position embeddings: a vector for each bucket of the distance query - key, from -`span` to `span` - 1.

    width: of a vector
    norm: of the vectors (None: as they are)
    longest: the distance with the last bucket; far distances share buckets on a log scale (None: a bucket each)
    """

    width: Count
    span: Count
    longest: Count | None = None
    norm: NormSpec | None = None

    def validate(self) -> None:
        check_widths(self, "the vectors", self.width, "norm")
        if self.longest is not None and not 0 < self.near < self.longest - 1:
            raise ConfigError(
                f"RelativeEmbeddingSpec has span {self.span} and longest distance {self.longest}; with buckets on a "
                f"log scale span must be from 2 to {2 * self.longest - 3} (config.json: position_buckets, "
                "max_relative_positions)"
            )

    def make(self) -> RelativeEmbedding:
        return RelativeEmbedding(self)

    @property
    def near(self) -> int:
        """Distances up to this have a bucket each."""
        return self.span if self.longest is None else self.span // 2

    def reach(self, tokens: int) -> int:
        """How many buckets to either side texts of this many tokens can need; in an exported program, of any length."""
        if torch.compiler.is_exporting():
            return self.span
        return min(tokens, self.span) if tokens <= self.near or self.longest is None else self.span

    def buckets(self, distance: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
        """The bucket of each distance query - key, from -span to span - 1."""
        if self.longest is not None:
            # In fp32 and in these steps, as the published models were trained: a rounding decides at the bounds.
            whole = torch.log(torch.tensor((self.longest - 1) / self.near))
            size = distance.abs().clamp(min=self.near)
            far = self.near + torch.ceil(torch.log(size / self.near) / whole * (self.near - 1)).long()
            distance = torch.where(distance.abs() <= self.near, distance, far * distance.sign())
        return distance.clamp(-self.span, self.span - 1)


class RelativeEmbedding(PositionBias):
    """Relative position embeddings, from which each layer with disentangled attention makes a bias of its scores.

        bucket    -span … -1   0   1 … span - 1          query - key: negative where the key comes later

    Args:
        T, S, device: of queries and keys; the table is the same for all.
    Returns: the table, normed where the spec says so. [2 · span, D]
    Source: He et al. 2021, "DeBERTa", section 3.1; log buckets and the norm: the released code of version 2.
    """

    KIND = "relative, by content"
    BY_DISTANCE = False

    def __init__(self, spec: RelativeEmbeddingSpec) -> None:
        super().__init__()
        self.spec = spec
        self.table = nn.Embedding(2 * spec.span, spec.width)
        self.norm = make_norm(spec.norm)

    def forward(self, T: int, S: int, device: torch.device) -> Float[Tensor, "buckets D"]:
        normed: Tensor = self.norm(self.table.weight)
        return normed

    def head_rows(
        self, attention: nn.Module, head: int, q: Float[Tensor, "R E"], k: Float[Tensor, "S E"], at: Tensor
    ) -> Float[Tensor, "R S"]:
        assert isinstance(attention, DisentangledAttention)
        S = k.shape[0]
        positions = attention.project_positions(self(S, S, k.device), S)
        distance = at[:, None] - torch.arange(S, device=k.device)
        terms = attention.position_terms(q[None, None], k[None, None], positions[:, head, None], distance)
        return q.new_zeros(q.shape[0], S) if terms is None else terms[0, 0]


@dataclass(frozen=True, kw_only=True, slots=True)
class DisentangledAttentionSpec(AttentionSpec):
    """Disentangled attention.

    relative: the relative position embeddings of the stack (None: none, and attention as usual)
    terms: which terms besides q · k the scores have: "c2p", content to position, and "p2c", position to content
    shared: positions are projected as tokens are, by the weights of q and k; else by weights of their own
    position_bias: of its own weights, that of "c2p" has a bias (the other always has)
    query_value_bias: q and v have a bias, k has none, which `bias` cannot say
    position_dropout: of the relative position embeddings
    """

    relative: RelativeEmbeddingSpec | None = None
    terms: tuple[str, ...] = ()
    shared: bool = False
    position_bias: bool = True
    query_value_bias: bool = False
    position_dropout: Probability = 0.0

    KIND = "disentangled"
    TERMS: ClassVar[tuple[str, ...]] = ("c2p", "p2c")

    def validate(self) -> None:
        AttentionSpec.validate(self)
        if set(self.terms) - set(self.TERMS):
            raise ConfigError(
                f"DisentangledAttentionSpec.terms is {self.terms}; it may have {' and '.join(self.TERMS)} "
                "(config.json: pos_att_type)"
            )
        if self.heads != self.K or self.score_cap is not None or self.rotary is not None:
            raise ConfigError(
                f"DisentangledAttentionSpec has kv_heads={self.kv_heads}, score_cap={self.score_cap}, rotary="
                f"{self.rotary}; each head has its own keys and positions, and no soft cap: leave them out"
            )
        if self.bias and self.query_value_bias:
            raise ConfigError(
                "DisentangledAttentionSpec has bias and query_value_bias; q and v have one bias: leave one out"
            )

    def make(self) -> DisentangledAttention:
        return DisentangledAttention(self)


class DisentangledAttention(Attention):
    """Disentangled self-attention.

        score_ij = (q_i · k_j + q_i · pk_b(i-j) + k_j · pq_b(i-j)) · scale,     pk = P W_pk,  pq = P W_pq

    P are the relative position embeddings, b the bucket of a distance. `scale` is 1 / √((1 + number of terms) E) in
    published models.

    Args:
        x: the residual stream after the norm. [B, T, D]
        flow: as for `Attention`; `bias` is the table P of the stack. [2 · span, D]
    Returns: what is added to the residual stream. [B, T, D]
    Raises: ConfigError: there is no table P.
    Taps: as for `Attention`
    Source: He et al. 2021, "DeBERTa", section 3.1; shared projections: He et al. 2023, "DeBERTaV3", released code.
    Differs: the paper has a fourth term, position to position, which it leaves out itself.
    """

    spec: DisentangledAttentionSpec

    def __init__(self, spec: DisentangledAttentionSpec) -> None:
        super().__init__(spec)
        inner = spec.heads * spec.E
        self.q_bias = self.v_bias = self.position_key = self.position_query = None
        if spec.query_value_bias:
            self.q_bias, self.v_bias = (nn.Parameter(torch.zeros(inner)) for _ in range(2))
        if spec.relative is not None and not spec.shared:
            if "c2p" in spec.terms:
                self.position_key = nn.Linear(spec.width, inner, bias=spec.position_bias)
            if "p2c" in spec.terms:
                self.position_query = nn.Linear(spec.width, inner)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "B T D"]:
        if self.spec.relative is not None:
            if flow.bias is None:
                raise ConfigError(
                    "disentangled attention needs relative position embeddings; got flow.bias=None: give the stack "
                    "their spec, StackSpec(bias=…)"
                )
            tokens = flow.past + x.shape[1] if flow.packing is None else max(flow.packing.lengths)
            flow = replace(flow, bias=self.project_positions(flow.bias, tokens))
        return super().forward(x, flow)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().queries_keys_values(x)
        if self.q_bias is None or self.v_bias is None:
            return q, k, v
        q_bias, v_bias = (b.view(1, self.spec.heads, 1, -1) for b in (self.q_bias, self.v_bias))
        return q + q_bias, k, v + v_bias

    def project_positions(self, table: Float[Tensor, "buckets D"], tokens: int) -> Float[Tensor, "terms H near E"]:
        """pk, then pq, of the buckets that texts of this many tokens can need: 2 · reach of them, around distance 0."""
        spec = self.spec
        assert spec.relative is not None
        reach = spec.relative.reach(tokens)
        table = F.dropout(table, spec.position_dropout, self.training)
        near = table[None, spec.relative.span - reach : spec.relative.span + reach]
        if spec.shared:
            queries, keys, _ = self.queries_keys_values(near)
            parts = {"c2p": keys, "p2c": queries}
        else:
            own = {"c2p": self.position_key, "p2c": self.position_query}
            parts = {
                term: self.split_heads(linear(near), spec.heads)[0]
                for term, linear in own.items()
                if linear is not None
            }
        chosen = [parts[term] for term in spec.TERMS if term in spec.terms]
        return torch.cat(chosen) if chosen else near.new_zeros(0, spec.heads, 2 * reach, spec.E)

    def score_bias(self, q: Tensor, k: Tensor, flow: Flow, positions: Tensor | None = None) -> Tensor | None:
        if self.spec.relative is None or flow.bias is None:
            return super().score_bias(q, k, flow, positions)
        T, S = q.shape[2], k.shape[2]
        key_positions = torch.arange(S, device=k.device) if positions is None else positions
        query_positions = key_positions[S - T :]
        return self.position_terms(q, k, flow.bias, query_positions[:, None] - key_positions)

    def saves_more(self, tokens: int) -> tuple[int, int]:
        """What the backward pass needs besides q, k and v: see `glassformer.inspect.ram`.

        Copies of q and k in the layout of their products with positions; the bucket of each pair of tokens, in int64;
        and the vectors of positions themselves, of which there are as many for a whole batch.
        """
        spec = self.spec
        if spec.relative is None:
            return 0, 0
        inner, terms = spec.heads * spec.E, len(spec.terms)
        positions = 2 * spec.relative.reach(tokens) * (spec.width + terms * inner)
        biased = 2 * inner if spec.query_value_bias else 0
        return terms * inner + biased + positions // tokens, 2 * tokens

    def position_terms(
        self, q: Tensor, k: Tensor, positions: Float[Tensor, "terms H near E"], distance: Int[Tensor, "T S"]
    ) -> Float[Tensor, "B H T S"] | None:
        """The terms of the scores that depend on positions, scaled; None where there are none.

        Args:
            q, k: [B, H, T, E], [B, H, S, E]
            positions: of `project_positions`.
            distance: query - key.
        """
        spec = self.spec
        assert spec.relative is not None
        S, own = k.shape[2], spec.relative.reach(k.shape[2])
        middle = positions.shape[2] // 2  # that of the longest text of the call; a shorter one needs fewer buckets
        positions = positions[:, :, max(middle - own, 0) : middle + own].to(q.dtype)
        by_distance = spec.relative.buckets(torch.arange(1 - S, S, device=k.device)) + positions.shape[2] // 2
        bucket = by_distance.clamp(0, positions.shape[2] - 1)[distance + S - 1]
        terms = dict(zip((term for term in spec.TERMS if term in spec.terms), positions, strict=True))
        total = None
        if "c2p" in terms:
            total = _looked_up(q, terms["c2p"], bucket)
        if "p2c" in terms:
            to_content = _looked_up(k, terms["p2c"], bucket.mT).mT
            total = to_content if total is None else total + to_content
        return None if total is None else total * self.scale


def _looked_up(
    x: Float[Tensor, "B H T E"], positions: Float[Tensor, "H near E"], bucket: Int[Tensor, "T S"]
) -> Float[Tensor, "B H T S"]:
    """The product of each token with the projected position of its distance from another."""
    products = torch.einsum("bhte,hne->bhtn", x, positions)
    return products.gather(-1, bucket.expand(*products.shape[:2], -1, -1))
