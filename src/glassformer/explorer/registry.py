"""Registry of views: what a page may ask of a session, the request of each, and what answers it.

    POST /api/view/lens {"s": SESSION, "target": " Paris"}     a line a step: {"done", "of"} … {"ready": {"key"}}
    GET  /api/frame?s=SESSION&key=KEY                          its frame
    POST /api/view/row {"s": SESSION, "map": "self", …}        a quick view: its frame at once

To add a view: an entry here, the function that it names, and web/src/views/NAME.tsx; see docs/adding-a-view.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from glassformer.errors import ConfigError, nearest
from glassformer.explorer.binary_frames import as_frame_array, encode
from glassformer.explorer.requests import (
    AskRequest,
    ContextsRequest,
    DifferenceRequest,
    DistributionRequest,
    EmbeddingRequest,
    EmptyRequest,
    LinesRequest,
    LookupRequest,
    MasksRequest,
    NeighboursRequest,
    NeuronRequest,
    OverviewRequest,
    PassageRequest,
    PatchRequest,
    ProjectionRequest,
    RouteRequest,
    RowRequest,
    SimilarityRequest,
    SweepRequest,
    TileRequest,
    WeightRequest,
    WithoutRequest,
)
from glassformer.files import safe_repr
from glassformer.files.lazy import imported
from glassformer.files.schema import Schema, field_types, json_schema, parse
from glassformer.inspect.options import IntegratedGradientsRequest, LensRequest, QuantisationRequest
from glassformer.plugins import Registry
from glassformer.reports.page import part_data
from glassformer.reports.report import Report, plain

if TYPE_CHECKING:
    from glassformer.explorer.describe import ModelFacts
    from glassformer.inspect.session import Progress, Session


@dataclass(frozen=True)
class Tab:
    """A tab of the page.

    purpose: what it does, for the error where a model does not have it
    has: whether a model has it
    title: of a tab that the page has no drawing for: its words; the report that answers the view is shown
    sentence: of such a tab: what one sees
    """

    purpose: str = ""
    has: Callable[[ModelFacts], bool] = lambda facts: True
    title: str = ""
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class View:
    """A view of the page.

    request: the class of its request, which checks it
    answer: "module:function", called with the session and the fields of the request; gives a `Report`, a dict, or a
        binary frame
    quick: answered at once; else in a thread, by a function that takes `progress`, and kept with the session and its
        saved page. Such jobs of one view run one after another, since each may take hundreds of megabytes
    scene: the function takes the whole `Scene` in place of the session
    passes: about how many forward passes it costs at least. A saved page has it by default where these are quick; of a
        view that is not quick and has none, only where the page opens with it
    tab: of a view of a plug-in: its tab, whose report the page draws as it draws any report
    """

    request: type[Schema]
    answer: str
    quick: bool = False
    scene: bool = False
    passes: float | None = None
    tab: Tab | None = None

    def frame(self, name: str, scene: Any, request: Schema) -> bytes:
        """Its answer as a binary frame; the function is imported when it is first called.

        Args:
            scene: a `Scene`, or what the page of another program has in its place
        """
        if not self.scene:
            return self.of_session(name, scene.session, request, scene.progress)
        return self._frame(name, self._answer(scene, request))

    def of_session(self, name: str, session: Session, request: Schema, progress: Progress) -> bytes:
        """The same of a session alone, for a saved page; of a view that takes no `Scene`."""
        return self._frame(name, self._answer(session, request, **({} if self.quick else {"progress": progress})))

    def _frame(self, name: str, answer: bytes | Report | Mapping[str, Any]) -> bytes:
        if self.tab is None or not self.tab.title:
            return frame_of(name, answer)
        if not isinstance(answer, Report):
            raise ConfigError(f"the view {name!r} answers with a {type(answer).__name__}; its tab shows a Report")
        return encode(name, {}, part_data(answer))

    def _answer(self, about: Any, request: Schema, **more: Any) -> bytes | Report | Mapping[str, Any]:
        fields = {field: getattr(request, field) for field in field_types(type(request))}
        answer: bytes | Report | Mapping[str, Any] = imported(self.answer)(about, **fields, **more)
        return answer

    @property
    def by_default(self) -> bool:
        """Whether a session alone is enough to ask it: each field of its request has a default."""
        return not self.scene and all(
            x.default is not MISSING or x.default_factory is not MISSING
            for x in fields(self.request)  # type: ignore[arg-type] # requests are dataclasses
        )


def frame_of(name: str, answer: bytes | Report | Mapping[str, Any]) -> bytes:
    """What answers a view as a binary frame: of a report its arrays by name, and its other keys as JSON."""
    if isinstance(answer, bytes):
        return answer
    if not isinstance(answer, Report):
        return encode(name, {}, plain(answer))
    values = {key: getattr(answer, key) for key in answer.KEYS or field_types(type(answer))}
    arrays = {key: value for key, value in values.items() if isinstance(value, Tensor | np.ndarray)}
    numbers = {key: as_frame_array(value) for key, value in arrays.items()}
    return encode(name, numbers, {key: plain(value) for key, value in values.items() if key not in arrays})


VIEWS: Registry[View] = Registry(
    "views",
    {
        "overview": View(request=OverviewRequest, answer="glassformer.explorer.views:overview", quick=True),
        "lines": View(request=LinesRequest, answer="glassformer.explorer.views:lines", quick=True),
        "tile": View(request=TileRequest, answer="glassformer.explorer.views:tile", quick=True),
        "row": View(request=RowRequest, answer="glassformer.explorer.views:row", quick=True),
        "neuron": View(request=NeuronRequest, answer="glassformer.explorer.views:neuron", quick=True),
        "tour": View(request=EmptyRequest, answer="glassformer.explorer.tour:tour", quick=True, scene=True),
        "without": View(request=WithoutRequest, answer="glassformer.explorer.tour:without", quick=True),
        "lookup": View(request=LookupRequest, answer="glassformer.explorer.views:lookup", quick=True),
        "lens": View(request=LensRequest, answer="glassformer.explorer.readings:lens", passes=8),
        "attribution": View(
            request=IntegratedGradientsRequest, answer="glassformer.explorer.readings:attribution", passes=50
        ),
        "quantisation": View(request=QuantisationRequest, answer="glassformer.inspect.quantisation:layer_quantisation"),
        "patch": View(request=PatchRequest, answer="glassformer.explorer.patches:patch", quick=True, scene=True),
        "sweep": View(request=SweepRequest, answer="glassformer.explorer.patches:sweep", scene=True),
        "similarity": View(request=SimilarityRequest, answer="glassformer.explorer.similarity:similarity", scene=True),
        "architecture": View(request=EmptyRequest, answer="glassformer.inspect.architecture:architecture", passes=0.05),
        "weight": View(request=WeightRequest, answer="glassformer.inspect.architecture:weight_numbers", passes=0.05),
        "route": View(request=RouteRequest, answer="glassformer.inspect.route:route", passes=4),
        "masks": View(request=MasksRequest, answer="glassformer.explorer.patterns:masks", quick=True),
        "difference": View(request=DifferenceRequest, answer="glassformer.explorer.difference:difference", scene=True),
        "contexts": View(request=ContextsRequest, answer="glassformer.explorer.contexts:contexts", scene=True),
        "embedding": View(
            request=EmbeddingRequest, answer="glassformer.explorer.embeddings:points", quick=True, scene=True
        ),
        "places": View(
            request=EmbeddingRequest, answer="glassformer.explorer.embeddings:places", quick=True, scene=True
        ),
        "neighbours": View(
            request=NeighboursRequest, answer="glassformer.explorer.embeddings:neighbours", quick=True, scene=True
        ),
        "projection": View(request=ProjectionRequest, answer="glassformer.explorer.embeddings:projection", scene=True),
        "distribution": View(
            request=DistributionRequest, answer="glassformer.explorer.traces:distribution", quick=True, scene=True
        ),
        "store": View(request=EmptyRequest, answer="glassformer.retrieval.page:described", quick=True, scene=True),
        "ask": View(request=AskRequest, answer="glassformer.retrieval.page:answered", quick=True, scene=True),
        "passage": View(request=PassageRequest, answer="glassformer.retrieval.page:explained", quick=True, scene=True),
    },
    fits=lambda name, part: isinstance(part, View),
    must="a glassformer.explorer.registry.View",
)
"""Name → view: the only list of them on this side of the page; with those of plug-ins."""


TABS: dict[str, Tab] = {
    **dict.fromkeys(("model", "head", "matrix", "neuron"), Tab()),
    "generate": Tab("shows a text being generated by a language-model head", lambda facts: facts.can_generate),
    "sound": Tab("shows the transcript of a model that transcribes speech", lambda facts: facts.can_transcribe),
    "patch": Tab("shows what a component does to a prediction", lambda facts: facts.predicts is not None),
    "similarity": Tab("compares two texts by a model that makes vectors of them", lambda facts: facts.can_compare),
    "difference": Tab(
        "compares texts, precisions or models",
        lambda facts: facts.modality is None or bool(facts.against or facts.precisions),
    ),
    "contexts": Tab("searches a corpus: give one by corpus= (--corpus)", lambda facts: facts.corpus is not None),
    "embedding": Tab(),
    "lens": Tab("reads every layer by the model's head for tokens or labels", lambda facts: facts.reads),
    "attribution": Tab("explains an output of the model's head for tokens or labels", lambda facts: facts.reads),
    "route": Tab(),
    "quantisation": Tab(),
    "masks": Tab(),
    "architecture": Tab(),
}
"""Name → tab, in their order; web/src/views/NAME.tsx draws it."""


OF_A_TAB = {"sweep": "patch", "weight": "architecture"}
"""View → the tab that shows it, where that has another name."""


def tabs() -> dict[str, Tab]:
    """All tabs, those of plug-ins at the end. Warns: of a view of a plug-in that cannot be used."""
    return {**TABS, **{name: view.tab for name, view in VIEWS.items() if view.tab is not None}}


def has_report_views() -> bool:
    """Whether plug-ins have views that the program of reports draws."""
    return any(tab.title for tab in tabs().values())


@dataclass(frozen=True)
class Reading:
    """The frame of a view, and the request that it answers."""

    view: str
    request: dict[str, Any]
    frame: bytes

    @property
    def key(self) -> str:
        """A short name of view and request."""
        return key_of(self.view, self.request)

    @property
    def whole(self) -> bool:
        """Whether it has all that there is: not so the lens of some columns, and an attribution without its words."""
        return self.request.get("count") is None and self.request.get("steps") != 0

    @property
    def without_steps(self) -> tuple[str, dict[str, Any]]:
        """What it answers, from however many gradients."""
        return self.view, {name: value for name, value in self.request.items() if name != "steps"}

    def entry(self) -> dict[str, Any]:
        """Its line in the description of a standalone page."""
        return {"view": self.view, "request": self.request, "key": self.key}


def key_of(name: str, request: Mapping[str, Any]) -> str:
    """A short name of a view and its request."""
    return hashlib.sha256(json.dumps([name, request]).encode()).hexdigest()[:12]


def request_of(name: str, fields: Mapping[str, Any]) -> tuple[View, Schema]:
    """A view by name, and its request. Raises: ConfigError: no such view, or fields that it does not take."""
    if name not in VIEWS:
        raise ConfigError(f"there is no view {safe_repr(name)}{nearest(name, VIEWS)}; allowed: {', '.join(VIEWS)}")
    view = VIEWS[name]
    return view, parse(view.request, fields)


def fields_of(request: Schema) -> dict[str, Any]:
    """A request as JSON has it."""
    fields: dict[str, Any] = json.loads(json.dumps(asdict(request)))  # type: ignore[call-overload] # requests are dataclasses
    return fields


def openapi() -> dict[str, Any]:
    """The requests of all views as an OpenAPI document, for programs that talk to a page. Source: OpenAPI 3.1."""
    session = {"type": "string", "description": "Id of the session."}
    paths = {}
    for name, view in VIEWS.items():
        schema = json_schema(view.request)
        schema["properties"] = {"s": session, **schema["properties"]}
        body = {"content": {"application/json": {"schema": schema}}, "required": True}
        answer = "a binary frame" if view.quick else "lines of JSON: progress, then the key of a binary frame"
        paths[f"/api/view/{name}"] = {
            "post": {
                "operationId": name,
                "summary": schema["description"],
                "requestBody": body,
                "responses": {"200": {"description": answer}},
            }
        }
    return {"openapi": "3.1.0", "info": {"title": "Views of the Glassformer explorer", "version": "1"}, "paths": paths}
