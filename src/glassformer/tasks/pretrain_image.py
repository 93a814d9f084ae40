"""Pre-training on images and texts (LXMERT): masked words, masked regions, and whether a text is of its image.

    text       a [MASK] on the mat            half of the texts are another row's    labels: cat, and the text fits
    regions    r₁  0  r₃  r₄                  15% are hidden                        labels: the features of r₂

What is hidden, and which text is read, is drawn again each time a row is read.
Source: Tan and Bansal 2019, section 3.1.
Differs: regions are learned by their features alone, without the detector's classes and attributes; answers are learned
by `AnswerImage`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.heads import Head, not_none
from glassformer.data.noise import sample_count
from glassformer.errors import ConfigError, DataError
from glassformer.loaded_model import LoadedModel
from glassformer.tasks.columns import RowTask, limit_of, placed, tokenised_texts
from glassformer.tasks.masked import MASKED, REPLACED, Masking
from glassformer.tasks.metrics.metric import Metric
from glassformer.tasks.microbatch import padded
from glassformer.tasks.regions import RegionReader, with_regions
from glassformer.tasks.row_files import RowFiles
from glassformer.tasks.types import Dataset, Example, Examples, MicroBatch
from glassformer.tasks.windows import token_labels

DOES_NOT_FIT, FITS = 0, 1


class TextPool:
    """Examples that know each other, so that the text of one can stand with the image of another."""

    def __init__(self, examples: Examples) -> None:
        self._examples = examples
        self.lengths, self.fingerprint = examples.lengths, examples.fingerprint
        if len(examples) < 2:
            raise DataError("there is one row; a text that does not fit an image needs another one")

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int) -> Example:
        return {**self._examples[index], "row": index, "pool": self}

    def another_text(self, row: int, draw: np.random.Generator) -> np.ndarray:
        """The ids of another row's text."""
        other = int(draw.integers(len(self) - 1))
        ids: np.ndarray = self._examples[other + (other >= row)]["input_ids"]
        return ids


class PreTrainImage(RowTask):
    """Texts with the regions of the image that they describe; `features` and `boxes` as of `AnswerImage`.

    Args:
        rate: how many words are hidden
        region_rate: how many regions are hidden
        columns: role → column, where a column has another name
        folder: of the files; None = that of the table
        max_tokens: longer texts are cut, and counted; None = what the model can take
    Raises: ConfigError: the model has another head, or a rate is no share. UnsupportedError: it reads no regions.
    """

    HEAD = "pre-training"
    COLUMNS: ClassVar[Mapping[str, str]] = {"text": "text", "features": "features", "boxes": "boxes"}
    EVALUATION = None
    REQUIRES = "a text with the regions of its image is needed"
    PARTS = ("labels", "matched_label", "feat")

    def __init__(
        self,
        model: LoadedModel,
        *,
        rate: float = 0.15,
        region_rate: float = 0.15,
        columns: Mapping[str, str] | None = None,
        folder: str | None = None,
        max_tokens: int | None = None,
    ) -> None:
        super().__init__(model, columns)
        self.regions = RegionReader(model, self.columns, folder)
        self.masking = Masking.of(model.tokenizer, rate)
        if not 0 < region_rate < 1:
            raise ConfigError(f"region_rate is {region_rate}; it must be between 0 and 1")
        self.region_rate, self.max_tokens = region_rate, limit_of(model, max_tokens)
        self.how = {"cut": self.max_tokens}

    @classmethod
    def head_config(
        cls, rows: Dataset, config: Mapping[str, Any], *, own: bool, columns: Mapping[str, str] | None, options: Any
    ) -> dict[str, Any]:
        """Without the objectives that need the detector's classes."""
        learned = {"task_mask_lm": True, "task_matched": True, "task_obj_predict": True, "visual_feat_loss": True}
        return {**config, **learned, "visual_obj_loss": False, "visual_attr_loss": False}

    def files(self, rows: Dataset) -> list[RowFiles]:
        return self.regions.files(rows)

    def encode(self, rows: Dataset, *, cache: Path | None = None) -> Examples:
        return TextPool(super().encode(rows, cache=cache))

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        regions_of_first = None
        for index, _, ids in tokenised_texts(rows, self.columns["text"], self.model, self.max_tokens):
            with placed(rows, index):
                regions = self.regions.read(rows, index)
                count = len(regions["visual_feats"])
                regions_of_first = regions_of_first or count
                if not len(ids):
                    raise DataError("the text has no token")
                if count != regions_of_first:  # how a step is cut into micro-batches must not change its loss
                    raise DataError(
                        f"the image has {count} regions, and the first one {regions_of_first}; the loss of regions is "
                        "a mean over all of a batch, so each image needs the same number"
                    )
            yield {**regions, "input_ids": ids, "length": len(ids) + count}

    def augment(self, example: Example, draw: np.random.Generator) -> Example:
        fits = draw.random() < 0.5
        ids = example["input_ids"] if fits else example["pool"].another_text(example["row"], draw)
        read, word_labels = self.masking(np.asarray(ids), draw)
        seen, chosen = self._hidden(np.asarray(example["visual_feats"]), draw)
        return {
            "input_ids": read,
            "labels": word_labels,
            "matched": FITS if fits else DOES_NOT_FIT,
            "visual_feats": seen,
            "visual_pos": example["visual_pos"],
            "features": example["visual_feats"],
            "chosen": chosen,
            "length": len(read) + len(seen),
        }

    def _hidden(self, features: np.ndarray, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Features of which some regions' are hidden, and 1 for those. [regions, width], [regions]"""
        count = len(features)
        places = draw.choice(count, sample_count(count, self.region_rate, draw), replace=False)
        fate, seen, chosen = draw.random(len(places)), features.copy(), np.zeros(count, dtype=np.float32)
        chosen[places] = 1.0
        seen[places[fate < MASKED]] = 0.0
        other = places[(fate >= MASKED) & (fate < MASKED + REPLACED)]
        seen[other] = features[draw.integers(count, size=len(other))]
        return seen, chosen

    def collate_inputs(self, examples: Sequence[Example]) -> tuple[Batch, Flow]:
        batch, flow = super().collate_inputs(examples)
        return with_regions(batch, examples), flow

    def labels(self, examples: Sequence[Example], flow: Any) -> Any:
        features = padded([example["features"] for example in examples], 0.0, torch.float32)
        chosen = padded([example["chosen"] for example in examples], 0.0, torch.float32)
        return {
            "labels": token_labels([example["labels"] for example in examples], flow),
            "matched_label": torch.tensor([int(example["matched"]) for example in examples]),
            "obj_labels": {"feat": (features, chosen)},
        }

    def unbatch(self, output: Output, batch: MicroBatch) -> list[Any]:
        """How well each text fits its image: logits. [2] each"""
        return list(not_none(output.cross_relationship_score))

    def metric(self) -> Metric:
        return PreTrainingMetric(self.head)


class PreTrainingMetric(Metric):
    """The losses of the objectives, and how often it is known whether a text is of its image."""

    def __init__(self, head: Head) -> None:
        super().__init__(head, PreTrainImage.PARTS)
        self.add_state("matched")

    def update(self, output: Output, batch: MicroBatch) -> None:
        super().update(output, batch)
        assert isinstance(batch.labels, dict)
        fits: Tensor = batch.labels["matched_label"]
        self.state["matched"] += (not_none(output.cross_relationship_score).argmax(-1) == fits).sum().cpu()

    def compute(self) -> dict[str, float]:
        names = dict(zip(self.parts, ("masked_word_loss", "matched_loss", "region_loss"), strict=True))
        parts = {
            name: float(self.state[f"{part}.sum"]) / max(float(self.state[f"{part}.count"]), 1)
            for part, name in names.items()
        }
        accuracy = float(self.state["matched"]) / float(self.state["matched_label.count"])
        return {**super().compute(), **parts, "matched_accuracy": accuracy}
