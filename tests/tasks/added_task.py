"""A task that is not ours, in one file: the pitch of a sound, from waves of different lengths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from glassformer.errors import DataError
from glassformer.tasks.classify.task import ClassificationTask
from glassformer.tasks.columns import placed
from glassformer.tasks.types import Dataset


class Pitch(ClassificationTask):
    """Which pitch a sound has: a label for each wave. Args: as of `ClassificationTask`"""

    HEAD = "audio-classification"
    COLUMNS: ClassVar[Mapping[str, str]] = {"wave": "wave", "label": "label"}

    def make_examples(self, rows: Dataset) -> Iterator[dict[str, Any]]:
        for index in range(len(rows)):
            with placed(rows, index):
                wave = np.asarray(rows[index][self.columns["wave"]], dtype=np.float32)
                if wave.ndim != 1 or len(wave) < 400:
                    raise DataError(f"the wave has {wave.size} samples; it needs 400 at least")
                yield {
                    "input_values": wave,
                    "length": len(wave) // 20,  # frames, about: what a micro-batch is measured in
                    "labels": self.kind.read(rows[index].get(self.columns["label"])),
                }
