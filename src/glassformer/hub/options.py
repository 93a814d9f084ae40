"""Options of an upload to the Hub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from glassformer.files.schema import Doc, Schema


@dataclass(frozen=True, kw_only=True)
class UploadOptions(Schema):
    """How a repository is made, and what is uploaded to it."""

    private: Annotated[bool, Doc("Make a new repository private.")] = False
    revision: Annotated[str | None, Doc("Branch to upload to. Default: main.")] = None
    dry_run: Annotated[bool, Doc("List the files, and upload nothing.")] = False
