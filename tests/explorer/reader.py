"""Reads a standalone page as a browser's parser does."""

from __future__ import annotations

import base64
import json
import zlib
from html.parser import HTMLParser
from typing import Any


class Reader(HTMLParser):
    """The elements of a page as a browser's parser sees them: (tag, attributes, text)."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], str]] = []
        self.comments: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.elements:
            tag, attributes, text = self.elements[-1]
            self.elements[-1] = (tag, attributes, text + data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def scripts(self) -> list[tuple[dict[str, str | None], str]]:
        return [(attributes, text) for tag, attributes, text in self.elements if tag == "script"]

    def program(self, kind: str = "script") -> str:
        """The program of the page, or its style, which are compressed in it."""
        (text,) = (text for attributes, text in self.scripts() if attributes.get("data-packed") == kind)
        return unpacked(text).decode()

    def frames(self) -> dict[str, bytes]:
        return {
            str(attributes["data-key"]): unpacked(text)
            for attributes, text in self.scripts()
            if attributes.get("class") == "frame"
        }

    def attention_frames(self) -> dict[str, bytes]:
        """The frames without those of maps of embeddings and of the tour, which tests of their own read."""
        played = [f"view/{each['key']}" for each in self.session()["readings"] if each["view"] in ("tour", "without")]
        return {key: x for key, x in self.frames().items() if not key.startswith("embedding/") and key not in played}

    def session(self) -> Any:
        return self.json("session")

    def json(self, id: str) -> Any:
        (text,) = (text for attributes, text in self.scripts() if attributes.get("id") == id)
        return json.loads(unpacked(text))


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text, validate=False))
