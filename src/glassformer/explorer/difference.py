"""Difference view: the session next to another pass, of another model, another precision or another text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from glassformer.data.sequence import shorten
from glassformer.errors import ConfigError, DataError
from glassformer.explorer.binary_frames import encode
from glassformer.explorer.describe import ModelFacts
from glassformer.explorer.registry import Reading, fields_of
from glassformer.explorer.requests import DifferenceRequest
from glassformer.explorer.session_runs import SessionRuns
from glassformer.files import safe_repr
from glassformer.inspect.difference import THRESHOLD, PassDifference
from glassformer.inspect.session import Progress, Session

if TYPE_CHECKING:
    from glassformer.explorer.scene import Scene


def names_apart(own: ModelFacts, other: ModelFacts) -> tuple[str, str]:
    """What tells two models apart in a sentence: their names, or what differs where these are the same."""
    pairs = [(own.name, other.name), (own.dtype, other.dtype), (own.revision, other.revision)]
    return next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])


NAMED = 40
"""Characters of a text by which a pass is named."""


def difference(scene: Scene, *, other: str | None, precision: str | None, map: str | None) -> bytes:
    """The difference of the session on screen from another pass.

    Raises: DataError: there is nothing to compare with, or as `Session.difference`. ConfigError: no such precision.
    """
    session, runs = scene.session, scene.runs
    if other is None:
        return _frame(_other_model(runs, session, precision, map, scene.progress))
    if runs.facts.modality is not None:
        raise DataError(
            f"this page looks at one {runs.facts.modality}; another model, or precision, is compared by --against"
        )
    runs.check_length([other])
    names = shorten(session.texts[0], NAMED), shorten(other, NAMED)
    second = runs.begin((other,)).result()
    return _frame(session.difference(second, map, names=names, progress=scene.progress))


def difference_readings(runs: SessionRuns, session: Session) -> list[Reading]:
    """What a saved page has of it: the difference from the model that the page compares with, if any."""
    if runs.factory.against is None:
        return []
    frame = _frame(_other_model(runs, session, None, None, lambda done, of: None))
    return [Reading("difference", fields_of(DifferenceRequest()), frame)]


def _other_model(
    runs: SessionRuns, session: Session, precision: str | None, map: str | None, progress: Progress
) -> PassDifference:
    other = runs.factory.against
    if precision is not None:
        if precision not in runs.facts.precisions:
            allowed = ", ".join(runs.facts.precisions) or "none: its weights are levels, or another engine runs it"
            raise ConfigError(f"precision is {safe_repr(precision)}; allowed for this model: {allowed}")
        other = runs.factory.in_precision(precision)
    if other is None:
        raise DataError("write another text, or choose a precision; another model is compared by --against")
    return session.difference(other.inspect(*session.texts), map, names=other.names, progress=progress)


def _frame(result: PassDifference) -> bytes:
    scale = result.shifts.abs().flatten(2).amax(-1)  # [L, H]
    levels = result.shifts / scale.clamp_min(torch.finfo(torch.float32).tiny)[..., None, None]
    return encode(
        "difference",
        {
            "distance": result.distance,
            "length": result.length,
            "heads": result.heads,
            "shifts": (levels * 127 + 127).round().to(torch.uint8),
            "scale": scale,
        },
        {
            "names": list(result.names),
            "map": result.map,
            "queries": [list(pair) for pair in result.queries],
            "keys": [list(pair) for pair in result.keys],
            "left_out": list(result.left_out),
            "levels": result.levels,
            "bins": list(result.bins),
            "threshold": THRESHOLD,
        },
    )
