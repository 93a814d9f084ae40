"""What pages that stand alone share: one HTML file that runs its own script, and talks to nobody."""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape


def page(title: str, body: str, *, style: str, script: str = "") -> str:
    """A whole page.

    Args:
        title: plain text · body: HTML, in which every text is escaped
        style, script: that stand in the page, and nothing else is worn or run
    """
    program = as_script(script)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"{policy(style, program)}"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>\n<style>{style}</style></head>\n<body>{body}"
        + (f"\n<script>{program}</script>" if script else "")
        + "</body></html>\n"
    )


def as_script(program: str) -> str:
    """A program that can stand in HTML: there, what would end the element or begin a comment is written in escapes."""
    return re.sub(r"<(?=/script|script|!--)", r"\\x3C", program, flags=re.IGNORECASE)


def policy(style: str, script: str) -> str:
    """What the page may do: run this script, wear this style, and talk to nobody."""
    rules = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data: blob:; "
        "connect-src 'none'; worker-src blob:; base-uri 'none'; form-action 'none'"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{rules}">'


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
