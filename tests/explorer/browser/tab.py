"""One tab of a real browser, and what a test asks of the explorer's page in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from glassformer.explorer.binary_frames import BinaryFrame, decode
from glassformer.explorer.look import Look

PATIENCE = 60_000
"""Milliseconds until something that should be on the page counts as missing: machines that test are slow at times."""

VIEW_READY = {
    "model": "!document.querySelector('.model-view canvas[data-empty]')"
    " && document.querySelectorAll('.model-view [data-cell]').length > 0",
    "head": "/^[1-9]/.test(document.querySelector('.head-status')?.innerText ?? '')"
    " && !document.querySelector('.head-stage[data-stale]')",
    "matrix": "document.querySelector('.matrix-strongest li') !== null",
    "neuron": "document.querySelector('.neuron-z canvas')?.height > 0",
    "generate": "!document.querySelector('.gen[data-busy]') && document.querySelector('.gen-facts') !== null",
    "similarity": "document.querySelector('.sim-map canvas')?.width > 300",
    "contexts": "document.querySelectorAll('.ctx-matches li').length > 0 && !document.querySelector('.ctx[data-busy]')",
    "sound": "document.querySelector('.sound-mel')?.width > 0",
    "embedding": "document.querySelector('.map[data-ready]') !== null",
}
"""When a view has its numbers."""

PIXELS = "new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)"
"""Of a canvas c: one number a pixel."""

CELL = """(cell, height, width) => {  // the pixels in the middle of each square of a thumbnail
    const canvas = cell.closest("[role=grid], .head-list").querySelector(":scope > canvas");
    const [box, all] = [cell.firstElementChild.getBoundingClientRect(), canvas.getBoundingClientRect()];
    const [x, y, ratio] = [box.left - all.left, box.top - all.top, canvas.width / all.width];
    const edge = (at, size) => [Math.round(at * ratio), Math.round((at + size) * ratio)];
    const [[left, right], [top, bottom]] = [edge(x, box.width), edge(y, box.height)];
    const image = canvas.getContext("2d").getImageData(left, top, right - left, bottom - top);
    const pixels = new Uint32Array(image.data.buffer);
    const middle = (at, of, size) => Math.floor((at + 0.5) * size / of);
    return Array.from({ length: height * width }, (_, i) => pixels[
        middle(Math.floor(i / width), height, image.height) * image.width + middle(i % width, width, image.width)
    ]);
}"""
"""Of a cell of a grid of heads: its thumbnail on the canvas that all of them share, one number a pixel."""

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
"""Pixels by which the page is wider than the screen."""

TEXTS_REFUSED = ".texts [role=alert], section.banners .banner"
"""Where the page says why it does not take a text."""

SENTENCE = re.compile(
    r"from “?(?P<query>.+?)”? to “?(?P<key>.+?)”?, (?P<p>[\d.e−]+), rank (?P<rank>\d+) of (?P<of>\d+)$"
)
"""What the live region says of a link."""


PACKED = "document.querySelector('[data-packed], [data-report]') !== null"
UNPACKED = """
document.querySelector('[data-packed]') === null
  && [...document.querySelectorAll('[data-report]')]
    .every((each) => document.getElementById(each.dataset.report).childElementCount > 0)
"""
"""Whether a page has unpacked its program, and has drawn its reports."""


def darkest(pixels: Sequence[int]) -> int:
    """The place of the darkest pixel, which is the strongest on a light page. Raises: AssertionError: one is clear."""
    assert all(pixel >> 24 == 255 for pixel in pixels)
    sums = [(pixel & 255) + (pixel >> 8 & 255) + (pixel >> 16 & 255) for pixel in pixels]
    return sums.index(min(sums))


class Tab:
    """A page with what went wrong on it: a test fails on any error in its console, and on any request elsewhere.

    Args:
        expect: what the console may say all the same, as a pattern: a refusal is an error there.
        allow: the one host that may be asked.
    """

    def __init__(self, browser: Any, *, expect: str | None = None, allow: str = "127.0.0.1", **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}} | options)
        self.context.set_default_timeout(PATIENCE)
        self.errors: list[str] = []
        self.foreign_requests: list[str] = []
        self.requested_urls: list[str] = []
        self._expect, self._allow = expect, allow
        self.runs_scripts = options.get("java_script_enabled", True)
        self.context.on("page", self._listen)
        self.context.on("request", lambda request: self._note(request.url))
        self.page = self.context.new_page()

    def close(self) -> None:
        self.context.close()

    def _listen(self, page: Any) -> None:
        page.on("pageerror", lambda error: self._complain(error.stack or str(error)))
        page.on(
            "console",
            lambda message: self._complain(message.text) if message.type == "error" else None,
        )
        page.on("dialog", self._dismiss)

    def _dismiss(self, dialog: Any) -> None:
        self.errors.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _complain(self, text: str) -> None:
        if self._expect is None or not re.search(self._expect, text):
            self.errors.append(text)

    def _note(self, url: str) -> None:
        self.requested_urls.append(url)
        parts = urlsplit(url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname != self._allow:
            self.foreign_requests.append(url)

    # ------------------------------------------------------------------------------------------------ going there

    def goto(self, target: Look | Path, **state: Any) -> Any:
        """Go to a served page with its token, or to a file, in a state."""
        fragment = urlencode({"v": 1} | state, safe=",") if state else ""
        if isinstance(target, Look):
            self.page.goto(target.url + (f"&{fragment}" if fragment else ""))
        else:
            self.page.goto(target.as_uri() + (f"#{fragment}" if fragment else ""))
            if self.runs_scripts and self.page.evaluate(PACKED):  # false where scripts are switched off, too
                self.until(UNPACKED)
        return self.page

    def open(self, target: Look | Path, **state: Any) -> Any:
        """Go there, and wait until the view has its numbers."""
        self.goto(target, **state)
        return self.wait_for_view(state.get("view", "model"))

    def wait_for_view(self, view: str) -> Any:
        """Wait until a view is on screen with its numbers."""
        self.page.wait_for_selector(f"#tab-{view}[aria-selected=true]")
        self.until(VIEW_READY[view])
        return self.page

    def until(self, condition: str, x: Any = None) -> None:
        """Wait until an expression of JavaScript, about x, holds."""
        self.page.wait_for_function(f"x => {condition}", arg=x)

    def go(self, view: str) -> Any:
        """Choose a view by its tab."""
        self.page.locator(f"#tab-{view}").click()
        return self.wait_for_view(view)

    # --------------------------------------------------------------------------------------------------- reading it

    @property
    def state(self) -> dict[str, str]:
        """The state in the address."""
        return {name: values[0] for name, values in parse_qs(urlsplit(self.page.url).fragment).items()}

    @property
    def announcement(self) -> str:
        """The last sentence of the live region."""
        return str(self.page.locator(".said").inner_text())

    def wait_for_announcement(self, pattern: str) -> str:
        """Wait until the live region says something like this; gives what it says."""
        self.until("new RegExp(x).test(document.querySelector('.said')?.textContent ?? '')", pattern)
        return self.announcement

    @property
    def messages(self) -> str:
        """What stands in the banners."""
        return str(self.page.get_by_label("Messages").inner_text())

    def wait_for_banner(self, pattern: str) -> str:
        """Wait until a banner says something like this; gives all that they say."""
        self.until("new RegExp(x).test(document.querySelector('section.banners')?.innerText ?? '')", pattern)
        return self.messages

    def text_error(self) -> str:
        """What stands next to the text fields, or in a banner, once there is something."""
        self.until("(document.querySelector(x)?.innerText ?? '') !== ''", TEXTS_REFUSED)
        return str(self.page.locator(TEXTS_REFUSED).first.inner_text())

    def colours(self, selector: str) -> list[int]:
        """How many different colours each canvas has."""
        values: list[int] = self.page.eval_on_selector_all(
            selector, f"canvases => canvases.map(c => new Set({PIXELS}).size)"
        )
        return values

    def wait_for_colours(self, selector: str, colours: int) -> None:
        """Wait until a canvas has at least so many colours; it is drawn a frame after its numbers are there."""
        self.until(f"(c => c && c.width && new Set({PIXELS}).size >= {colours})(document.querySelector(x))", selector)

    def thumbnails(self, shape: Sequence[int], cells: str = ".model-view [data-cell]") -> list[list[int]]:
        """The pixels of each head's thumbnail, of a height and width; it is drawn larger than that."""
        pixels: list[list[int]] = self.page.eval_on_selector_all(
            cells, f"(cells, [height, width]) => cells.map((cell) => ({CELL})(cell, height, width))", list(shape)
        )
        return pixels

    @contextmanager
    def frames(self, kind: str) -> Iterator[list[BinaryFrame]]:
        """The answers of a kind that the page itself fetches meanwhile: at least one."""
        got: list[BinaryFrame] = []
        with self.page.expect_response(lambda answer: answer.url.endswith(f"/api/view/{kind}")) as first:
            yield got
        got.append(decode(first.value.body()))

    def share(self, words: str) -> None:
        """Choose something in the share menu."""
        self.page.get_by_role("button", name="Share").click()
        self.page.locator("#share").get_by_role("button", name=words).click()

    def saved(self, words: str) -> tuple[str, bytes]:
        """Choose a file in the share menu; gives its name and what is in it."""
        with self.page.expect_download() as download:
            self.share(words)
        return download.value.suggested_filename, Path(download.value.path()).read_bytes()


def fits(page: Any, where: str) -> None:
    """Wait until nothing is wider than the screen: after a resize, the page is laid out anew one frame later."""
    try:
        page.wait_for_function(f"() => {OVERFLOW} <= 0")
    except Exception as error:
        raise AssertionError(f"{where}: {page.evaluate(OVERFLOW)} pixels sideways") from error


def value(text: str) -> float:
    """A number as the page writes it, with its real minus sign."""
    return {"∞": float("inf"), "−∞": float("-inf")}.get(text) or float(text.replace("−", "-"))


def significant(text: str) -> int:
    """How many digits of a written number count."""
    return len(re.sub(r"^0+", "", re.sub(r"e.*|[−.]", "", text)))
