"""Images of rows: files in a folder, the bytes of such files (Parquet), or arrays; and tasks that read them.

"photos/a.png"                                   in the folder of the table, or the one that is named
{"bytes": b"\\x89PNG…", "path": "a.png"}          as Parquet files of the Hub and Hugging Face `datasets` hold it
array [H, W, 3] of bytes                         of rows in memory
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from glassformer.errors import DataError
from glassformer.files import safe_repr
from glassformer.loaded_model import LoadedModel
from glassformer.tasks.columns import RowTask
from glassformer.tasks.row_files import RowFiles
from glassformer.tasks.types import Dataset

PATCH_PIXELS = 16 * 16
"""Pixels of an image that count as one token of a micro-batch."""


class RowImages:
    """The images of rows, as the tensors that a model's processor makes of them.

    Args:
        rows, column, folder: as of `RowFiles`
        processor: of the model
    """

    def __init__(self, rows: Dataset, column: str, folder: str | None, processor: Any) -> None:
        self.files, self.processor = RowFiles(rows, column, folder), processor

    def tensors(self, index: int) -> dict[str, Any]:
        """The arrays of one row's image: `pixel_values` [C, H, W], or `input_ids` [pixels] of colours.

        Raises: DataError: no image, a file outside the folder, or one that cannot be read.
        """
        value = self.files.value(index)
        image = self.files.source(index, value)
        if isinstance(value, (str, Mapping)) and not isinstance(image, (bytes, Path)):
            raise DataError(
                f"{self.files.column!r} is {safe_repr(value)}; it must be the path of an image file, its bytes, or an "
                "array [H, W, 3]"
            )
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

    def __init__(
        self, model: LoadedModel, *, columns: Mapping[str, str] | None = None, folder: str | None = None
    ) -> None:
        super().__init__(model, columns)
        self.folder = folder
        self._processor: Any = model.processor

    def files(self, rows: Dataset) -> list[RowFiles]:
        return [RowFiles(rows, self.columns["file"], self.folder)]

    def images(self, rows: Dataset) -> RowImages:
        return RowImages(rows, self.columns["file"], self.folder, self._processor)
