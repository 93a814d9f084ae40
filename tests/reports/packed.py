"""What a page holds in compressed form."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any

PACKED = re.compile(r'<script type="application/octet-stream" ([^>]*)>([^<]*)</script>')


def unpack(text: str) -> str:
    """base64(zlib(text)) → text"""
    return zlib.decompress(base64.b64decode(text, validate=True)).decode()


def data_of(html: str, name: str = "report") -> dict[str, Any]:
    """The data of the reports of a page, as web/src/report/unpack.ts reads it."""
    (text,) = (text for attributes, text in PACKED.findall(html) if f'data-report="{name}"' in attributes)
    data: dict[str, Any] = json.loads(unpack(text))
    return data


def programs_of(html: str) -> list[tuple[str, str]]:
    """Each style and program that a page unpacks: (style or script, its text)."""
    found = re.findall(r'<script type="application/octet-stream" data-packed="(\w+)">([^<]*)</script>', html)
    return [(kind, unpack(text)) for kind, text in found]


def unpacked(html: str) -> str:
    """A page with all that it holds in compressed form, behind it."""
    return html + "".join(f"\n{unpack(text)}" for _, text in PACKED.findall(html))
