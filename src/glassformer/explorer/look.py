"""`model.look(texts)`: the attention explorer for one forward pass: a web page, served or as a file."""

from __future__ import annotations

import builtins
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.explorer.describe import ModelFacts, check_view, opens_with_generation, views_of
from glassformer.explorer.difference import difference_readings
from glassformer.explorer.embedding_page import PageMap
from glassformer.explorer.lesson import read_lesson
from glassformer.explorer.lesson_views import lesson_views
from glassformer.explorer.options import check_not_empty
from glassformer.explorer.registry import Reading, has_report_views, tabs
from glassformer.explorer.server import Explorer, LocalPage, in_notebook
from glassformer.explorer.session_runs import SessionFactory, SessionRun, SessionRuns
from glassformer.explorer.similarity import similarity_readings
from glassformer.explorer.standalone_page import (
    Progress,
    StandalonePage,
    notebook_frame,
    page_around,
)
from glassformer.explorer.still import of_generation, of_head, of_view
from glassformer.explorer.tour import played
from glassformer.explorer.traces import MAX_PROMPT_TOKENS, StoredTrace, check_options
from glassformer.files import is_int, safe_repr
from glassformer.inspect.session import Session
from glassformer.inspect.tokens import Token, find_token
from glassformer.reports.page import check_html_path, command_line, shown_path
from glassformer.reports.report import InNotebook, LivePage
from glassformer.reports.table import byte_amount

THEMES = ("light", "dark")
NOTEBOOK_BYTES = 600_000
"""Maximum size of the exact layers of a page inside a notebook, which is saved with it."""
EARLY_ERROR_SECONDS = 0.5
"""How long `serve` waits for a text that the model rejects, so that the error comes before the address."""


def look(
    factory: SessionFactory,
    texts: str | Sequence[str] | None,
    start: InitialView,
    *,
    lesson: str | Path | None = None,
    port: int | None = None,
    browser: bool | None = None,
    html: str | Path | None = None,
    block: bool | None = None,
) -> Look:
    """Visualise every attention head of one forward pass in a browser; see `Model.look`."""
    if html is not None:
        check_html_path(html)
        start.check_saved()
    if lesson is not None:
        factory, texts, start = _with_lesson(factory, texts, start, lesson)
    page = Look(SessionRuns(factory), _text_list(texts), start, lesson=None if lesson is None else str(lesson))
    if lesson is not None:
        played(page.session, factory)  # an error of a step is early
    if html is not None:
        with page:
            page.save(html)
        return page
    if in_notebook() and port is None and browser is None and not block:
        page.run.result()  # raises where the model rejects the text
        return page  # the cell shows the page itself: no server, and no address that would be saved with it
    page.serve(port)
    page.show(browser)
    if block or (block is None and not _interactive()):
        page.wait()
    return page


@dataclass(frozen=True, kw_only=True, slots=True)
class InitialView:
    """Initial state of a page: its view, layer, heads, cell, theme; None = the page's default.

    query, key: the pinned tokens: their numbers, or their texts, wherever they stand first
    pair: of two texts, the number of the one that attends and of the one that is attended to: (0, 1)
    options: generation options of the view "generate", as in `generate`.
    projection: of the view "embedding": pca, tsne or umap
    tour: step of the lesson, from 1

    Raises: ConfigError: no such view, theme or option, or a layer or head that is no number.
    """

    view: str | None = None
    layer: int | None = None
    heads: int | Sequence[int] | None = None
    query: int | str | None = None
    key: int | str | None = None
    pair: Sequence[int] | None = None
    theme: str | None = None
    options: Mapping[str, Any] | None = None
    projection: str | None = None
    tour: int | None = None

    def __post_init__(self) -> None:
        for name, value, allowed in (("view", self.view, tabs()), ("theme", self.theme, THEMES)):
            if value is not None and value not in allowed:
                raise ConfigError(f"{name} is {safe_repr(value)}; allowed: {', '.join(allowed)}")
        for number in [*([] if self.layer is None else [self.layer]), *self.head_list]:
            if not is_int(number):
                raise ConfigError(f"layers and heads are counted from 0; got {safe_repr(number)}")
        for name, token in (("query", self.query), ("key", self.key)):
            if not (token is None or isinstance(token, str) or is_int(token)):
                raise ConfigError(f"{name} is {safe_repr(token)}; it must be a token: its number from 0, or its text")
        if self.pair is not None and not (len(self.pair) == 2 and set(self.pair) <= {0, 1}):
            raise ConfigError(f"pair is {safe_repr(self.pair)}; it must be two of 0 and 1, such as (0, 1)")
        if self.options is not None and self.view != "generate":
            raise ConfigError("options say how a text is written; they go with view='generate'")
        check_options(self.options or {})

    def check_within(self, facts: ModelFacts, texts: Sequence[str]) -> None:
        """Raises: ConfigError: a layer or head that the model does not have. UnsupportedError: such a view."""
        check_view(self.view, facts, texts)
        for name, count, numbers in (
            ("layer", facts.layers, [] if self.layer is None else [self.layer]),
            ("head", facts.heads, self.head_list),
        ):
            if numbers and max(numbers) >= count:
                raise ConfigError(f"{name} is {max(numbers)}; the model has {count}, counted from 0 to {count - 1}")

    def at_tokens_of(self, session: Session) -> InitialView:
        """With the numbers of its tokens. Raises: ConfigError: the first map of the session has no such token."""
        about = next(iter(session.maps.values()))
        query = _place("query", self.query, session.streams[about.queries])
        return replace(self, query=query, key=_place("key", self.key, session.streams[about.keys]))

    def check_saved(self) -> None:
        """Raises: ConfigError: the view is another page where it is a file."""
        if self.view == "sound":
            raise ConfigError(
                "the view 'sound' as a file is the page of a transcription: glassformer transcribe MODEL FILE --html "
                "page.html"
            )
        if self.view == "contexts":
            raise ConfigError(
                "the view 'contexts' as a file is the page of a search: glassformer corpus search MODEL INDEX TEXT "
                "--html page.html"
            )

    @property
    def fragment(self) -> str:
        """URL fragment: `v=1&view=head&l=4&h=11`."""
        parameters = {
            "view": self.view,
            "l": self.layer,
            "h": ",".join(map(str, self.head_list)) or None,
            "q": self.query,
            "k": self.key,
            "from": None if self.pair is None else self.pair[0],
            "to": None if self.pair is None else self.pair[1],
            "theme": self.theme,
            "em": self.projection,
            "tour": self.tour,
        }
        state: dict[str, Any] = {name: value for name, value in parameters.items() if value is not None}
        for name, value in (self.options or {}).items():
            state[f"g.{name}"] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return urlencode({"v": 1, **state}, safe=",") if state else ""

    @property
    def head_list(self) -> Sequence[int]:
        return [self.heads] if isinstance(self.heads, int) else self.heads or ()


def saved_view(start: InitialView, views: Sequence[str], *, compares: bool) -> InitialView:
    """What a file opens with that shows some views; none = all.

    Args:
        compares: whether there is a model to compare with
    Raises: ConfigError: as `Look.page`.
    """
    for name in views:
        if name not in tabs():
            raise ConfigError(f"views has {safe_repr(name)}; allowed: {', '.join(tabs())}")
        InitialView(view=name).check_saved()
    if views and start.view is None:
        start = replace(start, view=views[0])
    if views and start.view not in views:
        raise ConfigError(f"view is {start.view!r}, and views= leaves it out: {', '.join(views)}; add it there")
    start.check_saved()
    if "difference" in (start.view, *views) and not compares:
        raise ConfigError(
            "the view 'difference' as a file compares with another model or precision; give one by against=, such "
            "as int8"
        )
    return start


class Look(LocalPage, InNotebook):
    """The attention explorer of one or two texts: served as a web page, or saved as an HTML file.

        with model.look("time flies", block=False) as look:
            look.url                        the address, with the token that opens it
            look.save("page.html")          the page as one file

    In a notebook it shows the page itself, without a server; `serve` starts one.
    """

    def __init__(
        self,
        runs: SessionRuns,
        texts: Sequence[str],
        start: InitialView | None = None,
        *,
        corpus: PageMap | None = None,
        projections: Mapping[str, bytes] | None = None,
        lesson: str | None = None,
    ) -> None:
        super().__init__()
        self._lesson = lesson
        self.explorer = Explorer(runs)
        self.explorer.maps.corpus, self._projections = corpus, dict(projections or {})
        self.texts = tuple(texts)
        self.start = start or InitialView()
        self.start.check_within(runs.factory.facts, self.texts)
        self._generated: tuple[StoredTrace, int] | None = None
        self._written_to: str | None = None
        if self.start.view == "generate":
            self._check_can_generate()
        run = self.run  # begun at once
        if (self.start.query, self.start.key) != (None, None):
            self.start = self.start.at_tokens_of(run.result())

    @property
    def run(self) -> SessionRun:
        """The forward pass: running, finished, or, where it was evicted, begun again."""
        return self.explorer.runs.begin(self.texts)

    @property
    def session(self) -> Session:
        """The inspection session of the forward pass; waits for it. Raises: what the pass raised."""
        return self.run.result()

    @property
    def url(self) -> str:
        """The address with the access token; do not share it."""
        start = self.start.fragment
        return f"{self.address}#token={self._token}" + (f"&{start}" if start else "")

    @property
    def facts(self) -> dict[str, Any]:
        """Texts, tokens and attention maps of the forward pass, its seconds and its memory."""
        session = self.session
        return {
            "texts": list(session.texts),
            "tokens": {side: len(tokens) for side, tokens in session.streams.items()},
            "maps": {name: {"layers": maps.layers, "heads": maps.heads} for name, maps in session.maps.items()},
            "seconds": session.seconds,
            "memory_bytes": session.nbytes,
        }

    @property
    def summary(self) -> str:
        """`13 text tokens · self 6 × 12 heads · forward pass 0.02 s · 0.1 MB stored`"""
        session = self.session
        parts = [f"{len(tokens):,} {side} tokens" for side, tokens in session.streams.items()]
        parts += [f"{name} {maps.layers} × {maps.heads} heads" for name, maps in session.maps.items()]
        parts += [f"forward pass {session.seconds:.2f} s", f"{byte_amount(session.nbytes)} stored"]
        return " · ".join(parts)

    def serve(self, port: int | None = None) -> None:
        """Start the web server on this machine, in a thread.

        Raises: ConfigError: the port is taken. What the pass raised, where the model cannot take the texts.
        """
        try:
            if self.run.wait(EARLY_ERROR_SECONDS):
                self.run.result()  # raises where the model rejects the text: better than the address of an error
            self.serve_app(self.explorer.app(self.texts, self._token), port)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop the server, and what runs in its threads. Finished sessions can still be saved."""
        super().close()
        self.explorer.close()

    def page(
        self, *, layers: Sequence[int] | None = None, cap_bytes: int | None = None, views: Sequence[str] = ()
    ) -> StandalonePage:
        """The standalone HTML page: with the exact numbers of `layers`, or of as many layers as stay below the cap.

        Args:
            cap_bytes: None = of all layers, up to 25 MB; of a page that would be larger, the layer it opens with
            views: that the page shows, and opens with the first of them; none = all
        Raises: ConfigError: no such view, it leaves out the one that the page opens with, or nothing to compare with.
        """
        start = saved_view(self.start, views, compares=self.explorer.runs.factory.against is not None)
        return self._page(start, layers, cap_bytes, command_line(), views)

    def _page(
        self,
        begin: InitialView,
        layers: Sequence[int] | None,
        cap_bytes: int | None,
        command: str,
        tabs: Sequence[str] = (),
    ) -> StandalonePage:
        run = self.run
        session, runs = run.result(), self.explorer.runs
        start, written = begin.fragment, None
        shown, generated = list[Reading](), None
        if self._opens_with_generation(begin):
            stored, node = generated = self._write()
            written = runs.attend(stored.trace, node) if node else None
            start = start or "v=1&view=generate"
        else:
            shown, generated = lesson_views(self.explorer.jobs.scene(run.id))
        return StandalonePage(
            session,
            runs.facts,
            self.texts,
            layers=layers,
            cap_bytes=cap_bytes,
            first=begin.layer,
            start=start,
            generated=generated,
            written=written,
            readings=[
                *shown,
                *similarity_readings(runs, self.texts),
                *difference_readings(runs, session),
            ],
            corpus=self.explorer.maps.corpus,
            projections=self._projections,
            lesson=runs.factory.lesson,
            compare=runs.factory.explain_similarity,
            command=command,
            tabs=tabs,
        )

    def _opens_with_generation(self, start: InitialView) -> bool:
        """Whether the page opens with what the model writes: requested by name, or nothing else was and it has room."""
        facts = self.explorer.runs.facts
        if any(given is not None for given in (start.view, start.layer, start.heads, start.tour)):
            return start.view == "generate"
        room = MAX_PROMPT_TOKENS if facts.max_tokens is None else min(MAX_PROMPT_TOKENS, facts.max_tokens)
        return opens_with_generation(facts, self.texts) and max(map(len, self.session.streams.values())) < room

    def _write(self) -> tuple[StoredTrace, int]:
        """Generate as `start` says, once; gives the trace and the last node of the best text."""
        if self._generated is None:
            stored = self.explorer.traces.write_opening(self.texts[0], self.start.options or {})
            best = stored.result.answers if stored.result else ()
            self._generated = stored, best[0].node if best else 0
        return self._generated

    def _check_can_generate(self) -> None:
        """Raises: UnsupportedError: the model cannot generate. ConfigError: options that do not go together."""
        self.explorer.traces.begin(self.texts[0], self.start.options or {})

    def save(
        self,
        path: str | Path,
        *,
        layers: Sequence[int] | None = None,
        cap_bytes: int | None = None,
        views: Sequence[str] = (),
        progress: Progress = lambda done, of: None,
    ) -> StandalonePage:
        """Write the standalone HTML page; an existing file is replaced once the new one is complete.

        Args:
            layers, cap_bytes, views: as `page`

        Returns: the page; its `exact_layers` names the layers whose exact numbers it holds.
        Raises: DataError: no such layer, or a path that cannot be written to.
        """
        check_html_path(path)
        page = self.page(layers=layers, cap_bytes=cap_bytes, views=views)
        page.save(path, progress)
        self._written_to = str(path)
        return page

    def __repr__(self) -> str:
        """Without the access token: what is printed may be pasted, what is in a notebook is saved."""
        status = "not served" if self._written_to is None else f"written to {safe_repr(self._written_to)}"
        if self._server is not None:
            status = f"at {self.address}, open .url"
        return f"Look({', '.join(safe_repr(text) for text in self.texts)}: {status})"

    def notebook_html(self) -> str:
        """The page in a frame. Raises: ConfigError: it cannot be saved as it was opened."""
        self.start.check_saved()
        return notebook_frame(str(self._page(self.start, None, NOTEBOOK_BYTES, self._python())))

    def live_page(self) -> LivePage:
        """The page in a cell, in which the texts can be changed."""
        return LivePage(
            html=lambda: "".join(
                page_around(
                    views=views_of(self.explorer.runs.facts),
                    reports=has_report_views(),
                    start=self.start.fragment,
                )
            ),
            still=self._still,
            app=self.explorer.cell_app(self.texts),
            released=self.explorer.runs.forget,
        )

    def _still(self) -> str:
        """The view that the page opens with, or the head, as a notebook is saved with it."""
        if self._opens_with_generation(self.start):
            stored, node = self._write()
            return of_generation(stored.trace, node).notebook_html()
        session, start = self.session, self.start
        with suppress(UnsupportedError):  # the page says why, and has other views
            if (shown := of_view(session, start.view)) is not None:
                return shown.notebook_html()
        finding = next(iter(session.findings), None)
        if finding is None or start.layer is not None or start.head_list:
            head = session.head(start.layer or 0, next(iter(start.head_list), 0), next(iter(session.maps)))
            return of_head(head).notebook_html()
        return of_head(session.head(finding.layer, finding.head, finding.map), finding.sentence).notebook_html()

    def _python(self) -> str:
        """The call that shows this page in a notebook."""
        start = self.start
        texts = self.texts[0] if len(self.texts) == 1 else list(self.texts)
        if self._lesson is not None:
            return f"model.look({texts!r}, lesson={shown_path(self._lesson)!r})"
        given = {name: getattr(start, name) for name in ("view", "layer", "heads", "query", "key", "theme", "options")}
        arguments = [f"{name}={value!r}" for name, value in given.items() if value is not None]
        return f"model.look({', '.join([repr(texts), *arguments])})"


def token_of(text: str | None) -> int | str | None:
    """A token as a command line names it: by its number, or by its text."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() else text


def _place(name: str, token: int | str | None, tokens: Sequence[Token]) -> int | None:
    """The number of a token. Raises: ConfigError: there is no such one."""
    try:
        return None if token is None else find_token(token, tokens)
    except DataError as error:
        raise ConfigError(f"{name}: {error}") from error


def _with_lesson(
    factory: SessionFactory, texts: str | Sequence[str] | None, start: InitialView, name: str | Path
) -> tuple[SessionFactory, str | Sequence[str] | None, InitialView]:
    """The factory with a lesson, its texts where there are no others, and its first step.

    Raises: DataError: no such lesson, or no text. ConfigError: another view.
    """
    if start != InitialView(theme=start.theme):
        raise ConfigError("a lesson opens the views of its steps; give lesson=, or view=, layer=, heads= and the like")
    planned = read_lesson(name)
    if texts is None and planned.texts is None:
        raise DataError(f"the lesson {planned.title!r} is on a text of yours: look(text, lesson={str(name)!r})")
    own = planned.model is None or planned.model.rpartition("/")[2] == factory.facts.name.rpartition("/")[2]
    factory = replace(factory, lesson=planned if own else planned.anywhere())
    return factory, planned.texts if texts is None else texts, replace(start, tour=1)


def _text_list(texts: str | Sequence[str] | None) -> list[str]:
    if texts is None:
        raise DataError("there is no text to look at; give one text, or two in a list, or lesson= and its name")
    sequence = [texts] if isinstance(texts, str) else texts
    if (
        isinstance(sequence, (bytes, dict))
        or not isinstance(sequence, Sequence)
        or len(sequence) not in (1, 2)
        or not all(isinstance(text, str) for text in sequence)
    ):
        raise DataError(f"the texts are {safe_repr(texts)}; give one text, or two in a list")
    check_not_empty(sequence)
    return list(sequence)


def _interactive() -> bool:
    """Is this an interactive session (shell, notebook), where `look` should return, unlike in a script?"""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive) or hasattr(builtins, "__IPYTHON__")
