"""Study plan of trainings: the training sets, their numbers of rows, settings, a language model, and the test sets.

train                                            trainings
de:    {files: de.conll, rows: 5000}             de
fr:    {files: fr.conll, rows: [250, 1000]}      fr-250  fr-1000         a list: it grows
de+fr: {of: [de, fr]}                            de+fr                   both, fr with all its rows
de→fr: {of: [fr], rows: [250], begin: de}        de→fr-250               from the model of de

factors: {training.learning_rate: [1e-4, 1e-3], method: {full: {}, lora: {adapter: {rank: 8}}}}     each with each
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from glassformer.errors import ConfigError, nearest
from glassformer.files import safe_repr
from glassformer.files.schema import Allowed, NonNegative, Schema, at_least
from glassformer.runs.config import RunConfig
from glassformer.studies.cells import Level, NamedLevel
from glassformer.studies.report import ReportOptions

PRETRAINED, FINE_TUNED, TRAINED = "pretrained", "fine-tuned", "trained"
SEARCH, SEARCHES = "language model", ("without LM", "with LM")
EVALUATED_ON = "evaluated on"
FromOne = Annotated[int, at_least(1)]
Settings = Annotated[
    list[NamedLevel] | dict[str, dict[str, Any]],
    Allowed("a list of levels, each a text, a number, or true or false; or names of levels with keys and values each"),
]
SET_NAME = re.compile(r"\w[\w+.→-]*")  # of a set, and of its folder


@dataclass(frozen=True, kw_only=True)
class TrainingSet:
    """A training set.

    files: a file, or several, concatenated
    of: instead, sets named before, concatenated
    rows: sample size, smaller samples being subsets of larger ones; a list: a run for each size, the set "grows".
        With `of`, those of the set among them that grows; left out, its largest
    begin: a set named before, whose trained model it begins with
    """

    files: str | list[str] = ""
    of: list[str] = field(default_factory=list)
    rows: int | list[int] | None = None
    begin: str | None = None

    @property
    def sizes(self) -> list[int]:
        """The sample sizes in `rows`."""
        return [] if self.rows is None else [self.rows] if isinstance(self.rows, int) else self.rows


@dataclass(frozen=True, kw_only=True)
class FusionOptions(Schema):
    """The n-gram model of words, and how its weight is found.

    order: of the n-grams
    min_count: words that are rarer become unknown
    alphas, betas: the weights to choose from, besides none
    tune_rows: a sample of this many validation recordings
    """

    order: FromOne = 3
    min_count: int = 1
    alphas: list[NonNegative] = field(default_factory=lambda: [0.2, 0.5, 1.0])
    betas: list[float] = field(default_factory=lambda: [0.0])
    tune_rows: FromOne = 100

    def validate(self) -> None:
        if not self.alphas or not self.betas:
            raise ConfigError("study.language_model: alphas and betas are lists of at least one weight")


@dataclass(frozen=True, kw_only=True)
class StudyPlan(Schema):
    """The options under `study` of trainings.

    train: the training sets, by name, in this order; none = that of the configuration
    test_sets: the files of the test sets, by name
    limit: a random sample of this many rows of each test set, the same for all
    at_least_steps: minimum steps of a training: few rows take more epochs
    baselines: baselines are trained on each set too, and have curves next to the model
    factors: a key of the configuration → its values; or name → names of levels → keys and values of each
    pretrained: evaluate the model before training, too; None = with a language model
    language_model: of a speech recogniser: evaluate with it and without; see `FusionOptions`
    speaker: the column of the speaker, if there is one: no speaker may be in two splits
    latency: measure the latency of one row, too
    report: what the report shows
    """

    train: dict[str, TrainingSet] = field(default_factory=dict)
    test_sets: dict[str, str | list[str]]
    limit: FromOne | None = None
    at_least_steps: FromOne | None = None
    baselines: bool = False
    factors: dict[str, Settings] = field(default_factory=dict)
    pretrained: bool | None = None
    language_model: FusionOptions | None = None
    speaker: str | None = None
    latency: bool = False
    report: ReportOptions = field(default_factory=ReportOptions)

    def validate(self) -> None:
        if not self.test_sets:
            raise ConfigError("study names no test set; give at least one under `test_sets`: {test: test.csv}")
        if not (self.train or self.factors or self.language_model or self.pretrained):
            raise ConfigError("study names at least one set under `train`, or `factors`, or a `language_model`")
        for name in (*self.train, *self.test_sets):
            if not SET_NAME.fullmatch(name):
                raise ConfigError(
                    f"study: {safe_repr(name)} is no name for a set; take letters, digits, and + - . _ within"
                )
        if PRETRAINED in self.train:
            raise ConfigError(f"study.train.{PRETRAINED}: is the name of the model before training; rename the set")
        if empty := [name for name, levels in self.factors.items() if not levels]:
            raise ConfigError(f"study.factors.{empty[0]} has no level; give at least one")
        for i, name in enumerate(self.train):
            self._check(name, list(self.train)[:i])
        names = [self.run_name(name, size) for name in self.train for size in self.sizes(name)]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ConfigError(f"study.train: two trainings would be called {twice}; rename a set")

    def _check(self, name: str, before: Sequence[str]) -> None:
        """Raises: ConfigError: an invalid training set; `before`: the sets that are before it."""
        chosen, path = self.train[name], f"study.train.{name}"
        if bool(chosen.files) == bool(chosen.of):
            raise ConfigError(f"{path}: give either files, or of: other sets")
        for other in (*chosen.of, *([chosen.begin] if chosen.begin else [])):
            if other not in before:
                raise ConfigError(
                    f"{path} names {safe_repr(other)}{nearest(other, before)}; "
                    f"sets that are before it: {', '.join(before) or 'none'}"
                )
            if other in chosen.of and self.train[other].of:
                raise ConfigError(f"{path}: {other} is made of other sets itself; name those")
        if chosen.begin and isinstance(self.train[chosen.begin].rows, list):
            raise ConfigError(
                f"{path} begins with {chosen.begin}, which is several models, one for each number of rows"
            )
        if chosen.of and len(chosen.of) > 1:
            for other in chosen.of:
                if self.train[other].rows is not None and not isinstance(self.train[other].files, str):
                    raise ConfigError(f"{path}: {other} draws rows of several files; name a set for each file")
        if any(size < 1 for size in chosen.sizes) or (isinstance(chosen.rows, list) and not chosen.rows):
            raise ConfigError(f"{path}.rows is {safe_repr(chosen.rows)}; it holds whole numbers from 1 up")
        if len(set(chosen.sizes)) < len(chosen.sizes):
            raise ConfigError(f"{path}.rows names a number twice")
        growing = [other for other in chosen.of if isinstance(self.train[other].rows, list)]
        if len(growing) > 1:
            raise ConfigError(f"{path}: {' and '.join(growing)} both grow; only one set of several may")
        if chosen.of and chosen.sizes and not growing:
            raise ConfigError(f"{path}.rows: none of {', '.join(chosen.of)} grows; name the rows there, as a list")

    def growing_set(self, name: str) -> str | None:
        """The set that grows in a set: itself, or one that it is made of; None = nothing does."""
        chosen = self.train[name]
        if isinstance(chosen.rows, list) and not chosen.of:
            return name
        return next((other for other in chosen.of if isinstance(self.train[other].rows, list)), None)

    def sizes(self, name: str) -> list[int | None]:
        """The sample sizes of the set that grows in it, a run for each; [None] where nothing does."""
        over, chosen = self.growing_set(name), self.train[name]
        if over is None:
            return [None]
        return [*sorted(chosen.sizes)] or [max(self.train[over].sizes)]

    def run_name(self, name: str, size: int | None) -> str:
        """The name of a run: `fr-250` where its set has several sizes, else `de+fr`."""
        return f"{name}-{size}" if name in self.train and isinstance(self.train[name].rows, list) else name

    def files_and_limits(self, name: str, size: int | None) -> tuple[list[str], int | list[int | None] | None]:
        """The files of a set, and the sample size of all of them, or of each."""
        chosen = self.train[name]
        if not chosen.of:
            files = [chosen.files] if isinstance(chosen.files, str) else chosen.files
            return files, size if size is not None else (chosen.rows if isinstance(chosen.rows, int) else None)
        files, limits = [], []
        for other in chosen.of:
            its_files, limit = self.files_and_limits(other, size if self.growing_set(other) else None)
            if len(chosen.of) == 1:
                return its_files, limit
            files += its_files
            limits += [limit if isinstance(limit, int) else None] * len(its_files)
        return files, limits

    # ---------------------------------------------------------------------------------------------- factors

    @property
    def trained_on(self) -> str:
        """The factor of the training set, or of whether there is a training."""
        return "trained on" if self.train else "model"

    @property
    def grown(self) -> str:
        """The factor of the number of rows of sets that grow."""
        growing = dict.fromkeys(filter(None, map(self.growing_set, self.train)))
        return f"rows of {' or '.join(growing)}"

    def factors_of(self, base: RunConfig) -> dict[str, list[Level]]:
        """All factors and their levels; of those with one level the training and the test sets alone."""
        trained, sizes = zip(*self.run_levels(base), strict=True)
        first = [PRETRAINED] * self.with_pretrained(base)
        factors: dict[str, list[Level]] = {self.trained_on: [*first, *dict.fromkeys(trained)]}
        known = sorted({size for size in sizes if size is not None})
        factors |= {self.grown: [*known]} if known else {}
        factors |= {name: list(levels) for name, levels in self.factors.items()}
        factors |= {SEARCH: [*SEARCHES]} if self.language_model else {}
        return {**factors, EVALUATED_ON: [*self.test_sets]}

    def with_pretrained(self, base: RunConfig) -> bool:
        """Whether the model before training is evaluated."""
        asked = self.language_model is not None if self.pretrained is None else self.pretrained
        if asked and base.model is None and self.pretrained:
            raise ConfigError("study.pretrained: there is no model before the training of one from scratch")
        return asked and base.model is not None

    def run_levels(self, base: RunConfig) -> list[tuple[str, int | None]]:
        """Each training set with each of its sizes; or the training data of the configuration."""
        own = TRAINED if base.model is None else FINE_TUNED
        return [(name, size) for name in self.train for size in self.sizes(name)] or [(own, None)]

    def keys_of(self, factor: str, level: Level) -> dict[str, Any]:
        """The keys of the configuration that a level sets."""
        levels = self.factors[factor]
        if isinstance(levels, dict):
            return dict(levels[str(level)])
        keys: Any = level
        for name in reversed(factor.split(".")):
            keys = {name: keys}
        return dict(keys)
