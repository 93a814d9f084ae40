"""Server of the error analysis page, beside the explorer, which opens any of its rows in the run's own model.

GET  /errors  /errors/page.css  /errors/page.js     the page without rows, which needs no key
GET  /api/errors                                    the rows; needs the key
all others                                           the explorer (explorer/app.py)

A row's link carries its text to the explorer as the explorer's own links do, in the address's fragment.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.evaluation.error_analysis.page import ErrorsPage, explorer_texts, page_script, page_style
from glassformer.explorer.page_server import PageServer
from glassformer.explorer.responses import Endpoint
from glassformer.explorer.session_runs import SessionRuns

if TYPE_CHECKING:
    from glassformer.model import Model


class ServedErrors(PageServer):
    """A local server of the page and the explorer, until it is closed.

    Args:
        model: that the explorer shows · port: None = a free one
    Raises: ConfigError: the port is taken.
    """

    def __init__(self, page: ErrorsPage, model: Model, port: int | None = None) -> None:
        super().__init__(SessionRuns(model))
        routes = [
            Route("/errors", _static(_page_shell(page.title), "text/html")),
            Route("/errors/page.css", _static(page_style(), "text/css")),
            Route("/errors/page.js", _static(page_script(), "text/javascript")),
            Route("/api/errors", _static(page.body(served=True), "text/html")),
        ]
        self.begin(explorer_texts(page.rows[0]), port, routes)

    @property
    def url(self) -> str:
        return f"{self.address}errors#token={self._token}"


def _static(content: str, kind: str) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return Response(content.encode("utf-8", "replace"), media_type=kind)

    return endpoint


def _page_shell(title: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f'<title>{escape(title)}</title><link rel="stylesheet" href="/errors/page.css"></head>\n'
        '<body><main><p class="dim">Fetching the rows …</p></main><script src="/errors/page.js"></script>'
        "</body></html>\n"
    )
