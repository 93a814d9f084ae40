"""Study plan: the training sets, their numbers of rows, and the test sets.

train                                            trainings
de:    {files: de.conll, rows: 5000}             de
fr:    {files: fr.conll, rows: [250, 1000]}      fr-250  fr-1000         a list: it grows
de+fr: {of: [de, fr]}                            de+fr                   both, fr with all its rows
de→fr: {of: [fr], rows: [250], begin: de}        de→fr-250               from the model of de
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from glassformer.errors import ConfigError, nearest
from glassformer.files import safe_repr
from glassformer.studies.results import CurveOptions

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
class StudyPlan:
    """The options under `study`.

    train: the training sets, by name, in this order
    test_sets: the files of the test sets, by name
    limit: a random sample of this many rows of each test set, the same for all runs
    at_least_steps: minimum steps of a run: few rows take more epochs
    baselines: baselines are trained on each set too, and have curves next to the model
    curve: which learning curve to plot; None = the first set that grows, on the first test set
    """

    train: dict[str, TrainingSet]
    test_sets: dict[str, str | list[str]]
    limit: int | None = None
    at_least_steps: int | None = None
    baselines: bool = False
    curve: CurveOptions | None = None

    def __post_init__(self) -> None:
        if not self.train or not self.test_sets:
            raise ConfigError("study names at least one set under `train`, and one under `test_sets`")
        for name in (*self.train, *self.test_sets):
            if not SET_NAME.fullmatch(name):
                raise ConfigError(
                    f"study: {safe_repr(name)} is no name for a set; take letters, digits, and + - . _ within"
                )
        for name in ("limit", "at_least_steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"study.{name} is {value}; it must be a whole number from 1 up")
        for i, name in enumerate(self.train):
            self._check(name, list(self.train)[:i])
        names = [self.run_name(name, size) for name in self.train for size in self.sizes(name)]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ConfigError(f"study.train: two trainings would be called {twice}; rename a set")
        if self.curve is not None:
            self._check_curve(self.curve)

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

    def _check_curve(self, curve: CurveOptions) -> None:
        growing = [name for name in self.train if self.growing_set(name) == name]
        for path, name, known in (
            ("over", curve.over, growing),
            ("test_set", curve.test_set, list(self.test_sets)),
            ("zero_shot", curve.zero_shot, [name for name in self.train if self.growing_set(name) is None]),
        ):
            if name is not None and name not in known:
                raise ConfigError(
                    f"study.curve.{path} is {safe_repr(name)}{nearest(name, known)}; allowed: "
                    f"{', '.join(known) or 'none'}"
                )

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
        return f"{name}-{size}" if isinstance(self.train[name].rows, list) else name

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

    def test_files(self, name: str) -> list[str]:
        """The names of the files of a test set."""
        files = self.test_sets[name]
        return [Path(file).name for file in ([files] if isinstance(files, str) else files)]

    @property
    def shown_curve(self) -> CurveOptions | None:
        """The learning curve to plot; None = no set grows."""
        if self.curve is not None:
            return self.curve
        growing = next((name for name in self.train if self.growing_set(name)), None)
        return None if growing is None else CurveOptions(over=growing, test_set=next(iter(self.test_sets)))
