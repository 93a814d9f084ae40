"""A local HTTP server (uvicorn in a thread, bound to 127.0.0.1), and the base class of the pages it serves."""

from __future__ import annotations

import atexit
import getpass
import logging
import os
import secrets
import socket
import sys
import tempfile
import threading
import webbrowser
from asyncio import AbstractEventLoop, Transport
from collections.abc import Sequence
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from glassformer.errors import ConfigError
from glassformer.explorer.app import application, build
from glassformer.explorer.embeddings import EmbeddingMaps
from glassformer.explorer.options import Port
from glassformer.explorer.scene import ViewJobs
from glassformer.explorer.session_runs import SessionRuns
from glassformer.explorer.sound import TranscriptionStore, sound_routes
from glassformer.explorer.traces import TraceStore
from glassformer.files.schema import check

HOST = "127.0.0.1"
BACKLOG = 64  # connections that wait to be accepted: one browser opens few
MAX_CONNECTIONS = 256  # further ones are answered 503, as long as there are this many
FULL = "socket.accept() out of system resource"  # as asyncio says it
log = logging.getLogger(__name__)
REQUEST_SECONDS, TICKS = 10.0, 4
"""Time for a request to arrive; it is looked at this many times within it."""
JOIN_SECONDS = 5.0
"""Timeout in seconds for the server to stop."""


def bind(port: int | None) -> socket.socket:
    """A listening socket on this port; None = a free one.

    Raises: ConfigError: the port is invalid, in use, or not permitted.
    """
    check(Port | None, port, "the port")
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # SO_REUSEADDR: on POSIX it frees the port of a server that has just ended; on Windows it would share a port in use.
    if os.name == "posix":
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port or 0))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"port {port or '(a free one)'} cannot be used: {error.strerror or error}; give another, or none: "
            "then a free one is taken"
        ) from error
    return listening


class TimedProtocol(H11Protocol):
    """HTTP/1.1 in which a connection is closed after `REQUEST_SECONDS` without progress.

    That is one that sends no request, or half of one, or does not read its answer: what waits to be sent to it does not
    become less. A client that waits for an answer that is still computed has nothing to read, and stays.
    """

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override] # as uvicorn's own
        super().connection_made(transport)
        self.loop.set_exception_handler(log_full_once)
        self._ticks = self._unsent = 0
        self._tick()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._ticks = 0  # it reads: most of what waited has been sent

    def _tick(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        answering = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        read = unsent < self._unsent or (answering and not unsent)
        self._ticks, self._unsent = 0 if read else self._ticks + 1, unsent
        if self._ticks > TICKS:
            self.transport.abort() if unsent else self.transport.close()  # to close it would wait for its reader
            return
        self._timer = self.loop.call_later(REQUEST_SECONDS / TICKS, self._tick)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)


def log_full_once(loop: AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log once that no file descriptor is left; asyncio says it again for each of the connections that wait."""
    if not str(context.get("message")).startswith(FULL):
        loop.default_exception_handler(context)
    elif not getattr(loop, "_glassformer_full", False):
        loop._glassformer_full = True  # type: ignore[attr-defined]
        log.warning("no file descriptors are left for more connections; they wait until others close (see ulimit -n)")


class Server:
    """A uvicorn server of one ASGI application, in a thread, until it is closed."""

    def __init__(self, app: ASGIApp, listening: socket.socket) -> None:
        self.port: int = listening.getsockname()[1]
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                log_level="critical",  # the application logs its own errors
                access_log=False,
                lifespan="off",
                ws="none",
                backlog=BACKLOG,
                limit_concurrency=MAX_CONNECTIONS,
                http=TimedProtocol,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(
            target=self._server.run, args=([listening],), name="glassformer explorer", daemon=True
        )
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> None:
        """Block until the server ends, or Ctrl-C (KeyboardInterrupt)."""
        while self.running:
            self._thread.join(0.5)  # in short waits: Windows delivers no Ctrl-C to a thread that waits without limit

    def close(self) -> None:
        """Stop the server and wait for its thread."""
        self._server.should_exit = True
        self._thread.join(JOIN_SECONDS)


def has_display() -> bool:
    """Is there a display to open a browser on?"""
    if "SSH_CONNECTION" in os.environ or "google.colab" in sys.modules:
        return False
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, whose output is saved with it."""
    marimo = sys.modules.get("marimo")
    return getattr(_ipython(), "kernel", None) is not None or (marimo is not None and marimo.running_in_notebook())


def _ipython() -> Any:
    """The shell of IPython that runs this process, in a terminal, in a notebook or bare; None = there is none."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def open_browser(address: str) -> bool:
    """Open the address in a web browser; False where there is none.

    The browser is given a file that leads there, which only this user can read: what is in its command line, an
    access token too, every user of this machine can see.
    """
    handle, path = tempfile.mkstemp(prefix="glassformer-", suffix=".html")  # readable by its owner alone
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(
            f'<!doctype html><title>Glassformer</title><meta http-equiv="refresh" content="0; url={escape(address)}">'
        )
    atexit.register(Path(path).unlink, missing_ok=True)
    try:
        return webbrowser.open(Path(path).as_uri())
    except webbrowser.Error:
        return False


def remote_hint(port: int) -> str | None:
    """How to reach the server from a browser on another machine (SSH tunnel, Colab); None where none is needed."""
    if "google.colab" in sys.modules:
        return "in Colab this address leads nowhere: end a cell with the value of model.look(…) instead"
    connection = os.environ.get("SSH_CONNECTION", "").split()
    if len(connection) == 4:
        server = connection[2]
        return (
            f"your browser runs elsewhere? There: ssh -N -L {port}:{HOST}:{port} {_user()}@{server}, "
            "then open the address"
        )
    return None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without an account, as in some containers
        return "USER"


class LocalPage:
    """A page served on this machine, for those who have its token, until `close` or the end of a `with`."""

    def __init__(self) -> None:
        self._token = secrets.token_urlsafe(24)
        self._server: Server | None = None

    @property
    def url(self) -> str:
        """The address with the access token; do not share it."""
        return f"{self.address}#token={self._token}"

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/"

    @property
    def port(self) -> int:
        if self._server is None or not self._server.running:
            raise ConfigError(
                "nothing is served: this was saved as a file, closed, or shown in a notebook; .serve() starts a server"
            )
        return self._server.port

    def serve_app(self, app: ASGIApp, port: int | None = None) -> None:
        """Start serving an application in a thread.

        Args:
            port: None = a free one
        Raises: ConfigError: the port is taken.
        """
        self._server = Server(app, bind(port))
        atexit.register(self.close)

    def show(self, browser: bool | None = None) -> None:
        """Open a browser on the page, and print where it is: without the access token in IPython, which keeps output.

        Args:
            browser: None = where there is a display.
        """
        opened = (has_display() if browser is None else browser) and open_browser(self.url)
        if _ipython() is None and not in_notebook():
            print(f"{'opened' if opened else 'open'} {self.url}", flush=True)
        elif opened:
            print(f"The page is open in your browser, served at {self.address} until .close().", flush=True)
        else:
            print(f"The page is served at {self.address}: to open it, print .url of this object.", flush=True)
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
        """Stop the server."""
        atexit.unregister(self.close)
        if self._server is not None:
            self._server.close()
            self._server = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


class Explorer:
    """The explorer of one model: an application, for a page of its own or within that of reports.

    runs: the forward passes of the model that it shows
    traces, sounds, maps, jobs: what it generates, hears and computes of them
    """

    def __init__(self, runs: SessionRuns) -> None:
        self.runs, self.traces = runs, TraceStore(runs.factory.trace)
        self.sounds = TranscriptionStore(runs.factory.transcribe)
        self.maps = EmbeddingMaps(runs)
        self.jobs = ViewJobs(runs, self.traces, self.maps)

    def app(self, texts: Sequence[str], token: str) -> ASGIApp:
        """The application.

        Args:
            texts: the initial texts of the page
            token: access token that it requires
        """
        return build(self.jobs, token, texts, sound_routes(self.runs, self.sounds, texts[0]))

    def cell_app(self, texts: Sequence[str]) -> ASGIApp:
        """The application of a page in a notebook, whose kernel sends the files; no one else can ask."""
        return application(self.jobs, texts, sound_routes(self.runs, self.sounds, texts[0]))

    def close(self) -> None:
        """Cancel what runs in its threads. Finished sessions can still be saved."""
        self.traces.close()
        self.sounds.close()
        self.jobs.close()
        self.runs.stop()
