"""The page of an evaluation served beside the explorer, which looks at any of its rows with the run's own model.

GET  /errors  /errors/page.css  /errors/page.js     the page without a row; nothing in it is secret
GET  /api/errors                                    the rows, for who has the key
all else                                            the explorer (explorer/app.py)

A row's link carries its text to the explorer as the explorer's own links do, in the address's fragment.
"""

from __future__ import annotations

import secrets
from html import escape
from types import TracebackType
from typing import TYPE_CHECKING, Self

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.explorer.answers import Endpoint
from glassformer.explorer.app import build
from glassformer.explorer.runs import Runs
from glassformer.explorer.serve import HOST, Server, bind, can_show, open_browser, way_there
from glassformer.explorer.writings import Writings
from glassformer.judging.mistakes.page import ErrorsPage, script, style, texts_of

if TYPE_CHECKING:
    from glassformer.model import Model


class ServedErrors:
    """A server on this machine, until it is closed.

    Args:
        model: which the explorer looks into · port: None = a free one
    Raises: ConfigError: the port is taken.
    """

    def __init__(self, page: ErrorsPage, model: Model, port: int | None = None) -> None:
        self._token = secrets.token_urlsafe(24)
        self._runs, self._writings = Runs(model), Writings(model)
        own = texts_of(page.rows[0])
        routes = [
            Route("/errors", _answer(_shell(page.title), "text/html")),
            Route("/errors/page.css", _answer(style(), "text/css")),
            Route("/errors/page.js", _answer(script(), "text/javascript")),
            Route("/api/errors", _answer(page.body(served=True), "text/html")),
        ]
        app = build(self._runs, self._writings, self._token, own, routes)
        self._server = Server(app, bind(port))
        self.port = self._server.port

    @property
    def url(self) -> str:
        """The address, with the token that opens it: for nobody else."""
        return f"http://{HOST}:{self.port}/errors#token={self._token}"

    def show(self, browser: bool | None = None) -> None:
        """Print the address, and open a browser on it; None = where there is a screen."""
        opened = (can_show() if browser is None else browser) and open_browser(self.url)
        print(f"{'opened' if opened else 'open'} {self.url}", flush=True)
        if (hint := way_there(self.port)) is not None:
            print(hint, flush=True)

    def wait(self) -> None:
        """Serve until Ctrl-C."""
        try:
            self._server.wait()
        except KeyboardInterrupt:
            print("\nstopped", flush=True)

    def close(self) -> None:
        """Stop the server, and a pass that is under way."""
        self._server.close()
        self._writings.close()
        self._runs.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


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
