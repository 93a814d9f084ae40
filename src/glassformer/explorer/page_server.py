"""Base class of pages served beside the explorer: address, access token, start and stop."""

from __future__ import annotations

import atexit
import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from starlette.routing import Route

from glassformer.errors import ConfigError
from glassformer.explorer.app import build
from glassformer.explorer.server import HOST, Server, bind, has_display, open_browser, remote_hint
from glassformer.explorer.session_runs import SessionRuns
from glassformer.explorer.traces import TraceStore


class PageServer(ABC):
    """A page served on this machine, for those who have its token, from `begin` to `close` or the end of a `with`.

    runs: the forward passes of the model that the explorer shows
    """

    def __init__(self, runs: SessionRuns) -> None:
        self._runs, self._traces = runs, TraceStore(runs.model)
        self._token = secrets.token_urlsafe(24)
        self._server: Server | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """The address with the access token; do not share it."""

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/"

    @property
    def port(self) -> int:
        if self._server is None or not self._server.running:
            raise ConfigError("nothing is served: this was saved as a file, or closed")
        return self._server.port

    def begin(self, texts: Sequence[str], port: int | None = None, routes: Sequence[Route] = ()) -> None:
        """Start serving the explorer in a thread, with these routes beside it.

        Args: texts: the initial texts of the page · port: None = a free one
        Raises: ConfigError: the port is taken.
        """
        app = build(self._runs, self._traces, self._token, texts, routes)
        self._server = Server(app, bind(port))
        atexit.register(self.close)

    def show(self, browser: bool | None = None) -> None:
        """Print the address, and open a browser on it.

        Args:
            browser: None = where there is a display.
        """
        opened = (has_display() if browser is None else browser) and open_browser(self.url)
        print(f"{'opened' if opened else 'open'} {self.url}", flush=True)
        if (hint := remote_hint(self.port)) is not None:
            print(hint, flush=True)

    def wait(self) -> None:
        """Serve until Ctrl-C."""
        if self._server is None:
            return
        try:
            self._server.wait()
        except KeyboardInterrupt:
            print("\nstopped", flush=True)
        finally:
            self.close()

    def close(self) -> None:
        """Stop the server, and cancel running passes and generation. Finished sessions can still be saved."""
        atexit.unregister(self.close)
        if self._server is not None:
            self._server.close()
            self._server = None
        self._traces.close()
        self._runs.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
