"""What the steps of a lesson show, for its saved page, which has no model to compute it.

    steps ──their addresses──> requests of views, each once ──> readings; a text where a step shows how one is written

A page with its own tour has only what is quick.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from urllib.parse import parse_qsl

from glassformer.errors import DataError
from glassformer.explorer.registry import TABS, VIEWS, Reading, fields_of, key_of, tabs
from glassformer.explorer.scene import Scene
from glassformer.explorer.tour import tour
from glassformer.explorer.traces import StoredTrace
from glassformer.files.schema import Schema, field_types, parse_query

STATE: dict[str, dict[str, str]] = {
    "lens": {"target": "r.follow"},
    "attribution": {name: f"r.{name}" for name in ("target", "at", "against")},
    "sweep": {
        **{"map": "map", "position": "q"},
        **{name: f"p.{name}" for name in ("kind", "mode", "other", "direction", "align", "target", "against")},
    },
}
"""View → the fields of its request, and their names in the address of a page; of other views `c.` and the field."""

UNASKED = {"sweep": {"kind": "heads", "mode": "zero"}}
"""Fields that a page chooses where its address does not name them."""


def lesson_views(
    scene: Scene, written: StoredTrace | None = None
) -> tuple[list[Reading], tuple[StoredTrace, int] | None]:
    """What the views of a lesson's steps show.

    Args:
        written: the text that was written already; None = where a step shows how, one is
    Returns: readings, and a text with the node of its prompt where a step shows how one is written; nothing where the
        page plays its own tour.
    Raises: DataError: as `tour`, or a text too long to be continued.
    """
    if scene.runs.factory.lesson is None:
        return [], None
    addresses = [dict(parse_qsl(step.address)) for step in tour(scene).steps]
    asked = {key_of(name, fields_of(request)): (name, request) for name, request in _requests(scene, addresses)}
    readings = []
    for name, request in asked.values():
        with suppress(DataError):  # such as no gap to fill: the view says so, here and in the page
            readings.append(Reading(name, fields_of(request), VIEWS[name].frame(name, scene, request)))
    if written is not None:
        return readings, (written, 0)
    if all(pairs["view"] != "generate" for pairs in addresses):
        return readings, None
    stored = scene.traces.begin(scene.run.texts[0], {})
    stored.result = stored.trace.write(stored.options)
    return readings, (stored, 0)


def _requests(scene: Scene, addresses: list[dict[str, str]]) -> Iterator[tuple[str, Schema]]:
    """The request of each step whose view the page has to store. Views of heads, maps and pairs are in any page."""
    stored = {*STATE, "quantisation", "masks", "difference", *(tabs().keys() - TABS.keys())}
    for pairs in addresses:
        name = {"patch": "sweep"}.get(pairs["view"], pairs["view"])
        if name in stored and (name != "difference" or not pairs.keys().isdisjoint(("c.other", "c.precision"))):
            yield name, _request(scene, name, pairs)


def _request(scene: Scene, name: str, pairs: Mapping[str, str]) -> Schema:
    """The request of a view, as the page makes it of an address."""
    request, session = VIEWS[name].request, scene.session
    names = STATE.get(name) or {field: f"c.{field}" for field in field_types(request)}
    fields = {**UNASKED.get(name, {}), **{field: pairs[key] for field, key in names.items() if key in pairs}}
    if "map" in field_types(request) and (name == "sweep" or len(session.maps) > 1):
        fields["map"] = pairs["map"]
    if "c.zero" in pairs:
        fields["symmetric"] = str(int(pairs["c.zero"] == "symmetric"))
    predicting = "target" if "target" in session.streams else next(iter(session.streams))
    if name == "sweep" and (scene.runs.facts.predicts != "token" or session.maps[pairs["map"]].queries != predicting):
        fields.pop("position", None)
    return parse_query(request, fields.items())
