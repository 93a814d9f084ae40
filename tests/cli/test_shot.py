"""Pictures of views: heads, maps and cards without a browser, the numbers of the pass, and what is missing, said."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from glassformer.explorer.describe import model_facts
from glassformer.explorer.shot import CARD_TOKENS, card_drawing, start_of, view_of, write_shot
from glassformer.inspect.opening import HeadFinding
from glassformer.model import load
from glassformer.reports import drawing
from glassformer.reports.drawing import blue, photograph, wrapped
from tests.cli.conftest import Command
from tests.e2e.tiny_models import looked_at, make_folder

TEXTS = ("time flies like an arrow", "fruit flies like a banana")
SVG = "{http://www.w3.org/2000/svg}"
PNG = b"\x89PNG\r\n\x1a\n"


def texts_of(path: Path) -> list[str]:
    return [x.text or "" for x in ElementTree.parse(path).getroot().iter(f"{SVG}text")]


@pytest.fixture
def no_chromium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLASSFORMER_CHROMIUM", raising=False)
    monkeypatch.setattr(drawing.shutil, "which", lambda name: None)


@pytest.mark.usefixtures("no_chromium")
def test_heads_are_drawn_without_a_browser(minilm: Path, command: Command, tmp_path: Path) -> None:
    done = command("shot", minilm, *TEXTS, tmp_path / "head.svg", "--view", "head", "--layer", 4, "--head", 9)
    assert done.returncode == 0, done.stderr
    shown = texts_of(tmp_path / "head.svg")
    assert "In layer 4, head 9, “time” gives 93% of its attention to “flies”." in shown
    assert shown.count("flies") == 4 and {"from", "to", "head 9"} <= set(shown)
    lines = ElementTree.parse(tmp_path / "head.svg").getroot().findall(f"{SVG}path")
    probs = load(minilm).inspect(*TEXTS).head(4, 9).probs()
    assert len(lines) == int((probs >= 0.02).sum())
    widths = [float(line.get("stroke-width", "0")) for line in lines]
    assert max(widths) == pytest.approx(0.7 + 3.3 * float(probs.max()), abs=0.01)


@pytest.mark.usefixtures("no_chromium")
def test_a_map_has_the_shares_of_the_pass(minilm: Path, command: Command, tmp_path: Path) -> None:
    done = command("shot", minilm, TEXTS[0], tmp_path / "map.svg", "--state", "#v=1&view=matrix&l=4&h=9", "--json")
    assert json.loads(done.stdout)["view"] == "matrix", done.stderr
    probs = load(minilm).inspect(TEXTS[0]).head(4, 9).probs()
    written = [int(x) for x in texts_of(tmp_path / "map.svg") if re.fullmatch(r"\d+", x)]
    assert written == [int(f"{100 * x:.0f}") for x in probs.flatten().tolist() if x >= 0.01]


@pytest.mark.usefixtures("no_chromium")
def test_a_card_has_a_finding_the_sentence_and_its_head(minilm: Path, command: Command, tmp_path: Path) -> None:
    assert command("shot", minilm, *TEXTS, tmp_path / "card.svg", "--card").returncode == 0
    shown = texts_of(tmp_path / "card.svg")
    assert "In layer 4, head 9, “time” gives 93% of its attention to “flies”." in " ".join(shown)
    assert {f"“{text}”" for text in TEXTS} <= set(shown) and shown.count("banana") == 2


def test_a_card_of_a_long_text_shows_what_can_be_read(minilm: Path, command: Command, tmp_path: Path) -> None:
    """The tokens around the finding, those that get most attention from them, and what is left out, in words."""
    text = (
        "The explorer shows what every head does with a text, which words look at which, and how much they give. " * 3
    )
    assert command("shot", minilm, text, tmp_path / "card.svg", "--card").returncode == 0
    (inner,) = ElementTree.parse(tmp_path / "card.svg").getroot().findall(f"{SVG}svg")
    names = list(inner.iter(f"{SVG}text"))
    assert len(names) == 2 * CARD_TOKENS and sum(x.get("font-weight") == "600" for x in names) == 2
    shown = " ".join(texts_of(tmp_path / "card.svg"))
    assert (
        re.search(rf"{CARD_TOKENS} of \d+ tokens and the {CARD_TOKENS} of \d+ that get most", shown) and " …" in shown
    )


def test_a_card_of_a_pattern_has_the_tokens_that_get_most(minilm: Path) -> None:
    """A finding without a link: nothing is bold, and the drawing is of the middle of the text."""
    model = load(minilm)
    session = model.inspect("the old man and the sea " * 8)
    pattern = HeadFinding("self", 0, 0, "In layer 0, head 0, most look back.", "look back")
    inner = next(
        ElementTree.fromstring(card_drawing(session, model_facts(model), [("self", 0, 0)], pattern).svg()).iter(
            f"{SVG}svg"
        )
    )
    names = [x for each in inner.findall(f"{SVG}svg") for x in each.iter(f"{SVG}text")]
    assert len(names) == 2 * CARD_TOKENS and not [x for x in names if x.get("font-weight")]
    first = len(session.streams["text"]) // 2 - CARD_TOKENS // 2
    given = session.head(0, 0).probs()[first : first + CARD_TOKENS].sum(0)
    most = sorted(given.topk(CARD_TOKENS).indices.tolist())
    assert [x.text for x in names[CARD_TOKENS:]] == [
        session.streams["text"][i].text or session.streams["text"][i].piece for i in most
    ]


def test_a_card_of_a_sound_names_no_folder(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "model", "whisper")
    texts = looked_at(folder, "whisper")
    with load(folder).look(list(texts), browser=False, block=False) as look:
        write_shot(look, tmp_path / "card.svg", card=True)
    shown = " ".join(texts_of(tmp_path / "card.svg"))
    assert Path(texts[0]).name in shown and str(tmp_path) not in shown


@pytest.mark.usefixtures("no_chromium")
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("page.jpg",), "a picture is a .png or .svg file; got 'page.jpg'"),
        (("a.png", "--view", "head"), "there is none: install one (Debian: apt-get install chromium-headless-shell"),
        (("a.svg", "--view", "lens"), "has the views"),
        (("a.svg", "--view", "neuron"), "the view 'neuron' is drawn by its page, as a PNG"),
        (("a.svg", "--view", "matrix", "--theme", "dark"), "the dark theme is drawn by its page, as a PNG"),
        (("a.svg", "--card", "--theme", "dark"), "a card has a light ground"),
        (("a.svg", "--state", "#v=1&view=head&l=99"), "layer is 99; the model has 6"),
    ],
)
def test_what_cannot_be_drawn(
    minilm: Path, command: Command, tmp_path: Path, options: tuple[str, ...], problem: str
) -> None:
    name, *others = options
    done = command("shot", minilm, TEXTS[0], tmp_path / name, *others)
    assert done.returncode == 2 and problem in " ".join(done.stderr.split()), done.stderr
    assert not (tmp_path / name).exists()


def test_a_page_has_its_text(command: Command, tmp_path: Path) -> None:
    done = command("shot", tmp_path / "page.html", tmp_path / "a.png")
    assert done.returncode == 2 and "there is no page" in done.stderr
    (tmp_path / "page.html").write_text("<p>here</p>", "utf-8")
    assert "leave the text out" in command("shot", tmp_path / "page.html", "words", tmp_path / "a.png").stderr
    assert "drawn as a PNG" in " ".join(command("shot", tmp_path / "page.html", tmp_path / "a.svg").stderr.split())


@pytest.mark.skipif(not any(map(shutil.which, drawing.CHROMIUM)), reason="needs a Chromium: chromium-headless-shell")
def test_pages_and_drawings_become_pictures(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<body style='background: #0b6b83'><p>here</p></body>", "utf-8")
    photograph((tmp_path / "page.html").as_uri(), tmp_path / "page.png", 400, 320)
    made = (tmp_path / "page.png").read_bytes()
    assert made.startswith(PNG) and (int.from_bytes(made[16:20]), int.from_bytes(made[20:24])) == (800, 640)


@pytest.mark.skipif(not any(map(shutil.which, drawing.CHROMIUM)), reason="needs a Chromium: chromium-headless-shell")
def test_a_picture_has_the_theme_that_is_asked_for(minilm: Path, command: Command, tmp_path: Path) -> None:
    grounds = {}
    for theme in ("light", "dark"):
        done = command("shot", minilm, TEXTS[0], tmp_path / f"{theme}.png", "--view", "matrix", "--theme", theme)
        assert done.returncode == 0, done.stderr
        grounds[theme] = Image.open(tmp_path / f"{theme}.png").convert("L").getpixel((2, 2))
    assert grounds["light"] > 200 and grounds["dark"] < 60


def test_the_shades_and_lines_of_a_drawing() -> None:
    shades = [blue(x / 10) for x in range(11)]
    luminance = [int(x[1:3], 16) + int(x[3:5], 16) + int(x[5:], 16) for x in shades]
    assert luminance == sorted(luminance, reverse=True) and len(set(shades)) == 11
    assert wrapped("one two three", 45, 10) == ["one two", "three"] and wrapped("", 40, 10) == []


def test_a_state_is_drawn_here_where_it_says_no_more_than_a_drawing_shows() -> None:
    start = start_of("#v=1&view=head&l=4&h=9,1&q=2")
    assert start is not None and (start.layer, start.heads, start.query) == (4, [9, 1], 2)
    for more in ("#v=1&view=head&l=3-4&h=1", "#v=1&view=head&l=4&mix=mean", "#v=1&view=lens&l=1", "#v=1&view=head"):
        assert start_of(more) is None, more
    assert view_of("#v=1&view=lens&r.cell=3.5") == "lens" and view_of("") is None
