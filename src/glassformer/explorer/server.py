"""Local HTTP server (uvicorn in a thread, bound to 127.0.0.1), and opening a browser on it."""

from __future__ import annotations

import getpass
import os
import socket
import sys
import threading
import webbrowser

import uvicorn
from starlette.types import ASGIApp

from glassformer.errors import ConfigError

HOST = "127.0.0.1"
JOIN_SECONDS = 5.0
"""Timeout in seconds for the server to stop."""


def bind(port: int | None) -> socket.socket:
    """A listening socket on this port; None = a free one.

    Raises: ConfigError: the port is invalid, in use, or not permitted.
    """
    if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536):
        raise ConfigError(f"the port is {port!r}; it must be a whole number from 1 to 65535")
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
            self._thread.join(
                0.5
            )  # in short waits: Windows delivers no Ctrl-C to a thread that waits without limit

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


def open_browser(address: str) -> bool:
    """Open the address in a web browser; False where there is none."""
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False


def remote_hint(port: int) -> str | None:
    """How to reach the server from a browser on another machine (SSH tunnel, Colab); None where none is needed."""
    if "google.colab" in sys.modules:
        return "in Colab this address leads nowhere: end a cell with the value of model.look(…, block=False) instead"
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
