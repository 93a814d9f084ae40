"""Base classes of custom rules of generation: logits processors and stopping criteria, and lists of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from glassformer.generation import filters


class OwnLogitsProcessor:
    """A rule that changes the logits of each step; subclasses define the call."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """The changed logits. ids [R, T], scores [R, V] → [R, V]"""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(self, input_ids, scores)")


class OwnStoppingCriterion:
    """A rule that ends rows; subclasses define the call."""

    def __call__(self, input_ids: Tensor, scores: Any, **options: Any) -> Any:
        """Whether each row ends: a bool, or one for each row. [R]"""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(self, input_ids, scores)")


class RuleList(list[Any]):
    """Rules, applied one after another; of logits, a rule itself."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """The logits that all of them together leave. ids [R, T], scores [R, V] → [R, V]"""
        for rule in self:
            scores = rule(input_ids, scores)
        return scores


READY: dict[str, Callable[..., Any]] = {
    "TemperatureLogitsWarper": lambda temperature: filters.temperature(temperature),
    "TopKLogitsWarper": lambda top_k, min_tokens_to_keep=1: filters.top_k(top_k, min_keep=min_tokens_to_keep),
    "TopPLogitsWarper": lambda top_p, min_tokens_to_keep=1: filters.top_p(top_p, min_keep=min_tokens_to_keep),
    "MinPLogitsWarper": lambda min_p, min_tokens_to_keep=1: filters.min_p(min_p, min_keep=min_tokens_to_keep),
    "TypicalLogitsWarper": lambda mass, min_tokens_to_keep=1: filters.typical_p(mass, min_keep=min_tokens_to_keep),
    "RepetitionPenaltyLogitsProcessor": lambda penalty: filters.repetition_penalty(penalty),
    "NoRepeatNGramLogitsProcessor": lambda ngram_size: filters.no_repeat_ngrams(ngram_size),
    "NoBadWordsLogitsProcessor": lambda bad_words_ids, eos_token_id=None: filters.ban_words(bad_words_ids),
    "SuppressTokensLogitsProcessor": lambda suppress_tokens: filters.suppress(suppress_tokens),
    "MinLengthLogitsProcessor": lambda min_length, eos_token_id: filters.suppress(
        [eos_token_id] if isinstance(eos_token_id, int) else eos_token_id, before=min_length
    ),
    "MaxLengthCriteria": lambda max_length, max_position_embeddings=None: (
        lambda ids, scores: ids.shape[1] >= max_length
    ),
    "EosTokenCriteria": lambda eos_token_id: lambda ids, scores: torch.isin(ids[:, -1], torch.tensor(eos_token_id)),
}
"""Rules of the reference library that are called by hand → what makes ours of the same arguments."""
