"""HTML pages: standalone files with a content security policy without network."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from pathlib import Path, PureWindowsPath
from typing import Any

from glassformer.errors import DataError
from glassformer.files import readable_path
from glassformer.files.atomic import atomic_file, check_output, disk_errors

MAX_ARGUMENT_CHARACTERS = 300
"""Longest text shown in a command line; a longer one is shown as read from a file."""
FOOT = """
footer.made-by { margin-top: 2.5rem; font-size: 12px; opacity: 0.75; overflow-wrap: anywhere; }
footer.made-by code { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
"""


def page(title: str, body: str, *, style: str, script: str = "") -> str:
    """A complete HTML document.

    Args:
        title: plain text · body: HTML, in which every text is escaped
        style, script: inlined; the content security policy allows no others

    At its foot stands the command that makes it, where a command does.
    """
    if command := command_line():
        body += f'\n<footer class="made-by">Made by <code>{escape(command)}</code></footer>'
        style += FOOT
    program = escape_script(script)  # first: the policy holds the hash of what the page holds
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"{content_security_policy(style, program)}"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>\n<style>{style}</style></head>\n<body>{body}"
        + (f"\n<script>{program}</script>" if script else "")
        + "</body></html>\n"
    )


def write_page(path: str | Path, html: str) -> Path:
    """Write a page atomically. Returns: its path. Raises: DataError: it cannot be written."""
    with disk_errors(path, DataError, "the page"), atomic_file(Path(path)) as stream:
        stream.write(html.encode("utf-8", "replace"))
    return Path(path)


def write_page_parts(path: str | Path, parts: Iterable[str]) -> int:
    """Write a page that comes in pieces, atomically. Returns: its size in bytes. Raises: DataError: as `write_page`."""
    path = check_html_path(path)
    with disk_errors(path, DataError):
        with atomic_file(path.resolve()) as stream:
            stream.writelines(part.encode("utf-8", "replace") for part in parts)
        return path.stat().st_size


def shown_path(value: object) -> str:
    """A path as a page shows it, without folders of this machine: `data/x.csv` below the working one, else `…/x.csv`.

    Any other text stays as it is.
    """
    text = str(value)
    path = next((path for kind in (Path, PureWindowsPath) if (path := kind(text)).is_absolute() and path.name), None)
    if path is None:
        return text
    if isinstance(path, Path) and path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    return f"…/{path.name}"


def shown_label(name: str) -> str:
    """A label as a table shows it: in quotes where its white space would not be seen, as in `'spam '` beside `spam`."""
    return name if name and name == " ".join(name.split()) else repr(name)


def shown_place(where: str) -> str:
    """`/folder/x.csv: line 2` as a page shows it: `…/x.csv: line 2`."""
    path, separator, line = where.partition(": ")
    return shown_path(path) + separator + line


# ── the command that makes a page ─────────────────────────────────────────────────────────────────────

_WORDS: ContextVar[tuple[str, ...]] = ContextVar("words of the command line", default=())


@contextmanager
def made_by(words: Sequence[str]) -> Iterator[None]:
    """Within the block, these are the words of the command that makes pages."""
    token = _WORDS.set(tuple(map(readable_path, words)))
    try:
        yield
    finally:
        _WORDS.reset(token)


def command_line() -> str:
    """The command that runs now, for a shell, as a page shows it; empty where Python makes the page."""
    return shown_command(_WORDS.get())


def shown_command(words: Iterable[str]) -> str:
    """Words as a command line for a shell, without folders of this machine, a long text as read from a file."""
    return " ".join(map(_shown_word, words))


def _shown_word(word: str) -> str:
    if len(word) > MAX_ARGUMENT_CHARACTERS:
        return '"$(cat text.txt)"'
    if any(character.isspace() for character in word):  # a text, or one path
        return shlex.quote(shown_path(word))
    # --data=/folder/x.csv, data.files=[/folder/x.csv,/folder/y.csv]
    return shlex.quote(re.sub(r"[^=,\[\]]+", lambda part: shown_path(part[0]), word))


def check_html_path(path: str | Path) -> Path:
    """Validate the output path of a page, with ~ expanded. Raises: DataError: as `check_output`."""
    return check_output(path, "the page", ".html", ".htm")


def page_path(html: Path, name: str) -> Path:
    """The HTML file of a page: `html` itself, or the name in that folder, which is created. Raises: DataError."""
    if html.suffix.lower() in (".html", ".htm"):
        return check_html_path(html)
    with disk_errors(html, DataError):
        html.mkdir(parents=True, exist_ok=True)
    return html / name


def json_script(name: str, value: Any) -> str:
    """A script element of JSON, by which a page hands numbers and texts to its script."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Without `<`, no text in the JSON can end the script element.
    return f'<script type="application/json" id="{name}">' + text.replace("<", "\\u003c") + "</script>"


def escape_script(program: str) -> str:
    """Escape JavaScript for a script element: what would end the element or begin a comment."""
    return re.sub(r"<(?=/script|script|!--)", r"\\x3C", program, flags=re.IGNORECASE)


def content_security_policy(style: str, script: str) -> str:
    """Content security policy: this script and this style by hash, and no network."""
    rules = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data: blob:; "
        "media-src blob:; connect-src 'none'; worker-src blob:; base-uri 'none'; form-action 'none'"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{rules}">'


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def scroll_region(label: str, html: str, css_class: str = "scroll") -> str:
    """A labelled part of a page that scrolls sideways; it takes the focus, so that a keyboard can scroll it too."""
    return f'<div class="{css_class}" tabindex="0" role="region" aria-label="{escape(label)}">{html}</div>'
