"""Reports, served: a page of them at each path, read again whenever it is opened; and the explorer of their models.

GET  /PATH  /page.css  /page.js     the page without its reports, which needs no key
GET  /api/report/PATH               the reports of a path, as the JSON of `reports/page.py`; needs the key; 304 where
                                    the page has them already
GET  /look/NAME  /static/…          the explorer of a model; /api/look/NAME//… is its API (explorer/app.py)

A path is what links of a report lead to: the page of a folder of runs has one for each run, and rows lead to the model
that predicted them.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from glassformer.errors import DataError
from glassformer.explorer import http
from glassformer.explorer.app import static_routes
from glassformer.explorer.http import Guard
from glassformer.explorer.server import Explorer, LocalPage
from glassformer.explorer.session_runs import SessionFactory, SessionRuns
from glassformer.reports.page import exact_command, page_title, part_data, served_files, served_page
from glassformer.reports.report import Display

LOOK, LOOK_API = "/look/", "/api/look/"
MAX_MODELS = 3
"""Models that are kept in memory, those used last."""
Pages = Callable[[str], Sequence[Display]]
Explored = Callable[[str], tuple[SessionFactory, Sequence[str]]]


def one_page(reports: Sequence[Display]) -> Pages:
    """The pages of a server that has one."""

    def pages(path: str) -> Sequence[Display]:
        if path:
            raise DataError(f"{path}: there is nothing here")
        return reports

    return pages


def explorer_address(name: str) -> str:
    """The path of the explorer of a model."""
    return LOOK + quote(name)


class Explorers:
    """The explorers of models by name, as one application: each is opened when it is first asked for.

    Args:
        explored: name → what is shown of its model, and the texts that the page begins with
        token: access token that they require
    """

    def __init__(self, explored: Explored, token: str) -> None:
        self._explored, self._token = explored, token
        self._lock = threading.Lock()
        self._opened: OrderedDict[str, tuple[Explorer, ASGIApp]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name, _, rest = scope["path"].removeprefix(LOOK_API).rpartition("//")
        try:
            app = await run_in_threadpool(self._app, name)
        except Exception as error:  # such as a run without a model: the page says it
            app = http.refusal(*http.status_and_message(error))
        path = f"/api/{rest}"
        await app({**scope, "path": path, "raw_path": path.encode(), "root_path": ""}, receive, send)

    def _app(self, name: str) -> ASGIApp:
        with self._lock:
            if name not in self._opened:
                factory, texts = self._explored(name)
                explorer = Explorer(SessionRuns(factory))
                # A row whose input is no text and no file, such as bytes of Parquet, opens the explorer with none.
                self._opened[name] = explorer, explorer.app(texts or [""], self._token)
            self._opened.move_to_end(name)
            while len(self._opened) > MAX_MODELS:
                self._opened.popitem(last=False)[1][0].close()
            return self._opened[name][1]

    def close(self) -> None:
        """Stop what runs in them."""
        with self._lock:
            for explorer, _ in self._opened.values():
                explorer.close()


def _no_model(name: str) -> tuple[SessionFactory, Sequence[str]]:
    raise DataError(f"{name}: there is no model here")


class ReportServer(LocalPage):
    """A local server of pages of reports, until it is closed.

    Args:
        pages: path → the reports of its page, "" = those of the first. Raises: GlassformerError: which the page shows
        port: None = a free one
        wording: of remarks, such as one with options as a command has them
        explored: of models to which rows lead, as of `Explorers`
        stamp: path → a text that is another where its reports may be, without reading them: an open page looks at it
            every few seconds; None = they stay as they are
    Raises: ConfigError: the port is taken.
    """

    def __init__(
        self,
        pages: Pages,
        port: int | None = None,
        *,
        wording: Callable[[str], str] = str,
        explored: Explored = _no_model,
        stamp: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__()
        self._pages, self._wording, self._stamp = pages, wording, stamp
        self._explorers = Explorers(explored, self._token)
        self.serve_app(self._app(), port)

    def _app(self) -> ASGIApp:
        def data(path: str) -> bytes:
            reports = self._pages(path)
            written = part_data(*reports, title=page_title(reports), wording=self._wording)
            return json.dumps(written, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

        async def report(request: Request) -> Response:
            path = request.path_params["path"]
            headers = {"content-type": "application/json"}
            if self._stamp is not None:
                headers["etag"] = f'"{await run_in_threadpool(self._stamp, path)}"'
                if request.headers.get("if-none-match") == headers["etag"]:
                    return Response(status_code=304, headers=headers)
            content = await run_in_threadpool(data, path)
            if http.accepts_gzip(request):
                content, headers["content-encoding"] = gzip.compress(content, 5), "gzip"
            return Response(content, headers=headers)

        style, script = served_files(live=self._stamp is not None)
        routes = [
            Route("/page.css", http.static_text(style, "text/css")),
            Route("/page.js", http.static_text(script, "text/javascript")),
            Route("/api/report/{path:path}", http.json_errors(report)),
            Mount(LOOK_API.rstrip("/"), app=self._explorers),
            *static_routes(path=f"{LOOK}{{name:path}}"),
            Route("/{path:path}", http.static_text(served_page(), "text/html")),
        ]
        app = Starlette(routes=routes, exception_handlers={HTTPException: http.http_error})
        return Guard(app, self._token, exact_command())

    def close(self) -> None:
        """Stop the server and the explorers."""
        super().close()
        self._explorers.close()
