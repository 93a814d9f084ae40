"""Metrics and their confidence intervals: sufficient statistics, added up batch by batch or kept row by row.

    Metric       batch ──update──> state: sums over all examples ──compute──> loss, accuracy, F1, …
                          in memory that does not grow; the states of several processes are added (all-reduce)
    Bootstrap    predictions ──> statistics of each row ──scores──> the same scores, of any resample of the rows

Confidence intervals are percentiles of the bootstrap. A resample is how often it has each row, so a score that is no
mean, such as F1, is resampled as simply as one that is:

    rows              1 2 3 4 5       the score of all rows: each counts once
    a resample        2 5 5 1 3       resample_counts = 1 1 1 0 2; of a thousand scores 95% lie in the interval

A score that would be 0 / 0 is 0, as with scikit-learn's `zero_division=0`.
Source: Efron, Bootstrap methods (1979).
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Output
from glassformer.core.heads import Head
from glassformer.errors import ConfigError, DataError
from glassformer.files import is_number, safe_repr
from glassformer.plugins import Registry
from glassformer.reports.table import IntervalCell

if TYPE_CHECKING:
    from glassformer.tasks.types import MicroBatch, Prediction


@dataclass(frozen=True)
class RowMetric:
    """A metric that is a mean over rows, of a task or several. A line adds one to their reports, with its interval:

        register("metrics", "length_ratio", RowMetric(lambda said, true: len(said) / len(true[0]), ["summarise"]))

    score: of a row, from what was predicted and its label, as `Prediction` has them
    tasks: by name; () = all
    greater_is_better: False where a lower one is
    method: how it is computed, for the report
    """

    score: Callable[[Any, Any], float]
    tasks: Sequence[str] = ()
    greater_is_better: bool = True
    method: str = "mean over rows of a function of the caller's"

    def bootstrap(self, name: str, predictions: Sequence[Prediction]) -> BootstrapMeans:
        """The scores of all rows. Raises: DataError: the function gives no number for one, which is named."""
        values = np.array([self.of_row(name, x.predicted, x.label, x.where) for x in predictions], float)
        return BootstrapMeans({name: values}, {name: self.method})

    def of_row(self, name: str, predicted: Any, label: Any, where: str) -> float:
        """The score of a row, which is at `where`. Raises: DataError: the function gives no number."""
        value = self.score(predicted, label)
        value = value.item() if isinstance(value, (np.generic, Tensor)) else value
        if not is_number(value):
            raise DataError(f"{where}: the metric {name!r} is {safe_repr(value)}; it must be a finite number")
        return value


METRICS: Registry[RowMetric] = Registry(
    "metrics",
    {},
    fits=lambda name, part: isinstance(part, RowMetric),
    must="a glassformer.tasks.metrics.metric.RowMetric",
)
"""Name → metric that reports have besides those of the task's class; those of plug-ins too."""

LOWER_IS_BETTER = re.compile(r"(.*_)?(loss|perplexity|dead|bits|error|errors|wer|cer|mse|rmse|mae|distance)(_.*)?")
"""Names of metrics of which less is better, `eval_loss` and `bits_per_token` too; of all others more is."""

RESAMPLES = 1_000
"""Enough for two digits of a 95% interval."""
LEVEL = 0.95  # of all confidence intervals
CELLS_AT_ONCE = 2**20
"""Resample counts that are held at once: 8 MB."""
AGREEMENT = 1e-9
"""By so much of a score may ours and the package's differ: sums in another order do, in the last digits."""


def greater_is_better(metric: str) -> bool:
    """Is a model better the higher this metric is?"""
    if metric in METRICS:
        return METRICS[metric].greater_is_better
    return LOWER_IS_BETTER.fullmatch(metric.lower()) is None


def quality(metrics: Mapping[str, float], metric: str) -> tuple[float, float]:
    """How good a model is, to be compared: the metric, higher is better; between equal ones a lower loss.

    Few validation rows have the same F1 score again and again, while the loss still tells which model is better.
    """
    value, loss = metrics[metric], metrics.get("loss", math.inf)
    return (value if greater_is_better(metric) else -value), (-loss if math.isfinite(loss) else -math.inf)


# -------------------------------------------------------------------------------------------- batch by batch


class Metric:
    """Mean loss = Σ over its parts of (sum of losses / labels that count), exactly, however the data was batched.

    state: the sufficient statistics by name; those of several processes, or of parts of the data, are added
    records: what cannot be added up, such as the answers of the windows of one text: a row of numbers an example; those
        of several processes are put together

    Args:
        head: whose loss
        parts: of what the loss consists, where that is more than one sum
    """

    def __init__(self, head: Head, parts: Sequence[str] = ("loss",)) -> None:
        self.head = head
        self.parts = tuple(parts)
        self.state: dict[str, Tensor] = {}
        self.records: list[Sequence[float] | np.ndarray] = []
        for part in parts:
            self.add_state(f"{part}.sum")
            self.add_state(f"{part}.count")

    def add_state(self, name: str, *shape: int) -> None:
        """A further statistic, zero at first. Double precision: sums of millions of losses stay exact enough."""
        self.state[name] = torch.zeros(shape, dtype=torch.float64)

    @property
    def needs_output(self) -> bool:
        """Whether it reads the output of the head; else sums of losses are enough, which need no whole logits."""
        return type(self).update is not Metric.update

    def update(self, output: Output, batch: MicroBatch) -> None:
        """Add the statistics of one micro-batch."""
        with torch.no_grad():
            self.add_losses(self.head.output_loss_sums(output, batch.labels), batch)

    def add_losses(self, sums: Mapping[str, Tensor], batch: MicroBatch) -> None:
        """Add the sums of the losses of one micro-batch, by part."""
        counts = self.head.label_counts(batch.labels)
        for part, total in sums.items():
            self.state[f"{part}.sum"] += total.cpu().double()
            self.state[f"{part}.count"] += counts[part]

    def compute(self) -> dict[str, float]:
        """The scores of all that was added.

        Raises: DataError: nothing that counts was added.
        """
        counts = [float(self.state[f"{part}.count"]) for part in self.parts]
        if not any(counts):
            raise DataError("nothing to evaluate: none of the examples has a label that counts")
        sums = (float(self.state[f"{part}.sum"]) for part in self.parts)
        return {"loss": sum(total / max(count, 1) for total, count in zip(sums, counts, strict=True))}


class PerplexityMetric(Metric):
    """perplexity = exp(mean loss per token): among how many tokens the model is undecided, as if all were as likely.

    1 where it is certain and right, about the size of the vocabulary before training. The mean is over tokens, not over
    texts or batches. `bits` is the same as bits per token: loss / ln 2.

    Args:
        prefix: of both names, where the examples give other contexts than the report, so that one name is one method
    Source: Jelinek et al. 1977, "Perplexity: a measure of the difficulty of speech recognition tasks".
    """

    def __init__(self, head: Head, *, prefix: str = "") -> None:
        super().__init__(head)
        self.prefix = prefix

    def compute(self) -> dict[str, float]:
        scores = super().compute()
        own = {"perplexity": float(perplexity(np.array(scores["loss"]))), "bits": scores["loss"] / math.log(2)}
        return {**scores, **{self.prefix + name: score for name, score in own.items()}}


def perplexity(loss: np.ndarray) -> np.ndarray:
    """exp(mean loss)."""
    scores: np.ndarray = np.exp(np.minimum(loss, 700.0))  # exp(710) overflows a double
    return scores


def counted_labels(output: Output, batch: MicroBatch) -> tuple[Tensor, Tensor]:
    """The most likely class and the true one, wherever a label counts. [n] each"""
    assert output.logits is not None and isinstance(batch.labels, Tensor)
    true = batch.labels.flatten()
    counts = true >= 0  # IGNORE_INDEX is negative
    return output.logits.flatten(0, -2)[counts].argmax(-1), true[counts]


# ------------------------------------------------------------------------------------------------ row by row


@dataclass(frozen=True, kw_only=True)
class PerClassReport:
    """Scores of each class, label or type of entity, and for classes the confusion matrix.

    names: of the classes, labels or tags, by number
    scores: name, or type of entity → precision, recall, f1, support; None where one is not defined, because nothing
        is true or predicted
    confusion: a row for each true class, a column for each predicted one, in the order of `names`; None where a row of
        the data has no one class
    """

    names: list[str]
    scores: dict[str, dict[str, float | None]]
    confusion: list[list[int]] | None = None


class Bootstrap(ABC):
    """Sufficient statistics of evaluated rows, whose scores can be computed for any resample.

    methods: score → how it was computed: which package in which version, with which settings
    amounts: how much was evaluated besides rows, such as words; of what the primary metric is divided by first
    """

    methods: Mapping[str, str]
    amounts: Mapping[str, float] = MappingProxyType({})

    @abstractmethod
    def __len__(self) -> int:
        """How many rows were evaluated."""

    @abstractmethod
    def scores(self, resample_counts: np.ndarray) -> dict[str, np.ndarray]:
        """The scores of S resamples, from how often each has each row. [S, N] → [S] each"""

    def reference_scores(self) -> dict[str, float]:
        """The scores of the rows as they are, by the packages of `methods`, where there are such."""
        return {}

    def values(self) -> dict[str, float]:
        """The scores of the rows as they are: those of the package that the field reports them by, where ours agree.

        Raises: DataError: no row was evaluated.
        """
        if not len(self):
            raise DataError("no row was evaluated; give at least one prediction with its label")
        whole = self.scores(np.ones((1, len(self)), dtype=np.int64))
        ours, theirs = {name: float(score[0]) for name, score in whole.items()}, self.reference_scores()
        for name, value in theirs.items():
            if not abs(value - ours[name]) <= AGREEMENT * max(1.0, abs(value)):
                raise RuntimeError(f"{name} is {value!r} by {self.methods[name]}, and {ours[name]!r} by our counts")
        return {**ours, **theirs}

    def report(self) -> PerClassReport | None:
        """Scores of each class, for metrics of classes."""
        return None

    def notes(self) -> list[str]:
        """Which scores are not defined, and what they count as."""
        return []


class BootstrapSums(Bootstrap):
    """Scores that follow from the sums of a few statistics of each row, as a mean or a ratio does.

    Args:
        rows: the statistics of each. [N, K]
        of: the scores of S resamples from their sums. [S, K] → [S] each
        methods, amounts: as of `Bootstrap`
    """

    def __init__(
        self,
        rows: np.ndarray,
        of: Callable[[np.ndarray], Mapping[str, np.ndarray]],
        methods: Mapping[str, str],
        amounts: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.rows, self.of, self.methods, self.amounts = rows, of, methods, amounts

    def __len__(self) -> int:
        return len(self.rows)

    def scores(self, resample_counts: np.ndarray) -> dict[str, np.ndarray]:
        return dict(self.of(resample_counts @ self.rows))


class BootstrapMeans(BootstrapSums):
    """Scores that are means over rows.

    Args:
        values: name → that of each row [N]
        methods: as of `Bootstrap`
    """

    def __init__(self, values: Mapping[str, np.ndarray], methods: Mapping[str, str]) -> None:
        def means(sums: np.ndarray) -> dict[str, np.ndarray]:
            return {name: sums[:, i] / sums[:, -1] for i, name in enumerate(values)}

        columns = [*values.values(), np.ones(len(next(iter(values.values()))))]
        super().__init__(np.stack(columns, axis=-1), means, methods)


class BootstrapUnion(Bootstrap):
    """The scores of several metrics of the same rows; classes and amounts are those of the first.

    Raises: DataError: they are of different numbers of rows.
    """

    def __init__(self, *parts: Bootstrap) -> None:
        if len({len(part) for part in parts}) != 1:
            raise DataError(
                f"the metrics are of {', '.join(str(len(part)) for part in parts)} rows; they must be of the same rows"
            )
        self.parts, self.amounts = parts, parts[0].amounts
        self.methods = {name: method for part in parts for name, method in part.methods.items()}

    def __len__(self) -> int:
        return len(self.parts[0])

    def scores(self, resample_counts: np.ndarray) -> dict[str, np.ndarray]:
        return {name: score for part in self.parts for name, score in part.scores(resample_counts).items()}

    def reference_scores(self) -> dict[str, float]:
        return {name: score for part in self.parts for name, score in part.reference_scores().items()}

    def report(self) -> PerClassReport | None:
        return self.parts[0].report()

    def notes(self) -> list[str]:
        return [note for part in self.parts for note in part.notes()]


# ------------------------------------------------------------------------------------------------- intervals


@dataclass(frozen=True)
class Interval:
    """A score with its 95% confidence interval; one row alone has none."""

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        return self.written(3)

    def written(self, digits: int, signed: bool = False) -> str:
        """`0.396 [0.389, 0.402]` with this many digits, without minus zero; `signed`: with a plus."""
        style = f"{'+' if signed else ''}z.{digits}f"
        if self.low is None or self.high is None:
            return f"{self.value:{style}}"
        return f"{self.value:{style}} [{self.low:{style}}, {self.high:{style}}]"

    def cell(self, digits: int = 3, signed: bool = False) -> IntervalCell:
        """The same as a cell of a table, which may draw it."""
        return IntervalCell(self.written(digits, signed), self.value, self.low, self.high, signed=signed)

    def __neg__(self) -> Interval:
        """The same score with the other sign."""
        if self.low is None or self.high is None:
            return Interval(-self.value)
        return Interval(-self.value, -self.high, -self.low)

    @property
    def leaves_out_zero(self) -> bool:
        """Is a difference beyond what chance would give?"""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    @property
    def comparison(self) -> str:
        """How a system stands to another that it is so much better than: "better than" only beyond chance."""
        if self.leaves_out_zero:
            return "better than" if self.value > 0 else "worse than"
        return "the same as" if self.value == self.low == self.high == 0 else "not distinguishable from"

    def overlaps(self, other: Interval) -> bool:
        """Do two intervals share a value? A score without one is its value alone."""
        (low, high), (least, most) = (
            (x.value if x.low is None else x.low, x.value if x.high is None else x.high) for x in (self, other)
        )
        return low <= most and least <= high


@dataclass(frozen=True)
class ResampledScore:
    """A score, and the same score of each resample: scores of the same rows can be paired.

    resamples: [S]; none where only the value is known
    rows: how many were evaluated; which of them a resample has depends on their number and the seed alone
    """

    value: float
    resamples: Sequence[float] = ()
    rows: int = 1

    @property
    def interval(self) -> Interval:
        """The score with its 95% interval."""
        if self.rows == 1 or not len(self.resamples):
            return Interval(self.value)
        low, high = np.quantile(self.resamples, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Interval(self.value, float(low), float(high))

    def paired_with(self, other: ResampledScore) -> bool:
        """Can the two be resampled together?"""
        return self.rows == other.rows and len(self.resamples) == len(other.resamples)

    def minus(self, other: ResampledScore) -> ResampledScore:
        """The difference to a score of the same rows."""
        resamples = np.asarray(self.resamples) - np.asarray(other.resamples)
        return ResampledScore(self.value - other.value, resamples.tolist(), self.rows)


def resampled(bootstrap: Bootstrap, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, ResampledScore]:
    """Every score with those of the resamples.

    Raises: DataError: no row was evaluated. ConfigError: no resamples.
    """
    values, scores = bootstrap.values(), _resampled_scores(bootstrap, resamples, seed)
    return {name: ResampledScore(value, scores[name].tolist(), len(bootstrap)) for name, value in values.items()}


def intervals(bootstrap: Bootstrap, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Interval]:
    """Every score with its 95% confidence interval. Raises: as `resampled`."""
    return {name: score.interval for name, score in resampled(bootstrap, resamples, seed).items()}


def differences(
    bootstrap: Bootstrap, other: Bootstrap, resamples: int = RESAMPLES, seed: int = 0, *, paired: bool = True
) -> dict[str, Interval]:
    """How far every score lies above that of another system on the same rows: a paired bootstrap.

    Args:
        paired: False = of other rows, which are drawn independently
    Raises: DataError: not the same number of rows. Else as `resampled`.
    """
    if paired and len(bootstrap) != len(other):
        raise DataError(
            f"one system was evaluated on {len(bootstrap)} rows, the other on {len(other)}; "
            "a difference needs the same rows"
        )
    # The same seed draws the same rows for both: what makes rows hard for either cancels out.
    mine, theirs = resampled(bootstrap, resamples, seed), resampled(other, resamples, seed + (not paired))
    return {name: mine[name].minus(theirs[name]).interval for name in mine if name in theirs}


def _resampled_scores(bootstrap: Bootstrap, resamples: int, seed: int) -> dict[str, np.ndarray]:
    """The scores of each resample; which rows it has depends on their number and the seed alone. [S] each"""
    if resamples < 1:
        raise ConfigError(f"resamples is {resamples}; draw at least 1, better {RESAMPLES}")
    count, generator = len(bootstrap), np.random.default_rng(seed)
    at_once = max(1, CELLS_AT_ONCE // count)
    parts = []
    for start in range(0, resamples, at_once):
        samples = min(at_once, resamples - start)
        # Each resample counts into a row of its own: one bincount for all of them.
        picks = generator.integers(count, size=(samples, count)) + count * np.arange(samples)[:, None]
        resample_counts = np.bincount(picks.ravel(), minlength=samples * count).reshape(samples, count)
        parts.append(bootstrap.scores(resample_counts))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
