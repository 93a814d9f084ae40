"""From ids to vectors: what each token is, where it stands, which part it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from glassformer.core.flow import Flow, Node
from glassformer.core.norms import make_norm
from glassformer.core.positions import make_positions
from glassformer.core.specs import EmbeddingSpec
from glassformer.errors import DataError

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class Embedding(Node):
    """Look up each token's vector and add where it stands and which segment it belongs to.

        x = dropout(norm(tokens[id] · scale + positions[p] + segments[s] + others))

    Looking a row up equals multiplying a one-hot row by the table, without the multiplication.

    Args:
        ids: token ids. [B, T]
        flow: where the tokens stand, or how to count them (`Flow.where`).
        segments: segment ids. [B, T]; None = all 0
        others: what a recipe's own tables say of the tokens; None = nothing. [B, T, D]
    Raises: DataError: more tokens than the position table has rows.
    Taps: out [B T D]
    Source: Vaswani et al. 2017, sections 3.4 and 3.5; segments: Devlin et al. 2019, section 3.
    """

    TAPS = ("out",)

    def __init__(self, spec: EmbeddingSpec) -> None:
        super().__init__()
        self.spec = spec
        self.tokens = nn.Embedding(spec.vocabulary, spec.width)
        self.segments = nn.Embedding(spec.segments, spec.width) if spec.segments else None
        self.positions = make_positions(spec.positions, spec.width) if spec.positions else None
        self.norm = make_norm(spec.norm)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(
        self,
        ids: Int[Tensor, "B T"],
        flow: Flow,
        segments: Int[Tensor, "B T"] | None = None,
        others: Float[Tensor, "B T D"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        x: Tensor = self.tokens(ids)
        if self.spec.scale != 1.0:
            x = x * self.spec.scale
        if self.positions is not None:
            self.check_length(ids, flow)
            x = x + self.positions(flow.where(ids), x.dtype)
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments))
        if others is not None:
            x = x + others
        return self.tap(flow, "out", self.finished(x))

    def finished(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """What becomes of the sum."""
        dropped: Tensor = self.dropout(self.norm(x))
        return dropped

    def check_length(self, ids: Tensor, flow: Flow) -> None:
        """Whether each text has a position for every token, unless the caller says where they stand."""
        longest = flow.past + ids.shape[1] if flow.segments is None else max(flow.segments.lengths)
        if flow.positions is None and self.spec.positions is not None and longest > self.spec.positions.count:
            raise DataError(
                f"the text has {longest} tokens, the model has {self.spec.positions.count} positions; shorten or split "
                "the text, or truncate it (tokenizer, generate: truncation=True; encode: truncate=True)"
            )
