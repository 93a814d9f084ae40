"""Regions of an image, as an object detector describes them: features and boxes of rows, as lists or NumPy files.

    features   [regions, width]      numbers of the detector, one row for each object that it has found
    boxes      [regions, 4]          left, top, right and bottom, as fractions of the image's width and height

Source: Anderson et al. 2018, "Bottom-up and top-down attention", section 3.1.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.core.flow import Batch
from glassformer.errors import DataError, UnsupportedError
from glassformer.files import read_bytes, safe_repr
from glassformer.loaded_model import LoadedModel
from glassformer.models.lxmert.network import Lxmert
from glassformer.models.lxmert.regions import ROUNDING, RegionEmbedding
from glassformer.tasks.microbatch import padded, padding_keep
from glassformer.tasks.row_files import RowFiles
from glassformer.tasks.types import Dataset, Example


class RegionReader:
    """Reads the regions of rows for a model.

    Args:
        columns: role → column, of `features` and `boxes`
        folder: of the files; None = that of the table
    Raises: UnsupportedError: the model reads no regions.
    """

    def __init__(self, model: LoadedModel, columns: Mapping[str, str], folder: str | None) -> None:
        regions = model.network.vision.embed if isinstance(model.network, Lxmert) else None
        if not isinstance(regions, RegionEmbedding):
            raise UnsupportedError(f"a {model.family.model_type!r} model reads no regions of an image; LXMERT does")
        self.columns, self.folder = columns, folder
        self.widths = {"features": regions.spec.features, "boxes": regions.spec.corners}

    def files(self, rows: Dataset) -> list[RowFiles]:
        """The files of features, and of boxes."""
        return [RowFiles(rows, self.columns[role], self.folder) for role in self.widths]

    def read(self, rows: Dataset, index: int) -> dict[str, np.ndarray]:
        """`visual_feats` and `visual_pos` of a row. Raises: DataError: they do not fit the model, or each other."""
        arrays = {}
        for files, (role, width) in zip(self.files(rows), self.widths.items(), strict=True):
            value = files.value(index)
            given = read_npy(files.path(index, value)) if isinstance(value, str) and value else value
            arrays[role] = _matrix(given, value, self.columns[role], width)
        features, boxes = arrays["features"], arrays["boxes"]
        if len(features) != len(boxes):
            raise DataError(f"there are {len(features)} regions with features, and {len(boxes)} with boxes")
        if ((boxes < -ROUNDING) | (boxes > 1 + ROUNDING)).any():
            raise DataError(
                f"{self.columns['boxes']!r} holds numbers from {boxes.min():.4g} to {boxes.max():.4g}; allowed: 0 to "
                "1, fractions of the image's width and height; divide pixels by them"
            )
        return {"visual_feats": features, "visual_pos": boxes}


def with_regions(batch: Batch, examples: Sequence[Example]) -> Batch:
    """A batch of texts with the regions of their examples, padded where they have different numbers."""
    feats, boxes = ([example[name] for example in examples] for name in ("visual_feats", "visual_pos"))
    return replace(
        batch,
        visual_feats=padded(feats, 0.0, torch.float32),
        visual_pos=padded(boxes, 0.0, torch.float32),
        visual_keep=padding_keep(boxes) if len(set(map(len, boxes))) > 1 else None,
    )


def _matrix(given: Any, value: Any, column: str, width: int) -> np.ndarray:
    """Numbers of regions. [regions, width] float32. Raises: DataError: others."""
    try:
        array = np.asarray(given if isinstance(given, np.ndarray) and given.dtype != object else _lists(given))
        numbers = array.astype(np.float32)
    except (TypeError, ValueError):
        numbers = np.zeros((), dtype=np.float32)
    if numbers.ndim != 2 or not len(numbers) or numbers.shape[1] != width or not np.isfinite(numbers).all():
        raise DataError(
            f"{column!r} is {safe_repr(value)}, of shape {list(numbers.shape)}; it must be finite numbers [regions, "
            f"{width}], or the path of a .npy file that holds them"
        )
    return numbers


def _lists(given: Any) -> Any:
    """Nested lists, however a file gives them: Parquet's are arrays of arrays."""
    return [_lists(each) for each in given] if isinstance(given, (list, tuple, np.ndarray)) else given


def read_npy(path: Path) -> np.ndarray:
    """The array of a NumPy file, of numbers alone.

    Raises: DataError: no such file, or it holds something else, such as pickled objects.
    """
    content = read_bytes(path, DataError)
    stream = io.BytesIO(content)
    try:
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, by_columns, dtype = readers[np.lib.format.read_magic(stream)](stream)
        if dtype.hasobject:
            raise ValueError("it holds objects")
        # Not by `np.load`, which takes memory for the shape that a header states before it reads anything.
        flat = np.frombuffer(content, dtype=dtype, offset=stream.tell())
        return flat.reshape(shape, order="F" if by_columns else "C")
    except (ValueError, KeyError, SyntaxError, EOFError) as error:
        raise DataError(f"{path}: is no NumPy file of numbers ({safe_repr(str(error))})") from error
