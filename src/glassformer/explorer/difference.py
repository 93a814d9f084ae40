"""Difference view: the session next to another pass, of another model, another precision or another text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from glassformer.data.sequence import shorten
from glassformer.errors import DataError
from glassformer.explorer.binary_frames import encode
from glassformer.explorer.describe import model_facts
from glassformer.explorer.registry import Reading, fields_of
from glassformer.explorer.requests import DifferenceRequest
from glassformer.explorer.session_runs import OtherModel, SessionFactory, SessionRuns
from glassformer.inspect.difference import THRESHOLD, PassDifference
from glassformer.inspect.session import Progress, Session
from glassformer.loaded_model import LoadedModel

if TYPE_CHECKING:
    from glassformer.explorer.scene import Scene


def compared(
    factory: SessionFactory, other: LoadedModel, inspect: Callable[..., Session], precision: str | None
) -> SessionFactory:
    """The factory with a model to compare with.

    Args:
        inspect: that makes its passes
        precision: of the same model, by which it is named; None = by its name
    """
    own, its = factory.facts, model_facts(other)
    same = precision is not None or own.name == its.name
    names = (own.dtype, precision or its.dtype) if same else (own.name, its.name)
    if names[0] == names[1]:
        names = (own.revision, its.revision)
    against = OtherModel(names, inspect)
    return replace(factory, against=against, facts=replace(own, against=names[1]))


NAMED = 40
"""Characters of a text by which a pass is named."""


def difference(scene: Scene, *, other: str | None, map: str | None) -> bytes:
    """The difference of the session on screen from another pass.

    Raises: DataError: there is nothing to compare with, or as `Session.difference`.
    """
    return _frame(_difference(scene.runs, scene.session, other, map, scene.progress))


def difference_readings(runs: SessionRuns, session: Session) -> list[Reading]:
    """What a saved page has of it: the difference from the model that the page compares with, if any."""
    if runs.factory.against is None:
        return []
    frame = _frame(_difference(runs, session, None, None, lambda done, of: None))
    return [Reading("difference", fields_of(DifferenceRequest()), frame)]


def _difference(
    runs: SessionRuns, session: Session, other: str | None, map: str | None, progress: Progress
) -> PassDifference:
    against = runs.factory.against
    if other is not None:
        if runs.facts.modality is not None:
            raise DataError(f"this page looks at one {runs.facts.modality}; another model is compared by --against")
        runs.check_length([other])
        names = shorten(session.texts[0], NAMED), shorten(other, NAMED)
        return session.difference(runs.begin((other,)).result(), map, names=names, progress=progress)
    if against is None:
        raise DataError("write another text to compare with; another model, or precision, is compared by --against")
    names = against.names
    return session.difference(against.inspect(*session.texts), map, names=names, progress=progress)


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
