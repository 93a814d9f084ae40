"""Plug-ins: tasks, data formats, metrics, commands, views and families of other packages, found by entry points.

    [project.entry-points."glassformer.tasks"]      pyproject.toml of the other package
    haiku = "glassformer_haiku:Haiku"               read here when a task is looked up, imported when it is this one

    register("tasks", "haiku", Haiku)               the same for the rest of a program or notebook

The kinds of parts are `GROUPS`; each has one `Registry`, with the parts of this package as well. A part that cannot be
used is an error where it is asked for by name, and a warning where all are listed: it never hides the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, ItemsView, Iterable, Iterator, Mapping, MutableMapping, ValuesView
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from glassformer.errors import ConfigError, PlugInError, nearest
from glassformer.files import safe_repr
from glassformer.files.lazy import imported
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from glassformer.version import __version__

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

    from packaging.requirements import Requirement

T = TypeVar("T")

GROUPS: Mapping[str, tuple[str, str]] = {
    "tasks": ("task", "glassformer.tasks.registry:TASKS"),
    "data": ("data format", "glassformer.data.rows:FORMATS"),
    "metrics": ("metric", "glassformer.tasks.metrics.metric:METRICS"),
    "commands": ("command", "glassformer.cli.app:COMMANDS"),
    "views": ("view", "glassformer.explorer.registry:VIEWS"),
    "families": ("model family", "glassformer.models:FAMILIES"),
}
"""Group of entry points, after `glassformer.` → what a part of it is called, and its registry."""


@dataclass(frozen=True)
class PlugIn:
    """A part that another package provides.

    group: such as "tasks"
    name: of the part
    entry: where it is imported from
    package: its name and version
    summary: what the package says of itself in a line
    """

    group: str
    name: str
    entry: EntryPoint
    package: str
    summary: str
    distribution: Distribution

    def load(self) -> Any:
        """Import it. Raises: PlugInError: it cannot be imported, or is for another version of this library."""
        if wants := _other_version(self.distribution):
            raise self.error(f"is made for {wants[0]}, and this is {wants[1]}; {self._update}")
        try:
            return self.entry.load()
        except (Exception, SystemExit) as error:
            if needs := _unmet(self.distribution):  # what is wrong, and the error follows from it
                what = f"requires {', and '.join(needs)} ({type(error).__name__}: {error}); {self._update}"
                raise self.error(what) from error
            raise self.error(f"cannot be imported ({type(error).__name__}: {error}); {self._update}") from error

    def error(self, what: str) -> PlugInError:
        """An error about this part, in one sentence."""
        return PlugInError(f"the {GROUPS[self.group][0]} {self.name!r} of the plug-in {self.package} {what}")

    @property
    def _update(self) -> str:
        name = self.package.partition(" ")[0]
        return f"update it (pip install --upgrade {name}) or remove it (pip uninstall {name})"


def _requirements(distribution: Distribution) -> Iterator[Requirement]:
    """What a package requires; a line that cannot be read is left out, since pip has installed nothing from it."""
    from packaging.requirements import InvalidRequirement, Requirement

    for line in distribution.requires or ():
        with suppress(InvalidRequirement):
            yield Requirement(line)


def _other_version(distribution: Distribution) -> tuple[str, str] | None:
    """The version of this library that a package requires and the one that this is, where they differ."""
    for requirement in _requirements(distribution):
        if requirement.name.lower() == "glassformer" and not requirement.specifier.contains(__version__, True):
            return f"glassformer {requirement.specifier}", __version__
    return None


def _unmet(distribution: Distribution) -> list[str]:
    """The requirements of a package that what is installed does not meet: `numpy<2, which is 2.4.0 here`."""
    from importlib.metadata import PackageNotFoundError, version

    unmet = []
    for requirement in _requirements(distribution):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            there = version(requirement.name)
        except PackageNotFoundError:
            unmet.append(f"{requirement.name}{requirement.specifier}, which is not installed")
            continue
        if not requirement.specifier.contains(there, prereleases=True):
            unmet.append(f"{requirement.name}{requirement.specifier}, which is {there} here")
    return unmet


@cache
def installed() -> tuple[Mapping[str, Mapping[str, PlugIn]], tuple[str, ...]]:
    """The plug-ins of all installed packages: group → name → plug-in; and what is wrong with others, a sentence each.

    Reads a file of each package, and imports nothing.
    """
    from importlib.metadata import distributions  # milliseconds, which a command that needs no plug-in does not take

    parts: dict[str, dict[str, PlugIn]] = {group: {} for group in GROUPS}
    problems: list[str] = []
    packages: dict[str, Distribution] = {}
    for distribution in distributions():
        text = distribution.read_text("entry_points.txt")
        if text and "[glassformer." in text:  # the first of a name on the path is the one that is imported
            packages.setdefault(distribution.metadata["Name"] or "(a package without a name)", distribution)
    for name, distribution in sorted(packages.items()):
        package = f"{name} {distribution.version}"
        try:
            entries = [entry for entry in distribution.entry_points if entry.group.startswith("glassformer.")]
        except Exception:  # what `importlib.metadata` raises of a damaged file is not documented
            problems.append(f"entry_points.txt of the package {package} is damaged; reinstall or remove it")
            continue
        for entry in entries:
            group = entry.group.removeprefix("glassformer.")
            if group not in parts:
                problems.append(
                    f"the plug-in {package} has entry points of the group {entry.group!r}, which there is not"
                    f"{nearest(group, GROUPS)}; allowed: {', '.join(f'glassformer.{each}' for each in GROUPS)}"
                )
                continue
            summary = distribution.metadata["Summary"] or ""
            plug_in = PlugIn(group, entry.name, entry, package, summary, distribution)
            if other := parts[group].get(entry.name):
                problems.append(_taken(plug_in, f"the plug-in {other.package}"))
            else:
                parts[group][entry.name] = plug_in
    return parts, tuple(problems)


def _taken(plug_in: PlugIn, by: str) -> str:
    return str(plug_in.error(f"is not used, because {by} has one of that name; rename one, or remove the plug-in"))


class Registry(MutableMapping[str, T], Generic[T]):
    """Name → part: those of this package, of plug-ins, and those that were registered.

    Iterating gives the names and imports nothing; `registry[name]` imports the part. `values()` and `items()` leave
    out plug-ins that cannot be used, with a warning for each.

    Args:
        group: see `GROUPS`
        parts: those of this package: name → the part, or "module:object", which is imported on first use
        fits: what is given a name and a part, and says whether it is one
        must: what a part must be, for messages
        reserved: gives other names of this package that no part may have
    """

    def __init__(
        self,
        group: str,
        parts: Mapping[str, str | T],
        *,
        fits: Callable[[str, Any], bool],
        must: str,
        reserved: Callable[[], Container[str]] = tuple,
    ) -> None:
        self.group, self._fits, self._must, self._reserved = group, fits, must, reserved
        self._own = dict(parts)
        self._parts: dict[str, str | T] = dict(parts)
        self._warned = set[str]()

    def plug_ins(self) -> Mapping[str, PlugIn]:
        """Plug-ins by name, without those whose names this package has."""
        return {name: each for name, each in installed()[0][self.group].items() if not self._is_own(name)}

    def problems(self) -> list[str]:
        """What is wrong with plug-ins of this group as far as it is known without importing them: taken names."""
        return [_taken(each, "glassformer") for name, each in installed()[0][self.group].items() if self._is_own(name)]

    def _is_own(self, name: str) -> bool:
        return name in self._own or name in self._reserved()

    def __getitem__(self, name: str) -> T:
        part = self._parts.get(name)
        if isinstance(part, str):
            part = self._parts[name] = imported(part)
        elif part is None and name not in self._parts:
            part = self._parts[name] = self._loaded(self.plug_ins()[name])
        return part  # type: ignore[return-value] # texts are references, and replaced above

    def _loaded(self, plug_in: PlugIn) -> T:
        part = plug_in.load()
        if not self._fits(plug_in.name, part):
            raise plug_in.error(
                f"is {safe_repr(part)}, and must be {self._must}; correct its entry point, or tell its authors"
            )
        return part  # type: ignore[no-any-return] # that is what `fits` says

    def __setitem__(self, name: str, part: T) -> None:
        self._parts[name] = part

    def __delitem__(self, name: str) -> None:
        del self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._parts, **self.plug_ins()})

    def __len__(self) -> int:
        return len({**self._parts, **self.plug_ins()})

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._parts or name in self.plug_ins())

    def values(self) -> ValuesView[T]:
        """The parts, each imported when it is reached."""
        return _Usable(self)

    def items(self) -> ItemsView[str, T]:
        """Names and parts, each imported when it is reached."""
        return _UsableItems(self)

    def usable(self, names: Iterable[str] | None = None) -> Iterator[tuple[str, T]]:
        """Names and parts, of all or of some. Warns: of each plug-in that cannot be used, once."""
        for name in self if names is None else names:
            try:
                part = self[name]
            except PlugInError as error:
                if name not in self._warned:
                    self._warned.add(name)
                    warnings.warn(str(error), stacklevel=3)
                continue
            yield name, part

    def register(self, name: str, part: T) -> None:
        """Add a part for the rest of this program. Raises: ConfigError: it is none, or the name is another's."""
        what = GROUPS[self.group][0]
        if not self._fits(name, part):
            raise ConfigError(f"the {what} {safe_repr(name)} is {safe_repr(part)}; it must be {self._must}")
        if name in self._reserved() or (name in self and self[name] is not part):
            raise ConfigError(f"there is a {what} {safe_repr(name)} already; choose another name")
        self._parts[name] = part


class _Usable(ValuesView[T]):
    _mapping: Registry[T]

    def __iter__(self) -> Iterator[T]:
        return (part for _, part in self._mapping.usable())


class _UsableItems(ItemsView[str, T]):
    _mapping: Registry[T]

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return self._mapping.usable()


def registry_of(group: str) -> Registry[Any]:
    """The registry of a group. Raises: ConfigError: there is no such group."""
    if group not in GROUPS:
        raise ConfigError(f"there is no group {safe_repr(group)}{nearest(group, GROUPS)}; allowed: {', '.join(GROUPS)}")
    registry: Registry[Any] = imported(GROUPS[group][1])
    return registry


def register(group: str, name: str, part: Any) -> None:
    """Add a task, data format, metric, command, view or family for the rest of this program, such as a notebook.

        register("tasks", "haiku", Haiku)

    Args:
        group: "tasks", "data", "metrics", "commands", "views" or "families"
        name: what it is called by
        part: what an entry point of this group names; see docs/plugins.md
    Raises: ConfigError: no such group, a part of another kind, or a name that is taken.
    """
    registry_of(group).register(name, part)


@dataclass(frozen=True, kw_only=True, repr=False)
class PlugIns(Report, kind="plug-ins"):
    """The parts that other packages provide.

    parts: group, name, package and state of each; the state is "ok" or what is wrong
    problems: what is wrong with others, such as names that are taken
    """

    parts: list[list[str]]
    problems: list[str]

    @property
    def caption(self) -> str:
        return f"{len(self.parts)} parts of plug-ins" if self.parts else "no plug-ins are installed"

    def tables(self) -> list[Table]:
        rows = [[GROUPS[group][0], name, package, state] for group, name, package, state in self.parts]
        return [Table(["part", "name", "package", "state"], rows, left=4)] if rows else []

    def remarks(self) -> list[str]:
        return self.problems


def plug_ins() -> PlugIns:
    """All parts of plug-ins, each imported to see whether it can be used."""
    parts, problems = [], list(installed()[1])
    for group in GROUPS:
        registry = registry_of(group)
        problems += registry.problems()
        for name, each in sorted(registry.plug_ins().items()):
            state = "ok"
            try:
                registry[name]
            except PlugInError as error:
                state = str(error)
            parts.append([group, name, each.package, state])
    return PlugIns(parts=parts, problems=problems)
