"""Speculative decoding: guess some tokens cheaply, and let the network check them all in one pass.

    said         the  cat
    guesses                 sat  on  a           from the text itself (`Lookup`), or from a smaller network (`Draft`)
    one pass           └─────┴───┴───┘           the network says what follows "cat", "sat", "on" and "a"
    it says                 sat  on  the         two guesses came true, and a third token was chosen: three for one pass

A pass over a few tokens costs hardly more than over one, for what takes the time is to read the weights. Each token is
chosen from the network's own logits, as it would be without guesses: they change how fast a row grows, never what it
says. `Speculation` hands out, a step at a time, logits that were computed ahead of time.

Source: Leviathan et al. 2023; Chen et al. 2023; greedy: Stern et al. 2018; lookup: Yang et al. 2023, Saxena 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from glassformer.generation.filters import Filter
from glassformer.generation.rows import Ahead, Rows, logits_of
from glassformer.generation.sample import fallen, filtered, likeliest, no_choice
from glassformer.generation.stop import Stop


class Guesses(NamedTuple):
    """What rows may say next, and then.

    tokens: -1 where there is no guess. [R, n]
    probs: the distribution that each was drawn from; None where none was drawn. [R, n, V]
    """

    tokens: Tensor
    probs: Tensor | None = None


class Proposer(Protocol):
    """Guesses how rows go on, given what they have said: `count` tokens that the network will read.

    One that draws gives one guess more: what is chosen behind the others is judged by it too.
    """

    def __call__(self, said: Ahead, count: int) -> Guesses: ...


# ------------------------------------------------------------------------------------------------------- who guesses


class Lookup:
    """Prompt lookup: what followed the last few tokens when they stood in the text before.

        the cat sat on the mat . the cat │ sat on the          the latest place counts, and the longest run of tokens

    Where the text ends before the guesses do, the copy goes on with what it has copied: a a a │ a a a.

    Args:
        longest: how many of the last tokens are looked for at most.
        source: what an encoder has read, searched too; -1 where it is padding. [R, S]
    """

    def __init__(self, longest: int, source: Tensor | None = None) -> None:
        self._longest = longest
        self._source = source

    def __call__(self, said: Ahead, count: int) -> Guesses:
        text = said.seen if self._source is None else torch.cat([self._source, said.seen], dim=1)  # [R, L]
        length = text.shape[1]
        start = text.new_full((len(text), 1), -1)  # where that begins which followed; -1: nowhere. [R, 1]
        for size in range(1, min(self._longest, length - 1) + 1):
            last = text[:, None, length - size :]
            alike = (text[:, :-1].unfold(1, size, 1) == last).all(-1)  # [R, L - size]
            behind = torch.arange(size, length, device=text.device).where(alike, -1)
            latest = behind.amax(-1, keepdim=True)
            start = latest.where(latest >= 0, start)
        steps = torch.arange(count, device=text.device)
        first = start.clamp(min=0)
        copied = text.gather(1, first + steps % (length - first))  # [R, count]
        return Guesses(copied.masked_fill(start < 0, -1))


class Draft:
    """A smaller network of the same vocabulary continues the rows: by its likeliest tokens, or by draws.

    Args:
        rows: the same rows, read by the smaller network.
        lots: makes it draw; without, it takes the likeliest.
        shape: filters that shape what is drawn from, as for the large network; it is told of no other rule.
    Raises: WeightsError: its logits are NaN.
    """

    def __init__(self, rows: Rows, lots: Lots | None = None, shape: Sequence[Filter] = ()) -> None:
        self._rows = rows
        self._lots = lots
        self._shape = shape
        self._begun = rows.ids.shape[1]

    def __call__(self, said: Ahead, count: int) -> Guesses:
        rows, probs = self._rows, []
        rows.rewrite(said.ids)
        for _ in range(count if self._lots is None else count + 1):
            raw, logits = filtered(rows, self._shape)
            if not bool(logits.amax(-1).isfinite().all()):
                everywhere = torch.ones(len(rows), dtype=torch.bool, device=raw.device)
                raise no_choice(rows, raw, everywhere, "the assistant_model")
            if self._lots is None:
                rows.append(likeliest(logits))
            else:
                probs.append(logits.double().softmax(-1))
                rows.append(fallen(probs[-1], self._lots.of("guess", rows.ids.shape[1] - self._begun)))
        return Guesses(rows.ids[:, said.ids.shape[1] :], torch.stack(probs, dim=1) if probs else None)


# ----------------------------------------------------------------------------------------------------- who is checked


class Pass(NamedTuple):
    """What one pass has read and found.

    start: how many columns rows had before · guesses: what was proposed · guessed: which of it is a guess. [R, n] bool
    read: the guesses, -1 where there is none, the pad token in rows that have ended. [R, n]
    logits: of the token behind the rows, and behind each guess. [R, 1 + n, V]
    """

    start: int
    guesses: Guesses
    guessed: Tensor
    read: Tensor
    logits: Tensor


class Speculation(Ahead):
    """Rows of which the network reads what they may say before they have said it.

    Rows keep step: as soon as one of them says what was not guessed, a new pass reads new guesses for all.

    Args:
        propose: guesses · count: how many at a time
        most: how many columns rows may have in the end; what stands in the last is never read.
        stop: which rows go on; a row that has ended says `pad_id` for ever.
    """

    def __init__(
        self, rows: Rows, propose: Proposer, *, count: int, most: int, stop: Stop, pad_id: int = 0
    ) -> None:
        super().__init__(rows)
        self.proposed = self.accepted = torch.zeros(len(rows), dtype=torch.long, device=rows.ids.device)
        self._propose = propose
        self._count = count
        self._most = most
        self._stop = stop
        self._pad_id = pad_id
        self._last: Pass | None = None  # while what it has read is what the rows have said

    def logits(self) -> Tensor:
        if self._last is None:
            self._last = self._check()
        return self._last.logits[:, self.ids.shape[1] - self._last.start]

    def append(self, tokens: Tensor) -> None:
        last = self._last
        assert last is not None and self.accepted is not None  # whoever chooses has asked for logits
        place = self.ids.shape[1] - last.start
        super().append(tokens)
        if place == last.read.shape[1]:  # behind the last guess
            self._last = None
            return
        right = last.read[:, place] == tokens
        self.accepted = self.accepted + (right & last.guessed[:, place])
        if not bool(right.all()):
            self._last = None

    def drawn_guess(self) -> tuple[Tensor, Tensor]:
        """The guess for the next token, and the distribution that it was drawn from. [R], [R, V]"""
        assert self._last is not None and self._last.guesses.probs is not None  # asked of one that draws
        place = self.ids.shape[1] - self._last.start
        return self._last.guesses.tokens[:, place], self._last.guesses.probs[:, place]

    def _check(self) -> Pass:
        """Read new guesses."""
        assert self.proposed is not None
        start, running = self.ids.shape[1], self._stop.running[:, None]
        count = min(self._count, self._most - start - 1)
        guesses = self._propose(self, count)
        tokens = guesses.tokens[:, :count]
        # Behind a place without a guess none can come true.
        guessed = ((tokens >= 0) & running).long().cumprod(dim=1).bool()
        width = int(guessed.any(dim=0).sum())
        read = tokens[:, :width].where(running, self._pad_id)
        self.proposed = self.proposed + guessed.sum(dim=1)
        self.rows.rewrite(self.ids)
        self.rows.append(read.clamp(min=0))
        return Pass(start, guesses, guessed, read, logits_of(self.rows.read(last=1 + width)))


# ------------------------------------------------------------------------------------------------------------- draws


class Lots:
    """Random numbers that depend on seed, row, purpose and place alone: not on what was guessed, nor on other rows."""

    def __init__(self, rows: int, seed: int) -> None:
        self._rows = rows
        self._seed = seed

    def of(self, purpose: str, place: int) -> list[float]:
        """A number from 0 to 1 for each row."""
        return [Random(f"{self._seed} {row} {purpose} {place}").random() for row in range(self._rows)]


class Rejection:
    """Draw from the network's distribution p by way of guesses x that were drawn from a draft's distribution q.

        keep x with probability min(1, p(x) / q(x));   else draw from max(0, p - q), made to sum to 1

    A token then comes with probability min(p, q) + max(0, p - q) = p: as often as without the draft. A guess stands at
    every place, so that what a row says depends neither on how many are read at a time nor on the rows beside it.

    Source: Leviathan et al. 2023, section 2.3 and appendix A.1; Chen et al. 2023, theorem 1.
    """

    def __init__(self, said: Speculation, lots: Lots) -> None:
        self._said = said
        self._lots = lots
        self._begun = said.ids.shape[1]

    def __call__(self, logits: Tensor) -> Tensor:
        p, (guess, q) = logits.double().softmax(-1), self._said.drawn_guess()
        place = self._said.ids.shape[1] - self._begun
        odds = (p.gather(1, guess[:, None]) / q.gather(1, guess[:, None]))[:, 0]
        kept = torch.tensor(self._lots.of("keep", place), dtype=odds.dtype, device=odds.device) < odds
        rest = (p - q).clamp(min=0)
        # Where p is q nothing is left over but rounding, or nothing at all; then p itself will do.
        rest = rest.where(rest.sum(-1, keepdim=True) > 0, p)
        return guess.where(kept, fallen(rest, self._lots.of("again", place)))
