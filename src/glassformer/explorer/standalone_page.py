"""Standalone HTML export: a whole session as one file that needs no server, no network, and no glassformer.

    head    policy, style
    body    script class="frame" data-key="overview/self/0"    base64(deflate(frame)) …
            script id="session"                                base64(deflate(JSON))
            script id="trace"                                  a generation trace, where the page holds one
            script id="written"                                the pass over what it wrote; its frames: written/…
            script    the program, found by its hash in the policy: the page, and the views that this file shows

Every overview is in it, exact. The exact queries, keys and values of a layer, from which all other views are computed
in the browser, are in it while the file stays small; `exact_layers` lists them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from glassformer.errors import DataError, GlassformerError
from glassformer.explorer import views
from glassformer.explorer.binary_frames import decode, encode
from glassformer.explorer.describe import ModelFacts, check_view, describe, session_id, shown_texts, without_places
from glassformer.explorer.describe import command as look_command
from glassformer.explorer.embedding_page import PageMap, session_map
from glassformer.explorer.facts import Compare
from glassformer.explorer.lesson import Lesson
from glassformer.explorer.lesson_views import STATE
from glassformer.explorer.patches import quick_sweeps
from glassformer.explorer.readings import comparisons, default_readings, quick_readings, read
from glassformer.explorer.registry import OF_A_TAB, VIEWS, Reading, frame_of
from glassformer.explorer.requests import WithoutRequest
from glassformer.explorer.session_runs import SessionRun
from glassformer.explorer.tour import WORDS, tell
from glassformer.explorer.traces import StoredTrace, result_summary
from glassformer.explorer.views import distribution, stored_lookups
from glassformer.generation.served_options import command_line_options
from glassformer.inspect.session import Session
from glassformer.inspect.token_tree import TreeStep
from glassformer.reports.page import (
    LOADER,
    command_line,
    content_security_policy,
    element,
    kernel_file,
    packed,
    packed_program,
    report_files,
    write_page_parts,
)
from glassformer.reports.report import plain

FOLDER = Path(__file__).parent / "static"
MEDIA_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".txt": "text/plain"}


class PageMissingError(GlassformerError):
    """The static files of the page are missing or damaged in this installation."""


def page_files() -> dict[str, bytes]:
    """Every file of the page by name, as the manifest lists them.

    Raises: PageMissingError: one is missing, or is not the one that was built.
    """
    mend = "reinstall glassformer, or in its source tree run: cd web && npm ci && npm run build"
    try:
        listed: dict[str, str] = json.loads((FOLDER / "manifest.json").read_bytes())["files"]
        contents = {name: (FOLDER / name).read_bytes() for name in listed}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PageMissingError(f"{FOLDER}: the explorer's page is missing or damaged; {mend}") from error
    for name, content in contents.items():
        if hashlib.sha256(content).hexdigest() != listed[name]:
            raise PageMissingError(f"{FOLDER / name}: is not the file that the manifest lists; {mend}")
    return contents


def page_around(
    program: str = "app", *, views: Iterable[str] = (), reports: bool = False, start: str | None = None
) -> tuple[str, str]:
    """The HTML before and after the data of a standalone page: policy and style, and the program.

    Args:
        program: app, the explorer; or listen, the page of sounds
        views: of the explorer, those that the page shows; the page of a transcription is the view sound
        reports: with the program of reports, which draws the views of plug-ins
        start: in the cell of a notebook, where the program asks the kernel, the initial state, as a URL fragment
    Raises: PageMissingError: this installation lacks the page's files.
    """
    files = {name: content.decode() for name, content in page_files().items()}
    for tag in (STYLE, SCRIPT, "<head>", "</head>"):
        if files["index.html"].count(tag) != 1:
            raise PageMissingError(f"index.html of the built page should have {tag} once")
    own = [f"view-{name}.js" for name in views]
    style, script = files[f"{program}.css"], "".join(files[x] for x in [f"{program}.js", *own] if x in files)
    if reports:
        report_style, report_script = report_files(None)
        style, script = style + report_style, f"{report_script}\n{script}"
    kernel = "" if start is None else kernel_file()
    before, _, after = files["index.html"].partition(SCRIPT)
    if start is not None:
        before = before.replace("<html", f'<html data-start="{escape(start)}"', 1)
    before = before.replace("<head>", f"<head>\n{content_security_policy([style], [kernel, LOADER, script])}")
    # As it is, since the notebook sends its port as soon as the page is there.
    listener = element("script", kernel) if kernel else ""
    return before.replace(STYLE, packed(style, data_packed="style")), listener + packed_program(script) + after


CAP_BYTES = 25_000_000
"""Maximum size of the exact layers in the file by default: compressed, in base64."""
VIEWS_OF_LAYERS = frozenset(("model", "head", "matrix", "neuron"))
"""Views for which a page holds exact numbers of layers."""

MAX_LISTED_TOKENS = 256
"""Tokens of each distribution that are listed exactly; the rest of the vocabulary is a histogram."""
MAX_DISTRIBUTIONS = 1000
"""Nodes whose distribution a file holds, those of the path first: each takes some kilobytes."""
MAX_MAPPED_TOKENS = 512
"""Of longer texts a page leaves out the map of tokens."""

STYLE = '<link rel="stylesheet" href="/static/app.css">'
SCRIPT = element("script", src="/static/app.js")

Progress = Callable[[int, int], None]


def reading_page(facts: ModelFacts, session: Session, own: Reading) -> StandalonePage:
    """The page that opens with a view: a lens, an attribution or a sweep; lens and attribution of the model's own
    output are in it too, where they are quick.
    """
    fields = {name: own.request[field] for field, name in STATE[own.view].items()}
    state = {"v": 1, "view": "patch" if own.view == "sweep" else own.view}
    start = urlencode(state | {name: value for name, value in fields.items() if value is not None})
    readings = [own, *(each for each in quick_readings(session) if each.key != own.key)]
    return StandalonePage(session, facts, session.texts, start=start, readings=readings, command=command_line())


class StandalonePage:
    """A standalone HTML page, streamed by `parts` so that it is never in RAM as a whole.

    Args:
        texts: as the user gave them.
        layers: layers whose exact numbers to embed, of every attention map, whatever their size; None = by `cap_bytes`.
        cap_bytes: layers one after another, while their sum is at most this; None = all, if they are at most 25 MB, and
            else the first alone: of its attention maps the one that the page opens with, and the others while they fit.
        first: the layer that is embedded before the others; None = the one that the page opens with.
        start: the initial state, as a URL fragment.
        generated: a generation trace, and the node whose path was written; the session is of its prompt.
        written: the pass over that path, for its attention; None = the page has none.
        corpus: the map of the embeddings view, with projections by name; None = of the session's tokens.
        readings: views of the session; of the others those that are quick, and the one that `start` opens with.
        lesson: that the page plays; None = its tour.
        compare: two texts → the map of their similarity, which the tour tells of; None = it does not.
        command: that makes this page; empty = `glassformer look`, of these texts.
        tabs: the views that the page shows, with their numbers and program alone, and no tour; none = all.
    Raises: DataError: no such layer. PageMissingError: this installation lacks the page's files. ConfigError: no such
        view. UnsupportedError: the model does not have it.
    """

    def __init__(
        self,
        session: Session,
        facts: ModelFacts,
        texts: Sequence[str],
        *,
        layers: Sequence[int] | None = None,
        cap_bytes: int | None = None,
        first: int | None = None,
        start: str = "",
        generated: tuple[StoredTrace, int] | None = None,
        written: SessionRun | None = None,
        corpus: PageMap | None = None,
        projections: Mapping[str, bytes] | None = None,
        readings: Sequence[Reading] = (),
        lesson: Lesson | None = None,
        compare: Compare | None = None,
        command: str = "",
        tabs: Sequence[str] = (),
    ) -> None:
        deepest = max(attention_map.layers for attention_map in session.maps.values())
        for layer in layers or ():
            if not 0 <= layer < deepest:
                raise DataError(f"there is no layer {layer}; the model has layers 0 to {deepest - 1}")
        self.session = session
        self.facts = without_places(facts)
        self.texts = shown_texts(texts, facts)
        for name in tabs:
            check_view(name, facts, texts)
        self._about = describe(self.session, self.facts, self.texts, session_id(facts.revision, texts), shown=tabs)
        self.tabs: list[str] = self._about["views"]
        self._whole = not tabs
        self._about["texts"] = shown_texts(session.texts, facts)
        self._made_by = command
        opening = self._about["opening"]
        if generated is None and opening["view"] in ("generate", "sound"):  # what was not written cannot be shown
            opening["view"] = "model"
        if opening["view"] not in self.tabs:
            opening["view"] = self.tabs[0]
        best = next(iter(opening["findings"]), {"layer": 0, "map": self._about["maps"][0]["name"]})
        self.first = best["layer"] if first is None else first
        self.start = start
        self._opening_map = dict(parse_qsl(start)).get("map") or best["map"]
        self.generated, self.written = generated, written
        chosen = None if layers is None else frozenset(layers)
        if VIEWS_OF_LAYERS.isdisjoint(self.tabs):
            chosen = frozenset()
        self._held = _PassFrames(session, chosen, cap_bytes, (self.first, self._opening_map))
        self.corpus, self.projections = corpus, dict(projections or {})
        self.readings = list(readings)
        self.lesson, self.compare = lesson, compare
        self._around = page_around(views=self.tabs, reports=bool(self._about["reports"]))

    @property
    def exact_layers(self) -> dict[str, list[int]]:
        """Attention map → layers whose exact numbers are in the page; complete once `parts` is exhausted."""
        return self._held.exact_layers

    @property
    def left_out(self) -> list[int]:
        """The layers whose exact numbers a saved page does not hold because of the size limit."""
        return self._held.left_out

    def __str__(self) -> str:
        return "".join(self.parts())

    def parts(self, progress: Progress = lambda done, of: None) -> Iterator[str]:
        """The HTML in pieces, from its beginning to its end."""
        before, after = self._around
        yield before
        yield from self._held.parts(progress)
        yield from self._of_written()
        yield from self._embeddings()
        self.readings += self._quick()
        yield json_block("session", self._description())
        longest = self.session if self.written is None else self.written.result()
        if "head" in self.tabs and (lookups := stored_lookups(longest)):
            yield json_block("lookups", lookups)
        for reading in self._views:
            yield frame_block(f"view/{reading.key}", reading.frame)
        if self.generated is not None:
            yield from _trace_parts(*self.generated, self._command())
        yield after

    def save(self, path: str | Path, progress: Progress = lambda done, of: None) -> int:
        """Write the page atomically: an old file stays until the new one is complete.

        Returns: its size in bytes.
        Raises: DataError: the path cannot be written to.
        """
        return write_page_parts(path, self.parts(progress))

    @property
    def _views(self) -> list[Reading]:
        """Views that the page has, none of few gradients next to all; projections are with their map."""
        all_steps = [reading.without_steps for reading in self.readings if reading.request.get("steps") is None]
        stored = [
            reading
            for reading in self.readings
            if reading.view != "projection"
            and (reading.request.get("steps") is None or reading.without_steps not in all_steps)
        ]
        return [reading for reading in stored if self._whole or OF_A_TAB.get(reading.view, reading.view) in self.tabs]

    def _quick(self) -> list[Reading]:
        """What a page contains by default, of views that it has nothing of."""
        start = dict(parse_qsl(self.start))
        has, view = {reading.view for reading in self.readings}, start.get("view")
        if not self._whole:  # as if it had what it does not show
            has |= {name for name in (*VIEWS, "tour") if OF_A_TAB.get(name, name) not in self.tabs}
        parts = {reading.view for reading in self.readings if not reading.whole}
        wanted = None if view in parts else view  # the parts that were looked at, unless the whole is quick
        quick = quick_readings(self.session, wanted=wanted, has=has - parts) if self.facts.reads else []
        quick += comparisons(self.session, quick)
        quick += default_readings(self.session, wanted=view, has=has)
        if "tour" not in has:
            quick += self._played([*self.readings, *quick])
        if "sweep" in has:
            return quick
        return [*quick, *quick_sweeps(self.session, self._opening_map, wanted=view == "patch")]

    def _played(self, held: Sequence[Reading]) -> list[Reading]:
        """The lesson, and what its steps leave out. The tour goes around views of which the page holds nothing."""
        absent = set(self._absent(held, self._mapped()))
        missing = absent if self.lesson is None else absent & {"generate"}
        attributions = [reading for reading in held if reading.view == "attribution"]
        if self.lesson is None and all(each.request.get("steps") == 0 for each in attributions):
            missing |= {WORDS}
        played = tell(self.session, self.facts, self.lesson, missing=missing, compare=self.compare)
        asked = [step.without for step in played.steps if step.without is not None]
        without = [read(self.session, "without", WithoutRequest(**request)) for request in asked]
        return [Reading("tour", {}, frame_of("tour", played)), *{each.key: each for each in without}.values()]

    def _embeddings(self) -> Iterator[str]:
        """The map of the embeddings view: of texts, or of the tokens of each stream, where these are not too many."""
        if "embedding" not in self.tabs:
            return
        if self.corpus is not None:
            yield from _map_parts("embedding", self.corpus, {**projections_in(self.readings), **self.projections})
            return
        for stream in self._mapped():
            projections = projections_in(self.readings, stream)
            yield from _map_parts(f"embedding/{stream}", session_map(self.session, stream), projections)

    def _mapped(self) -> list[str]:
        """The streams that are short enough for a map of their tokens."""
        streams = dict.fromkeys(attention_map.queries for attention_map in self.session.maps.values())
        return [stream for stream in streams if len(self.session.streams[stream]) <= MAX_MAPPED_TOKENS]

    def _absent(self, readings: Sequence[Reading], mapped: Sequence[str]) -> list[str]:
        """The tabs of which the page holds nothing: they say so, and which command shows it."""
        holds = {*VIEWS_OF_LAYERS, *(OF_A_TAB.get(reading.view, reading.view) for reading in readings)}
        holds |= {"embedding"} if mapped or self.corpus is not None else set()
        holds |= {"generate"} if self.generated is not None else set()
        return [tab for tab in self.tabs if tab not in holds]

    def _of_written(self) -> Iterator[str]:
        """The pass over what was written: its attention alone, in what is left of the size limit."""
        if self.generated is None or self.written is None:
            return
        stored, node = self.generated
        session = self.written.result()
        held = _PassFrames(session, self._held.layers, self._held.room, self._held.opening, "written/")
        yield from held.parts()
        about = describe(session, self.facts, self.texts, self.written.id, shown=self.tabs)
        more = {"exact_layers": held.exact_layers, "command": self._command(), "generated": stored.location(node)}
        yield json_block("written", {**about, **more, "readings": [], "absent": self._absent([], ())})

    def _description(self) -> dict[str, Any]:
        description = dict(self._about)
        description["exact_layers"] = self.exact_layers
        description["command"] = self._command()
        description["readings"] = [reading.entry() for reading in self._views]
        description["absent"] = self._absent(self._views, self._mapped())
        if self.start:
            description["start"] = self.start
        return description

    def _command(self) -> str:
        """The command that makes this page."""
        if self._made_by:
            return self._made_by
        flags = {"view": "--view", "l": "--layer", "h": "--head", "theme": "--theme"}
        start = {name: value for name, value in parse_qsl(self.start) if name in flags}
        options = [f"{flags[name]} {each}" for name in flags if name in start for each in start[name].split(",")]
        if self.generated is not None:
            options = command_line_options(self.generated[0].options)
        return look_command(self.facts, self.texts, *options, "--html", "page.html")


class _PassFrames:
    """The attention of a pass in a page: overviews of all layers, and the exact numbers of some.

    Args:
        layers, cap_bytes: as `StandalonePage`
        opening: the layer and the attention map that the page opens with
        prefix: of the names of its frames
    """

    def __init__(
        self,
        session: Session,
        layers: frozenset[int] | None,
        cap_bytes: int | None,
        opening: tuple[int, str],
        prefix: str = "",
    ) -> None:
        self.session, self.layers, self.cap_bytes = session, layers, cap_bytes
        self.opening, self.prefix = opening, prefix
        self.exact_layers: dict[str, list[int]] = {name: [] for name in session.maps}
        self._bytes = 0

    @property
    def left_out(self) -> list[int]:
        """The layers that are not exact because of the size limit."""
        maps = self.session.maps
        layers = range(max(attention_map.layers for attention_map in maps.values()) if self.layers is None else 0)
        return [
            layer
            for layer in layers
            if any(layer not in self.exact_layers[name] and layer < maps[name].layers for name in maps)
        ]

    @property
    def room(self) -> int:
        """Bytes that are left of the size limit, once `parts` is exhausted."""
        return max(0, (CAP_BYTES if self.cap_bytes is None else self.cap_bytes) - self._bytes)

    def parts(self, progress: Progress = lambda done, of: None) -> Iterator[str]:
        """Overviews of all layers, then exact layers: layer by layer, of every map."""
        maps = self.session.maps.values()
        layers_and_maps = [
            (layer, attention_map.name)
            for layer in range(max(attention_map.layers for attention_map in maps))
            for attention_map in maps
            if layer < attention_map.layers
        ]
        steps = len(layers_and_maps) * 2
        for step, (layer, name) in enumerate(layers_and_maps):
            progress(step, steps)
            overview = views.overview(self.session, map=name, layer=layer, exact=True)
            yield frame_block(f"{self.prefix}overview/{name}/{layer}", overview)
        self.exact_layers = {attention_map.name: [] for attention_map in maps}
        self._bytes = 0
        first, _ = self.opening
        layers_and_maps.sort(key=lambda pair: (pair[0] != first, pair != self.opening))  # stable: others in order
        for layer, name, frame in self._exact(
            layers_and_maps, lambda step: progress(len(layers_and_maps) + step, steps)
        ):
            insort(self.exact_layers[name], layer)
            self._bytes += len(frame)
            yield frame
        progress(steps, steps)

    def _exact(
        self, layers_and_maps: Sequence[tuple[int, str]], progress: Callable[[int], None]
    ) -> Iterator[tuple[int, str, str]]:
        """The exact layers that the page holds: layer, map and frame."""
        waiting = list[tuple[int, str, str]]()  # where all of them are held, or the first alone
        size, whole = 0, self.layers is None and self.cap_bytes is None
        cap = CAP_BYTES if self.cap_bytes is None else self.cap_bytes
        for step, (layer, name) in enumerate(layers_and_maps):
            progress(step)
            if self.layers is not None and layer not in self.layers:
                continue
            if self.layers is None and not views.has_distance_based_mask(self.session, map=name, layer=layer):
                continue
            exact = views.layer(self.session, map=name, layer=layer)
            frame = frame_block(f"{self.prefix}layer/{name}/{layer}", exact)
            size += len(frame)
            if self.layers is None and size > cap:
                waiting = [each for each in waiting if each[0] == self.opening[0]]
                break
            if whole:
                waiting.append((layer, name, frame))
            else:
                yield layer, name, frame
        yield from waiting


def projections_in(readings: Iterable[Reading], stream: str | None = None) -> dict[str, bytes]:
    """Projections made in a session, of a stream or of all: for each method and level the frame of the last one."""
    frames = {}
    for reading in readings:
        if reading.view == "projection" and stream in (None, reading.request["stream"]):
            frame = decode(reading.frame)
            about = {"method": frame.fields["method"]}
            for level, places in zip(frame.fields["levels"], frame.arrays["places"], strict=True):
                one = encode("projection", {"places": places[None]}, {**about, "levels": [level]})
                frames[f"{about['method']}/{level}"] = one
    return frames


def _map_parts(id: str, page_map: PageMap, projections: Mapping[str, bytes]) -> Iterator[str]:
    """A map of embeddings: its points as JSON, its places and neighbours as frames."""
    yield json_block(id, {**page_map.description(), "projections": list(projections)})
    for key, frame in page_map.frames(projections):
        yield frame_block(f"{id}/{key}", frame)


def _trace_parts(stored: StoredTrace, node: int, command: str) -> Iterator[str]:
    """A generation trace: the lines that its stream would have, and token distributions, those of the path first."""
    tree = stored.trace.tree
    nodes, choices = (
        list(tree.nodes.values()),
        list(tree.choices.values()),
    )  # copies: a job may be adding to them
    known = {0, *(node.id for node in nodes)}
    step = TreeStep(tuple(nodes), tuple(choice for choice in choices if choice.at in known), (), ())
    yield json_block(
        "trace",
        {
            "trace": stored.description,
            "steps": [plain(step)],
            "ready": None if stored.result is None else result_summary(stored.trace, stored.result),
            "node": node,
            "command": command,
        },
    )
    path = {0, *tree.path(node)}
    node_ids = sorted((choice.at for choice in step.choices), key=lambda node_id: (node_id not in path, node_id))
    for node_id in node_ids[:MAX_DISTRIBUTIONS]:
        frame = distribution(stored.trace, w=stored.id, node=node_id, count=MAX_LISTED_TOKENS)
        yield frame_block(f"distribution/{node_id}", frame)


def notebook_frame(page: str) -> str:
    """A page for the cell of a notebook: a sandboxed iframe, without a server."""
    # In ASCII, so that the hash of the script in the content security policy holds in any encoding.
    source = escape(page).encode("ascii", "xmlcharrefreplace").decode()
    return (
        f'<iframe srcdoc="{source}" sandbox="allow-scripts allow-downloads" title="glassformer explorer" '
        'style="width: 100%; height: 720px; border: 0"></iframe>'
    )


def _compressed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()


def json_block(id: str, fields: dict[str, Any]) -> str:
    """JSON of a standalone page, by its id."""
    text = json.dumps(fields, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    content = text.encode("utf-8", "backslashreplace")  # half of a surrogate pair as JSON escapes it
    return element("script", _compressed(content), type="application/json", id=id) + "\n"


def frame_block(key: str, frame: bytes) -> str:
    """A binary frame of a standalone page, by its key."""
    return data_element(_compressed(frame), class_="frame", data_key=key)


def data_element(data: str, **attributes: str) -> str:
    """Data of a standalone page as text, such as base64."""
    return element("script", data, type="application/octet-stream", **attributes) + "\n"
