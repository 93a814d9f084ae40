"""Standalone HTML pages: one file with its own style and script, and a content security policy without network."""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape


def page(title: str, body: str, *, style: str, script: str = "") -> str:
    """A complete HTML document.

    Args:
        title: plain text · body: HTML, in which every text is escaped
        style, script: inlined; the content security policy allows no others
    """
    program = escape_script(script)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"{content_security_policy(style, program)}"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>\n<style>{style}</style></head>\n<body>{body}"
        + (f"\n<script>{program}</script>" if script else "")
        + "</body></html>\n"
    )


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
