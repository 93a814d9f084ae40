"""Options of a page: a web server of this machine, or an HTML file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from glassformer.files.schema import Doc, Schema, at_least

Port = Annotated[int, at_least(1, 65535)]


@dataclass(frozen=True, kw_only=True)
class Serving(Schema):
    """Where a page goes: to a web server of this machine, or to a file."""

    port: Annotated[Port | None, Doc("Port of the web server. Default: a free one.")] = None
    browser: Annotated[bool | None, Doc("Open a web browser. Default: when there is a display.")] = None
    html: Annotated[Path | None, Doc("Write the page to this HTML file (self-contained) instead of serving it.")] = None
