"""Results of an ablation: the 2 × 2 table of error rates, the effects with their intervals, and what they say.

    WER            pretrained               fine-tuned               fine-tuning
    without LM     0.121 [0.082, 0.163]     0.020 [0.008, 0.035]     -0.101 [-0.141, -0.066]
    with LM        0.094 [0.060, 0.130]     0.019 [0.007, 0.034]     -0.075 …
    the LM         -0.027 [-0.052, -0.004]  -0.001 [-0.006, 0.003]   ← zero is in this interval: no effect is shown

Effects are paired: the same recordings are resampled for both systems, so what makes a recording hard for both cancels
out. Of several seeds, errors of a recording are added up, so intervals are over recordings; a column says how many
seeds agree. Source: Bisani and Ney 2004, "Bootstrap estimates for confidence intervals in ASR performance evaluation".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.files import as_path
from glassformer.reports.page import report_page, write_page
from glassformer.reports.report import Report, plain
from glassformer.reports.table import Table
from glassformer.runs.charts import clock
from glassformer.studies.overlap import PartOverlap
from glassformer.tasks.metrics.metric import BootstrapSums, Interval, differences, intervals
from glassformer.tasks.metrics.speech import error_rates

PRETRAINED, FINE_TUNED, TRAINED = "pretrained", "fine-tuned", "trained"
METRICS = {"wer": "word error rate", "cer": "character error rate"}
SEARCHES = {False: "without LM", True: "with LM"}
MAX_TRANSCRIPTS = 20


@dataclass(frozen=True)
class ErrorCounts:
    """What a system made of a test set.

    name: of the recogniser
    fused: with the language model
    test: of the test set
    errors: word errors, words, character errors, characters of each recording [N, 4]
    texts: its transcripts
    """

    name: str
    fused: bool
    seed: int
    test: str
    errors: np.ndarray
    texts: list[str]


@dataclass(frozen=True)
class TunedFusion:
    """The weights of the language model that made the fewest errors on this many validation recordings."""

    name: str
    seed: int
    alpha: float
    beta: float
    recordings: int

    @property
    def weights(self) -> dict[str, float]:
        return {"alpha": self.alpha, "beta": self.beta}


@dataclass(frozen=True)
class Effect:
    """What one change makes of the errors on a test set.

    of: "fine-tuning", "the language model", or both

    where: of what the change is made
    seeds: the difference of each
    """

    of: str
    where: str
    before: float
    after: float
    difference: Interval
    seeds: list[float]

    def sentence(self, metric: str) -> str:
        """What the effect says, and whether it can be told from chance."""
        subject = f"{self.of[0].upper()}{self.of[1:]}"
        if self.difference.value == 0 and not self.difference.leaves_out_zero and not any(self.seeds):
            return f"{subject} {self.where} changes no {metric}: {self.after:.3f}."
        lower = self.difference.value < 0
        verb = "lowers" if lower else "raises"
        change = f"the {metric} from {self.before:.3f} to {self.after:.3f}: {self.difference.written(3, signed=True)}"
        if not self.difference.leaves_out_zero:
            return f"{subject} {self.where} is not shown to change {change}; zero is within the interval."
        agree = sum((x < 0) == lower and x != 0 for x in self.seeds)
        of_seeds = f", with {agree} of {len(self.seeds)} seeds" if len(self.seeds) > 1 else ""
        return f"{subject} {self.where} {verb} {change}{of_seeds}; zero is outside of the interval."


ABLATION_KEYS = (
    "task",
    "test_sets",
    "systems",
    "effects",
    "tuned",
    "overlap",
    "table",
    "sentences",
    "notes",
    "planned",
    "seconds",
)


@dataclass(frozen=True, kw_only=True, repr=False)
class AblationResults(Report, kind="ablation", keys=ABLATION_KEYS):
    """The results of an ablation so far.

    counts: of each system, seed and test set
    tuned: weights of the language model
    overlap: of the parts
    test_sets: name → its files and number of rows
    references: name → its transcripts
    normaliser, beams, order: how texts were compared and searched for
    planned: number of trainings, done or not
    seconds: of all trainings
    """

    counts: list[ErrorCounts]
    tuned: list[TunedFusion]
    overlap: list[PartOverlap]
    test_sets: dict[str, dict[str, Any]]
    references: dict[str, list[str]]
    normaliser: str
    beams: int
    order: int
    training_rows: int
    planned: int
    seconds: float
    task: str = "transcribe"

    @property
    def names(self) -> list[str]:
        """The recognisers, before and after training."""
        return list(dict.fromkeys(x.name for x in self.counts))

    def seeds(self, name: str) -> list[int]:
        """The seeds of a recogniser."""
        return sorted({x.seed for x in self.counts if x.name == name})

    def bootstrap(self, name: str, fused: bool, test: str, seed: int | None = None) -> BootstrapSums:
        """The errors of a system on a test set, recording by recording.

        Args:
            seed: None = those of all seeds, added up
        """
        errors = [
            x.errors for x in self.counts if (x.name, x.fused, x.test) == (name, fused, test) and seed in (None, x.seed)
        ]
        return BootstrapSums(np.sum(errors, axis=0), error_rates, {})

    def rate(self, metric: str, name: str, fused: bool, test: str) -> Interval:
        """An error rate with its interval over recordings."""
        return intervals(self.bootstrap(name, fused, test))[metric]

    def effects_on(self, metric: str, test: str) -> Iterator[Effect]:
        """What fine-tuning, the language model, and both together change."""
        first, last = self.names[0], self.names[-1]
        if first != last:
            yield self._effect("fine-tuning", "without the language model", metric, test, (first, False), (last, False))
            yield self._effect("fine-tuning", "with the language model", metric, test, (first, True), (last, True))
        for name in self.names:
            where = f"on the {name} model"
            yield self._effect("the language model", where, metric, test, (name, False), (name, True))
        if first != last:
            both = "fine-tuning plus the language model"
            yield self._effect(both, "together", metric, test, (first, False), (last, True))

    def _effect(
        self, of: str, where: str, metric: str, test: str, before: tuple[str, bool], after: tuple[str, bool]
    ) -> Effect:
        own, other = self.bootstrap(*after, test), self.bootstrap(*before, test)
        seeds = []
        for seed in self.seeds(after[0]):
            its_own = self._value(metric, *before, test, seed if before[0] == after[0] else None)
            seeds.append(self._value(metric, *after, test, seed) - its_own)
        was, now = (float(x.values()[metric]) for x in (other, own))
        return Effect(of, where, was, now, differences(own, other)[metric], seeds)

    def _value(self, metric: str, name: str, fused: bool, test: str, seed: int | None) -> float:
        return float(self.bootstrap(name, fused, test, seed).values()[metric])

    @property
    def caption(self) -> str:
        """The caption of the table."""
        seeds = len(self.seeds(self.names[-1]))
        over = f"{seeds} seeds added up; " if seeds > 1 else ""
        rest = self.planned - seeds
        missing = f"; {rest} of {self.planned} trainings are still to come" if rest else ""
        return f"error rates, lower is better; {over}in brackets 95% intervals over recordings{missing}"

    @property
    def table(self) -> Table:
        """For each test set and error rate the 2 × 2 systems, with the effects at the margins."""
        first, last = self.names[0], self.names[-1]
        tuned = ["fine-tuning"] if first != last else []
        rows = []
        for test in self.test_sets:
            for metric in METRICS:
                effects = {(x.of, x.where): x.difference.cell(signed=True) for x in self.effects_on(metric, test)}
                for fused, label in SEARCHES.items():
                    cells = [self.rate(metric, name, fused, test).cell() for name in self.names]
                    where = f"{label.split()[0]} the language model"
                    margin = [effects["fine-tuning", where]] if tuned else []
                    rows.append([f"{metric.upper()} on {test}, {label}", *cells, *margin])
                by_name = [effects["the language model", f"on the {name} model"] for name in self.names]
                rows.append(["    the language model", *by_name, *[""] * len(tuned)])
        return Table(["", *self.names, *tuned], rows)

    def tables(self) -> list[Table]:
        """The table of all systems."""
        return [self.table]

    def page_tables(self) -> list[Table]:
        """Also each error rate of all systems on one scale, and where their transcripts differ."""
        tables = [replace(self.table, caption="Error rates")]
        for test in self.test_sets:
            for metric, long in METRICS.items():
                rows = [
                    [f"{name}, {label}", self.rate(metric, name, fused, test).cell()]
                    for name in self.names
                    for fused, label in SEARCHES.items()
                ]
                tables.append(Table(["", "95% interval"], rows, f"{long} on {test}, lower is better", reference=0))
        return tables + list(filter(lambda table: table.rows, map(self._transcripts, self.test_sets)))

    def _transcripts(self, test: str) -> Table:
        """The references, and the hypothesis of each system."""
        headings = ["transcript", *(f"{name}, {label}" for name in self.names for label in SEARCHES.values())]
        rows = [[text, *hypotheses] for text, hypotheses in self.differing(test, MAX_TRANSCRIPTS)]
        about = f"Different transcripts: recordings of {test} that at least one system got wrong, and not all equally"
        return Table(headings, rows, f"{about}; at most {MAX_TRANSCRIPTS}", left=len(headings))

    @property
    def title(self) -> str:
        return f"Ablation: {', '.join(self.names)}, without and with a language model"

    @property
    def finding(self) -> str:
        """What all changes together do."""
        return self.sentences[-1]

    def remarks(self) -> list[str]:
        """What the table says, and what one has to know to defend it."""
        return [*self.sentences, *self.notes]

    @property
    def systems(self) -> list[dict[str, Any]]:
        """The error rates of each system on each test set."""
        return [
            {
                "name": name,
                "language_model": fused,
                "test": test,
                "seeds": self.seeds(name),
                **{metric: self.rate(metric, name, fused, test) for metric in METRICS},
            }
            for test in self.test_sets
            for name in self.names
            for fused in SEARCHES
        ]

    @property
    def effects(self) -> list[dict[str, Any]]:
        """What each change makes of each error rate on each test set."""
        return [
            {"test": test, "metric": metric, **plain(effect)}
            for test in self.test_sets
            for metric in METRICS
            for effect in self.effects_on(metric, test)
        ]

    @property
    def sentences(self) -> list[str]:
        """What the table says, and how sure it is."""
        several = len(self.test_sets) > 1
        return [
            f"{f'{test}: ' * several}{effect.sentence(METRICS['wer'])}"
            for test in self.test_sets
            for effect in self.effects_on("wer", test)
        ]

    @property
    def notes(self) -> list[str]:
        """What one has to know to defend the table."""
        sets = ", ".join(f"{x['rows']:,} of {name}" for name, x in self.test_sets.items())
        weights = "; ".join(
            f"{x.name}, seed {x.seed}: alpha {x.alpha:g}, beta {x.beta:g}{'' if x.alpha or x.beta else ' (not used)'}"
            for x in self.tuned
        )
        return [
            f"{len(self.seeds(self.names[-1]))} of {self.planned} trainings in {clock(self.seconds)}",
            f"{self.training_rows:,} training recordings; evaluated on {sets}; texts compared after the normaliser "
            f"{self.normaliser!r}, transcripts by beam search with {self.beams} beams",
            f"the language model: {self.order}-grams of the training transcripts alone; its weights are those with the "
            f"fewest word errors on {self.tuned[0].recordings:,} validation recordings: {weights}",
            *(str(each) for each in self.overlap if each.first == "train"),
            "intervals are over recordings of these speakers; other speakers may differ by more",
        ]

    def differing(self, test: str, at_most: int) -> list[tuple[str, list[str]]]:
        """Recordings that the systems hear differently: their transcript, and that of each system."""
        seed = self.seeds(self.names[-1])[0]
        systems = [x for x in self.counts if x.test == test and (x.name != self.names[-1] or x.seed == seed)]
        rows = zip(self.references[test], *(x.texts for x in systems), strict=True)
        wrong = np.sum([x.errors[:, 0] for x in systems], axis=0)
        differing = [(text, list(hypotheses)) for count, (text, *hypotheses) in zip(wrong, rows, strict=True) if count]
        return [row for row in differing if len(set(row[1])) > 1][:at_most]

    # --------------------------------------------------------------------------------------------- to keep

    def write(self, folder: str | Path) -> None:
        """Write `study.json` and `study.html` into a folder."""
        folder = as_path(folder, "folder")
        self.save(folder / "study.json")
        write_page(folder / "study.html", report_page(self))
