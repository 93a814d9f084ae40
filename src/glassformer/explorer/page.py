"""The whole session as one HTML file that needs no server, no network, and no glassformer.

    <head> policy, style </head>
    <body> <script type="application/octet-stream" class="frame" data-key="overview/self/0"> base64(deflate(frame)) …
           <script type="application/json" id="session"> base64(deflate(JSON))
           <script type="application/json" id="writing"> what was written, where the page holds that
           <script> the same program that the server serves, found by its hash in the policy

Every overview is in it, exact. The exact queries, keys and values of a layer, from which all other views are computed
in the browser, are in it while the file stays small; which ones, `held` says.
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from glassformer.errors import DataError
from glassformer.explorer import static, views
from glassformer.explorer.describe import Facts, command, describe
from glassformer.explorer.odds import distribution
from glassformer.explorer.runs import Runs
from glassformer.explorer.writings import Kept, command_options, ready
from glassformer.inspect.session import Session
from glassformer.inspect.tree import Step
from glassformer.pages.standalone import as_script, policy
from glassformer.weights.write import atomic_file

CAP_BYTES = 25_000_000
"""What the exact layers may add to the file, as they stand in it: compressed, in base64."""

MOST_LISTED = 256
"""Tokens of each choice of a writing that are held exactly; the rest of the vocabulary is held in bins."""
MOST_CHOICES = 1000

STYLE = '<link rel="stylesheet" href="/static/app.css">'
SCRIPT = '<script src="/static/app.js"></script>'

Progress = Callable[[int, int], None]


class Page:
    """A standalone page; `parts` gives it piece by piece, so that it need not be in memory as a whole.

    Args:
        asked: the texts as they were given.
        layers: whose exact numbers to hold, of every map, whatever that takes; None = one after another, while their
            sum is at most `cap_bytes`.
        first: the layer that it opens with; it comes before the others.
        start: the state it opens in, as a fragment of its address.
        written: a writing, and the node whose path is the session.
    Raises: DataError: no such layer. PageMissingError: this installation lacks the page's files.
    """

    def __init__(
        self,
        session: Session,
        facts: Facts,
        asked: Sequence[str],
        *,
        layers: Sequence[int] | None = None,
        cap_bytes: int = CAP_BYTES,
        first: int = 0,
        start: str = "",
        written: tuple[Kept, int] | None = None,
    ) -> None:
        deepest = max(about.layers for about in session.maps.values())
        for layer in layers or ():
            if not 0 <= layer < deepest:
                raise DataError(f"there is no layer {layer}; the model has layers 0 to {deepest - 1}")
        self.session = session
        self.facts = facts
        self.asked = asked
        self.layers = None if layers is None else frozenset(layers)
        self.cap_bytes = cap_bytes
        self.first = first
        self.start = start
        self.written = written
        self.held: dict[str, list[int]] = {}
        """Of each map the layers whose exact numbers are in the page; complete once `parts` has come to its end."""
        self._files = {name: content.decode() for name, content in static.files().items()}
        for mark in (STYLE, SCRIPT, "<head>", "</head>"):
            if self._files["index.html"].count(mark) != 1:
                raise static.PageMissingError(f"index.html of the built page should have {mark} once")

    def __str__(self) -> str:
        return "".join(self.parts())

    def parts(self, progress: Progress = lambda done, of: None) -> Iterator[str]:
        """The page from its beginning to its end."""
        style, script = self._files["app.css"], as_script(self._files["app.js"])
        head, _, rest = self._files["index.html"].partition("</head>")
        body, _, end = rest.partition(SCRIPT)
        yield head.replace("<head>", f"<head>\n{policy(style, script)}").replace(
            STYLE, f"<style>{style}</style>"
        )
        yield f"</head>{body}"
        yield from self._frames(progress)
        yield _json("session", self._description())
        if self.written is not None:
            yield from _told(*self.written, self._command())
        yield f"<script>{script}</script>{end}"

    def save(self, path: str | Path, progress: Progress = lambda done, of: None) -> int:
        """Write the page beside its place, then move it there: an old file stays until the new one is complete.

        Returns: its size in bytes.
        Raises: DataError: the place cannot be written to.
        """
        path = check_place(path)
        place = path.resolve()  # of a link, the file that it stands for
        try:
            with atomic_file(place) as stream:
                stream.writelines(part.encode() for part in self.parts(progress))
            return place.stat().st_size
        except OSError as error:
            raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error

    def _frames(self, progress: Progress) -> Iterator[str]:
        """Overviews of all layers, then exact layers: layer by layer, of every map."""
        maps = self.session.maps.values()
        each = [(layer, about.name) for layer in range(512) for about in maps if layer < about.layers]
        steps = len(each) * 2
        for step, (layer, name) in enumerate(each):
            progress(step, steps)
            yield _frame(
                f"overview/{name}/{layer}", views.overview(self.session, map=name, layer=layer, exact=True)
            )
        self.held = {about.name: [] for about in maps}
        size = 0
        each.sort(key=lambda place: place[0] != self.first)  # and else in order
        for step, (layer, name) in enumerate(each, len(each)):
            progress(step, steps)
            if self.layers is not None and layer not in self.layers:
                continue
            if self.layers is None and not views.suffices(self.session, map=name, layer=layer):
                continue
            frame = _frame(f"layer/{name}/{layer}", views.layer(self.session, map=name, layer=layer))
            size += len(frame)
            if self.layers is None and size > self.cap_bytes:
                break
            self.held[name].append(layer)
            yield frame
        progress(steps, steps)

    def _description(self) -> dict[str, Any]:
        words = describe(self.session, self.facts, self.asked)
        words["held"] = {name: sorted(layers) for name, layers in self.held.items()}
        words["command"] = self._command()
        if self.start:
            words["start"] = self.start
        if self.written is not None:
            kept, node = self.written
            words["written"] = kept.place(node)
        return words

    def _command(self) -> str:
        options = () if self.written is None else command_options(self.written[0].asked)
        return command(self.facts, self.asked, *options, "--html", "page.html")


def written_page(
    runs: Runs,
    kept: Kept,
    node: int,
    *,
    layers: Sequence[int] | None = None,
    cap_bytes: int = CAP_BYTES,
    first: int = 0,
    start: str = "",
) -> Page:
    """The page of a writing: its tree, and a session of the path to a node. Arguments else as of a `Page`."""
    session = runs.attend(kept.writing, node).result()
    return Page(
        session,
        runs.facts,
        [kept.writing.prompt],
        layers=layers,
        cap_bytes=cap_bytes,
        first=first,
        start=start or "v=1&view=generate",
        written=(kept, node),
    )


def _told(kept: Kept, node: int, command: str) -> Iterator[str]:
    """A writing: what its stream would say, and what could follow the nodes that were read, those of the path first."""
    tree = kept.writing.tree
    nodes, choices = list(tree.nodes.values()), list(tree.choices.values())  # others may be writing on
    known = {0, *(each.id for each in nodes)}
    step = Step(tuple(nodes), tuple(choice for choice in choices if choice.at in known), (), ())
    yield _json(
        "writing",
        {
            "writing": kept.about,
            "steps": [asdict(step)],
            "ready": None if kept.written is None else ready(kept.writing, kept.written),
            "node": node,
            "command": command,
        },
    )
    path = {0, *tree.path(node)}
    listed = sorted((choice.at for choice in step.choices), key=lambda at: (at not in path, at))
    for at in listed[:MOST_CHOICES]:
        yield _frame(f"distribution/{at}", distribution(kept.writing, w=kept.id, node=at, count=MOST_LISTED))


def check_place(path: str | Path) -> Path:
    """Is this a place to save a page to? Better known before the work than after it.

    Raises: DataError: what is wrong with it.
    """
    if "\0" in str(path):
        raise DataError(f"{str(path)!r}: cannot be the name of a file: it holds a NUL character")
    place = Path(path).expanduser()
    if place.suffix.lower() not in (".html", ".htm"):
        raise DataError(f"the page is to be saved as {str(path)!r}; its name must end in .html")
    try:
        folder = place.absolute().parent
        if place.is_dir():
            raise DataError(f"{place}: is a folder; name a file in it, such as {place / 'page.html'}")
        if not folder.is_dir():
            raise DataError(f"{folder}: no such folder to save {place.name} in; make it first")
    except OSError as error:  # a name too long
        raise DataError(f"{str(path)[:200]!r}: cannot be the name of a file: {error}") from error
    if not os.access(folder, os.W_OK):
        raise DataError(f"{folder}: this folder cannot be written to; choose another place for {place.name}")
    return place


def framed(page: str, height: int = 720) -> str:
    """A page in a notebook's output: in a frame of its own, that can reach nothing around it.

    In ASCII, so that the script has its hash whatever encoding the notebook is read in.
    """
    source = escape(page).encode("ascii", "xmlcharrefreplace").decode()
    return (
        f'<iframe srcdoc="{source}" sandbox="allow-scripts allow-downloads" title="glassformer explorer" '
        f'style="width: 100%; height: {height}px; border: 0"></iframe>'
    )


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()


def _json(id: str, words: dict[str, Any]) -> str:
    content = json.dumps(words, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return f'<script type="application/json" id="{id}">{_packed(content)}</script>\n'


def _frame(key: str, frame: bytes) -> str:
    return (
        f'<script type="application/octet-stream" class="frame" data-key="{key}">{_packed(frame)}</script>\n'
    )
