"""Speculative decoding: draft some tokens cheaply, and verify them all in one forward pass of the model.

    row          the  cat
    draft                   sat  on  a           from the text itself (`PromptLookup`), or from a `DraftModel`
    one pass           └─────┴───┴───┘           logits of the tokens after "cat", "sat", "on" and "a"
    chosen                  sat  on  the         two draft tokens accepted, and a third chosen: three for one pass

A pass over a few tokens takes hardly longer than over one, because memory bandwidth is the limit: the weights are read
once. Each token is chosen from the model's own logits, so drafts change the speed and not the text. `SpeculativeRows`
returns, step by step, logits that were computed in advance.

Source: Leviathan et al. 2023; Chen et al. 2023; greedy: Stern et al. 2018; lookup: Yang et al. 2023, Saxena 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from glassformer.generation.decoding import StoppingCriteria, filtered_logits, greedy, inverse_cdf, no_token_error
from glassformer.generation.filters import Filter
from glassformer.generation.rows import LookaheadRows, Rows, logits_of

ASSISTANT_TOKENS = 5
"""Draft tokens per pass: of more, the last ones are rarely accepted, and each costs a pass of the assistant."""
MATCHING_NGRAM = 3
"""Length of the n-gram that prompt lookup searches for; longer ones are found too rarely, shorter ones mislead."""


class DraftTokens(NamedTuple):
    """Proposed continuations of rows.

    tokens: -1 where there is no draft token. [R, n]
    probs: the distribution that each was sampled from; None where tokens are not sampled. [R, n, V]
    """

    tokens: Tensor
    probs: Tensor | None = None


class Proposer(Protocol):
    """Proposes `count` draft tokens for each row, which the model will verify.

    One that samples proposes one token more, against which the token after the last draft token is rejection-sampled.
    """

    def __call__(self, rows: LookaheadRows, count: int) -> DraftTokens: ...


# ------------------------------------------------------------------------------------------------------------- drafts


class PromptLookup:
    """Prompt lookup decoding: copy what followed an earlier occurrence of the last few tokens.

        the cat sat on the mat . the cat │ sat on the          the longest match counts, and of those the latest

    Where the text ends before the draft does, the copy continues with its own tokens: a a a │ a a a.

    Args:
        longest: maximum n-gram size of the match.
        source: encoder input, searched too; -1 where it is padding. [R, S]
    """

    def __init__(self, longest: int, source: Tensor | None = None) -> None:
        self._longest = longest
        self._source = source

    def __call__(self, rows: LookaheadRows, count: int) -> DraftTokens:
        text = rows.filter_ids
        text = text if self._source is None else torch.cat([self._source, text], dim=1)  # [R, L]
        length = text.shape[1]
        start = text.new_full((len(text), 1), -1)  # first column after the match; -1: no match. [R, 1]
        for size in range(1, min(self._longest, length - 1) + 1):
            last = text[:, None, length - size :]
            matches = (text[:, :-1].unfold(1, size, 1) == last).all(-1)  # [R, L - size]
            after = torch.arange(size, length, device=text.device).where(matches, -1)
            latest = after.amax(-1, keepdim=True)
            start = latest.where(latest >= 0, start)
        steps = torch.arange(count, device=text.device)
        first = start.clamp(min=0)
        copied = text.gather(1, first + steps % (length - first))  # [R, count]
        return DraftTokens(copied.masked_fill(start < 0, -1))


class DraftModel:
    """Draft model: a smaller network of the same vocabulary proposes tokens, by greedy search or by sampling.

    Args:
        rows: the same rows, read by the smaller network.
        uniforms: random numbers to sample with; None = greedy search.
        sampling_filters: logit filters of the sampling distribution, as for the large network; no rules are applied.
    Raises: WeightsError: its logits are NaN.
    """

    def __init__(
        self, rows: Rows, uniforms: SeededUniforms | None = None, sampling_filters: Sequence[Filter] = ()
    ) -> None:
        self._rows = rows
        self._uniforms = uniforms
        self._filters = sampling_filters
        self._prompt_length = rows.ids.shape[1]

    def __call__(self, rows: LookaheadRows, count: int) -> DraftTokens:
        own, probs = self._rows, []
        own.rewrite(rows.ids)
        for _ in range(count if self._uniforms is None else count + 1):
            raw, logits = filtered_logits(own, self._filters)
            if not bool(logits.amax(-1).isfinite().all()):
                all_rows = torch.ones(len(own), dtype=torch.bool, device=raw.device)
                raise no_token_error(own, raw, all_rows, "the assistant_model")
            if self._uniforms is None:
                own.append(greedy(logits))
            else:
                probs.append(logits.double().softmax(-1))
                uniforms = self._uniforms.of("guess", own.ids.shape[1] - self._prompt_length)
                own.append(inverse_cdf(probs[-1], uniforms))
        return DraftTokens(own.ids[:, rows.ids.shape[1] :], torch.stack(probs, dim=1) if probs else None)


# ------------------------------------------------------------------------------------------------------- verification


class VerificationPass(NamedTuple):
    """One forward pass over draft tokens.

    start: number of columns before the draft
    draft: the proposal
    proposed: which tokens were proposed. [R, n] bool
    read: the draft tokens, -1 where there is none, the pad token in rows that have ended. [R, n]
    logits: of the token after the row, and after each draft token. [R, 1 + n, V]
    """

    start: int
    draft: DraftTokens
    proposed: Tensor
    read: Tensor
    logits: Tensor


class SpeculativeRows(LookaheadRows):
    """Rows with draft tokens that the network has read in advance.

    Rows stay in step: as soon as one of them rejects its draft token, a new pass verifies new drafts of all rows.

    Args:
        propose: makes draft tokens
        num_tokens: number of draft tokens in one pass
        max_columns: length of rows at the end; the last column is never read.
        stop: stopping criteria; a row that has ended is filled with `pad_id`.
    """

    def __init__(
        self,
        rows: Rows,
        propose: Proposer,
        *,
        num_tokens: int,
        max_columns: int,
        stop: StoppingCriteria,
        pad_id: int = 0,
    ) -> None:
        super().__init__(rows)
        self.proposed = self.accepted = torch.zeros(len(rows), dtype=torch.long, device=rows.ids.device)
        self._propose = propose
        self._num_tokens = num_tokens
        self._max_columns = max_columns
        self._stop = stop
        self._pad_id = pad_id
        self._last: VerificationPass | None = None  # None: its draft is used up, or was rejected

    def logits(self) -> Tensor:
        if self._last is None:
            self._last = self._verify()
        return self._last.logits[:, self.ids.shape[1] - self._last.start]

    def append(self, tokens: Tensor) -> None:
        last = self._last
        assert last is not None and self.accepted is not None  # logits() comes before every append
        index = self.ids.shape[1] - last.start
        super().append(tokens)
        if index == last.read.shape[1]:  # after the last draft token
            self._last = None
            return
        accepted = last.read[:, index] == tokens
        self.accepted = self.accepted + (accepted & last.proposed[:, index])
        if not bool(accepted.all()):
            self._last = None

    def draft_token(self) -> tuple[Tensor, Tensor]:
        """The draft of the next token, and the distribution that it was sampled from. [R], [R, V]"""
        assert self._last is not None and self._last.draft.probs is not None  # only for proposers that sample
        index = self.ids.shape[1] - self._last.start
        return self._last.draft.tokens[:, index], self._last.draft.probs[:, index]

    def _verify(self) -> VerificationPass:
        """One forward pass over a new draft."""
        assert self.proposed is not None
        start, running = self.ids.shape[1], self._stop.running[:, None]
        count = min(self._num_tokens, self._max_columns - start - 1)
        draft = self._propose(self, count)
        tokens = draft.tokens[:, :count]
        # After a position without a draft token, none can be accepted.
        proposed = ((tokens >= 0) & running).long().cumprod(dim=1).bool()
        width = int(proposed.any(dim=0).sum())
        read = tokens[:, :width].where(running, self._pad_id)
        self.proposed = self.proposed + proposed.sum(dim=1)
        self.rows.rewrite(self.ids)
        self.rows.append(read.clamp(min=0))
        return VerificationPass(start, draft, proposed, read, logits_of(self.rows.read(last=1 + width)))


# ----------------------------------------------------------------------------------------------------------- sampling


class SeededUniforms:
    """Uniform random numbers that depend only on seed, row, purpose and position: not on drafts, nor on other rows."""

    def __init__(self, rows: int, seed: int) -> None:
        self._rows = rows
        self._seed = seed

    def of(self, purpose: str, position: int) -> list[float]:
        """A number from 0 to 1 for each row."""
        # The text is the seed: another spelling of a purpose would change what a given seed generates.
        return [Random(f"{self._seed} {row} {purpose} {position}").random() for row in range(self._rows)]


class RejectionSampler:
    """Rejection sampling: sample from the model's distribution p with draft tokens x from a draft distribution q.

        accept x with probability min(1, p(x) / q(x));   else sample from max(0, p - q), normalised

    A token then has probability min(p, q) + max(0, p - q) = p, as without a draft. There is a draft token at every
    position, so that the text depends neither on the number of draft tokens in a pass nor on the other rows.

    Source: Leviathan et al. 2023, section 2.3 and appendix A.1; Chen et al. 2023, theorem 1.
    """

    def __init__(self, rows: SpeculativeRows, uniforms: SeededUniforms) -> None:
        self._rows = rows
        self._uniforms = uniforms
        self._prompt_length = rows.ids.shape[1]

    def __call__(self, logits: Tensor) -> Tensor:
        p, (draft, q) = logits.double().softmax(-1), self._rows.draft_token()
        position = self._rows.ids.shape[1] - self._prompt_length
        ratio = (p.gather(1, draft[:, None]) / q.gather(1, draft[:, None]))[:, 0]
        uniforms = torch.tensor(self._uniforms.of("keep", position), dtype=ratio.dtype, device=ratio.device)
        residual = (p - q).clamp(min=0)
        # Where p equals q the residual is rounding error, or 0 everywhere; then p itself is the right distribution.
        residual = residual.where(residual.sum(-1, keepdim=True) > 0, p)
        return draft.where(uniforms < ratio, inverse_cdf(residual, self._uniforms.of("again", position)))
