"""`model.look`: a server and its address, a file, and the same in a notebook."""

from __future__ import annotations

import builtins
import html
import os
import re
import socket
import sys
import threading
import urllib.request
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glassformer.errors import ConfigError, DataError, GlassformerError, UnsupportedError
from glassformer.explorer import server
from glassformer.explorer.look import InitialView
from glassformer.explorer.options import LookOptions
from glassformer.explorer.registry import TABS
from glassformer.files.schema import Doc, field_types, metadata_of
from glassformer.model import Model
from glassformer.pretrained import ModelParts
from tests.explorer.client import Client
from tests.explorer.reader import Reader

pytestmark = pytest.mark.usefixtures("page_files")

TEXTS = ["time flies like an arrow", "fruit flies"]


@pytest.fixture(autouse=True)
def a_screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A machine with a screen, whose browser writes down what it is to open."""
    opened: list[str] = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    yield opened


def test_it_serves_the_page_and_opens_it(models: dict[str, Model], a_screen: list[str], capsys: Any) -> None:
    with models["bert"].look(TEXTS, block=False, view="head", layer=1, heads=[1, 0], theme="dark") as look:
        (opened,) = a_screen  # a file that leads there: the token is in no command line
        file = Path(urllib.request.url2pathname(opened.removeprefix("file://")))
        assert f'url={html.escape(look.url)}"' in file.read_text() and "token" not in opened
        assert os.name != "posix" or file.stat().st_mode & 0o077 == 0
        assert capsys.readouterr().out == f"opened {look.url}\n"
        assert look.url.startswith(f"http://127.0.0.1:{look.port}/#token=")
        assert look.url.endswith("&v=1&view=head&l=1&h=1,0&theme=dark")
        with urllib.request.urlopen(look.url) as answer:
            assert answer.status == 200
        assert Client(look).session()["texts"] == TEXTS
        assert look.session.head(1, 1).probs().shape == (10, 10)
        port = look.port
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1)
    with pytest.raises(ConfigError, match="closed"):
        look.url  # noqa: B018
    look.close()  # once more does no harm


def test_each_look_has_a_token_of_its_own(models: dict[str, Model]) -> None:
    with (
        models["bert"].look("time", block=False) as first,
        models["bert"].look("time", block=False) as second,
    ):
        assert first.port != second.port
        other = Client(second)
        assert Client(first).ask("/api/frame", headers={"Authorization": f"Bearer {other.token}"}).status == 401


def test_what_is_printed_of_it_tells_no_token(models: dict[str, Model]) -> None:
    with models["bert"].look("time", block=False) as look:
        token = Client(look).token
        assert len(token) >= 32
        assert repr(look) == f"Look('time': at http://127.0.0.1:{look.port}/, open .url)"
        assert token not in look._repr_html_()
        assert token not in str(look.page())
    assert repr(look) == "Look('time': not served)"


def test_as_a_file_it_needs_no_server(models: dict[str, Model], tmp_path: Path, a_screen: list[str]) -> None:
    before = threading.active_count()
    look = models["bert"].look("time flies", html=tmp_path / "page.html", view="neuron", layer=1, heads=0)
    assert repr(look) == f"Look('time flies': written to {str(tmp_path / 'page.html')!r})"
    result = Reader((tmp_path / "page.html").read_text("utf-8"))
    assert result.session()["texts"] == ["time flies"]
    assert result.session()["start"] == "v=1&view=neuron&l=1&h=0"
    assert threading.active_count() <= before + 1
    assert not a_screen
    with pytest.raises(ConfigError, match="nothing is served"):
        look.port  # noqa: B018
    again = look.save(tmp_path / "again.html", layers=[1])
    assert again.exact_layers == {"self": [1]}
    alone = look.save(tmp_path / "alone.html", views=["neuron", "masks"])
    assert alone.tabs == ["neuron", "masks"]
    for views, wrong in (
        (["masks"], "view is 'neuron', and views= leaves it out: masks; add it there"),
        (["mask"], "views has 'mask'; allowed: model, head,"),
        (["neuron", "sound"], "the view 'sound' as a file is the page of a transcription"),
        (["neuron", "difference"], "the view 'difference' as a file compares .*; give one by against=, such"),
    ):
        with pytest.raises(ConfigError, match=wrong):
            look.save(tmp_path / "alone.html", views=views)


def test_a_file_of_a_difference_needs_what_to_compare_with(models: dict[str, Model], tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    with pytest.raises(ConfigError, match="give one by against="):
        models["bert"].look("time flies", view="difference", html=path, block=False)
    assert not path.exists()
    models["bert"].look("time flies", view="difference", against=models["bert"], html=path, block=False)
    assert path.exists()


def test_a_file_of_one_view_opens_with_it(models: dict[str, Model], tmp_path: Path) -> None:
    with models["gpt2"].look("time flies", block=False, browser=False) as look:
        look.save(tmp_path / "lens.html", views=["lens"])
        look.save(tmp_path / "text.html", views=["generate"])
    lens, text = (Reader((tmp_path / f"{name}.html").read_text("utf-8")) for name in ("lens", "text"))
    assert lens.session()["start"] == "v=1&view=lens" and 'id="trace"' not in (tmp_path / "lens.html").read_text()
    assert text.session()["start"] == "v=1&view=generate" and text.json("written")["generated"]["node"] > 0


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a cell of a notebook: IPython with a kernel."""
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]


@pytest.mark.usefixtures("notebook")
def test_in_a_notebook_it_is_the_page_without_a_server(
    models: dict[str, Model], a_screen: list[str], capsys: Any
) -> None:
    before = threading.active_count()
    look = models["bert"].look("time flies")
    page = html.unescape(look._repr_html_().split('srcdoc="')[1].split('"')[0])
    assert Reader(page).session()["texts"] == ["time flies"]
    assert threading.active_count() == before
    assert not a_screen and capsys.readouterr().out == ""  # what is printed is saved with the notebook
    assert repr(look) == "Look('time flies': not served)"
    with pytest.raises(ConfigError, match=r"shown in a notebook; \.serve\(\) starts a server"):
        look.url  # noqa: B018
    with pytest.raises(DataError, match="16"):
        models["bert"].look("flies " * 100)


@pytest.mark.usefixtures("notebook")
@pytest.mark.parametrize("browser", [True, False])
def test_a_server_that_a_notebook_asks_for_prints_no_token(
    models: dict[str, Model], browser: bool, capsys: Any
) -> None:
    with models["bert"].look("time flies", browser=browser) as look:
        printed = capsys.readouterr().out
        assert look.address in printed and "token=" not in printed and Client(look).token not in printed


@pytest.mark.parametrize(("browser", "says"), [(True, "The page is open in your browser"), (False, "print .url of")])
def test_a_shell_of_ipython_without_a_kernel_is_told_in_a_sentence(
    models: dict[str, Model], monkeypatch: pytest.MonkeyPatch, browser: bool, says: str, capsys: Any
) -> None:
    """In a terminal, or bare: what IPython prints may be kept, in a history or a log."""
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=SimpleNamespace))  # type: ignore[arg-type]
    with models["bert"].look("time flies", browser=browser) as look:
        (line,) = capsys.readouterr().out.splitlines()
        assert says in line and look.address in line and Client(look).token not in line + repr(look)


def test_a_decoder_writes_in_its_file_and_in_a_notebook(models: dict[str, Model], tmp_path: Path) -> None:
    models["gpt2"].look("time flies", html=tmp_path / "page.html")
    page = Reader((tmp_path / "page.html").read_text("utf-8"))
    assert page.json("trace")["ready"]["count"] > 0 and page.session()["opening"]["view"] == "generate"
    others = [("time flies", {name: value}) for name, value in (("view", "head"), ("layer", 1), ("heads", 0))]
    for text, options in [*others, ("flies " * 16, {})]:  # which ask for something else, or leave no room
        models["gpt2"].look(text, html=tmp_path / "other.html", **options)
        other = Reader((tmp_path / "other.html").read_text("utf-8"))
        assert "trace" not in {about.get("id") for about, _ in other.scripts()}


def test_a_script_waits_until_it_is_interrupted(
    models: dict[str, Model], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.delattr(sys, "ps1", raising=False)

    def interrupt(self: server.Server) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(server.Server, "wait", interrupt)
    look = models["bert"].look("time")
    assert capsys.readouterr().out.endswith("\nstopped\n")
    assert repr(look) == "Look('time': not served)"


# --------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("texts", [[], ["a", "b", "c"], 7, None, ["a", 7], b"bytes", {"a": 1}, [["a"]], ("a", None)])
def test_texts_that_are_none(models: dict[str, Model], texts: Any) -> None:
    with pytest.raises(DataError, match="give one text, or two in a list"):
        models["bert"].look(texts)


@pytest.mark.parametrize("texts", ["", "   \n", ["time flies", ""]])
def test_an_empty_text_is_refused_and_no_page_is_written(models: dict[str, Model], texts: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the text '.*' is empty; give at least one word"):
        models["bert"].look(texts, html=tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_a_text_that_the_model_cannot_read_is_known_before_there_is_an_address(
    models: dict[str, Model], a_screen: list[str]
) -> None:
    with pytest.raises(DataError, match="16"):
        models["bert"].look("flies " * 100, block=False)
    with pytest.raises(DataError, match="at least one word"):
        models["gpt2"].look("", block=False)
    assert not a_screen


def test_a_model_without_a_tokenizer(models: dict[str, Model]) -> None:
    bare = models["bert"]
    model = Model(ModelParts(bare.network, bare.family, bare.spec, bare.config, bare.task))
    with pytest.raises(DataError, match="no tokenizer"):
        model.look("time", block=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"view": "heads"}, "view is 'heads'; allowed: model, head, matrix, neuron"),
        ({"theme": "blue"}, "theme is 'blue'; allowed: light, dark"),
        ({"layer": -1}, "counted from 0; got -1"),
        ({"heads": [0, "1"]}, "counted from 0; got '1'"),
        ({"heads": [True]}, "counted from 0; got True"),
        ({"port": 0}, "from 1 to 65,535"),
        ({"port": 65536}, "from 1 to 65,535"),
        ({"port": "80"}, "from 1 to 65,535"),
        ({"html": "page.txt"}, "must end in .html"),
    ],
)
def test_options_that_do_not_do(models: dict[str, Model], options: dict[str, Any], message: str) -> None:
    with pytest.raises(GlassformerError, match=message):
        models["bert"].look("time", block=False, **options)


def test_a_port_that_is_taken(models: dict[str, Model]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} cannot be used: .*free one is taken"):
            models["bert"].look("time", block=False, port=port)
    with models["bert"].look("time", block=False, port=port) as look:
        assert look.port == port
    with models["bert"].look("time", block=False, port=port) as look:  # free again at once
        assert Client(look).session()["texts"] == ["time"]


def test_the_state_as_an_address_spells_it() -> None:
    assert InitialView().fragment == ""
    assert InitialView(layer=0).fragment == "v=1&l=0"
    assert InitialView(view="head", heads=8).fragment == "v=1&view=head&h=8"
    assert InitialView(heads=[3, 7], theme="light").fragment == "v=1&h=3,7&theme=light"


# ------------------------------------------------------------------------------------------------- way there


def test_without_a_screen_no_browser_is_tried(
    models: dict[str, Model], a_screen: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with models["bert"].look("time", block=False) as look:
        assert capsys.readouterr().out == f"open {look.url}\n"
    with models["bert"].look("time", block=False, browser=True):
        pass
    assert len(a_screen) == 1


def test_a_browser_that_does_not_come_is_no_error(
    models: dict[str, Model], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def none(address: str) -> bool:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "open", none)
    with models["bert"].look("time", block=False) as look:
        assert capsys.readouterr().out == f"open {look.url}\n"


def test_over_ssh_it_says_how_to_get_there(
    models: dict[str, Model], a_screen: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 50000 10.0.0.2 22")
    monkeypatch.setattr(server, "_user", lambda: "me")
    with models["bert"].look("time", block=False) as look:
        hint = f"ssh -N -L {look.port}:127.0.0.1:{look.port} me@10.0.0.2"
        assert hint in capsys.readouterr().out
    assert not a_screen


def test_in_colab_it_says_what_to_do_instead(
    models: dict[str, Model], a_screen: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setitem(sys.modules, "google.colab", sys)
    with models["bert"].look("time", block=False):
        assert "end a cell with" in capsys.readouterr().out
    assert not a_screen


def test_it_opens_with_a_writing(models: dict[str, Model], tmp_path: Path) -> None:
    options = {"num_beams": 2, "max_new_tokens": 5}
    with models["llama"].look("time flies", block=False, browser=False, view="generate", options=options) as look:
        assert look.url.endswith("&v=1&view=generate&g.num_beams=2&g.max_new_tokens=5")
        page = look.save(tmp_path / "page.html")
    reader = Reader((tmp_path / "page.html").read_text("utf-8"))
    assert reader.json("trace")["trace"]["options"]["num_beams"] == 2
    assert reader.session()["start"].startswith("v=1&view=generate&g.num_beams=2")
    assert page.generated is not None
    assert reader.json("trace")["ready"]["answers"][0]["text"] == models["llama"].generate("time flies", **options)


def test_a_writing_of_its_own_length_as_a_file(models: dict[str, Model], tmp_path: Path) -> None:
    models["llama"].look("time flies", html=tmp_path / "page.html", view="generate")
    exact_layers = Reader((tmp_path / "page.html").read_text("utf-8")).json("trace")
    assert exact_layers["trace"]["options"]["max_new_tokens"] == 40


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"options": {"num_beams": 2}}, "they go with view='generate'"),
        ({"view": "head", "options": {}}, "they go with view='generate'"),
        ({"view": "generate", "options": {"beams": 2}}, "takes no 'beams'"),
        ({"view": "generate", "options": {"temperature": 2.0}}, "add do_sample=True"),
        ({"view": "generate", "options": {"num_beams": 99}}, "at most 32"),
    ],
)
def test_options_that_are_none(models: dict[str, Model], given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        models["llama"].look("time flies", block=False, browser=False, **given)


@pytest.mark.parametrize("view", ["generate", "sound", "similarity", "contexts", "patch", "lens", "attribution"])
def test_a_view_that_the_model_lacks(models: dict[str, Model], tmp_path: Path, view: str) -> None:
    path = tmp_path / "page.html"
    for options in ({}, {"html": path}) if view not in ("sound", "contexts") else ({},):
        with pytest.raises(UnsupportedError, match=f"view is {view!r}, which .* has the views ") as refused:
            models["bert"].look("time", view=view, block=False, **options)
        listed = str(refused.value).rpartition(" has the views ")[2].split(", ")
        assert view not in listed and listed[:6] == ["model", "head", "matrix", "neuron", "difference", "embedding"]
    assert not path.exists()


def test_a_model_that_writes_nothing(models: dict[str, Model]) -> None:
    with pytest.raises(UnsupportedError, match="language-model head"):
        models["bert"].look("time flies", block=False, browser=False, view="generate")


def test_a_layer_or_a_head_that_is_not_there_is_refused(models: dict[str, Model]) -> None:
    for options, said in (
        ({"layer": 9}, "layer is 9; the model has 2"),
        ({"heads": [0, 30]}, "head is 30; the model has"),
    ):
        with pytest.raises(ConfigError, match=said):
            models["bert"].look("time", block=False, browser=False, view="head", **options)


def test_every_view_is_named_by_the_option_and_by_the_docs() -> None:
    doc = metadata_of(field_types(LookOptions)["view"], Doc)
    missing = [view for view in TABS if doc is None or view not in re.split(r"[^\w-]+", doc.text)]
    assert not missing, f"the help of --view (explorer/options.py) does not name {missing}"
    page = (Path(__file__).parents[2] / "docs" / "explorer.md").read_text(encoding="utf-8")
    assert tuple(re.findall(r"^\| \w+ \| `([\w-]+)` \|", page, re.MULTILINE)) == tuple(TABS), (
        "the table of docs/explorer.md"
    )


@pytest.mark.parametrize(("name", "near"), [("head", "'heads'"), ("veiw", "'view'")])
def test_an_unknown_option_names_the_nearest(models: dict[str, Model], name: str, near: str) -> None:
    with pytest.raises(ConfigError, match=rf"look\(…\) takes no '{name}'; nearest: {near}"):
        next(iter(models.values())).look("time flies", **{name: 8})


def test_it_opens_at_a_cell(models: dict[str, Model], tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    look = models["bert"].look(TEXTS, html=file, view="neuron", layer=1, heads=0, query="time", key=3, pair=(0, 1))
    tokens = [token.text for token in look.session.streams["text"]]
    assert look.start.fragment == f"v=1&view=neuron&l=1&h=0&q={tokens.index('time')}&k=3&from=0&to=1"
    assert Reader(file.read_text("utf-8")).session()["start"] == look.start.fragment
    with pytest.raises(ConfigError, match="query: the text has no word 'tme'; nearest: 'time'"):
        models["bert"].look("time flies", html=file, query="tme")
    with pytest.raises(ConfigError, match="key: there is no token 99; the text has tokens 0 to 3"):
        models["bert"].look("time flies", html=file, key=99)
    for wrong, message in (({"query": 1.5}, "its number from 0, or its text"), ({"pair": (0, 2)}, "two of 0 and 1")):
        with pytest.raises(ConfigError, match=message):
            models["bert"].look("time flies", html=file, **wrong)
