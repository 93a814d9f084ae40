"""Images of rows: files in a folder, the bytes of such files (Parquet), or arrays; and tasks that read them.

"photos/a.png"                                   in the folder of the table, or the one that is named
{"bytes": b"\\x89PNG…", "path": "a.png"}          as Parquet files of the Hub and Hugging Face `datasets` hold it
array [H, W, 3] of bytes                         of rows in memory
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from glassformer.model import Model
from glassformer.tasks.base import Dataset, Examples
from glassformer.tasks.columns import RowTask
from glassformer.tasks.transcribe.sounds import RowSounds

PATCH_PIXELS = 16 * 16
"""Pixels of an image that count as one token of a micro-batch."""


class RowImages(RowSounds):
    """The images of rows, as the tensors that a model's processor makes of them.

    Args:
        rows, column, folder: as of `RowSounds`
        processor: of the model
    """

    def __init__(self, rows: Dataset, column: str, folder: str | None, processor: Any) -> None:
        super().__init__(rows, column, folder, 0)
        self.processor = processor

    def tensors(self, index: int) -> dict[str, Any]:
        """The arrays of one row's image: `pixel_values` [C, H, W], or `input_ids` [pixels] of colours.

        Raises: DataError: no image, a file outside the folder, or one that cannot be read.
        """
        value = self.rows[index].get(self.column)
        image: Any = self.source(index)[0] if isinstance(value, (str, bytes, Mapping)) else value
        return {name: x[0].numpy() for name, x in self.processor([image]).items()}


def patch_count(tensors: Mapping[str, Any]) -> int:
    """How many tokens of a micro-batch an image of pixels counts as."""
    return max(int(tensors["pixel_values"][0].size) // PATCH_PIXELS, 1)


class ImageTask(RowTask):
    """A task that reads an image of each row, in the column of the role `file`.

    Args:
        columns: role → column, where a column has another name
        folder: of the files; None = that of the table
    Raises: ConfigError: the model has no such head. MissingPartError: it has no processor for images.
    """

    COLUMNS: ClassVar[Mapping[str, str]] = {"file": "file"}

    def __init__(self, model: Model, *, columns: Mapping[str, str] | None = None, folder: str | None = None) -> None:
        super().__init__(model, columns)
        self.folder = folder
        self._processor: Any = model.processor

    def encode(self, rows: Dataset, *, cache: Path | None = None) -> Examples:
        if cache is not None:  # other files under the same names are others
            self.how["files"] = self.images(rows).digest()
        return super().encode(rows, cache=cache)

    def images(self, rows: Dataset) -> RowImages:
        return RowImages(rows, self.columns["file"], self.folder, self._processor)
