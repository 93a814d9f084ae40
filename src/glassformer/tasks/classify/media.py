"""Image and audio classification: a label for each file of a table.

    file, label ─ processor ─ pixels, colours, samples or a spectrogram ─ network ─ one class, several, or a number

What a label is, how it is learnt and how it is scored are those of texts (kinds.py).
Source: Dosovitskiy et al. 2021 (ViT), section 3.1; Chen et al. 2020 (Image GPT), section 3.2; Baevski et al. 2020
(wav2vec 2.0), section 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from glassformer.errors import ConfigError
from glassformer.loaded_model import LoadedModel
from glassformer.tasks.classify.task import ClassificationTask
from glassformer.tasks.columns import placed, tell_cut
from glassformer.tasks.images import RowImages, patch_count
from glassformer.tasks.row_files import RowFiles
from glassformer.tasks.transcribe.sounds import RowSounds
from glassformer.tasks.types import Dataset, Example

FRAME_SAMPLES = 320
"""Samples of a sound that count as one token of a micro-batch."""


class MediaClassificationTask(ClassificationTask):
    """A label for each file: of the table's folder, bytes in Parquet, or arrays.

    Args:
        columns: role → column
        separator: what is between several labels in a text
        folder: of the files; None = that of the table
    Raises: ConfigError: the model has no such head, or no processor for files.
    """

    READS_TEXT = False
    COLUMNS: ClassVar[Mapping[str, str]] = {"file": "file", "label": "label"}

    def __init__(
        self,
        model: LoadedModel,
        *,
        columns: Mapping[str, str] | None = None,
        separator: str | None = None,
        folder: str | None = None,
    ) -> None:
        super().__init__(model, columns=columns, separator=separator)
        self.folder = folder
        self._processor: Any = model.processor

    def inputs(self) -> list[str]:
        return []  # an empty path is an error

    def files(self, rows: Dataset) -> list[RowFiles]:
        return [RowFiles(rows, self.columns["file"], self.folder)]

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        reader = self.reader(rows)
        for index in range(len(rows)):
            with placed(rows, index):
                label = self.kind.read(rows[index].get(self.columns["label"]))
                yield {**self.read(reader, index), "labels": label}

    def reader(self, rows: Dataset) -> Any:
        """What `read` takes the files of rows from."""
        raise NotImplementedError(f"{type(self).__name__} does not implement reader(rows)")

    def read(self, reader: Any, index: int) -> dict[str, Any]:
        """What the network reads of a row's file. Raises: DataError: it cannot be read."""
        raise NotImplementedError(f"{type(self).__name__} does not implement read(reader, index)")


class ClassifyImage(MediaClassificationTask):
    """Image classification, of files. Args, Raises: as of `MediaClassificationTask`"""

    HEAD = "image-classification"

    def reader(self, rows: Dataset) -> RowImages:
        return RowImages(rows, self.columns["file"], self.folder, self._processor)

    def read(self, reader: RowImages, index: int) -> dict[str, Any]:
        tensors = reader.tensors(index)
        return {**tensors, "length": patch_count(tensors)} if "pixel_values" in tensors else tensors


class ClassifyAudio(MediaClassificationTask):
    """Audio classification, of files.

    Args:
        max_seconds: what is longer is cut, with a warning; others as of `MediaClassificationTask`
    Raises: as of `MediaClassificationTask`
    """

    HEAD = "audio-classification"

    def __init__(
        self,
        model: LoadedModel,
        *,
        columns: Mapping[str, str] | None = None,
        separator: str | None = None,
        folder: str | None = None,
        max_seconds: float = 30.0,
    ) -> None:
        super().__init__(model, columns=columns, separator=separator, folder=folder)
        if not max_seconds > 0:
            raise ConfigError(f"max_seconds is {max_seconds}; it must be a number above 0")
        self.max_seconds, self._cut = max_seconds, 0
        self.how = {"seconds": max_seconds}

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        self._cut = 0
        yield from super().make_examples(rows)
        tell_cut("recordings", self._cut, len(rows), f"{self.max_seconds:g} s")

    def reader(self, rows: Dataset) -> RowSounds:
        return RowSounds(rows, self.columns["file"], self.folder, self._processor.sample_rate_hz)

    def read(self, reader: RowSounds, index: int) -> dict[str, Any]:
        samples, longest = reader.read(index), round(self.max_seconds * reader.rate_hz)
        self._cut += len(samples) > longest
        tensors = self._processor([samples[:longest]], reader.rate_hz)
        example = {name: x[0].numpy() for name, x in tensors.items() if name != "attention_mask"}
        return {**example, "length": max(min(len(samples), longest) // FRAME_SAMPLES, 1)}
