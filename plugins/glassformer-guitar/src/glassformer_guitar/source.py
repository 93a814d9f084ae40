"""The data format `guitar`: recordings in a folder, or clips of a synthetic guitar.

read_rows("any name", kind="guitar", clips=1000)     clips, made when they are read (`GuitarOptions`)
read_rows("recordings/", kind="guitar")              recordings of a folder, or clips of them
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from glassformer.data.lines import DataFormat
from glassformer.data.sequence import RowSource
from glassformer.errors import DataError
from glassformer.files import safe_repr
from glassformer_guitar.clips import GuitarSource
from glassformer_guitar.recordings import GuitarFolder


def open_guitar(path: Path, options: Mapping[str, Any]) -> RowSource:
    """Recordings in a folder, or a synthetic guitar of this name."""
    if not path.exists():
        if len(path.parts) > 1:  # a mistyped folder is not to become a synthetic guitar
            raise DataError(f"{path}: no such folder of recordings; a synthetic guitar has a name that is no path")
        folders = [entry.name for entry in Path().iterdir() if entry.is_dir()]
        if near := get_close_matches(path.name, folders, cutoff=0.8):
            warnings.warn(
                f"{path}: no such folder, so it is a synthetic guitar of this name; nearest: {safe_repr(near[0])}",
                stacklevel=2,
            )
        return GuitarSource(str(path), options)
    if not path.is_dir():
        raise DataError(f"{path}: is not a folder; recordings of a guitar are read from a folder")
    return GuitarFolder(path, options)


GUITAR = DataFormat(open=open_guitar, any_path=True)
