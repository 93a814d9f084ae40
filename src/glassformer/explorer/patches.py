"""Patch views: components of the session on screen are replaced, one patch, or a sweep over many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from glassformer.core.quantised import count_weights
from glassformer.errors import DataError
from glassformer.explorer.readings import QUICK
from glassformer.explorer.registry import Reading, fields_of, frame_of
from glassformer.explorer.requests import SweepRequest
from glassformer.files import null_for_nan
from glassformer.inspect.interruption import before_each_block
from glassformer.inspect.options import PatchSettings
from glassformer.inspect.patching.readout import predicts
from glassformer.inspect.patching.sweep import PatchSweep
from glassformer.inspect.session import Session

if TYPE_CHECKING:
    from glassformer.explorer.scene import Scene


def patch(scene: Scene, *, components: list[str], **options: Any) -> dict[str, Any]:
    """The effect of replacing components together: the prediction before and after."""
    result = scene.session.patch(*components, **_with_source(scene, options))
    return {**result.to_dict(), "at": result.patching.metric.readout.position}


def sweep(scene: Scene, *, kind: str, map: str | None, **options: Any) -> dict[str, Any]:
    """The effect of each component of a kind."""
    options, session = _with_source(scene, options), scene.session
    with before_each_block(session.network, scene.check):  # of a large model, many rows take seconds
        return sweep_data(session.sweep(kind, map, **options, progress=scene.progress))


def _with_source(scene: Scene, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a request; the pass over the other text is run, or waited for."""
    other = options.pop("other")
    if other is None:
        return options
    runs = scene.runs
    if runs.facts.modality is not None:
        raise DataError(f"this page looks at one {runs.facts.modality}, and swaps nothing with another")
    runs.check_length([other])
    return {**options, "source": runs.begin((other,)).result()}


def sweep_data(sweep: PatchSweep) -> dict[str, Any]:
    """A sweep as the page reads it: the map, and of each patch the most likely classes."""
    metric = sweep.patching.metric
    names = {change.number: change.name for changes in sweep.changes for change in changes}
    names |= {metric.target: metric.readout.table.name(metric.target)}
    before = {change.number: change for changes in sweep.changes for change in changes}
    classes = {
        str(number): {
            "name": names[number],
            "logit": change.logit_before,
            "probability": change.probability_before,
        }
        for number, change in before.items()
    }
    after = [
        [
            {"number": change.number, "logit": change.logit_after, "probability": change.probability_after}
            for change in changes
        ]
        for changes in sweep.changes
    ]
    return {
        **sweep.to_dict(),
        "target": names[metric.target],
        "against": None if metric.against is None else metric.readout.table.name(metric.against),
        "at": metric.readout.position,
        "classes": null_for_nan(classes),
        "changes": null_for_nan(after),
    }


LEAST_TOKENS = 16
"""A pass over fewer tokens takes about as long: it reads all weights."""


def quick_sweeps(session: Session, map: str, *, wanted: bool) -> list[Reading]:
    """What a saved page contains by default: each head switched off, where that is quick; or where it opens with it."""
    passes = session.maps[map].layers * session.maps[map].heads
    tokens = sum(len(tokens) for tokens in session.streams.values())
    size = count_weights(session.network) * max(LEAST_TOKENS, tokens)
    if predicts(session.network) is None or not (wanted or size * passes < QUICK):
        return []
    try:
        sweep_of_heads = session.sweep("heads", map)
    except DataError:  # nothing says at which token the prediction is read
        return []
    return [sweep_reading(sweep_of_heads, SweepRequest(mode="zero", kind="heads", map=map))]


def reading_of(result: PatchSweep, settings: PatchSettings) -> Reading:
    """A sweep that was computed by these settings, for a saved page."""
    about, source = result.patching, result.patching.source
    own: dict[str, Any] = {"kind": result.component_kind, "map": result.map, "mode": about.mode, "align": about.align}
    own["other"] = source.texts[0] if source is not None and about.mode == "swap" else None
    same = {name: getattr(settings, name) for name in ("direction", "target", "against", "position")}
    return sweep_reading(result, SweepRequest(**own, **same))


def sweep_reading(result: PatchSweep, request: SweepRequest) -> Reading:
    """A sweep that is there already, for a saved page."""
    return Reading("sweep", fields_of(request), frame_of("sweep", sweep_data(result)))
