"""Logit filters: what becomes of the logits before a token is chosen.

    logits ─> rules (suppress, only, unrepeated, …) ─> temperature ─> top_k ─> top_p ─> … ─> one token is chosen

A filter is a function (ids so far [R, T], logits of the next token [R, V]) → logits [R, V]. Ids of -1 are padding.
Rules say what may not follow; the others shape the distribution that is drawn from. What is taken out becomes -inf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Filter = Callable[[Tensor, Tensor], Tensor]


# ------------------------------------------------------------------------------------------------------------ rules


def suppress(banned: Sequence[int], *, at: int | None = None, before: int | None = None) -> Filter:
    """Never say these tokens; with `at`, only not as the token number `at` of a row, with `before`, not yet.

    Source: Radford et al. 2022, section 4.5 and released code: tokens that are no speech, and no silence at the start.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        place = ids.shape[1]
        if (at is not None and place != at) or (before is not None and place >= before):
            return logits
        return logits.index_fill(-1, torch.tensor(banned, device=logits.device), -torch.inf)

    return apply


def only(allowed: Sequence[int], *, at: int) -> Filter:
    """Say one of these tokens as the token number `at` of a row; a single one is forced, whatever else is banned.

    Source: Radford et al. 2022, section 2.3: a transcript begins with language, task and whether it tells times.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        if ids.shape[1] != at:
            return logits
        chosen = torch.tensor(allowed, device=logits.device)
        kept = logits[:, chosen] if len(allowed) > 1 else torch.zeros_like(logits[:, :1])
        return torch.full_like(logits, -torch.inf).index_copy(-1, chosen, kept)

    return apply


def without(words: Sequence[Sequence[int]]) -> Filter:
    """Never end one of these words, each a row of token ids: of one token it is banned, of several its last one.

    ids … 5 9, word [5, 9, 7]:  7 is banned next
    """
    by_length: dict[int, list[Sequence[int]]] = {}
    for word in words:
        by_length.setdefault(len(word), []).append(word)

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        banned = torch.zeros_like(logits)
        for length, alike in by_length.items():
            if length > ids.shape[1] + 1:
                continue
            table = torch.tensor(alike, device=ids.device)  # [W, length]
            behind = ids[:, None, ids.shape[1] + 1 - length :] == table[None, :, :-1]
            begun = behind.all(-1)  # [R, W]
            banned.index_add_(1, table[:, -1], torch.where(begun, -torch.inf, 0.0).to(logits.dtype))
        return logits + banned

    return apply


def unrepeated(size: int, *, source: Tensor | None = None) -> Filter:
    """No run of `size` tokens twice in a row; with `source`, none that stands in the text that is answered.

    size 2, ids 4 8 5 4:  8 is banned next, for "4 8" was said

    Args:
        source: what an encoder read, -1 where it is padding. [R, S]; each of its rows serves as many rows of ids as
            there are for one, side by side.
    Source: Paulus et al. 2017, section 2.5.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        said = ids if source is None else source.repeat_interleave(len(ids) // len(source), dim=0)
        if min(said.shape[1], ids.shape[1] + 1) < size:
            return logits
        runs = said.unfold(1, size, 1)  # [R, runs, size]
        begun = (runs[..., :-1] == ids[:, None, ids.shape[1] + 1 - size :]).all(-1)  # [R, runs]
        return logits.masked_fill(_named(runs[..., -1].where(begun, -1), logits), -torch.inf)

    return apply


def repetition_penalty(penalty: float) -> Filter:
    """Make what a row has said less likely: its logits divided by the penalty, or multiplied where negative.

    Source: Keskar et al. 2019 (CTRL), section 4.1; that negative logits are multiplied is the reference library's.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        lower = torch.where(logits < 0, logits * penalty, logits / penalty)
        return torch.where(_named(ids, logits), lower, logits)

    return apply


def _named(ids: Tensor, logits: Tensor) -> Tensor:
    """Which tokens of the vocabulary stand in each row; ids of -1 name none. [R, T] → [R, V] bool"""
    rows, vocabulary = logits.shape
    named = torch.zeros(rows, vocabulary + 1, dtype=torch.bool, device=logits.device)
    return named.scatter_(1, ids.where(ids >= 0, vocabulary), True)[:, :vocabulary]


# ----------------------------------------------------------------------------------------------- shapes of a draw


def temperature(value: float) -> Filter:
    """Logits / temperature: below 1 the likely become likelier, above 1 all become alike."""
    return lambda ids, logits: logits / value


def top_k(k: int, *, least: int = 1) -> Filter:
    """Keep the k likeliest, and all that are as likely as the last of them; at least `least`.

    Source: Fan et al. 2018, section 5.4.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        last = logits.topk(min(max(k, least), logits.shape[-1])).values[:, -1:]
        return logits.masked_fill(logits < last, -torch.inf)

    return apply


def top_p(p: float, *, least: int = 1) -> Filter:
    """Keep the fewest likeliest tokens whose probabilities reach p together; at least `least`.

    0.5 0.3 0.15 0.05, p = 0.8:  the first two; p = 0.81: the first three

    Source: Holtzman et al. 2020, section 3.1.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        rising, order = logits.sort(dim=-1, stable=True)
        out = rising.softmax(-1).cumsum(-1) <= 1 - p
        out[:, -least:] = False
        return logits.masked_fill(out.scatter(1, order, out), -torch.inf)

    return apply


def min_p(share: float, *, least: int = 1) -> Filter:
    """Keep what is at least so likely as this share of the likeliest; at least `least`.

    Source: Nguyen et al. 2024.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        probs = logits.softmax(-1)
        out = probs < share * probs.amax(-1, keepdim=True)
        best = probs.topk(min(least, probs.shape[-1])).indices
        return logits.masked_fill(out.scatter(1, best, False), -torch.inf)

    return apply


def typical(p: float, *, least: int = 1) -> Filter:
    """Keep the tokens whose surprise is nearest to the expected one, as many as reach p together; at least `least`.

    distance = | -log prob - entropy |

    Source: Meister et al. 2023, section 4.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        logprobs = logits.log_softmax(-1)
        probs = logprobs.exp()
        entropy = -(probs * logprobs).nansum(-1, keepdim=True)  # 0 · -inf is nothing, not NaN
        distance, order = (-logprobs - entropy).abs().sort(dim=-1, stable=True)
        needed = (probs.gather(1, order).cumsum(-1) < p).sum(-1, keepdim=True)
        out = distance > distance.gather(1, needed.clamp(max=logits.shape[-1] - 1))
        out[:, :least] = False
        return logits.masked_fill(out.scatter(1, order, out), -torch.inf)

    return apply
