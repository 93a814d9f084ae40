"""The page of an evaluation served beside the explorer, which looks at any of its rows with the run's own model.

GET  /errors  /errors/page.css  /errors/page.js     the page without a row; nothing in it is secret
GET  /api/errors                                    the rows, for who has the key
all else                                            the explorer (explorer/app.py)

A row's link carries its text to the explorer as the explorer's own links do, in the address's fragment.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.evaluation.error_analysis.page import ErrorsPage, script, style, texts_of
from glassformer.explorer.answers import Endpoint
from glassformer.explorer.runs import Runs
from glassformer.explorer.served import Served

if TYPE_CHECKING:
    from glassformer.model import Model


class ServedErrors(Served):
    """A server on this machine, until it is closed.

    Args:
        model: which the explorer looks into · port: None = a free one
    Raises: ConfigError: the port is taken.
    """

    def __init__(self, page: ErrorsPage, model: Model, port: int | None = None) -> None:
        super().__init__(Runs(model))
        routes = [
            Route("/errors", _answer(_shell(page.title), "text/html")),
            Route("/errors/page.css", _answer(style(), "text/css")),
            Route("/errors/page.js", _answer(script(), "text/javascript")),
            Route("/api/errors", _answer(page.body(served=True), "text/html")),
        ]
        self.begin(texts_of(page.rows[0]), port, routes)

    @property
    def url(self) -> str:
        return f"{self.address}errors#token={self._token}"


def _answer(content: str, kind: str) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return Response(content.encode("utf-8", "replace"), media_type=kind)

    return endpoint


def _shell(title: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f'<title>{escape(title)}</title><link rel="stylesheet" href="/errors/page.css"></head>\n'
        '<body><main><p class="dim">Fetching the rows …</p></main><script src="/errors/page.js"></script>'
        "</body></html>\n"
    )
