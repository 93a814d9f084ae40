"""Benchmark of generation: the speed of one row in each precision, and what a step's logits lose.

    passage   x₁ … x_P │ x_P+1 │ … │ x_T          teacher-forced with the same tokens, so precisions stay comparable
              prompt     a step each: its seconds, and its logits compared with those of the plain network in fp32

Precisions take turns passage by passage, so that a busy machine slows all of them; the median step counts.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Batch, Flow
from glassformer.engine.prepare import PRECISIONS, prepare, unprepare
from glassformer.errors import DataError
from glassformer.generation.decoding import invalid_logits_error
from glassformer.loaded_model import LoadedModel
from glassformer.models import Network, eval_mode
from glassformer.reports.report import Report
from glassformer.reports.table import Table

GENERATING_TASKS = ("text-generation", "translation")
PROMPT = 16  # tokens read before the first step, where a text continues
WINDOW, ANSWER = 512, 64  # tokens of a passage, and of an answer, at most


@dataclass(frozen=True, kw_only=True)
class StepRow:
    """One precision: its median speed, and the difference of its logits from the plain network's.

    speedup: over the plain network
    largest_error: of a logit, as a part of the step's largest logit
    equal_tokens: share of steps whose most likely token is the same
    perplexity_change: relative
    """

    precision: str
    steps: int
    tokens_per_second: float
    speedup: float
    largest_error: float
    equal_tokens: float
    perplexity: float
    perplexity_change: float


@dataclass(frozen=True, kw_only=True, repr=False)
class GenerationBench(Report, kind="generation-bench"):
    """Speed of one row's steps of generation in each precision.

    model, about: as it was named; its family, size and device
    rows: the plain network's first
    """

    model: str
    about: str
    rows: list[StepRow]

    notes = (
        "plain: the network as loaded. Each step reads a token of one text; errors of its logits against plain's, as a "
        "part of the largest; same tokens: where the most likely one is the same.",
    )

    @property
    def caption(self) -> str:
        return f"{self.model} ({self.about}): {self.rows[0].steps:,} steps of one row"

    def tables(self) -> list[Table]:
        headings = ["precision", "tokens/s", "speed", "largest error", "same tokens", "perplexity", "change"]
        rows = [
            [
                row.precision,
                f"{row.tokens_per_second:,.0f}",
                f"{row.speedup:.1f} ×",
                f"{row.largest_error:.1e}",
                f"{row.equal_tokens:.1%}",
                f"{row.perplexity:.2f}",
                f"{row.perplexity_change:+z.2%}",
            ]
            for row in self.rows
        ]
        return [Table(headings, rows)]


@dataclass(frozen=True)
class BenchPassage:
    """The inputs: the tokens, of which the first `prompt` are read at once; of an encoder-decoder its source."""

    ids: Tensor
    prompt: int
    source: Tensor | None = None


@dataclass
class _Readings:
    """What the steps of a precision have given so far."""

    seconds: list[float] = field(default_factory=list)
    largest_error: float = 0.0
    equal: int = 0
    negative_log_likelihood: float = 0.0
    tokens: int = 0


def passages_of(model: LoadedModel, texts: Sequence[str], steps: int) -> list[BenchPassage]:
    """Passages with this many steps altogether, or as many as the texts give.

    A decoder reads the texts, end to end. An encoder-decoder reads each by itself as its source, and then what the
    plain network answers to it.
    Raises: DataError: they are too short for a single step.
    """
    made: list[BenchPassage] = []
    for passage in _answers(model, texts) if model.is_encoder_decoder else _windows(model, texts):
        left = steps - sum(len(passage.ids) - passage.prompt for passage in made)
        made.append(BenchPassage(passage.ids[: passage.prompt + left], passage.prompt, passage.source))
        if left <= len(passage.ids) - passage.prompt:
            break
    if not made:
        raise DataError("the texts are too short: two tokens at least are needed for a step")
    return made


def _windows(model: LoadedModel, texts: Sequence[str]) -> Iterator[BenchPassage]:
    length = min(model.network.max_tokens or WINDOW, WINDOW)
    (ids,), _ = model.tokenizer.batch_ids(["\n".join(texts)], None)
    for window in torch.tensor(ids).split(length):
        if len(window) > 1:
            yield BenchPassage(window, min(PROMPT, len(window) // 2))


def _answers(model: LoadedModel, texts: Sequence[str]) -> Iterator[BenchPassage]:
    from glassformer.generation.generate import generate

    limit = model.network.max_tokens
    options = {"max_new_tokens": min(limit or ANSWER, ANSWER) - 1, "do_sample": False, "num_beams": 1}
    for ids in model.tokenizer.batch_ids(texts, limit)[0]:
        source = torch.tensor(ids)
        answer = generate(model, source[None], None, options)[0].cpu()
        if len(answer) > 1:
            yield BenchPassage(answer, 1, source)


def compare_steps(
    network: Network,
    passages: Sequence[BenchPassage],
    *,
    precisions: Sequence[str] = PRECISIONS,
    repeats: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> list[StepRow]:
    """Read the passages step by step with the plain network and in each precision; the network is plain afterwards.

    Args:
        repeats: how often each step is timed
        progress: called with how many more passages are read
    Returns: a row for the plain network ("plain"), then one for each precision.
    """
    measured = {name: _Readings() for name in ("plain", *precisions)}
    with eval_mode(network):
        for passage in passages:
            reference: list[Tensor] = []
            for name, readings in measured.items():
                unprepare(network) if name == "plain" else prepare(network, name)
                for again in range(repeats):
                    for i, logits in enumerate(_steps(network, passage, readings.seconds)):
                        if name == "plain" and not again:
                            reference.append(logits)
                        if not again:
                            _compare(readings, logits, reference[i], int(passage.ids[passage.prompt + i]))
                    progress(1)
    unprepare(network)
    return [_row(name, readings, measured["plain"]) for name, readings in measured.items()]


@torch.inference_mode()
def _steps(network: Network, passage: BenchPassage, seconds: list[float]) -> Iterator[Tensor]:
    """The logits behind the prompt and behind each step [V], whose times are added to `seconds`."""
    device, cache, memory, name = next(network.parameters()).device, KeyValueCache(), None, "input_ids"
    if passage.source is not None:
        memory, name = network.memory(Batch(input_ids=passage.source[None].to(device)), Flow()), "decoder_input_ids"
    ids = passage.ids[None].to(device)
    for start, stop in pairwise([0, *range(passage.prompt, ids.shape[1])]):
        begun = time.perf_counter()
        output = network(Batch(**{name: ids[:, start:stop]}), Flow(cache=cache, memory=memory, last=1))
        assert output.logits is not None
        logits = output.logits[0, -1].float().cpu()
        if bool((logits.isnan() | (logits == torch.inf)).any()):
            raise invalid_logits_error(1, network)
        if start:
            seconds.append(time.perf_counter() - begun)
        yield logits


def _compare(readings: _Readings, logits: Tensor, wanted: Tensor, following: int) -> None:
    """Add a step: its logits, those of the plain network, and the token that follows in the passage."""
    known = wanted.isfinite()  # a head may rule tokens out
    error = (logits - wanted)[known].abs().max() / wanted[known].abs().max().clamp(min=1e-30)
    readings.largest_error = max(readings.largest_error, float(error))
    readings.equal += int(logits.argmax() == wanted.argmax())
    readings.negative_log_likelihood -= float(F.log_softmax(logits.double(), -1)[following])
    readings.tokens += 1


def _row(name: str, readings: _Readings, plain: _Readings) -> StepRow:
    seconds, usual = statistics.median(readings.seconds), statistics.median(plain.seconds)
    excess = (readings.negative_log_likelihood - plain.negative_log_likelihood) / readings.tokens
    return StepRow(
        precision=name,
        steps=readings.tokens,
        tokens_per_second=1 / seconds,
        speedup=usual / seconds,
        largest_error=readings.largest_error,
        equal_tokens=readings.equal / readings.tokens,
        perplexity=math.exp(readings.negative_log_likelihood / readings.tokens),
        perplexity_change=math.expm1(excess),
    )
