"""Logit filters (logits processors): change or ban logits before a token is chosen.

    logits ─> rules (suppress, no_repeat_ngrams, …) ─> temperature ─> top_k ─> top_p ─> … ─> one token is chosen

A filter is a function (ids so far [R, T], logits of the next token [R, V]) → logits [R, V]. Ids of -1 are padding.
Rules ban tokens; the others change the sampling distribution. The logit of a banned token is -inf.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.files import safe_repr
from glassformer.generation.rows import without_tokens

Filter = Callable[[Tensor, Tensor], Tensor]
State = TypeVar("State")


# ------------------------------------------------------------------------------------------------------------ rules


@dataclass(frozen=True)
class Ban:
    """A filter that bans tokens, and leaves the logits of all others as they are.

    at_most: how many tokens of a row it bans at a position; None = any number, or it does more than that
    """

    apply: Filter
    at_most: Callable[[int], int | None]

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        return self.apply(ids, logits)


def suppress(banned: Sequence[int], *, at: int | None = None, before: int | None = None) -> Filter:
    """Ban tokens: always, only at the position `at` of a row, or only at positions below `before`.

    Source: Radford et al. 2022, section 4.5 and released code: tokens that are no speech, and no silence at the start.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        position = ids.shape[1]
        if (at is not None and position != at) or (before is not None and position >= before):
            return logits
        return without_tokens(logits, banned)

    return Ban(apply, lambda position: len(banned))


def allow_only(allowed: Sequence[int], *, at: int) -> Filter:
    """Allow only these tokens at the position `at` of a row; a single token is forced, even where it was banned.

    Source: Radford et al. 2022, section 2.3: a transcript begins with language, task and timestamp tokens.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        if ids.shape[1] != at:
            return logits
        tokens = torch.tensor(allowed, device=logits.device)
        values = logits[:, tokens] if len(allowed) > 1 else torch.zeros_like(logits[:, :1])
        return torch.full_like(logits, -torch.inf).index_copy(-1, tokens, values)

    return Ban(apply, lambda position: None if position == at else 0)


def ban_words(words: Sequence[Sequence[int]]) -> Filter:
    """Bad words: ban the last token of a word, a sequence of token ids, where its other tokens come directly before.

    ids … 5 9, word [5, 9, 7]:  7 is banned next
    """
    by_length: dict[int, list[Sequence[int]]] = {}
    for word in words:
        by_length.setdefault(len(word), []).append(word)

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        banned = torch.zeros_like(logits)
        for length, group in by_length.items():
            if length > ids.shape[1] + 1:
                continue
            table = torch.tensor(group, device=ids.device)  # [W, length]
            matches = (ids[:, None, ids.shape[1] + 1 - length :] == table[None, :, :-1]).all(-1)  # [R, W]
            banned.index_add_(1, table[:, -1], torch.where(matches, -torch.inf, 0.0).to(logits.dtype))
        return logits + banned

    return Ban(apply, lambda position: len(words))


def no_repeat_ngrams(size: int, *, source: Tensor | None = None) -> Filter:
    """Ban repeated n-grams of `size` tokens: those of the row itself, or with `source` those of the encoder input.

    size 2, ids 4 8 5 4:  8 is banned next, because "4 8" is in the row

    Args:
        source: encoder input, -1 where it is padding. [R, S]; where ids have n times as many rows, each of its rows
            serves n neighbours.
    Source: Paulus et al. 2017, section 2.5.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        text = ids if source is None else source.repeat_interleave(len(ids) // len(source), dim=0)
        if min(text.shape[1], ids.shape[1] + 1) < size:
            return logits
        ngrams = text.unfold(1, size, 1)  # [R, N, size]
        matches = (ngrams[..., :-1] == ids[:, None, ids.shape[1] + 1 - size :]).all(-1)  # [R, N]
        return logits.masked_fill(_vocabulary_mask(ngrams[..., -1].where(matches, -1), logits), -torch.inf)

    return Ban(apply, lambda position: position if source is None else source.shape[1])


def allow_by(allowed_tokens: Callable[[int, Tensor], Any], prompts: int) -> Filter:
    """Prefix-constrained decoding: allow the tokens that a function gives for a prompt's number and its ids [T].

    Args:
        prompts: number of prompts; each has as many neighbouring rows as any other.
    Source: De Cao et al. 2020, section 3.2.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        each = max(1, len(ids) // max(1, prompts))
        banned = torch.ones_like(logits, dtype=torch.bool)
        for row, line in enumerate(ids):
            allowed = allowed_tokens(row // each, line)
            allowed = allowed.tolist() if isinstance(allowed, Tensor) else allowed
            if not isinstance(allowed, (list, tuple, set, range)) or not all(
                isinstance(token, int) and 0 <= token < logits.shape[-1] for token in allowed
            ):
                raise ConfigError(
                    f"prefix_allowed_tokens_fn returned {safe_repr(allowed)}; it must return a list of token ids, from "
                    f"0 to {logits.shape[-1] - 1}"
                )
            banned[row, list(allowed)] = False
        return logits.masked_fill(banned, -torch.inf)

    return apply


def of_caller(processor: Filter, pad_id: int) -> Filter:
    """A caller's filter: it gets padding as the pad token, since those of other libraries index with it.

    Raises: ConfigError: it returns something else than logits.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        changed = processor(ids.where(ids >= 0, pad_id), logits)
        if not isinstance(changed, Tensor) or changed.shape != logits.shape:
            got = list(changed.shape) if isinstance(changed, Tensor) else type(changed).__name__
            raise ConfigError(f"a logits_processor returned {got}; it must return logits {list(logits.shape)}")
        return changed

    return apply


def repetition_penalty(penalty: float, *, source: Tensor | None = None) -> Filter:
    """Repetition penalty: logits of tokens in the row are divided by the penalty, or multiplied where negative.

    Args:
        source: of its tokens instead; as in `no_repeat_ngrams`. [R, S]
    Source: Keskar et al. 2019 (CTRL), section 4.1; multiplying negative logits comes from the reference library.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        lower = torch.where(logits < 0, logits * penalty, logits / penalty)
        text = ids if source is None else source.repeat_interleave(len(ids) // len(source), dim=0)
        return torch.where(_vocabulary_mask(text, logits), lower, logits)

    return apply


def bias_words(biases: Mapping[Sequence[int], float]) -> Filter:
    """Add a bias to the last token of a word, a sequence of token ids, where its others come directly before.

    Biases of one token count always; where several words end with the same token, their biases add up.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        added = torch.zeros_like(logits)
        for word, bias in biases.items():
            *before, last = word
            if len(before) <= ids.shape[1]:
                end = ids[:, ids.shape[1] - len(before) :]
                added[:, last] += bias * (end == torch.tensor(before, device=ids.device).long()).all(-1)
        return logits + added

    return apply


def favour_end(stop_ids: Sequence[int], factor: float, *, begin: int) -> Filter:
    """Exponential length penalty: from the position `begin` of a row on, its end becomes more likely at each step.

    logit += |logit| · (factor^steps - 1)

    Source: the reference library, `exponential_decay_length_penalty`.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        if (steps := ids.shape[1] - begin) <= 0:
            return logits
        stop = torch.tensor(stop_ids, device=logits.device)
        ends = logits[:, stop]
        raised = ends + ends.abs() * (factor**steps - 1)
        return logits.index_copy(-1, stop, raised.where(ends.isfinite(), ends))  # a banned end stays banned

    return apply


def _vocabulary_mask(ids: Tensor, logits: Tensor) -> Tensor:
    """Mask of the tokens that are in each row; ids of -1 are ignored. [R, T] → [R, V] bool"""
    rows, vocabulary = logits.shape
    # One column more, which takes the ids of -1, and is cut off.
    mask = torch.zeros(rows, vocabulary + 1, dtype=torch.bool, device=logits.device)
    return mask.scatter_(1, ids.where(ids >= 0, vocabulary), True)[:, :vocabulary]


# ----------------------------------------------------------------------------------------- sampling distribution


def temperature(value: float) -> Filter:
    """Temperature: logits / value; below 1 the distribution gets sharper, above 1 flatter."""
    return lambda ids, logits: logits / value


def top_k(k: int, *, min_keep: int = 1) -> Filter:
    """Top-k filtering: keep the k most likely tokens, and ties with the last of them; at least `min_keep`.

    Source: Fan et al. 2018, section 5.4.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        last = logits.topk(min(max(k, min_keep), logits.shape[-1])).values[:, -1:]
        return logits.masked_fill(logits < last, -torch.inf)

    return apply


def top_p(p: float, *, min_keep: int = 1) -> Filter:
    """Top-p filtering (nucleus sampling): the fewest most likely tokens that reach p together, at least `min_keep`.

    0.5 0.3 0.15 0.05, p = 0.8:  the first two; p = 0.81: the first three

    Source: Holtzman et al. 2020, section 3.1.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        ascending, order = logits.sort(dim=-1, stable=True)
        cut = ascending.softmax(-1).cumsum(-1) <= 1 - p
        cut[:, -min_keep:] = False
        return logits.masked_fill(cut.scatter(1, order, cut), -torch.inf)

    return apply


def min_p(share: float, *, min_keep: int = 1) -> Filter:
    """Min-p filtering: keep tokens with at least `share` of the probability of the most likely; at least `min_keep`.

    Source: Nguyen et al. 2024.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        probs = logits.softmax(-1)
        cut = probs < share * probs.amax(-1, keepdim=True)
        best = probs.topk(min(min_keep, probs.shape[-1])).indices
        return logits.masked_fill(cut.scatter(1, best, False), -torch.inf)

    return apply


def typical_p(p: float, *, min_keep: int = 1) -> Filter:
    """Locally typical sampling: keep tokens whose surprisal is nearest to the entropy, until they reach p together.

    At least `min_keep` are kept.

    distance = | -log prob - entropy |

    Source: Meister et al. 2023, section 4.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        logprobs = logits.log_softmax(-1)
        probs = logprobs.exp()
        entropy = -(probs * logprobs).nansum(-1, keepdim=True)  # 0 · -inf is nothing, not NaN
        distance, order = (-logprobs - entropy).abs().sort(dim=-1, stable=True)
        needed = (probs.gather(1, order).cumsum(-1) < p).sum(-1, keepdim=True)
        cut = distance > distance.gather(1, needed.clamp(max=logits.shape[-1] - 1))
        cut[:, :min_keep] = False
        return logits.masked_fill(cut.scatter(1, order, cut), -torch.inf)

    return apply


def epsilon_cutoff(epsilon: float, *, min_keep: int = 1) -> Filter:
    """Epsilon sampling: keep tokens with a probability of at least epsilon; and the `min_keep` most likely.

    Source: Hewitt et al. 2022, section 4.3.
    """
    return lambda ids, logits: _at_least(logits, torch.full_like(logits[:, :1], epsilon), min_keep)


def eta_cutoff(epsilon: float, *, min_keep: int = 1) -> Filter:
    """Eta sampling: keep tokens with a probability of at least eta; and the `min_keep` most likely.

        eta = min(epsilon, sqrt(epsilon) · exp(-entropy))

    Source: Hewitt et al. 2022, section 4.4.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        logprobs = logits.log_softmax(-1)
        entropy = -(logprobs.exp() * logprobs).nansum(-1, keepdim=True)  # 0 · -inf is nothing, not NaN
        return _at_least(logits, (epsilon**0.5 * (-entropy).exp()).clamp(max=epsilon), min_keep)

    return apply


def _at_least(logits: Tensor, probability: Tensor, min_keep: int) -> Tensor:
    """The logits of tokens with this probability [R, 1] or more, and of the `min_keep` most likely. [R, V]"""
    last = logits.topk(min(min_keep, logits.shape[-1])).values[:, -1:]
    return logits.masked_fill((logits.softmax(-1) < probability) & (logits < last), -torch.inf)


# ------------------------------------------------------------------------------------------------- filters with a state


STEPS_BACK = 16
"""States of prefixes that are up to this many tokens shorter are cached, for methods that drop some tokens again."""


class PrefixStates(Generic[State]):
    """Cache of states by token prefix: a search may reorder its rows between two calls, and each finds its state.

        generated     state
        ()            start
        (5,)          step(start, 5)
        (5, 9)        step(step(start, 5), 9)       one step from a cached state

    Args:
        start: state before the first generated token.
        step: (state, token) → next state; rows share states, so it must not change its argument.
        prompt_length: number of leading columns of ids that are prompt.
    """

    def __init__(self, start: State, step: Callable[[State, int], State], *, prompt_length: int) -> None:
        self._step = step
        self._prompt_length = prompt_length
        self._states: dict[tuple[int, ...], State] = {(): start}

    def __call__(self, ids: Tensor) -> list[State]:
        """The state of each row. [R, T]"""
        prefixes = [tuple(row) for row in ids[:, self._prompt_length :].tolist()]
        states = [self._state(prefix) for prefix in prefixes]
        shortest = ids.shape[1] - self._prompt_length - STEPS_BACK
        self._states = {
            prefix: state for prefix, state in self._states.items() if len(prefix) >= shortest or not prefix
        }
        return states

    def _state(self, prefix: tuple[int, ...]) -> State:
        length = len(prefix)
        while prefix[:length] not in self._states:
            length -= 1
        state = self._states[prefix[:length]]
        for end in range(length + 1, len(prefix) + 1):
            state = self._states[prefix[:end]] = self._step(state, prefix[end - 1])
        return state
