"""Visual question answering (LXMERT): the answer to a question about an image, one of those that are known.

    features, boxes   of the regions that an object detector finds ───┐
    question          what colour is the cat ?                        ├─ encoders, cross-attention ─ scores of answers
    answer            black: its number among all answers

Source: Tan and Bansal 2019, sections 2 and 3.1.3; regions: Anderson et al. 2018, section 3.1.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from glassformer.core.flow import Batch, Flow, Output
from glassformer.errors import DataError, UnsupportedError
from glassformer.files import read_bytes, safe_repr
from glassformer.model import Model
from glassformer.models.lxmert.network import Lxmert
from glassformer.models.lxmert.regions import ROUNDING, RegionEmbedding
from glassformer.tasks.base import Baseline, Dataset, Examples
from glassformer.tasks.classify.kinds import LabelKind, SingleLabel
from glassformer.tasks.classify.task import ClassificationTask, label_names, labels_of
from glassformer.tasks.columns import limit_of, placed, row_chunks, tell_cut, text_of
from glassformer.tasks.microbatch import Example, MicroBatch, padded, padding_keep
from glassformer.tasks.predictions import Prediction
from glassformer.tasks.transcribe.sounds import RowSounds

REGIONS = ("features", "boxes")
"""Roles of the columns that describe the regions of an image."""


class AnswerImage(ClassificationTask):
    """Questions about images whose regions an object detector has described.

    `features` [regions, width] and `boxes` [regions, 4] are lists, arrays, or the paths of NumPy files (.npy). Boxes
    are fractions of the image's width and height. Rows may have different numbers of regions.

    Args:
        columns: role → column, where a column has another name
        folder: of the files; None = that of the table
        max_tokens: longer questions are cut, and counted; None = what the model can take
    Raises: ConfigError: the model has another head. UnsupportedError: it reads no regions.
    """

    HEAD = "visual-question-answering"
    COLUMNS: ClassVar[Mapping[str, str]] = {
        "text": "question",
        "features": "features",
        "boxes": "boxes",
        "label": "answer",
    }

    def __init__(
        self,
        model: Model,
        *,
        columns: Mapping[str, str] | None = None,
        folder: str | None = None,
        max_tokens: int | None = None,
    ) -> None:
        super().__init__(model, columns=columns)
        regions = model.network.vision.embed if isinstance(model.network, Lxmert) else None
        if not isinstance(regions, RegionEmbedding):
            raise UnsupportedError(f"a {model.family.model_type!r} model reads no regions of an image; LXMERT does")
        self.folder, self.max_tokens = folder, limit_of(model, max_tokens)
        self.widths = {"features": regions.spec.features, "boxes": regions.spec.corners}
        self.how = {"cut": self.max_tokens, "labels": self.kind.config()}

    @staticmethod
    def kind_of_config(config: Mapping[str, Any], separator: str | None) -> LabelKind:
        return SingleLabel(label_names(_named(config)))

    @staticmethod
    def kind_of_rows(rows: Dataset, columns: Mapping[str, str], separator: str | None) -> LabelKind:
        return labels_of(rows, columns["label"], problem="single")

    @classmethod
    def head_config(cls, rows: Dataset, config: Mapping[str, Any], **given: Any) -> dict[str, Any]:
        fitted = super().head_config(rows, _named(config), **given)
        return {**fitted, "num_qa_labels": len(label_names(fitted))}

    def inputs(self) -> list[str]:
        return [self.columns["text"]]

    def encode(self, rows: Dataset, *, cache: Path | None = None) -> Examples:
        if cache is not None:  # other files under the same names are others
            self.how["files"] = [self._files(rows, role).digest() for role in REGIONS]
        return super().encode(rows, cache=cache)

    def _files(self, rows: Dataset, role: str) -> RowSounds:
        return RowSounds(rows, self.columns[role], self.folder, 0)

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        files, cut = {role: self._files(rows, role) for role in REGIONS}, 0

        def parse(row: Mapping[str, Any]) -> tuple[str, np.ndarray]:
            return text_of(row, self.columns["text"]), self.kind.read(row.get(self.columns["label"]))

        for numbers, parsed in row_chunks(rows, parse):
            ids, too_long = self.model.tokenizer.batch_ids([question for question, _ in parsed], self.max_tokens)
            cut += too_long
            for index, own, (_, label) in zip(numbers, ids, parsed, strict=True):
                with placed(rows, index):
                    regions = self._regions(rows, index, files)
                    if not own:
                        raise DataError(f"the question {safe_repr(parsed[index - numbers.start][0])} has no token")
                length = len(own) + len(regions["visual_feats"])
                yield {**regions, "input_ids": np.array(own, dtype=np.int32), "labels": label, "length": length}
        tell_cut("questions", cut, len(rows), self.max_tokens)

    def _regions(self, rows: Dataset, index: int, files: Mapping[str, RowSounds]) -> dict[str, np.ndarray]:
        """Features and boxes of a row's regions. Raises: DataError: they do not fit the model, or each other."""
        arrays = {}
        for role, width in self.widths.items():
            value = rows[index].get(self.columns[role])
            given = read_npy(files[role].path(index, value)) if isinstance(value, str) and value else value
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

    def collate_inputs(self, examples: Sequence[Example]) -> tuple[Batch, Flow]:
        batch, flow = super().collate_inputs(examples)
        regions = {name: [example[name] for example in examples] for name in ("visual_feats", "visual_pos")}
        several = len(set(map(len, regions["visual_pos"]))) > 1
        return replace(
            batch,
            visual_feats=padded(regions["visual_feats"], 0.0, torch.float32),
            visual_pos=padded(regions["visual_pos"], 0.0, torch.float32),
            visual_keep=padding_keep(regions["visual_pos"]) if several else None,
        ), flow

    def split_packed(self, output: Output, batch: MicroBatch) -> Output:
        return replace(output, logits=output.question_answering_score)

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        """Those of texts: what the question alone gives away."""
        from glassformer.tasks.classify.baselines import class_baselines

        return class_baselines(self, train, predictions)


def _named(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config by which its answers have names: LABEL_0, … where it has none."""
    return {**config, "num_labels": config.get("num_qa_labels", 9_500)} if not config.get("id2label") else dict(config)


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
