"""Shallow fusion: token scores of a second model, such as a language model, added to the model's own.

    log P(token) + weight · score(token)

    network    cat −0.7  hat −0.9         a transcript "the …": what the audio suggests
    scorer     cat −0.5  hat −3.0         what texts usually say
    at 0.5     cat −0.95 hat −2.4

Source: Gulcehre et al. 2015, section 4.1.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from glassformer.core.heads import not_none
from glassformer.errors import ConfigError
from glassformer.generation.decoding import Generated
from glassformer.generation.filters import Filter, PrefixStates
from glassformer.generation.rows import Rows
from glassformer.models import Network
from glassformer.ngram.counts import END_ID
from glassformer.ngram.model import NgramModel, NgramState


class Scorer(Protocol):
    """Scores every token of the vocabulary as the next token of each row.

    A search reorders, copies and drops rows between two calls without notice: a row is identified by its ids. A
    scorer with a state for each row, such as an n-gram model, finds it with `generation.filters.PrefixStates`.
    """

    def __call__(self, ids: Tensor, prompt_length: int) -> Tensor:
        """The score of each token, usually a natural log-probability. [R, V]

        Args:
            ids: rows, -1 where a prompt is padded. [R, T]
            prompt_length: number of leading columns that are prompt, or start tokens of an encoder-decoder.
        """
        ...


def shallow_fusion(scorer: Scorer, weight: float, *, prompt_length: int) -> Filter:
    """A logit filter that adds a scorer: logits + weight · scores.

    Raises: ConfigError: scores and logits differ in shape.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        scores = scorer(ids, prompt_length)
        if scores.shape != logits.shape:
            raise ConfigError(
                f"a scorer gives scores of shape {list(scores.shape)} for logits of shape {list(logits.shape)}; it "
                "must score the same rows and the same vocabulary"
            )
        return logits + weight * scores.to(logits)

    return apply


class LanguageModelScorer:
    """Language model as a scorer: log-probabilities of a decoder-only network with the same vocabulary.

    It caches keys and values between steps, and matches rows to cache rows by their ids. One scorer serves one
    search at a time.

    Args:
        network: such as `model.network` of a loaded model.
        begin: ids that replace the prompt; to score the answer of an encoder-decoder, whose start token is unknown to
            a language model, give the language model's own BOS token. None = it reads the prompt too.
    """

    def __init__(self, network: Network, *, begin: Sequence[int] | None = None) -> None:
        self._network = network
        self._begin = begin
        self._rows: Rows | None = None

    @torch.inference_mode()
    def __call__(self, ids: Tensor, prompt_length: int) -> Tensor:
        if self._begin is not None:
            start = torch.tensor(self._begin, dtype=ids.dtype, device=ids.device)
            ids = torch.cat([start.expand(len(ids), -1), ids[:, prompt_length:]], dim=1)
        return self._rows_for(ids).logits().float().log_softmax(-1)

    def _rows_for(self, ids: Tensor) -> Rows:
        """Rows with these ids: those of the step before, reordered and one token longer, or new ones."""
        rows = self._rows
        parents = None if rows is None else _matching_rows(rows.filter_ids, ids[:, :-1])
        if rows is not None and parents is not None:
            rows.pick(parents)
            rows.append(ids[:, -1])
            return rows
        self._rows = Rows(self._network, ids.clamp(min=0), keep=ids >= 0)
        return self._rows


def _matching_rows(previous: Tensor, ids: Tensor) -> Tensor | None:
    """The index of each row among the previous ones; None if one is not among them. [R, T] → [R]"""
    if previous.shape[1] != ids.shape[1]:
        return None
    index_of = {tuple(row): index for index, row in enumerate(previous.tolist())}
    indices = [index_of.get(tuple(row)) for row in ids.tolist()]
    return None if None in indices else torch.tensor(indices, device=ids.device)


def rescore(
    generated: Generated, scorer: Scorer, weight: float, *, answers: int, attention_mask: Tensor | None = None
) -> Generated:
    """N-best rescoring: sort the answers to each prompt by score + weight · sum of scorer scores of their new tokens.

    Generate with length_penalty=0, so that both scores are sums over tokens.

    Args:
        generated: result of `generate(…, num_return_sequences=answers, return_scores=True)`.
        answers: number of answers for each prompt.
        attention_mask: the one given to `generate`, 0 where prompts are padded. [N, prompt_length]
    Returns: the same rows, reordered within each prompt, with their new scores.
    Raises: ConfigError: rows without scores, or a number of rows that `answers` does not divide.
    """
    if generated.scores is None or generated.active is None or len(generated.ids) % answers:
        raise ConfigError(
            f"rescore was given {len(generated.ids)} rows {'without' if generated.scores is None else 'with'} scores, "
            f"{answers} a prompt; generate them with return_scores=True and num_return_sequences={answers}"
        )
    scores = generated.scores + weight * text_scores(generated, scorer, attention_mask, answers)
    order = scores.unflatten(0, (-1, answers)).argsort(dim=1, descending=True, stable=True)
    first = torch.arange(0, len(scores), answers, device=scores.device)[:, None]
    return _reordered(replace(generated, scores=scores), (first + order).flatten())


def text_scores(generated: Generated, scorer: Scorer, attention_mask: Tensor | None = None, answers: int = 1) -> Tensor:
    """The sum of a scorer's scores of each row's new tokens, up to the end of the row. [R]

    Args:
        generated: made with return_scores=True
        attention_mask, answers: as of `rescore`
    """
    ids, start = generated.ids.clone(), generated.prompt_length
    sums = torch.zeros_like(not_none(generated.scores))
    if attention_mask is not None:
        hidden = (attention_mask == 0).repeat_interleave(answers, dim=0)
        ids[:, :start].masked_fill_(hidden, -1)
    for column in range(start, ids.shape[1]):
        active = not_none(generated.active)[:, column - start]
        added = scorer(ids[:, :column], start).gather(1, generated.ids[:, column, None])[:, 0]
        sums += added.to(sums).masked_fill(~active, 0.0)
    return sums


def _reordered(generated: Generated, order: Tensor) -> Generated:
    """The rows in another order."""
    changed: dict[str, Any] = {}
    for field in fields(generated):
        value = getattr(generated, field.name)
        if isinstance(value, Tensor):
            changed[field.name] = value[order]
        elif isinstance(value, list):
            changed[field.name] = [value[row] for row in order.tolist()]
    return replace(generated, **changed)


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
