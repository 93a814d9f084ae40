"""A page of the explorer as it is served: its address, and how it begins and ends."""

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
from glassformer.explorer.runs import Runs
from glassformer.explorer.serve import HOST, Server, bind, can_show, open_browser, way_there
from glassformer.explorer.writings import Writings


class Served(ABC):
    """What is on this machine, for who has the token, from `begin` to `close`, or to the end of a `with`.

    runs: which also hold the model that is looked into
    """

    def __init__(self, runs: Runs) -> None:
        self._runs, self._writings = runs, Writings(runs.model)
        self._token = secrets.token_urlsafe(24)
        self._server: Server | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """The address, with the token that opens it: for nobody else."""

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/"

    @property
    def port(self) -> int:
        if self._server is None or not self._server.running:
            raise ConfigError("nothing is served: this was saved as a file, or closed")
        return self._server.port

    def begin(self, texts: Sequence[str], port: int | None = None, routes: Sequence[Route] = ()) -> None:
        """Serve the explorer, from a thread, and beside it these routes.

        Args: texts: that its page begins with · port: None = a free one
        Raises: ConfigError: the port is taken.
        """
        app = build(self._runs, self._writings, self._token, texts, routes)
        self._server = Server(app, bind(port))
        atexit.register(self.close)

    def show(self, browser: bool | None = None) -> None:
        """Print the address, and open a browser on it.

        Args:
            browser: None = where there is a screen.
        """
        opened = (can_show() if browser is None else browser) and open_browser(self.url)
        print(f"{'opened' if opened else 'open'} {self.url}", flush=True)
        if (hint := way_there(self.port)) is not None:
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
        """Stop the server, and a pass that is under way. What has been computed stays: it can be saved still."""
        atexit.unregister(self.close)
        if self._server is not None:
            self._server.close()
            self._server = None
        self._writings.close()
        self._runs.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
