"""The decoding loop: greedy search and multinomial sampling, one token at a time, until stopping criteria are met.

rows.logits() ─> filters ─> greedy, or Multinomial ─> rows.append ─> stop? ─┐
      ^───────────────────────────── not yet ─────────────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from glassformer.errors import ConfigError, WeightsError
from glassformer.files import safe_repr
from glassformer.generation.detokenizer import StopStringMatcher
from glassformer.generation.filters import Filter
from glassformer.generation.rows import LookaheadRows, Rows, row_argmax, row_maximum
from glassformer.text.tokenizer import Tokenizer
from glassformer.weights.load import name_list, nan_parameters

if TYPE_CHECKING:
    from glassformer.generation.beam_group import BeamStep
    from glassformer.models import Network

TokenChooser = Callable[[Tensor], Tensor]
"""(filtered logits [R, V]) → the token of each row [R]"""

StopReason = Literal["end_token", "stop_string", "max_time", "stopping_criteria", "max_new_tokens", "interrupted"]
Criterion = Callable[[Tensor, Any], Any]
"""(ids so far [R, T], None) → whether rows have ended: a bool, or one for each row [R]"""

RUNNING, END_TOKEN, STOP_STRING, TIME, CRITERION = range(5)
REASONS: tuple[StopReason, ...] = ("end_token", "stop_string", "max_time", "stopping_criteria")


@dataclass(frozen=True, eq=False)
class DecodingStep:
    """The tokens that one step chose.

    tokens: the pad token in rows that had ended before. [R]
    active: rows that had not. [R] bool
    logprobs: log-probability of each token by the model
    filtered_logprobs: by the filtered distribution. [R]
    top_ids, top_logprobs: the most likely tokens by the model. [R, top]
    """

    tokens: Tensor
    active: Tensor
    logprobs: Tensor | None = None
    filtered_logprobs: Tensor | None = None
    top_ids: Tensor | None = None
    top_logprobs: Tensor | None = None


@dataclass(eq=False)
class Generated:
    """Generated sequences, with their scores and stop reasons.

    ids: prompts, or an encoder-decoder's start tokens, and the new tokens. [R, prompt_length + new]
    prompt_length: number of columns before the new tokens
    reasons: stop reason of each row
    texts: of the new tokens
    scores: sequence score: sum of log-probabilities, or the score of a beam. [R]
    logprobs, filtered_logprobs: as in `DecodingStep`; 0 after the end of a row. [R, new]
    top_ids, top_logprobs: as in `DecodingStep`. [R, new, top]
    active: tokens up to the end of a row. [R, new] bool
    proposed, accepted: number of draft tokens that speculative decoding verified, and accepted. [R]
    beams: steps of a beam search, in which tokens are not chosen from one distribution.
    beam_rows: the row of its step's beams that each token extends; -1 after the end. [R, new]
    All but ids, prompt_length and reasons are None unless the options ask for them.
    """

    ids: Tensor
    prompt_length: int
    reasons: list[StopReason] = field(default_factory=list)
    texts: list[str] | None = None
    scores: Tensor | None = None
    logprobs: Tensor | None = None
    filtered_logprobs: Tensor | None = None
    top_ids: Tensor | None = None
    top_logprobs: Tensor | None = None
    active: Tensor | None = None
    proposed: Tensor | None = None
    accepted: Tensor | None = None
    beams: tuple[BeamStep, ...] | None = None
    beam_rows: Tensor | None = None

    @property
    def new_ids(self) -> Tensor:
        """Ids after the prompt. [R, new]"""
        return self.ids[:, self.prompt_length :]

    def __repr__(self) -> str:
        rows, columns = self.ids.shape
        new, reasons = columns - self.prompt_length, sorted(set(self.reasons))
        return f"Generated({rows} rows, up to {new} new tokens, ended by {reasons})"


def as_normal(generated: Generated) -> Generated:
    """The result in normal tensors: those made under `torch.inference_mode` can neither be changed nor trained on."""
    values = {x.name: getattr(generated, x.name) for x in fields(generated)}
    clones: dict[str, Any] = {name: x.clone() for name, x in values.items() if isinstance(x, Tensor)}
    return replace(generated, **clones)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during generation; `partial` is what was generated until then."""

    def __init__(self, partial: Generated) -> None:
        super().__init__("generation was interrupted; what was generated is in .partial")
        self.partial = partial


def greedy(logits: Tensor) -> Tensor:
    """Greedy search: the most likely token of each row; the first of several. [R, V] → [R]"""
    return row_argmax(logits)


class Multinomial:
    """Multinomial sampling: draw a token of each row by its probability, by inverse transform sampling.

        probs          0.5   0.3  0.2
        cumulative     0.5   0.8  1.0        the uniform number 0.6 gives the second

    Each row has its own random generator, seeded with the seed and the row's index, so that its tokens do not depend on
    the other rows; it is on the CPU, so that they do not depend on the device.
    """

    def __init__(self, rows: int, seed: int) -> None:
        self._generators = [Random(f"{seed} {row}") for row in range(rows)]

    def __call__(self, logits: Tensor) -> Tensor:
        return inverse_cdf(logits.double().softmax(-1), [generator.random() for generator in self._generators])


def multinomial(logits: Tensor) -> Tensor:
    """Multinomial sampling with torch's generator, in the order of the reference library. [R, V] → [R]

    After the same `torch.manual_seed` the tokens are the same. A row that has stopped may have logits that are none.
    """
    known = row_maximum(logits).isfinite()[:, None]
    return torch.multinomial(torch.where(known, logits.float(), 0.0).softmax(-1), 1)[:, 0]


def inverse_cdf(weights: Tensor, uniforms: Sequence[float]) -> Tensor:
    """Inverse of the cumulative distribution at a uniform number for each row; weights need no norm. [R, V] → [R]"""
    sums = weights.cumsum(-1)
    points = torch.tensor(uniforms, dtype=sums.dtype, device=sums.device)[:, None]
    # right=True: the first sum above the point, so never a token of weight 0. The last sum is exactly 1, above every
    # point.
    return torch.searchsorted(sums / sums[:, -1:], points, right=True)[:, 0]


class StoppingCriteria:
    """Stopping criteria for R rows, updated with each token: which rows are still running, and why others stopped.

    Args:
        rows: R.
        ids: stop tokens, such as the end-of-sequence token.
        strings: stop strings; a row ends with the token that completes one of them. They need `tokenizer`.
        seconds: time limit from now on.
        criteria: custom criteria.
    """

    def __init__(
        self,
        rows: int,
        *,
        ids: Sequence[int] = (),
        strings: Sequence[str] = (),
        tokenizer: Tokenizer | None = None,
        seconds: float | None = None,
        criteria: Sequence[Criterion] = (),
        device: torch.device | None = None,
    ) -> None:
        self._criteria = criteria
        self._state = torch.full((rows,), RUNNING, device=device)
        self._ids = torch.tensor(list(ids), dtype=torch.long, device=device)
        matcher = StopStringMatcher(strings, tokenizer) if strings and tokenizer is not None else None
        self._matchers = [] if matcher is None else [matcher] * rows
        self._deadline = None if seconds is None else monotonic() + seconds

    @property
    def running(self) -> Tensor:
        """Rows that have not stopped. [R] bool"""
        return self._state == RUNNING

    def __call__(self, tokens: Tensor, ids: Tensor | None = None) -> bool:
        """Update with the new token of each row [R]; returns whether any row is still running.

        Args:
            ids: the rows with it, for custom criteria. [R, T]
        """
        if len(self._ids):
            self._end(torch.isin(tokens, self._ids), END_TOKEN)
        if self._matchers:
            running = self.running.tolist()
            self._matchers = [
                matcher.advance(token) if runs else matcher
                for runs, matcher, token in zip(running, self._matchers, tokens.tolist(), strict=True)
            ]
            matched = [matcher.matched for matcher in self._matchers]
            self._end(torch.tensor(matched, device=tokens.device), STOP_STRING)
        if ids is not None and self._criteria:
            self._end(any_criterion(self._criteria, ids), CRITERION)
        if self._deadline is not None and monotonic() >= self._deadline:
            self._end(self.running, TIME)
        return bool(self.running.any())

    def reasons(self, otherwise: StopReason = "max_new_tokens") -> list[StopReason]:
        """The stop reason of each row; `otherwise` for rows that are still running."""
        return stop_reasons(self._state, otherwise)

    def _end(self, rows: Tensor, state: int) -> None:
        self._state = self._state.masked_fill(rows & self.running, state)


def any_criterion(criteria: Sequence[Criterion], ids: Tensor) -> Tensor:
    """Which rows any of the criteria ends. [R, T] → [R] bool

    Raises: ConfigError: a criterion returns something else.
    """
    ended = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    for criterion in criteria:
        answer = criterion(ids, None)
        answer = torch.tensor(answer) if isinstance(answer, bool) else answer
        shapes = ((), (len(ids),))
        if not isinstance(answer, Tensor) or answer.dtype != torch.bool or tuple(answer.shape) not in shapes:
            raise ConfigError(
                f"a criterion of stopping_criteria returned {safe_repr(answer)}; it must return a bool, or one for "
                f"each of the {len(ids)} rows"
            )
        ended |= answer.to(ids.device)
    return ended


def stop_reasons(states: Tensor, otherwise: StopReason) -> list[StopReason]:
    """Stop reasons of states [R]; `otherwise` for rows that are still running."""
    return [(otherwise, *REASONS)[state] for state in states.tolist()]


class Decoding:
    """Autoregressive decoding: append one token to each row at a time, until all rows have stopped.

        for step in Decoding(rows, …): …          streaming
        Decoding(rows, …).run()                   one result

    Args:
        stop: stopping criteria; after its end a row is filled with `pad_id`.
        filters: logit filters, applied before a token is chosen.
        choose: greedy search, or a sampling method.
        scores: also return log-probabilities
        top: of this many most likely tokens at each step, too.
    """

    def __init__(
        self,
        rows: Rows | LookaheadRows,
        *,
        max_new_tokens: int,
        stop: StoppingCriteria,
        pad_id: int = 0,
        filters: Sequence[Filter] = (),
        choose: TokenChooser = greedy,
        scores: bool = False,
        top: int = 0,
    ) -> None:
        self.rows = rows
        self.stop = stop
        self._max_new_tokens = max_new_tokens
        self._pad_id = pad_id
        self._filters = filters
        self._choose = choose
        self._scores = scores
        self._top = top

    @torch.inference_mode()
    def __iter__(self) -> Iterator[DecodingStep]:
        """Yield each step.

        Raises: WeightsError: logits are NaN. ConfigError: filters ban every token.
        """
        for _ in range(self._max_new_tokens):
            active = self.stop.running
            raw, logits = filtered_logits(self.rows, self._filters)
            if not bool((row_maximum(logits).isfinite() | ~active).all()):
                raise no_token_error(self.rows, raw, active)
            tokens = torch.where(active, self._choose(logits), self._pad_id)
            self.rows.append(tokens)
            running = self.stop(tokens, self.rows.ids)
            self.rows.retire(~self.stop.running)
            yield self._scored(tokens, active, raw, logits) if self._scores else DecodingStep(tokens, active)
            if not running:
                break

    def run(self, on_step: Callable[[DecodingStep], None] | None = None) -> Generated:
        """Run all steps, and return one result.

        Args:
            on_step: called after each of them.
        Raises: Interrupted: by Ctrl-C, with what was generated. Else as iteration.
        """
        prompt_length, steps = self.rows.ids.shape[1], list[DecodingStep]()
        try:
            for step in self:
                steps.append(step)
                if on_step is not None:
                    on_step(step)
        except KeyboardInterrupt:
            raise Interrupted(self._result(prompt_length, steps, "interrupted")) from None
        return self._result(prompt_length, steps, "max_new_tokens")

    def _scored(self, tokens: Tensor, active: Tensor, raw: Tensor, logits: Tensor) -> DecodingStep:
        logprobs = raw.log_softmax(-1)
        top = logprobs.topk(min(self._top, raw.shape[-1]))
        raw_logprobs = _token_logprobs(tokens, logprobs, active)
        filtered_logprobs = _token_logprobs(tokens, logits.log_softmax(-1), active)
        return DecodingStep(tokens, active, raw_logprobs, filtered_logprobs, top.indices, top.values)

    def _result(self, prompt_length: int, steps: Sequence[DecodingStep], otherwise: StopReason) -> Generated:
        # Ctrl-C may come after a token was appended and before its step: only complete steps count.
        ids = self.rows.ids[:, : prompt_length + len(steps)]
        result = Generated(ids, prompt_length, self.stop.reasons(otherwise))
        if isinstance(self.rows, LookaheadRows):
            result.proposed, result.accepted = self.rows.proposed, self.rows.accepted
        if self._scores:
            result.scores = torch.zeros(len(self.rows), device=ids.device)  # the sum over no tokens
        if self._scores and steps:
            result.logprobs = _stack_steps([step.logprobs for step in steps])
            result.filtered_logprobs = _stack_steps([step.filtered_logprobs for step in steps])
            result.top_ids = _stack_steps([step.top_ids for step in steps])
            result.top_logprobs = _stack_steps([step.top_logprobs for step in steps])
            result.active = _stack_steps([step.active for step in steps])
            result.scores = result.logprobs.sum(-1)
        return result


def filtered_logits(rows: Rows | LookaheadRows, filters: Sequence[Filter]) -> tuple[Tensor, Tensor]:
    """Raw and filtered logits of the next token, in at least fp32. [R, V] each"""
    raw = rows.logits()
    raw = raw if raw.dtype == torch.float64 else raw.float()
    logits = raw
    for logit_filter in filters:
        logits = logit_filter(rows.filter_ids, logits)
    return raw, logits


def _token_logprobs(tokens: Tensor, logprobs: Tensor, active: Tensor) -> Tensor:
    """The log-probability of each row's token, 0 in rows that have ended. [R]"""
    return logprobs.gather(-1, tokens[:, None])[:, 0].masked_fill(~active, 0.0)


def no_token_error(rows: Rows | LookaheadRows, raw: Tensor, active: Tensor, who: str = "the model") -> Exception:
    """The error of rows without a possible next token: NaN logits, or filters that ban every token."""
    invalid = raw.isnan() | (raw == torch.inf)
    if bool((invalid.any(-1) & active).any()):
        return invalid_logits_error(rows.ids.shape[1], rows.network, who)
    return all_banned_error(rows)


def invalid_logits_error(token: int, network: Network, who: str = "the model") -> WeightsError:
    """The error for logits of a token that are NaN or infinite."""
    broken = nan_parameters(network)
    cause = (
        f"because {len(broken)} tensors of {who} hold NaN: {name_list(broken)}; the checkpoint is damaged"
        if broken
        else f"though the weights hold none: activations overflowed; load {who} with dtype='float32'"
    )
    return WeightsError(f"the logits of token {token} are NaN or infinite, {cause}")


def all_banned_error(rows: Rows | LookaheadRows) -> ConfigError:
    """The error for filters that ban every token."""
    return ConfigError(
        f"no token is allowed as token {rows.ids.shape[1]} of a row: the rules (bad_words_ids, no_repeat_ngram_size, "
        "min_new_tokens, regex, …) ban the whole vocabulary; relax one of them"
    )


def _stack_steps(columns: Sequence[Tensor | None]) -> Tensor:
    """[R, …] of each step → [R, steps, …]"""
    return torch.stack([column for column in columns if column is not None], dim=1)
