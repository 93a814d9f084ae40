"""Tokens of several codebooks, such as an audio codec's: at each position one id of each codebook.

    ids [B, T, K] ─ Σ_k table_k[id_k] ─ positions ─ blocks ─ x W_kᵀ for each k ─ logits [B, T, K, V]

The K tables are one, of K · V rows, and so are the K output projections: a code of codebook k is row k · V + code.
Source: Copet et al. 2023 (MusicGen), section 2.2; Kharitonov et al. 2022, "Text-free prosody-aware generative spoken
language modeling", section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.checks import Count
from glassformer.core.embeddings import Embedding, EmbeddingSpec
from glassformer.core.flow import Flow, Output
from glassformer.core.heads import Labels, not_none, single_tensor
from glassformer.core.language_heads import CausalLMHead
from glassformer.core.losses import IGNORE_INDEX, checked_labels, linear_cross_entropy, shaped_labels

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, kw_only=True, slots=True)
class CodebookEmbeddingSpec(EmbeddingSpec):
    """Input embedding of ids of `books` codebooks, each of `vocabulary` ids."""

    books: Count

    @property
    def codebooks(self) -> int:
        return self.books

    def make(self) -> Embedding:
        return CodebookEmbedding(self)


class CodebookEmbedding(Embedding):
    """Input embedding of several codebooks: the sum of one vector of each, plus position embeddings.

        x = Σ_k table_k[id_k] · scale + positions[p]

    Args:
        ids: one id of each codebook [B, T, K]; or vectors in the place of their sum [B, T, width]
        others: as of `Embedding`
    Taps: out [B T D]
    """

    def __init__(self, spec: CodebookEmbeddingSpec) -> None:
        super().__init__(spec)
        self.tokens = nn.Embedding(spec.books * spec.vocabulary, spec.width)

    def forward(
        self,
        ids: Int[Tensor, "B T K"],
        flow: Flow,
        token_types: Int[Tensor, "B T"] | None = None,
        extra: Float[Tensor, "B T D"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        if ids.is_floating_point():
            return super().forward(ids, flow, token_types, extra)
        rows = ids + torch.arange(ids.shape[-1], device=ids.device) * self.spec.vocabulary
        return super().forward(self.tokens(rows).sum(-2), flow, token_types, extra)


class CodebookLMHead(CausalLMHead):
    """Language-model head of several codebooks: position t predicts label t, an id of each codebook.

        logits_k = x W_kᵀ

    The caller shifts the inputs (`shift_right`), as for an encoder-decoder. The loss is the mean over all labels.
    Args:
        books: K
        vocabulary: V, ids of a codebook that can be predicted
    Differs: the reference library averages each codebook by itself, then those means: the same where each has as many.
    """

    OVER_VOCABULARY = False  # of several, none of which a tokenizer can spell

    def __init__(self, width: int, vocabulary: int, books: int) -> None:
        super().__init__(width, books * vocabulary)
        self.books = books

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(logits=not_none(super().forward(x, flow).logits).unflatten(-1, (self.books, -1)))

    def align_labels(self, labels: Tensor) -> Tensor:
        return labels

    def loss_sums(
        self, x: Float[Tensor, "B T D"], flow: Flow, labels: Labels, *, smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        tables = self.decoder.weight.unflatten(0, (self.books, -1))  # [K, V, D]
        shape = (*x.shape[:-1], *tables.shape[:2])
        labels = checked_labels(shaped_labels(single_tensor(labels), shape), shape)
        total = x.new_zeros(())
        for table, targets in zip(tables, labels.unbind(-1), strict=True):
            counted = targets != IGNORE_INDEX
            total = total + linear_cross_entropy(x[counted], table, None, targets[counted], smoothing=smoothing)
        return {"loss": total}
