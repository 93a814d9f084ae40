"""Standalone HTML pages: one file with its own style and script, and a content security policy without network."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import escape
from pathlib import Path
from typing import Any

from glassformer.errors import DataError
from glassformer.files.atomic import atomic_file, disk_errors


def page(title: str, body: str, *, style: str, script: str = "") -> str:
    """A complete HTML document.

    Args:
        title: plain text · body: HTML, in which every text is escaped
        style, script: inlined; the content security policy allows no others
    """
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
    with disk_errors(path, DataError, "the page"), atomic_file(Path(path).resolve()) as stream:
        stream.write(html.encode("utf-8", "replace"))
    return Path(path)


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
        "connect-src 'none'; worker-src blob:; base-uri 'none'; form-action 'none'"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{rules}">'


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
