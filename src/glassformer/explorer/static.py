"""Static files of the page, as built by `npm run build` in web/ into explorer/static; checked by hash."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from glassformer.errors import GlassformerError

FOLDER = Path(__file__).parent / "static"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".txt": "text/plain"}


class PageMissingError(GlassformerError):
    """The static files of the page are missing or damaged in this installation."""


def files() -> dict[str, bytes]:
    """Every file of the page by name, as the manifest lists them.

    Raises: PageMissingError: one is missing, or is not the one that was built.
    """
    mend = "reinstall glassformer, or in its source tree run: cd web && npm ci && npm run build"
    try:
        listed: dict[str, str] = json.loads((FOLDER / "manifest.json").read_bytes())["files"]
        contents = {name: (FOLDER / name).read_bytes() for name in listed}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PageMissingError(f"{FOLDER}: the explorer's page is missing or damaged; {mend}") from error
    for name, content in contents.items():
        if hashlib.sha256(content).hexdigest() != listed[name]:
            raise PageMissingError(f"{FOLDER / name}: is not the file that the manifest lists; {mend}")
    return contents
