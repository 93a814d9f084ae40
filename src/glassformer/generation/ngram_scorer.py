"""Shallow fusion with an n-gram model over the tokens of the model's own tokenizer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.generation.filters import PrefixStates
from glassformer.ngram.counts import END_ID
from glassformer.ngram.model import NgramModel, NgramState

CACHED_STATES = 1_000
"""Distributions that are kept: beams share their beginnings, and frequent histories come back."""


class NgramScorer:
    """N-gram model as a scorer: ln P of every token after the generated ones; the prompt is not read.

        model = load_ngram("talks.arpa")            trained with `--tokenizer`, on tokens
        scorer = NgramScorer(model, tokens=[tokenizer.convert_ids_to_tokens(i) for i in range(len(tokenizer))], end=[2])
        generate(…, num_beams=5, scorers=[(scorer, 0.3)])

    Tokens that the n-gram model does not know have the probability of `<unk>`, those in `end` that of `</s>`.

    Args:
        tokens: as the n-gram model spells them, by id; as many as the network's vocabulary [V]
        end: ids that end a text
    Raises: ConfigError: the n-gram model knows none of the tokens: it is one of words, or of another tokenizer.
    """

    def __init__(self, model: NgramModel, tokens: Sequence[str], end: Collection[int]) -> None:
        if not any(token in model for token in tokens):
            raise ConfigError(
                f"{model!r} knows none of the {len(tokens):,} tokens; train it on the tokens of the tokenizer: "
                "glassformer ngram train TEXTS --tokenizer MODEL"
            )
        self._model = model
        self._words = model.ids(tokens)
        self._words[list(end)] = END_ID
        self._states: PrefixStates[NgramState] | None = None
        self._prompt_length = -1
        self._log_probs = lru_cache(CACHED_STATES)(self._of_tokens)

    def __call__(self, ids: Tensor, prompt_length: int) -> Tensor:
        """ln P of each token after each row. [R, V] float32"""
        if self._states is None or self._prompt_length != prompt_length:
            self._prompt_length = prompt_length
            self._states = PrefixStates(self._model.state([]), self._step, prompt_length=prompt_length)
        return torch.stack([self._log_probs(state) for state in self._states(ids)]).to(ids.device)

    def _step(self, state: NgramState, token: int) -> NgramState:
        return self._model.step(state, int(self._words[token]))[1]

    def _of_tokens(self, state: NgramState) -> Tensor:
        return torch.from_numpy(self._model.log_probs(state)[self._words].astype(np.float32))
