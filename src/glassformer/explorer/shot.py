"""Pictures of a forward pass: a head's lines, its map, or a card to send, drawn from the numbers of the session.

    write_shot(look, "head.svg")                  the view that the look opens with
    write_shot(look, "card.svg", card=True)       the sentence, the head and one finding
    shoot_page("page.html", "lens.png", "#v=1&view=lens")

Heads and maps need no browser. Other views, and the dark theme, are drawn by their page, in a Chromium, as a PNG.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import torch
from torch import Tensor

from glassformer.errors import ConfigError, DataError
from glassformer.explorer.describe import ModelFacts, shown_texts
from glassformer.explorer.look import InitialView, Look, token_of
from glassformer.explorer.options import LookOptions
from glassformer.inspect.opening import HeadFinding
from glassformer.inspect.session import Session
from glassformer.reports.attention_picture import COLOURS, PALE, PAPER, lines
from glassformer.reports.drawing import Drawing, blue, length_of, matrix, photograph, wrapped, write_drawing

VIEWS = ("head", "matrix")
"""Views that are drawn here."""
MAX_TOKENS = 128  # of a drawing; the page scrolls, and shows more
INK_2, RAISED = "#41526a", "#f3f6fa"
MARGIN = 24
CARD = (1200, 630)
"""Width and height of a card: what messengers and social networks show whole."""
CARD_TOKENS = 16
"""Tokens on each side of a card's lines at most, so that they can be read."""


def write_shot(
    look: Look, path: str | Path, *, card: bool = False, state: str = "", size: tuple[int, int] = (1440, 900)
) -> str:
    """Write a picture of a look at a model.

    Args:
        path: a .png or .svg file
        card: the sentence, the head and one finding, on one picture
        state: the fragment of an address, in place of what the look opens with
        size: of the window in which a page is drawn, in pixels
    Returns: the name of the view.
    Raises: ConfigError: another ending, or an SVG of what only a page draws. UnsupportedError: no Chromium is there.
    """
    path, start, session = check_picture(path), look.start, look.session
    heads, finding = _heads(look)
    tokens = max(map(len, session.streams.values()))
    view = view_of(state) or start.view or "head"
    dark = start.theme == "dark"
    if card and dark:
        raise ConfigError("a card has a light ground, so that it fits a message or a slide; leave --theme out")
    if card:
        write_drawing(path, card_drawing(session, look.explorer.runs.facts, heads[:1], finding))
        return "card"
    if view in VIEWS and tokens <= MAX_TOKENS and not state and not dark:
        draw = head_drawing if view == "head" else matrix_drawing
        write_drawing(path, draw(session, heads, finding, query=start.query))
        return view
    if path.suffix == ".svg":
        own = "the dark theme" if dark else f"a text of {tokens} tokens"
        why = own if view in VIEWS else f"the view {view!r}"
        raise ConfigError(
            f"{why} is drawn by its page, as a PNG; an SVG is of the views {' and '.join(VIEWS)} of up to {MAX_TOKENS} "
            "tokens, or of a card"
        )
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        look.save(page)
        photograph(f"{page.as_uri()}#{state.removeprefix('#') or start.fragment}", path, *size)
    return view


def start_of(state: str) -> InitialView | None:
    """The state of an address as that of a drawing; None = it says more than a drawing shows.

    Raises: ConfigError: no such theme.
    """
    pairs = dict(parse_qsl(state.removeprefix("#")))
    numbers = [pairs.get("l", ""), *pairs.get("h", "0").split(",")]
    known = pairs.keys() <= {"v", "view", "l", "h", "q", "k", "theme"} and pairs.get("view") in VIEWS
    if not known or not all(x.isdecimal() for x in numbers):
        return None
    query, key = (int(x) if (x := pairs.get(name, "")).isdecimal() else None for name in "qk")
    layer, *heads = map(int, numbers)
    return InitialView(view=pairs["view"], layer=layer, heads=heads, query=query, key=key, theme=pairs.get("theme"))


def view_of(state: str) -> str | None:
    """The view that a state names."""
    return dict(parse_qsl(state.removeprefix("#"))).get("view")


def opened_with(page: LookOptions, state: str) -> tuple[InitialView, str]:
    """What a look opens with by its options and a state; and the state, where only a page shows all of it."""
    if (exact := start_of(state)) is not None:
        return exact, ""
    query, key = token_of(page.query), token_of(page.key)
    view = page.view or view_of(state)
    own = InitialView(view=view, layer=page.layer, heads=page.heads or None, query=query, key=key, theme=page.theme)
    return own, state


def is_page(name: str) -> bool:
    """Whether a name is a page: an HTML file, or an address of this machine."""
    return name.partition("#")[0].endswith((".html", ".htm")) or name.startswith(
        ("http://127.0.0.1", "http://localhost")
    )


def shoot_page(page: str, path: str | Path, state: str = "", size: tuple[int, int] = (1440, 900)) -> str:
    """Draw a page in a state, as a PNG.

    Raises: DataError: no such file. ConfigError: not a .png. UnsupportedError: no Chromium is installed.
    """
    if (path := check_picture(path)).suffix == ".svg":
        raise ConfigError("a page is drawn as a PNG; its own Share menu and the buttons of its cards save SVG")
    place, _, fragment = page.partition("#")
    if not place.startswith("http") and not Path(place).is_file():
        raise DataError(f"there is no page {place}")
    address = place if place.startswith("http") else Path(place).resolve().as_uri()
    photograph(
        "#".join(filter(None, [address, "&".join(filter(None, [fragment, state.removeprefix("#")]))])), path, *size
    )
    return "page"


def check_picture(path: str | Path) -> Path:
    """The path of a picture. Raises: ConfigError: it ends otherwise."""
    path = Path(path)
    if path.suffix not in (".png", ".svg"):
        raise ConfigError(f"a picture is a .png or .svg file; got {path.name!r}")
    return path


def _heads(look: Look) -> tuple[list[tuple[str, int, int]], HeadFinding | None]:
    """Map, layer and number of the heads that the look is of, and what was found about the first."""
    start, telling = look.start, look.session.findings
    if start.layer is None and not start.head_list and telling:
        return [(telling[0].map, telling[0].layer, telling[0].head)], telling[0]
    name = next(iter(look.session.maps))
    heads = [(name, start.layer or 0, head) for head in start.head_list or [0]]
    return heads, next((x for x in telling if (x.map, x.layer, x.head) == heads[0]), None)


def _sentence(session: Session, heads: list[tuple[str, int, int]], finding: HeadFinding | None) -> str:
    """What the first head does, in words."""
    name, layer, head = heads[0]
    if len(heads) > 1:
        return f"Layer {layer} · heads {', '.join(str(number) for _, _, number in heads)}"
    return (
        finding.sentence if finding else f"Layer {layer} · head {head}: {session.overview(layer, name).summaries[head]}"
    )


def _names(session: Session, stream: str) -> list[str]:
    return [token.text or token.piece for token in session.streams[stream]]


def _special(session: Session, stream: str) -> set[int]:
    """The numbers of tokens that no text has."""
    return {i for i, token in enumerate(session.streams[stream]) if token.special}


def _probs(session: Session, head: tuple[str, int, int]) -> Tensor:
    name, layer, number = head
    return session.head(layer, number, name).probs().float().cpu()


def head_drawing(
    session: Session, heads: list[tuple[str, int, int]], finding: HeadFinding | None, *, query: Any = None
) -> Drawing:
    """Tokens that attend on the left, those attended to on the right, a line for each share."""
    about, one = session.maps[heads[0][0]], query if isinstance(query, int) else None
    sentence = _sentence(session, heads, finding)
    drawing = lines(
        _names(session, about.queries),
        _names(session, about.keys),
        {f"head {head[2]}": _probs(session, head).tolist() for head in heads},
        one=one,
        pale=(_special(session, about.queries), _special(session, about.keys)),
        strong=(None, None) if finding is None else (finding.query, finding.key),
        least=length_of(sentence, 16) + 2 * MARGIN,
        room=(MARGIN + 64, MARGIN + 22),
    )
    drawing.text(MARGIN, MARGIN + 6, sentence, size=16, strong=True)
    return drawing


def _card_lines(
    session: Session, head: tuple[str, int, int], finding: HeadFinding | None, box: tuple[float, float]
) -> tuple[Drawing, str]:
    """The lines of a head in a box; of a long text those around the finding. And what is left out, in words."""
    about, probs = session.maps[head[0]], _probs(session, head)
    queries, keys = probs.shape
    query, key = (None, None) if finding is None else (finding.query, finding.key)
    middle = queries // 2 if query is None else query
    first = min(max(middle - CARD_TOKENS // 2, 0), max(queries - CARD_TOKENS, 0))
    left = list(range(first, min(first + CARD_TOKENS, queries)))
    given = probs[left].sum(0)
    if key is not None:
        given[key] = torch.inf
    right = sorted(given.topk(min(CARD_TOKENS, keys)).indices.tolist())
    (names, pale, strong), (to_names, to_pale, to_strong) = (
        _part(session, about.queries, left, query),
        _part(session, about.keys, right, key),
    )
    drawing = lines(
        names,
        to_names,
        {"": probs[left][:, right].tolist()},
        pale=(pale, to_pale),
        strong=(strong, to_strong),
        link=None not in (strong, to_strong),
        named=False,
        room=(MARGIN, MARGIN),
        box=box,
    )
    few = len(left) == queries, len(right) == keys
    what = "" if few[0] else f"{len(left)} of {queries:,} tokens"
    whom = "" if few[1] else f"the {len(right)} of {keys:,} that get most"
    return drawing, " and ".join(filter(None, [what, whom]))


def _part(
    session: Session, stream: str, shown: list[int], strong: int | None
) -> tuple[list[str], set[int], int | None]:
    """Of the tokens of a stream those that are shown: their names, and which are special, and which is bold."""
    names, special = _names(session, stream), _special(session, stream)
    own = None if strong is None else shown.index(strong)
    return [names[i] for i in shown], {at for at, i in enumerate(shown) if i in special}, own


def matrix_drawing(
    session: Session, heads: list[tuple[str, int, int]], finding: HeadFinding | None, *, query: Any = None
) -> Drawing:
    """The map of a head: a row for each token that attends, darker = a larger share; with room, in percent."""
    about, probs = session.maps[heads[0][0]], _probs(session, heads[0])
    rows, columns = _names(session, about.queries), _names(session, about.keys)
    cell = min(max(560 / max(len(rows), len(columns)), 6), 38)
    shares = probs.tolist()
    numbers = [[f"{100 * x:.0f}" if x >= 0.01 else "" for x in row] for row in shares] if cell >= 30 else None
    fills = [[blue(x) for x in row] for row in shares]
    inner = matrix(rows, columns, fills, numbers, cell=(cell, cell), gap=0.5, strong=query)
    sentence, top = _sentence(session, heads[:1], finding), MARGIN + 32
    width = max(2 * MARGIN + inner.width, length_of(sentence, 16) + 2 * MARGIN)
    drawing = Drawing(round(width), round(top + inner.height + MARGIN + 22), PAPER)
    drawing.text(MARGIN, MARGIN + 6, sentence, size=16, strong=True)
    drawing.place(inner, MARGIN, top, inner.width, inner.height)
    drawing.text(
        MARGIN,
        drawing.height - 16,
        f"{_below(heads[:1])} · shares of attention in percent, a row sums to 100",
        size=12,
        colour=PALE,
    )
    return drawing


def card_drawing(
    session: Session, facts: ModelFacts, heads: list[tuple[str, int, int]], finding: HeadFinding | None
) -> Drawing:
    """One finding in large words, the sentence, and the head that it is about, as one picture."""
    drawing, (width, height) = Drawing(*CARD, RAISED), CARD
    drawing.rect(0, 0, 10, height, COLOURS[0])
    room, end = 520, height - 90
    sentence = _sentence(session, heads, finding)
    size = next(
        size for size in (42, 34, 28, 22) if len(wrapped(sentence, room, size)) * size * 1.25 <= 330 or size == 22
    )
    y = 110.0
    for line in wrapped(sentence, room, size)[:12]:
        drawing.text(56, y, line, size=size, strong=True)
        y += size * 1.25
    y += 26
    texts = shown_texts(session.texts, facts)
    most = max(int((end - y) / 28) // len(texts), 1)
    for text in texts:
        below = wrapped(f"“{text}”", room, 20)
        for line in below if len(below) <= most else [*below[: most - 1], f"{below[most - 1]} …"]:
            drawing.text(56, y, line, size=20, colour=INK_2)
            y += 28
    box = (width - 700, height - 112)
    inner, left_out = _card_lines(session, heads[0], finding, box)
    about = filter(None, [facts.name, _below(heads), left_out, "Glassformer"])
    below = wrapped(" · ".join(about), room, 16)
    for at, line in enumerate(below, 1 - len(below)):
        drawing.text(56, height - 48 + 22 * at, line, size=16, colour=PALE)
    drawing.rect(620, 40, width - 660, height - 80, PAPER, round=16)
    drawing.place(inner, 640, 56, *box)
    return drawing


def _below(heads: list[tuple[str, int, int]]) -> str:
    name, layer, _ = heads[0]
    return (
        f"{'' if name == 'self' else f'{name}, '}layer {layer}, head {', '.join(str(number) for _, _, number in heads)}"
    )
