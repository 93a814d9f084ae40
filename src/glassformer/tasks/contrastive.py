"""Contrastive language-image training (CLIP): images and the texts that describe them.

    file    ─ vision tower ─ i₁ i₂ i₃ …      scores of a batch: eˢ · cosine of each text with each image
    text    ─ text tower ─── t₁ t₂ t₃ …      loss: each text finds its image in the batch, each image its text

Evaluated by retrieval: the texts of all rows are ranked for each image, and the images of all rows for each text.
Source: Radford et al. 2021, section 2.3 and figure 3; recall at k: Karpathy and Fei-Fei 2015, section 4.1.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Output
from glassformer.core.heads import Head, not_none
from glassformer.errors import DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.loaded_model import LoadedModel
from glassformer.models.clip.network import Clip
from glassformer.models.clip.towers import LEGACY_END_ID
from glassformer.tasks.base import Progress
from glassformer.tasks.columns import limit_of, placed, text_of, tokenised_texts
from glassformer.tasks.images import ImageTask, patch_count
from glassformer.tasks.metrics.metric import Bootstrap, BootstrapMeans, Metric
from glassformer.tasks.metrics.ranking import TOP_KS, rank_pairs
from glassformer.tasks.microbatch import run_examples
from glassformer.tasks.types import Baseline, Dataset, Example, MicroBatch, Prediction

DIRECTIONS = ("image_to_text", "text_to_image")


class Contrastive(ImageTask):
    """Pairs of an image and a text. All pairs of a batch are compared, so a larger batch is a harder problem.

    Args:
        columns: role → column, where a column has another name
        folder: of the images; None = that of the table
        max_tokens: longer texts are cut, and counted; None = what the model can take
    Raises: ConfigError: the model has another head. MissingPartError: it has no processor for images.
    Differs: rows of one image, or of one text, are negatives of each other in training, as in the source.
    """

    HEAD = "zero-shot-image-classification"
    COLUMNS: ClassVar[Mapping[str, str]] = {"file": "file", "text": "text"}
    TARGETS: ClassVar[tuple[str, ...]] = ("text",)
    METRIC = "image_to_text_recall@1"
    REQUIRES = "a pair of an image and a text is needed"
    WHOLE_BATCH = True

    def __init__(
        self,
        model: LoadedModel,
        *,
        columns: Mapping[str, str] | None = None,
        folder: str | None = None,
        max_tokens: int | None = None,
    ) -> None:
        super().__init__(model, columns=columns, folder=folder)
        if not isinstance(model.network, Clip):
            raise UnsupportedError(f"{type(model.network).__name__} has no towers for texts and images; CLIP has")
        self.network = model.network
        self.max_tokens = limit_of(model, max_tokens)
        self.how = {"cut": self.max_tokens}

    def inputs(self) -> list[str]:
        return [self.columns["text"]]  # an empty text is warned of; an empty path is an error

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        images = self.images(rows)
        for index, text, ids in tokenised_texts(rows, self.columns["text"], self.model, self.max_tokens):
            with placed(rows, index):
                self._check_end(text, ids)
                tensors = images.tensors(index)
            yield {**tensors, "input_ids": ids, "length": len(ids) + patch_count(tensors)}

    def _check_end(self, text: str, ids: np.ndarray) -> None:
        """Raises: DataError: a text without the end token, whose state represents it."""
        end = self.network.text.end
        if not len(ids) or (end != LEGACY_END_ID and end not in ids):
            raise DataError(
                f"{self.columns['text']!r} is {safe_repr(text)}, and its tokens have no end token (eos_token_id {end} "
                "of text_config), whose state represents a text; the tokenizer must put it there"
            )

    def labels(self, examples: Sequence[Example], flow: Any) -> Tensor:
        return torch.arange(len(examples))

    def unbatch(self, output: Output, batch: MicroBatch) -> list[Any]:
        """The embeddings of each pair, the text's first, both of length 1. [2, E] each"""
        return list(torch.stack([not_none(output.text_embeds), not_none(output.image_embeds)], dim=1))

    def metric(self) -> Metric:
        return ContrastiveMetric(self.head)

    # ------------------------------------------------------------------------------------------ evaluation

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        """The best text for each image, and where a text of its own is in the ranking; the same for each text."""
        examples = self.encode(rows)
        pairs = list(run_examples(self, examples, tokens=self.evaluation.tokens, progress=progress))
        vectors = torch.stack(pairs).float().cpu()  # [rows, 2, E]
        texts = [text_of(row, self.columns["text"]) for row in iter(rows)]
        files = [row.get(self.columns["file"]) for row in iter(rows)]
        images = [_image_key(file, index) for index, file in enumerate(files)]
        scale = float(self.network.head.scale.detach().exp())
        to_text = rank_pairs(vectors[:, 1], images, vectors[:, 0], texts, scale)
        to_image = rank_pairs(vectors[:, 0], texts, vectors[:, 1], images, scale)
        for index, (text, image) in enumerate(zip(texts, images, strict=True)):
            of_image, of_text = to_text[image], to_image[text]
            yield Prediction(
                index=index,
                where=rows.where(index),
                row={**({"file": files[index]} if isinstance(files[index], str) else {}), "text": text},
                label=list(of_image.losses),
                predicted=next(iter(of_image.probabilities)),
                correct=of_image.rank == 1,
                loss=(of_image.losses[text] + of_text.losses[image]) / 2,
                details={"scores": of_image.probabilities, "ranks": [of_image.rank, of_text.rank]},
            )

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        ranks = np.array([x.details["ranks"] for x in predictions])
        recalls = {
            f"{direction}_recall@{k}": (ranks[:, side] <= k).astype(np.float64)
            for side, direction in enumerate(DIRECTIONS)
            for k in TOP_KS
        }
        how = "share of rows whose own text, or image, is among the first k of all that were evaluated"
        return BootstrapMeans(recalls, dict.fromkeys(recalls, f"recall at k, {how}; numpy {np.__version__}"))

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        draw, count = np.random.default_rng(0), len(predictions)
        ranks = draw.integers(1, count + 1, (count, 2)).tolist()
        chance = [x.by_baseline(None, own[0] == 1, ranks=own) for x, own in zip(predictions, ranks, strict=True)]
        yield Baseline("random", "texts and images in random order", chance)


class ContrastiveMetric(Metric):
    """The contrastive loss, and how often a text has the best score for its image, and an image for its text.

    Both are among the pairs of one batch: they depend on its size.
    """

    def __init__(self, head: Head) -> None:
        super().__init__(head)
        for direction in DIRECTIONS:
            self.add_state(direction)

    def update(self, output: Output, batch: MicroBatch) -> None:
        super().update(output, batch)
        assert isinstance(batch.labels, Tensor)
        for direction, scores in zip(DIRECTIONS, (output.logits_per_image, output.logits_per_text), strict=True):
            self.state[direction] += (not_none(scores).argmax(-1) == batch.labels).sum().cpu()

    def compute(self) -> dict[str, float]:
        scores, count = super().compute(), float(self.state["loss.count"])
        return {**scores, **{f"{each}_accuracy": float(self.state[each]) / count for each in DIRECTIONS}}


def _image_key(value: object, index: int) -> Hashable:
    """What tells whether two rows have one image: its path, or its bytes; arrays are all different."""
    if isinstance(value, Mapping):
        value = value.get("bytes") or value.get("path")
    return value if isinstance(value, (str, bytes)) else index
