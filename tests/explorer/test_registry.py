"""The registry of views: requests that fit their functions, their schema, and a view that a test adds."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import jsonschema
import numpy as np
import pytest

from glassformer.errors import ConfigError
from glassformer.explorer import registry
from glassformer.explorer.describe import model_facts
from glassformer.explorer.registry import TABS, VIEWS, Tab, View, key_of, openapi, request_of
from glassformer.explorer.standalone_page import StandalonePage
from glassformer.files.schema import Doc, Schema, at_least, field_types, json_schema, metadata_of
from glassformer.inspect.session import Session
from glassformer.model import Model
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from tests.explorer.client import Client


@dataclass(frozen=True, kw_only=True)
class LengthsRequest(Schema):
    """Lengths of the tokens of a stream."""

    stream: Annotated[str, Doc("Token stream of the session.")]
    least: Annotated[Annotated[int, at_least(0)], Doc("Tokens of at least this many characters.")] = 0


@dataclass(frozen=True, repr=False)
class Lengths(Report, kind="test-lengths"):
    """The number of characters of each token."""

    tokens: list[str]
    lengths: np.ndarray

    def tables(self) -> list[Table]:
        return [Table(["token", "characters"], [[x, str(n)] for x, n in zip(self.tokens, self.lengths, strict=True)])]


def lengths(
    session: Session, *, stream: str, least: int, progress: Callable[[int, int], None] = lambda done, of: None
) -> Lengths:
    """What the view of this test computes."""
    progress(1, 1)
    texts = [token.text for token in session.streams[stream] if len(token.text) >= least]
    return Lengths(texts, np.array([len(text) for text in texts], dtype=np.float32))


@pytest.mark.parametrize("quick", [True, False])
def test_a_view_is_one_entry(serve: Callable[..., Client], monkeypatch: pytest.MonkeyPatch, quick: bool) -> None:
    answer = f"{__name__}:lengths"
    monkeypatch.setitem(registry.VIEWS, "test-lengths", View(request=LengthsRequest, answer=answer, quick=quick))
    client = serve("bert", "time flies like an arrow")
    id = client.session()["id"]
    frame = client.frame("test-lengths", s=id, stream="text", least=4)
    assert frame.kind == "test-lengths" and frame.fields["tokens"] == [
        "[CLS]",
        "time",
        "flies",
        "like",
        "arrow",
        "[SEP]",
    ]
    assert frame.arrays["lengths"].tolist() == [5, 4, 5, 4, 5, 5]
    assert "'laest' is no option; nearest: 'least'" in client.view("test-lengths", s=id, stream="text", laest=1).error
    assert (
        "least is -1; it must be a whole number from 0 up"
        in client.view("test-lengths", s=id, stream="text", least=-1).error
    )
    page = client.get("page", s=id).body.decode()
    assert (key_of("test-lengths", {"stream": "text", "least": 4}) in page) is not quick  # what took time is saved


@dataclass(frozen=True, kw_only=True)
class AllLengthsRequest(LengthsRequest):
    """Lengths of the tokens of the text."""

    stream: Annotated[str, Doc("Token stream of the session.")] = "text"


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("request_class", [AllLengthsRequest, LengthsRequest])
def test_a_saved_page_has_the_tab_that_it_opens_with(
    models: dict[str, Model],
    page_files: Path,
    monkeypatch: pytest.MonkeyPatch,
    quick: bool,
    request_class: type[Schema],
) -> None:
    view = View(request=request_class, answer=f"{__name__}:lengths", quick=quick)
    monkeypatch.setitem(registry.VIEWS, "test-lengths", view)
    monkeypatch.setitem(registry.TABS, "test-lengths", Tab())
    session, facts = models["bert"].inspect("time flies"), model_facts(models["bert"])
    key = key_of("test-lengths", {"stream": "text", "least": 0})
    for start, opened in (("v=1&view=test-lengths", True), ("v=1&view=model", False), ("", False)):
        held = f'data-key="view/{key}"' in str(StandalonePage(session, facts, ["time flies"], start=start))
        assert held is (request_class is AllLengthsRequest and (quick or opened)), start


@pytest.mark.parametrize("name", VIEWS)
def test_the_function_of_a_view_takes_what_its_request_has(name: str) -> None:
    view = VIEWS[name]
    module, _, function = view.answer.partition(":")
    parameters = inspect.signature(getattr(import_module(module), function)).parameters
    open_ended = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    fields = set(field_types(view.request)) | (set() if view.quick or view.scene else {"progress"})
    assert open_ended or fields == set(list(parameters)[1:]), "it takes a session, each field of the request, progress"
    assert all(metadata_of(hint, Doc) for hint in field_types(view.request).values())


def test_an_unknown_view_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="there is no view 'lense'; nearest: 'lens'"):
        request_of("lense", {})


def test_the_schema_of_all_views(serve: Callable[..., Client]) -> None:
    document = openapi()
    assert document["openapi"].startswith("3.1") and len(document["paths"]) == len(VIEWS)
    for name, view in VIEWS.items():
        body = document["paths"][f"/api/view/{name}"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        jsonschema.Draft202012Validator.check_schema(body)
        assert set(body["properties"]) == {"s", *json_schema(view.request)["properties"]}
    row = document["paths"]["/api/view/row"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    good: dict[str, Any] = {"s": "x", "map": "self", "layer": 0, "head": 1, "query": 2}
    jsonschema.validate(good, row)
    for wrong in ({**good, "layer": -1}, {**good, "quary": 1}, {"s": "x"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, row)
    answer = serve("bert", "time flies").ask("/api/openapi.json")
    assert answer.status == 200 and answer.json == json.loads(json.dumps(document))


def test_every_tab_has_a_file_in_the_page() -> None:
    folder = Path(__file__).parents[2] / "web" / "src" / "views"
    for name in TABS:
        module = (folder / f"{name}.tsx").read_text()
        assert f'export const view: ViewModule = {{\n  name: "{name}", title: ' in module, name
