"""A server on this machine alone, and how a person gets to it."""

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
PATIENCE = 5.0
"""Seconds that a server may take to begin, and to end."""


def bind(port: int | None) -> socket.socket:
    """A socket on the port asked for, or on a free one.

    Raises: ConfigError: it is taken, or may not be had.
    """
    if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536):
        raise ConfigError(f"the port is {port!r}; it must be a whole number from 1 to 65535")
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if (
        os.name == "posix"
    ):  # the port of a server that has just ended is free; elsewhere this would share a port in use
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
    """An application served from a thread of its own, until it is closed."""

    def __init__(self, app: ASGIApp, listening: socket.socket) -> None:
        self.port: int = listening.getsockname()[1]
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                log_level="critical",  # what matters, the application logs itself
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
        """Until the server ends, or the person interrupts (KeyboardInterrupt)."""
        while self.running:
            self._thread.join(0.5)  # not for ever: some systems deliver no interrupt to a thread that waits

    def close(self) -> None:
        """Stop, and wait until that is done."""
        self._server.should_exit = True
        self._thread.join(PATIENCE)


def can_show() -> bool:
    """Is there a screen here to open a browser on?"""
    if "SSH_CONNECTION" in os.environ or "google.colab" in sys.modules:
        return False
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_browser(address: str) -> bool:
    """Open the address; False where there is nothing to open it with."""
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False


def way_there(port: int) -> str | None:
    """How to reach the server where the browser runs on another machine; None where it is this one."""
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
    except (KeyError, OSError):  # an account without a name, as in some containers
        return "USER"
