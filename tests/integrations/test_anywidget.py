"""A page in the cell of a notebook: the kernel sends the page, and answers what it asks, by messages alone."""

from __future__ import annotations

import base64
import json
import re
import socket
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from glassformer.errors import WeightsError
from glassformer.explorer.binary_frames import decode
from glassformer.explorer.look import InitialView, Look
from glassformer.explorer.session_runs import SessionRuns
from glassformer.explorer.still import REPORTS
from glassformer.integrations.anywidget import CellWidget
from glassformer.model import Model, load
from glassformer.reports.charts import Series, SeriesLine
from glassformer.reports.heat_map import HeatMap
from glassformer.reports.report import Display, LivePage
from glassformer.reports.table import Table
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.transcription_trace import TranscriptionTrace
from tests.e2e.tiny_models import make_folder, word_tokenizer
from tests.tasks.transcribe.tones import RATE_HZ, spoken, whisper_folder

TEXT, OTHER = "time flies like an arrow", "fruit flies"
WAIT = 20  # seconds, on a busy machine


class Notebook:
    """The front end's half of a widget: it sends messages as the frame does, and collects the kernel's."""

    def __init__(self, page: LivePage) -> None:
        self.widget = CellWidget(page)
        self.received = list[tuple[dict[str, Any], bytes]]()
        self.news = threading.Condition()
        self.widget.send = self._take
        self.last = 0

    def _take(self, content: dict[str, Any], buffers: list[bytes] | None = None) -> None:
        json.dumps(content)  # as the kernel sends it
        with self.news:
            self.received.append((content, b"".join(buffers or ())))
            self.news.notify()

    def send(self, **message: Any) -> None:
        self.widget._handle_custom_msg({"view": "v", **message}, [])

    def first(self, dark: bool = False) -> tuple[dict[str, Any], bytes]:
        self.send(id=0, target="dark" if dark else "light")
        return self.wait(lambda: next((x for x in self.received if x[0]["id"] == 0), None))

    def wait(self, found: Callable[[], Any]) -> Any:
        with self.news:
            assert self.news.wait_for(lambda: found() is not None, WAIT), self.received
            return found()

    def ask(self, target: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and bytes of an answer."""
        self.last += 1
        method, id = "GET" if body is None else "POST", self.last
        self.send(id=id, method=method, target=target, body="" if body is None else json.dumps(body))

        def whole() -> list[tuple[dict[str, Any], bytes]] | None:
            parts = [each for each in self.received if each[0]["id"] == id]
            return parts if len(parts) > 1 and not parts[-1][0]["more"] else None

        (head, _), *parts = self.wait(whole)
        return head["status"], dict(head["headers"]), b"".join(content for _, content in parts)

    def run(self, *texts: str) -> dict[str, Any]:
        """The session of these texts."""
        status, headers, content = self.ask("/api/runs", {"texts": list(texts)} if texts else {})
        assert status == 200 and headers["content-type"] == "application/x-ndjson"
        session: dict[str, Any] = json.loads(content.splitlines()[-1])["ready"]
        return session


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = make_folder(tmp_path_factory.mktemp("model"), "bert")
    word_tokenizer(framed=True).save(str(folder / "tokenizer.json"))
    return load(folder)


@pytest.fixture
def shown(model: Model) -> Iterator[Look]:
    page = Look(SessionRuns(model.session_factory()), [TEXT], InitialView(view="head", layer=0, heads=[0]))
    yield page
    page.close()


def test_a_cell_asks_what_a_page_asks_and_opens_no_port(shown: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "listen", None)  # opening a port fails
    notebook = Notebook(shown.live_page())
    head, page = notebook.first(dark=True)
    assert head["still"] == notebook.widget.model_id
    assert (
        b'<html data-theme="dark" data-start="v=1&amp;view=head&amp;l=0&amp;h=0"' in page
        and b"token" not in page[:2000]
    )
    session = notebook.run()
    assert session["texts"] == [TEXT]
    row = {"s": session["id"], "map": "self", "layer": 0, "head": 0, "query": 2}
    status, headers, content = notebook.ask("/api/view/row", row)
    assert status == 200 and headers["content-type"] == "application/octet-stream"
    assert decode(content).arrays["probs"].tolist() == shown.session.head(0, 0).probs(2)[0].tolist()
    assert notebook.run(OTHER)["texts"] == [OTHER]
    status, _, content = notebook.ask("/api/view/rwo", {})
    assert status == 400 and "nearest: 'row'" in json.loads(content)["error"]
    assert notebook.ask("/api/nothing")[0] == 404
    status, _, content = notebook.ask(f"/api/page?s={session['id']}")
    assert status == 200 and content.startswith(b"<!doctype html>")


def test_no_trait_grows_with_what_is_shown(shown: Look) -> None:
    notebook = Notebook(shown.live_page())
    before = json.dumps(notebook.widget.get_state())
    notebook.first()
    notebook.run(OTHER)
    after = json.dumps(notebook.widget.get_state())
    assert after == before and len(after) < 5_000


def test_what_is_not_waited_for_is_stopped_and_forgotten(shown: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(shown.live_page())
    notebook.first()
    run = shown.run
    run.result()
    turn = shown.explorer.runs._turn
    with turn:  # passes wait
        notebook.send(id=7, method="POST", target="/api/runs", body=json.dumps({"texts": [OTHER]}))
        notebook.wait(lambda: next((x for x in notebook.received if x[0]["id"] == 7), None))
        waiting = shown.explorer.runs.begin([OTHER])
        notebook.send(id=7, stop=True)
        assert waiting.wait(WAIT) and waiting.stopped
    notebook.send(gone=True)
    assert shown.run is not run, "the session was kept where no cell shows it"
    assert shown.session.texts == (TEXT,)


class Losses(Display):
    """A report with a chart."""

    caption = "loss by step"

    def tables(self) -> list[Table]:
        return [Table(["step", "loss"], [["1", "2.0"], ["2", "1.0"]])]

    def charts(self) -> list[Series]:
        return [Series(title="Loss", x_label="step", lines=[SeriesLine("training", [1, 2], [2.0, 1.0])])]


def test_a_report_with_charts_is_its_page_and_others_are_their_tables() -> None:
    page = Losses().live_page()
    assert page is not None and page.still() == Losses()._repr_html_() and "<td>2.0</td>" in page.still()
    _, html = Notebook(page).first(dark=True)
    assert html.startswith(b'<!doctype html>\n<html data-theme="dark" lang="en">') and b'data-report="report"' in html
    assert HeatMap(np.eye(2)).live_page() is None


def test_a_page_that_cannot_be_made_is_said() -> None:
    def broken() -> str:
        raise OSError("the disk is gone")

    notebook = Notebook(LivePage(html=broken, still=str))
    head, content = notebook.first()
    assert head["failure"] == "OSError: the disk is gone" and not content


def test_weights_that_are_nan_are_named(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "bert")
    word_tokenizer(framed=True).save(str(folder / "tokenizer.json"))
    model = load(folder)
    with torch.no_grad():
        for each in model.network.get_submodule("blocks.0.attn").parameters():
            each.fill_(float("nan"))
    page = Look(SessionRuns(model.session_factory()), [TEXT])
    notebook = Notebook(page.live_page())
    notebook.first()
    _, _, content = notebook.ask("/api/runs", {})
    assert "hold NaN" in content.decode() and "blocks.0.attn.qkv.weight" in content.decode()
    with pytest.raises(WeightsError, match=r"hold NaN.*blocks\.0\.attn\.qkv\.weight"):
        page.live_page().still()
    page.close()


def test_a_sound_is_heard_by_the_kernel(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "tones.wav", np.concatenate([spoken("ab", np.random.default_rng(0))] * 3), RATE_HZ)
    model = load(whisper_folder(tmp_path / "whisper"))
    options = TranscriptionOptions(num_beams=1, temperature=0.0, word_timestamps=True)
    factory = replace(model.session_factory(), transcribe=lambda file: TranscriptionTrace(model, file, options))
    page = Look(SessionRuns(factory), [str(tmp_path / "tones.wav")], InitialView(view="sound"))
    assert "Run the cell" in page.live_page().still()
    notebook = Notebook(page.live_page())
    _, html = notebook.first()
    assert b"view=sound" in html[:2000]
    status, _, content = notebook.ask("/api/transcribe", {})
    heard = json.loads(content.splitlines()[-1])["ready"]
    assert status == 200 and heard["name"] == "tones.wav" and heard["playable"]
    page.close()


def test_what_is_saved_is_a_still_picture_and_shows_no_key(shown: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    from IPython import display

    saved = list[tuple[Any, dict[str, Any]]]()
    monkeypatch.setattr(display, "display", lambda *each, **options: saved.append((each[0], options)))
    shown._ipython_display_()
    (still, raw), (widget, _) = saved
    assert isinstance(widget, CellWidget) and raw == {"raw": True}
    assert still["text/plain"] == repr(shown) == f"Look({TEXT!r}: not served)"
    html = still["text/html"]
    assert html.startswith(f'<div data-glassformer="{widget.model_id}">') and "<script" not in html
    assert "Attention of self layer 0 head 0" in html and "Run the cell" in html and ">arrow<" in html
    assert len(html) < 20_000 and shown._token not in html
    (picture,) = re.findall(r'<img alt="[^"]+" src="data:image/svg\+xml;base64,([^"]+)">', html)
    root = ElementTree.fromstring(base64.b64decode(picture))
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and len(list(root.iter())) > 20
    assert "<svg" not in html, "which readers that filter HTML take out"


def test_without_anywidget_the_page_is_in_its_frame(shown: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.reports.report.find_spec", lambda name: None)
    with pytest.raises(NotImplementedError):
        shown._ipython_display_()
    assert shown._repr_html_().startswith("<iframe ")


def test_marimo_shows_the_widget(shown: Look) -> None:
    assert isinstance(shown._display_(), CellWidget)


def test_a_text_being_written_is_saved_as_its_tokens_and_their_alternatives(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "gpt2", task="text-generation")
    word_tokenizer().save(str(folder / "tokenizer.json"))
    model = load(folder)
    options = {"max_new_tokens": 3, "seed": 0, "do_sample": True}
    look = Look(SessionRuns(model.session_factory()), [TEXT], InitialView(view="generate", options=options))
    still = look.live_page().still()
    trace = look._write()[0].trace
    table = trace.choices(look._write()[1])
    assert len(table.rows) == 3 and len(table.headings) == 6
    for row, shades, node in zip(table.rows, table.shades or (), trace.tree.nodes.values(), strict=True):
        probs = trace.distribution(node.parent).model.exp().sort(descending=True).values[:5]
        assert shades == pytest.approx(probs.tolist(), abs=1e-6)
        assert [cell.rpartition(" ")[2] for cell in row[1:]] == [f"{p:.0%}" for p in probs.tolist()]
    assert f"“{TEXT}” goes on: “" in still and "<script" not in still and "Run the cell" in still
    assert ">written<" in still and len(still) < 20_000
    look.close()


@pytest.mark.parametrize("options", [{"max_new_tokens": 3}, {"max_new_tokens": 3, "do_sample": True}])
def test_the_page_of_a_text_shows_what_was_written_for_its_picture(tmp_path: Path, options: dict[str, Any]) -> None:
    folder = make_folder(tmp_path, "gpt2", task="text-generation")
    word_tokenizer().save(str(folder / "tokenizer.json"))
    look = Look(SessionRuns(load(folder).session_factory()), [TEXT], InitialView(view="generate", options=options))
    page = look.live_page()
    page.still()
    stored, node = look._write()
    notebook = Notebook(page)

    def write(**changed: Any) -> list[dict[str, Any]]:
        status, _, content = notebook.ask("/api/write", {"prompt": TEXT, "options": {**options, **changed}})
        assert status == 200
        return [json.loads(line) for line in content.splitlines()]

    first, *steps, last = write()
    assert first["trace"]["id"] == stored.id and last["ready"]["answers"][0]["node"] == node
    assert len(steps) == 3 and all("step" in each for each in steps)
    assert write()[0]["trace"]["id"] != stored.id, "pressed again: another text, where it is drawn at random"
    look._generated = None
    page.still()
    assert write(max_new_tokens=2)[0]["trace"]["id"] != look._write()[0].id, "a text of other options was shown"
    look.close()


@pytest.mark.parametrize("view", ["lens", "attribution", "route", "architecture", "quantisation", "masks"])
def test_a_view_is_saved_as_what_it_shows(view: str, tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "bert", task="text-classification")
    word_tokenizer(framed=True).save(str(folder / "tokenizer.json"))
    model = load(folder)
    look = Look(SessionRuns(model.session_factory()), [TEXT], InitialView(view=view))
    still = look.live_page().still()
    report = REPORTS[view](look.session)
    assert all(escape(line) in still for line in report.above)
    assert "Attention of" not in still and "<table" in still and "Run the cell" in still
    look.close()
