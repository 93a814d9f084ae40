"""Reports, served: a page of them at each path, read again whenever it is opened.

GET  /PATH  /page.css  /page.js     the page without its reports, which needs no key
GET  /api/report/PATH               the reports of a path, as the JSON of `reports/page.py`; needs the key

A path is what links of a report lead to: the page of a folder of runs has one for each run.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from glassformer.explorer import http
from glassformer.explorer.http import Guard
from glassformer.explorer.server import LocalPage
from glassformer.reports.page import page_title, part_data, served_files, served_page
from glassformer.reports.report import Display

Pages = Callable[[str], Sequence[Display]]


class ReportServer(LocalPage):
    """A local server of pages of reports, until it is closed.

    Args:
        pages: path → the reports of its page, "" = those of the first. Raises: GlassformerError: which the page shows
        port: None = a free one
        wording: of remarks, such as one with options as a command has them
    Raises: ConfigError: the port is taken.
    """

    def __init__(self, pages: Pages, port: int | None = None, *, wording: Callable[[str], str] = str) -> None:
        super().__init__()
        self._pages, self._wording = pages, wording
        self.serve_app(self._app(), port)

    @property
    def url(self) -> str:
        return f"{self.address}#token={self._token}"

    def _app(self) -> ASGIApp:
        def data(path: str) -> bytes:
            reports = self._pages(path)
            written = part_data(*reports, title=page_title(reports), wording=self._wording)
            return json.dumps(written, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

        async def report(request: Request) -> Response:
            content = await run_in_threadpool(data, request.path_params["path"])
            headers = {"content-type": "application/json"}
            if http.accepts_gzip(request):
                content, headers["content-encoding"] = gzip.compress(content, 5), "gzip"
            return Response(content, headers=headers)

        style, script = served_files()
        routes = [
            Route("/page.css", http.static_text(style, "text/css")),
            Route("/page.js", http.static_text(script, "text/javascript")),
            Route("/api/report/{path:path}", http.json_errors(report)),
            Route("/{path:path}", http.static_text(served_page(), "text/html")),
        ]
        return Guard(Starlette(routes=routes, exception_handlers={HTTPException: http.http_error}), self._token)
