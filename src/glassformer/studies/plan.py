"""What a study is asked for: which sets are learnt from, in which numbers of rows, and which are judged on.

train                                            trainings
de:    {files: de.conll, rows: 5000}             de
fr:    {files: fr.conll, rows: [250, 1000]}      fr-250  fr-1000         it grows
de+fr: {of: [de, fr]}                            de+fr                   both, fr with its most
de→fr: {of: [fr], rows: [250], begin: de}        de→fr-250               from the model of de
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from glassformer.errors import ConfigError, nearest
from glassformer.files import shown
from glassformer.studies.results import Curve

NAME = re.compile(r"\w[\w+.→-]*")  # of a set, which is the name of a folder too


@dataclass(frozen=True, kw_only=True)
class Set:
    """Rows to train on.

    files: a file, or several one behind the other · of: instead, sets named before, one behind the other
    rows: how many are drawn of the files, the fewer among the more; a list: a training for each, and the set grows.
        With `of`, those of the set among them that grows; left out, its most
    begin: a set named before, whose trained model it begins with
    """

    files: str | list[str] = ""
    of: list[str] = field(default_factory=list)
    rows: int | list[int] | None = None
    begin: str | None = None

    @property
    def sizes(self) -> list[int]:
        """The numbers of rows that are named."""
        return [] if self.rows is None else [self.rows] if isinstance(self.rows, int) else self.rows


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What stands under `study`.

    train: the sets to train on, by name, in this order · judge: the files to judge on, by name
    limit: so many rows of each of these are drawn, once for all
    at_least_steps: trainings on few rows take more epochs than the others, until they have so many steps
    baselines: simple means learn from each set too, and stand in the curve beside the model
    curve: which of it is drawn; None = the first set that grows, on the first judged set
    """

    train: dict[str, Set]
    judge: dict[str, str | list[str]]
    limit: int | None = None
    at_least_steps: int | None = None
    baselines: bool = False
    curve: Curve | None = None

    def __post_init__(self) -> None:
        if not self.train or not self.judge:
            raise ConfigError("study names at least one set under `train`, and one under `judge`")
        for name in (*self.train, *self.judge):
            if not NAME.fullmatch(name):
                raise ConfigError(
                    f"study: {shown(name)} is no name for a set; take letters, digits, and + - . _ within"
                )
        for name in ("limit", "at_least_steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"study.{name} is {value}; it must be a whole number from 1 up")
        for i, name in enumerate(self.train):
            self._check(name, list(self.train)[:i])
        names = [self.called(name, size) for name in self.train for size in self.sizes(name)]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ConfigError(f"study.train: two trainings would be called {twice}; rename a set")
        if self.curve is not None:
            self._check_curve(self.curve)

    def _check(self, name: str, before: Sequence[str]) -> None:
        each, place = self.train[name], f"study.train.{name}"
        if bool(each.files) == bool(each.of):
            raise ConfigError(f"{place}: give either files, or of: other sets")
        for other in (*each.of, *([each.begin] if each.begin else [])):
            if other not in before:
                raise ConfigError(
                    f"{place} names {shown(other)}{nearest(other, before)}; "
                    f"sets that stand before it: {', '.join(before) or 'none'}"
                )
            if other in each.of and self.train[other].of:
                raise ConfigError(f"{place}: {other} is made of other sets itself; name those")
        if each.begin and isinstance(self.train[each.begin].rows, list):
            raise ConfigError(
                f"{place} begins with {each.begin}, which is several models, one for each number of rows"
            )
        if each.of and len(each.of) > 1:
            for other in each.of:
                if self.train[other].rows is not None and not isinstance(self.train[other].files, str):
                    raise ConfigError(
                        f"{place}: {other} draws rows of several files; name a set for each file"
                    )
        if any(size < 1 for size in each.sizes) or (isinstance(each.rows, list) and not each.rows):
            raise ConfigError(f"{place}.rows is {shown(each.rows)}; it holds whole numbers from 1 up")
        if len(set(each.sizes)) < len(each.sizes):
            raise ConfigError(f"{place}.rows names a number twice")
        growing = [other for other in each.of if isinstance(self.train[other].rows, list)]
        if len(growing) > 1:
            raise ConfigError(f"{place}: {' and '.join(growing)} both grow; only one set of several may")
        if each.of and each.sizes and not growing:
            raise ConfigError(
                f"{place}.rows: none of {', '.join(each.of)} grows; name the rows there, as a list"
            )

    def _check_curve(self, curve: Curve) -> None:
        growing = [name for name in self.train if self.grows(name) == name]
        for place, name, known in (
            ("over", curve.over, growing),
            ("judge", curve.judge, list(self.judge)),
            ("zero_shot", curve.zero_shot, [name for name in self.train if self.grows(name) is None]),
        ):
            if name is not None and name not in known:
                raise ConfigError(
                    f"study.curve.{place} is {shown(name)}{nearest(name, known)}; allowed: {', '.join(known) or 'none'}"
                )

    def grows(self, name: str) -> str | None:
        """The set that grows in a set: itself, or the one that it is made of."""
        each = self.train[name]
        if isinstance(each.rows, list) and not each.of:
            return name
        return next((other for other in each.of if isinstance(self.train[other].rows, list)), None)

    def sizes(self, name: str) -> list[int | None]:
        """The numbers of rows of what grows in it, a training for each; [None] where nothing does."""
        over, each = self.grows(name), self.train[name]
        if over is None:
            return [None]
        return [*sorted(each.sizes)] or [max(self.train[over].sizes)]

    def called(self, name: str, size: int | None) -> str:
        """What a training is called: `fr-250` where its set names several numbers of rows, else `de+fr`."""
        return f"{name}-{size}" if isinstance(self.train[name].rows, list) else name

    def drawn(self, name: str, size: int | None) -> tuple[list[str], int | list[int | None] | None]:
        """The files of a set, and how many rows are drawn of them: of all, or of each."""
        each = self.train[name]
        if not each.of:
            files = [each.files] if isinstance(each.files, str) else each.files
            return files, size if size is not None else (each.rows if isinstance(each.rows, int) else None)
        files, limits = [], []
        for other in each.of:
            mine, limit = self.drawn(other, size if self.grows(other) else None)
            if len(each.of) == 1:
                return mine, limit
            files += mine
            limits += [limit if isinstance(limit, int) else None] * len(mine)
        return files, limits

    @property
    def drawn_curve(self) -> Curve | None:
        """The curve that is drawn."""
        if self.curve is not None:
            return self.curve
        growing = next((name for name in self.train if self.grows(name)), None)
        return None if growing is None else Curve(over=growing, judge=next(iter(self.judge)))
