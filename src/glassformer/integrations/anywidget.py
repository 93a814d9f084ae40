"""A page in the cell of a notebook: a widget whose page the kernel sends, and whose requests the kernel answers.

    frame ──{"id", "method", "target", "body"}──> kernel ──> the ASGI application of the page
          <──{"id", "status", "headers"}, {"id", "more"} with bytes …──

There is neither a server nor an access token: the messages are those between the notebook and its kernel. A notebook
that is saved holds a still picture of the page and, where it is set to save widgets, their two kilobytes of JavaScript.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anywidget

from glassformer.reports.page import STATIC, element

if TYPE_CHECKING:
    from glassformer.reports.report import LivePage

Message = dict[str, Any]


class CellWidget(anywidget.AnyWidget):
    """The widget of a page: a frame, which asks for its page first, then for what the page wants to know."""

    _esm = (STATIC / "cell.js").read_text("utf-8")

    def __init__(self, page: LivePage) -> None:
        super().__init__()
        self._page = page
        self._views = set[str]()
        self._requests = dict[tuple[str, int], _Request]()
        self.on_msg(self._received)

    def _received(self, _: object, message: Message, buffers: object) -> None:
        """Begin to answer a request, or stop those that are not waited for any more; in the thread of the kernel."""
        view = str(message.get("view"))
        if message.get("gone"):
            for asked in [asked for asked in list(self._requests) if asked[0] == view]:
                self._stop(asked)
            self._views.discard(view)
            if not self._views:
                self._page.released()
        elif message.get("stop"):
            self._stop((view, message["id"]))
        else:
            self._views.add(view)
            head = {"view": view, "id": message["id"]}
            answer = self._send_page(head, message["target"]) if message["id"] == 0 else self._answer(head, message)
            asyncio.run_coroutine_threadsafe(answer, _loop())

    def _stop(self, asked: tuple[str, int]) -> None:
        if (request := self._requests.get(asked)) is not None:
            _loop().call_soon_threadsafe(request.gone.set)

    async def _send_page(self, head: Message, theme: str) -> None:
        """Answer the first request of a view by the page, in the theme of the notebook."""
        try:
            html = (await asyncio.to_thread(self._page.html)).replace("<html", f'<html data-theme="{theme}"', 1)
        except Exception as error:
            self.send({**head, "failure": f"{type(error).__name__}: {error}"})
            raise
        self.send({**head, "still": self.model_id}, [html.encode("utf-8", "replace")])

    def _answer(self, head: Message, message: Message) -> Coroutine[Any, Any, None]:
        """Answer a request of the page by what its application says; it can be stopped from now on."""
        request = _Request(message, lambda part, *content: self.send({**head, **part}, list(content)))
        asked = head["view"], head["id"]
        self._requests[asked] = request

        async def answer() -> None:
            try:
                await self._page.app(request.scope, request.receive, request.send)
            finally:
                del self._requests[asked]

        return answer()


class _Request:
    """A request as an ASGI application reads it, and its answer as messages.

    gone: set where its reader has left
    """

    def __init__(self, message: Message, send: Callable[..., None]) -> None:
        target = urlsplit(message["target"])
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": message["method"],
            "scheme": "http",
            "path": target.path,
            "raw_path": target.path.encode(),
            "query_string": target.query.encode(),
            "root_path": "",
            "headers": [(b"content-type", b"application/json")],
            "client": None,
            "server": ("kernel", None),
        }
        self.gone = asyncio.Event()
        self._body: bytes | None = message["body"].encode("utf-8", "replace")
        self._send = send

    async def receive(self) -> Message:
        """The body, then nothing until its reader leaves."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in message["headers"]]
            self._send({"status": message["status"], "headers": headers})
        else:
            self._send({"more": message.get("more_body", False)}, message.get("body", b""))


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """The loop of the thread in which requests are answered, so that a page moves on while a cell runs."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="glassformer cells", daemon=True).start()
    return loop


def show(page: LivePage, text: str) -> None:
    """Show a page in the cell that runs: its still picture, which is saved, and the widget, which hides it.

    Args:
        text: of a notebook that shows no HTML
    """
    from IPython.display import display

    widget = CellWidget(page)
    display({"text/html": element("div", page.still(), data_glassformer=widget.model_id), "text/plain": text}, raw=True)
    display(widget)
