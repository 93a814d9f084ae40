"""The standalone page: what is in it, what it may do, and that no text can get out of its place."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import DataError, UnsupportedError
from glassformer.explorer import standalone_page, views
from glassformer.explorer.describe import model_facts
from glassformer.explorer.session_runs import SessionRuns
from glassformer.explorer.standalone_page import (
    MAX_LISTED_TOKENS,
    SCRIPT,
    STYLE,
    PageMissingError,
    StandalonePage,
    notebook_frame,
)
from glassformer.explorer.traces import StoredTrace, TraceStore
from glassformer.explorer.views import distribution
from glassformer.inspect.session import Session
from glassformer.model import Model
from glassformer.reports.page import LOADER, check_html_path, shown_path
from tests.explorer.conftest import INSPECTABLE, STAND_IN, TEXTS, texts_for
from tests.explorer.reader import Reader

pytestmark = pytest.mark.usefixtures("page_files")


def page_of(model: Model, *texts: str, **options: Any) -> tuple[Session, StandalonePage]:
    session = model.inspect(*texts)
    return session, StandalonePage(session, model_facts(model), texts, **options)


@pytest.mark.parametrize("family", INSPECTABLE)
def test_it_holds_every_overview_and_every_layer(models: dict[str, Model], family: str) -> None:
    session, page = page_of(models[family], *texts_for(models[family]))
    reader = Reader(str(page))
    expected = {
        f"{kind}/{name}/{layer}"
        for kind in ("overview", "layer")
        for name, description in session.maps.items()
        for layer in range(description.layers)
    }
    expected -= {
        f"layer/{name}/{layer}"
        for name, description in session.maps.items()
        for layer in range(description.layers)
        if not views.has_distance_based_mask(session, map=name, layer=layer)
    }
    frames = {key: frame for key, frame in reader.attention_frames().items() if not key.startswith("view/")}
    assert set(frames) == expected
    for key, frame in frames.items():
        kind, name, layer = key.split("/")
        whole = (
            views.overview(session, map=name, layer=int(layer), exact=True)
            if kind == "overview"
            else views.layer(session, map=name, layer=int(layer))
        )
        assert frame == whole
    found = reader.session()
    exact = {name: [layer for layer in (0, 1) if f"layer/{name}/{layer}" in expected] for name in session.maps}
    assert found["exact_layers"] == exact
    assert found["texts"] == [shown_path(text) for text in session.texts]  # of a file, no folders of this machine
    assert found["command"].endswith("--html page.html")
    assert "start" not in found


def test_what_a_page_cannot_compute_is_not_in_it(models: dict[str, Model]) -> None:
    """A layer that sees blocks of keys: overviews are there, a page's own arithmetic would be wrong."""
    text = "time flies like an arrow fruit flies like a banana"
    session, page = page_of(models["big_bird"], text)
    assert session.maps["self"].biased and session.head(0, 0).bias() is not None
    reader = Reader(str(page))
    frames = {key for key in reader.attention_frames() if not key.startswith("view/")}
    assert frames == {"overview/self/0", "overview/self/1"}
    assert reader.session()["exact_layers"] == {"self": []}
    with pytest.raises(DataError, match=r"layer 1 sees blocks of 1, 1 random, which a page cannot compute"):
        str(page_of(models["big_bird"], text, layers=[1])[1])
    assert views.row(session, map="self", layer=1, head=0, query=4)


def test_a_page_holds_no_bias_that_depends_on_contents(models: dict[str, Model]) -> None:
    """Disentangled attention: overviews are there, and no layers from which a page would compute other scores."""
    text = "time flies like an arrow"
    session, page = page_of(models["deberta-v2"], text)
    assert Reader(str(page)).session()["exact_layers"] == {"self": []}
    with pytest.raises(DataError, match=r"layer 1 has a position bias that depends on queries and keys"):
        str(page_of(models["deberta-v2"], text, layers=[1])[1])
    assert views.row(session, map="self", layer=1, head=0, query=4)


def test_it_is_the_served_page_and_asks_nobody_for_anything(models: dict[str, Model]) -> None:
    source = str(page_of(models["bert"], *TEXTS)[1])
    reader = Reader(source)
    assert '<div id="app"></div>' in source
    assert not [
        a for tag, a, _ in reader.elements if tag in ("link", "script", "img") and (a.get("src") or a.get("href"))
    ]
    assert reader.program("style") == STAND_IN["app.css"]
    *blocks, (attributes, loader) = reader.scripts()
    assert attributes == {} and loader.strip() == LOADER.strip()
    assert all(a["type"] in ("application/json", "application/octet-stream") for a, _ in blocks)
    assert reader.program() == "".join(STAND_IN[name] for name in ("app.js", "view-model.js", "view-head.js"))


def test_the_policy_lets_only_this_script_and_style_work(models: dict[str, Model]) -> None:
    source = str(page_of(models["bert"], *TEXTS)[1])
    reader = Reader(source)
    (policy,) = (str(a["content"]) for tag, a, _ in reader.elements if a.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["connect-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    loader = source.rpartition("<script>")[2].partition("</script>")[0]
    inline = {
        "script-src": [loader, reader.program()],
        "style-src": [reader.program("style")],
    }
    for name, texts in inline.items():
        digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
        assert rules[name] == " ".join(f"'sha256-{digest}'" for digest in digests)
    # It binds what comes after it, so nothing may come before.
    assert re.search(r"<head>\s*<meta http-equiv=", source)


def test_words_of_html_stay_in_their_place(models: dict[str, Model]) -> None:
    text = '<script> </script> <!-- --> "><img src=x onerror=alert(1)>'
    _, page = page_of(models["bert"], text, start="v=1&view=</script>")
    source = str(page)
    reader = Reader(source)
    assert reader.session()["texts"] == [text]
    assert reader.session()["start"] == "v=1&view=</script>"
    assert [t["text"] for t in reader.session()["streams"]["text"]][1:4] == ["<script>", "</script>", "<!--"]
    assert "onerror" not in source
    assert not reader.comments
    assert (
        source.count("<script") == source.count("</script>") == 20
    )  # 9 frames, map, session, look-ups, tour and what it leaves out, weight and three more, style, program, unpacking


def test_a_page_of_some_views_has_what_they_need(models: dict[str, Model]) -> None:
    text = "time flies like an arrow"
    _, page = page_of(models["bert"], text, tabs=["head"])
    reader = Reader(str(page))
    assert reader.session()["views"] == ["head"] == list(reader.session()["how_to_read"])
    assert reader.program() == STAND_IN["app.js"] + STAND_IN["view-head.js"]
    assert {key.partition("/")[0] for key in reader.frames()} == {"overview", "layer"}
    assert reader.session()["opening"]["view"] == "head" and reader.session()["readings"] == []
    _, page = page_of(models["gpt2"], text, tabs=["lens"], start="v=1&view=lens")
    reader = Reader(str(page))
    assert {key.partition("/")[0] for key in reader.frames()} == {"overview", "view"} and page.left_out == []
    assert [each["view"] for each in reader.session()["readings"]] == ["lens"]
    with pytest.raises(UnsupportedError, match="view is 'generate', which shows a text being generated"):
        page_of(models["bert"], text, tabs=["generate"])


@pytest.mark.parametrize("layers", [[1], [0, 1], []])
def test_layers_that_were_asked_for(models: dict[str, Model], layers: list[int]) -> None:
    _, page = page_of(models["transformer"], *TEXTS, layers=layers, cap_bytes=0)
    reader = Reader(str(page))
    maps = ("encoder", "decoder", "cross")
    assert reader.session()["exact_layers"] == page.exact_layers == dict.fromkeys(maps, layers)
    assert {key for key in reader.frames() if key.startswith("layer/")} == {
        f"layer/{name}/{layer}" for name in maps for layer in layers
    }
    assert sum(key.startswith("overview/") for key in reader.frames()) == 6


def test_layers_while_below_the_cap(models: dict[str, Model]) -> None:
    whole = str(page_of(models["gpt2"], *TEXTS)[1])
    blocks = re.findall(r'<script[^>]*data-key="layer/[^<]*</script>\n', whole)
    assert len(blocks) == 2
    for cap, exact_layers in (
        (0, []),
        (len(blocks[0]), [0]),
        (sum(map(len, blocks)) - 1, [0]),
        (sum(map(len, blocks)), [0, 1]),
    ):
        _, page = page_of(models["gpt2"], *TEXTS, cap_bytes=cap)
        assert Reader(str(page)).session()["exact_layers"] == {"self": exact_layers}


def test_the_layer_it_opens_with_comes_first(models: dict[str, Model]) -> None:
    _, whole = page_of(models["transformer"], *TEXTS, first=1)
    assert Reader(str(whole)).session()["exact_layers"]["cross"] == [0, 1]
    size = max(map(len, re.findall(r'<script[^>]*data-key="layer/[^<]*</script>\n', str(whole))))
    _, page = page_of(models["transformer"], *TEXTS, first=1, cap_bytes=3 * size)
    assert Reader(str(page)).session()["exact_layers"] == {"encoder": [1], "decoder": [1], "cross": [1]}


@pytest.mark.parametrize("start", ["", "v=1&view=lens", "v=1&view=head"])
def test_a_page_that_would_be_large_holds_the_layer_it_opens_with(
    models: dict[str, Model], monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    """Of its attention maps the one on the first screen, then the others while they fit."""
    whole = str(page_of(models["transformer"], *TEXTS)[1])
    blocks = re.findall(r'<script[^>]*data-key="layer/(.*?)/(\d)"[^<]*</script>\n', whole)
    texts = re.findall(r'<script[^>]*data-key="layer/[^<]*</script>\n', whole)
    size = {(name, int(layer)): len(text) for (name, layer), text in zip(blocks, texts, strict=True)}
    of_layer = [size[name, 1] for name in ("decoder", "encoder", "cross")]
    for cap, held in (
        (sum(size.values()) - 1, {"encoder": [1], "decoder": [1], "cross": [1]}),
        (of_layer[0] + of_layer[1], {"encoder": [1], "decoder": [1], "cross": []}),
        (of_layer[0], {"encoder": [], "decoder": [1], "cross": []}),
        (of_layer[0] - 1, {"encoder": [], "decoder": [], "cross": []}),
    ):
        monkeypatch.setattr(standalone_page, "CAP_BYTES", cap)
        _, page = page_of(models["transformer"], *TEXTS, first=1, start=f"{start or 'v=1'}&map=decoder")
        assert Reader(str(page)).session()["exact_layers"] == held


def test_a_layer_that_is_not_there(models: dict[str, Model]) -> None:
    with pytest.raises(DataError, match="no layer 2; the model has layers 0 to 1"):
        page_of(models["bert"], "time", layers=[0, 2])


def test_progress_goes_from_nothing_to_all(models: dict[str, Model]) -> None:
    steps: list[tuple[int, int]] = []
    _, page = page_of(models["bert"], "time")
    list(page.parts(lambda done, of: steps.append((done, of))))
    assert [done for done, _ in steps] == [0, 1, 2, 3, 4]
    assert {of for _, of in steps} == {4}


# ------------------------------------------------------------------------------------------------------ saving


def test_saving(models: dict[str, Model], tmp_path: Path) -> None:
    _, page = page_of(models["bert"], *TEXTS)
    size = page.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == str(page)
    assert size == (tmp_path / "page.html").stat().st_size
    assert os.listdir(tmp_path) == ["page.html"]


def test_an_old_page_stays_until_the_new_one_is_complete(
    models: dict[str, Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page.html").write_text("old")
    _, page = page_of(models["bert"], *TEXTS)

    def full(*_: Any, **__: Any) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(views, "layer", full)
    with pytest.raises(DataError, match="No space left"):
        page.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == "old"
    assert os.listdir(tmp_path) == ["page.html"]


def test_a_link_keeps_pointing_where_it_did(models: dict[str, Model], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "page.html").symlink_to(tmp_path / "data" / "page.html")
    page_of(models["bert"], "time")[1].save(tmp_path / "page.html")
    assert (tmp_path / "page.html").is_symlink()
    assert (tmp_path / "data" / "page.html").stat().st_size > 1000


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("page.txt", "must end in .html"),
        ("page", "must end in .html"),
        ("folder.html", "is a folder"),
        ("no/such/page.html", "no such folder"),
        ("a\0b.html", "cannot be the name of a file"),
        ("x" * 5000 + ".html", "cannot be the name of a file"),
    ],
)
def test_a_place_that_does_not_do(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(DataError, match=message):
        check_html_path(tmp_path / name)


def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(DataError, match="cannot be written to"):
        check_html_path(tmp_path / "page.html")


def test_an_index_without_its_script_is_an_error(
    models: dict[str, Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {name: content.encode() for name, content in STAND_IN.items()}
    monkeypatch.setattr(standalone_page, "page_files", lambda: {**files, "index.html": b"<head></head>"})
    with pytest.raises(PageMissingError, match=r"index\.html"):
        page_of(models["bert"], "time")


def test_in_a_notebook_it_has_a_frame_of_its_own() -> None:
    source = '<p title="a">&amp; é→🙂 <script>"</script>'

    displayed = notebook_frame(source)
    match = re.fullmatch(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts allow-downloads" .*></iframe>', displayed)
    assert match is not None
    assert unescape(match[1]) == source
    assert displayed.isascii() and "<script" not in displayed


# --------------------------------------------------------------------------------------------------- of a writing


def result(model: Model, **options: Any) -> tuple[SessionRuns, StoredTrace, int]:
    traces = TraceStore(model.writing)
    stored = traces.begin(texts_for(model)[0], {"max_new_tokens": 4, "min_new_tokens": 4, **options})
    stored.result = stored.trace.write(stored.options)
    return SessionRuns(model.session_factory()), stored, stored.result.answers[0].node


def generation_page(runs: SessionRuns, stored: StoredTrace, node: int) -> StandalonePage:
    """The page of a prompt and of what was written after it."""
    prompt = runs.begin([stored.trace.prompt])
    written = runs.attend(stored.trace, node)
    return StandalonePage(prompt.result(), runs.facts, prompt.texts, generated=(stored, node), written=written)


@pytest.mark.parametrize("family", ["llama", "t5", "whisper"])
def test_a_writing_and_the_passes_over_its_prompt_and_its_path(models: dict[str, Model], family: str) -> None:
    runs, stored, node = result(models[family], num_beams=2)
    reader = Reader(str(generation_page(runs, stored, node)))
    exact_layers = reader.json("trace")
    assert exact_layers["trace"] == json.loads(json.dumps(stored.description))
    (step,) = exact_layers["steps"]
    assert [each["id"] for each in step["nodes"]] == list(range(1, len(stored.trace.nodes) + 1))
    assert exact_layers["ready"]["answers"][0]["node"] == exact_layers["node"] == node
    prompt, session = reader.session(), reader.json("written")
    assert ("sound" in prompt["absent"]) == (family == "whisper"), "no page of the explorer holds a transcript"
    assert "generated" not in prompt and session["generated"] == stored.location(node) and session["id"] != prompt["id"]
    assert session["exact_layers"] == {name: [0, 1] for name in session["exact_layers"]}
    side = stored.trace.stream
    path = [token["id"] for token in session["streams"][side]]
    assert path == [*(token.id for token in stored.trace.prefix), *stored.trace.tree.tokens(node)]
    frames = reader.attention_frames()
    for choice in step["choices"]:
        frame = frames[f"distribution/{choice['at']}"]
        assert frame == distribution(stored.trace, w=stored.id, node=choice["at"], count=MAX_LISTED_TOKENS)
    name = "decoder" if "decoder" in session["exact_layers"] else "self"
    attended = runs.attend(stored.trace, node).result()
    for prefix, own in ("", runs.begin([stored.trace.prompt]).result()), ("written/", attended):
        assert frames[f"{prefix}layer/{name}/1"] == views.layer(own, map=name, layer=1)


def test_what_was_written_takes_what_the_prompt_leaves_of_the_size(models: dict[str, Model]) -> None:
    runs, stored, node = result(models["llama"])
    prompt, written = runs.begin([stored.trace.prompt]), runs.attend(stored.trace, node)

    def held(cap: int) -> tuple[list[int], list[int]]:
        page = StandalonePage(
            prompt.result(), runs.facts, prompt.texts, cap_bytes=cap, generated=(stored, node), written=written
        )
        reader = Reader(str(page))
        return tuple(each["exact_layers"]["self"] for each in (reader.session(), reader.json("written")))

    blocks = re.findall(r'<script[^>]*data-key="[^"]*layer/[^<]*</script>\n', str(generation_page(runs, stored, node)))
    sizes = list(map(len, blocks))
    assert held(sum(sizes)) == ([0, 1], [0, 1])
    assert held(sum(sizes) - 1) == ([0, 1], [0])
    assert held(sum(sizes[:2])) == ([0, 1], [])


def test_the_command_makes_the_same_writing(models: dict[str, Model]) -> None:
    runs, stored, node = result(models["llama"], do_sample=True, top_k=5, seed=3)
    exact_layers = Reader(str(generation_page(runs, stored, node))).json("trace")
    assert exact_layers["command"].endswith(
        "--view generate -n 4 --min-new-tokens 4 --sample --top-k 5 --seed 3 --html page.html"
    )


def test_only_so_many_choices_those_of_the_path_first(
    models: dict[str, Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.explorer.standalone_page.MAX_DISTRIBUTIONS", 4)
    runs, stored, node = result(models["llama"], num_beams=3)
    keys = [key for key in Reader(str(generation_page(runs, stored, node))).frames() if key.startswith("distribution")]
    path = [0, *stored.trace.tree.path(node)[:-1]]
    assert sorted(keys) == sorted(f"distribution/{each}" for each in path)


def test_a_page_without_a_writing_names_none(models: dict[str, Model]) -> None:
    _, page = page_of(models["llama"], "time flies")
    assert 'id="trace"' not in str(page) and "generated" not in Reader(str(page)).session()


def test_a_page_that_was_not_built_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standalone_page, "FOLDER", tmp_path / "static")
    for damage in ("missing", "changed", "no list"):
        (tmp_path / "static").mkdir(exist_ok=True)
        if damage == "changed":
            (tmp_path / "static" / "a.js").write_text("")
            (tmp_path / "static" / "manifest.json").write_text('{"files": {"a.js": "0"}}')
        elif damage == "no list":
            (tmp_path / "static" / "manifest.json").write_text("[]")
        with pytest.raises(PageMissingError, match="npm ci && npm run build"):
            standalone_page.page_files()


def test_the_built_page_can_be_made_into_one_file() -> None:
    files = standalone_page.page_files()
    index = files["index.html"].decode()
    for mark in ("<head>", "</head>", STYLE, SCRIPT):
        assert index.count(mark) == 1, mark
    assert "</style" not in files["app.css"].decode().lower()
    assert not re.search(r"https?://(?!www\.w3\.org/)", files["index.html"].decode() + files["app.css"].decode())
