"""Options of trainings and searches: values in place of those of a configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from glassformer.errors import ConfigError
from glassformer.files import safe_repr
from glassformer.files.schema import Count, Doc, Schema


def set_value(values: dict[str, Any], path: str, value: Any) -> None:
    """Set a nested value of a configuration by its path, such as `training.seed`.

    Raises: ConfigError: the path goes through something that is no mapping.
    """
    *outer, last = path.split(".")
    for name in outer:
        inner = values.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{path}: {name} is {safe_repr(inner)}, which has no {last!r}")
        values = inner
    values[last] = value


def with_values(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a configuration with other values, each by its path. Raises: ConfigError: as `set_value`."""
    changed = deepcopy(dict(values))
    for path, value in changes.items():
        set_value(changed, path, value)
    return changed


@dataclass(frozen=True, kw_only=True)
class SearchPlan(Schema):
    """The section `search` of a configuration: search space, number of trials, and the metric to optimise."""

    space: dict[str, Any]
    trials: Count = 20
    metric: str | None = None
    keep_models: bool = field(default=False)


@dataclass(frozen=True, kw_only=True)
class SearchOptions(Schema):
    """Values in place of those of a search's configuration."""

    trials: Annotated[Count | None, Doc("Total number of trials, including those of an interrupted search.")] = None
    output: Annotated[str | None, Doc("Output folder of the search.")] = None

    def folder(self, values: Mapping[str, Any]) -> Path:
        """The output folder, of a search or of its configuration."""
        return Path(self.output or values.get("output") or "runs/search")
