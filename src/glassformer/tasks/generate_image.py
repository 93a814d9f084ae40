"""Image generation (Image GPT): a decoder learns to predict the next colour of images, row by row.

    file ─ resized, each pixel to the nearest of 512 colours     read   [start] c₁ c₂ c₃ … cₙ₋₁
                                                                 learnt    c₁   c₂ c₃ c₄ … cₙ
Evaluated: bits a pixel, next to how frequent colours are and which one follows which.
Source: Chen et al. 2020, "Generative pretraining from pixels", sections 2 and 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.core.losses import IGNORE_INDEX
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.loaded_model import LoadedModel
from glassformer.models.imagegpt import NextColourHead
from glassformer.tasks.base import Progress
from glassformer.tasks.causal.evaluation import token_losses
from glassformer.tasks.columns import placed, training_sample
from glassformer.tasks.images import ImageTask
from glassformer.tasks.metrics.metric import Bootstrap, BootstrapSums, Metric, PerplexityMetric, perplexity
from glassformer.tasks.predictions import is_readable
from glassformer.tasks.types import Baseline, Dataset, Example, Examples, Prediction


class GenerateImage(ImageTask):
    """Images as colours, of which every one is learnt, the first from the start token.

    Args:
        columns: role → column, where a column has another name
        folder: of the images; None = that of the table
    Raises: ConfigError: the model has another head, or reads smaller images. UnsupportedError: it makes no colours.
    """

    HEAD = "text-generation"
    METRIC = "bits_per_pixel"
    CACHE_KEY = "colours"
    REQUIRES = "an image is needed"
    READS_TEXT = False

    def __init__(
        self, model: LoadedModel, *, columns: Mapping[str, str] | None = None, folder: str | None = None
    ) -> None:
        super().__init__(model, columns=columns, folder=folder)
        settings: Any = getattr(self._processor, "settings", None)
        if getattr(settings, "colours", None) is None or not isinstance(self.head, NextColourHead):
            raise UnsupportedError(
                f"a {model.family.model_type!r} model with this processor reads no colours of pixels; Image GPT does, "
                "with a preprocessor_config.json that has clusters"
            )
        self.start = model.network.vocabulary - 1  # nothing predicts it: the head has one output less
        self.colours = self.head.decoder.out_features
        if len(settings.colours) > self.colours:
            raise ConfigError(
                f"the processor has {len(settings.colours)} colours (clusters), and the model {self.colours}; take the "
                "preprocessor_config.json that belongs to it"
            )
        self._evaluated: Examples | None = None

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        images, longest = self.images(rows), self.model.network.max_tokens
        for index in range(len(rows)):
            with placed(rows, index):
                colours = images.tensors(index)["input_ids"].astype(np.int32)
                if longest is not None and len(colours) > longest:
                    raise DataError(
                        f"the image has {len(colours):,} pixels, and the model reads {longest:,} (n_positions); set a "
                        "smaller size in preprocessor_config.json"
                    )
                yield {"input_ids": np.concatenate([[self.start], colours[:-1]]).astype(np.int32), "last": colours[-1]}

    def labels(self, examples: Sequence[Example], flow: Any) -> Tensor:
        """The colours: one more than the ids, since no id reads the last of an image. [B, pixels + 1]"""
        lasts = torch.tensor([[int(example["last"])] for example in examples])
        ids = torch.from_numpy(np.stack([example["input_ids"] for example in examples])).long()
        ids[:, 0] = IGNORE_INDEX
        return torch.cat([ids, lasts], dim=1)

    def metric(self) -> Metric:
        return PerplexityMetric(self.head)

    # ------------------------------------------------------------------------------------------ evaluation

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        """How many bits each image takes."""
        self._evaluated = examples = self.encode(rows)
        for index, losses in enumerate(token_losses(self, examples, progress)):
            value = rows[index].get(self.columns["file"])
            yield Prediction(
                index=index,
                where=rows.where(index),
                row={"file": value} if is_readable(value) else {},
                label=None,
                predicted=None,
                **_scored(losses.losses),
            )

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        rows = np.array([[x.details["nats"], x.details["pixels"]] for x in predictions])

        def of(sums: np.ndarray) -> dict[str, np.ndarray]:
            loss = sums[:, 0] / sums[:, 1]
            return {"bits_per_pixel": loss / math.log(2), "perplexity": perplexity(loss)}

        by = f"of all pixels, each from those before it; {self.colours:,} colours; numpy {np.__version__}"
        return BootstrapSums(
            rows, of, {"bits_per_pixel": f"mean loss / ln 2 {by}", "perplexity": f"exp(mean loss) {by}"}
        )

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        """Uniform probabilities; with training rows how frequent a colour is, and after the one to its left."""
        if self._evaluated is None:
            return
        images = [_colours(self._evaluated[number]) for number in range(len(self._evaluated))]
        uniform = [np.full(len(image), math.log(self.colours)) for image in images]
        yield self._baseline("uniform", f"each of {self.colours:,} colours is as likely", predictions, uniform)
        if train is None:
            return
        chosen, note = training_sample(train)
        counts = ColourCounts(self.colours)
        examples = self.encode(train)
        for number in chosen:
            counts.add(_colours(examples[number]))
        for name, about in (("frequency", "how frequent a colour is"), ("neighbour", "and after the pixel before it")):
            losses = [counts.losses(image, neighbour=name == "neighbour") for image in images]
            yield self._baseline(name, f"{about} in the training images{note}", predictions, losses)

    def _baseline(
        self, name: str, about: str, predictions: Sequence[Prediction], losses: Sequence[np.ndarray]
    ) -> Baseline:
        scored = [(x, _scored(losses[x.index])) for x in predictions]
        return Baseline(name, about, [x.by_baseline(None, None, own["loss"], **own["details"]) for x, own in scored])


class ColourCounts:
    """Probabilities of colours: how frequent one is, and how often it follows another (Witten-Bell).

    Args:
        colours: how many there are
    Source: Witten and Bell 1991, method C; `Ngrams` of texts, with all pairs at once.
    """

    def __init__(self, colours: int) -> None:
        self.single = np.ones(colours)  # each as if seen once more
        self.pairs = np.zeros((colours, colours))

    def add(self, image: np.ndarray) -> None:
        """Count the colours of an image [pixels]."""
        np.add.at(self.single, image, 1)
        np.add.at(self.pairs, (image[:-1], image[1:]), 1)

    def losses(self, image: np.ndarray, *, neighbour: bool) -> np.ndarray:
        """-ln p of each pixel, in nats. [pixels]"""
        p = (self.single / self.single.sum())[image]
        if neighbour:
            before, after = image[:-1], image[1:]
            seen, kinds = self.pairs.sum(1)[before], (self.pairs > 0).sum(1)[before]
            known = seen > 0
            mixed = (self.pairs[before, after] + kinds * p[1:]) / np.maximum(seen + kinds, 1)
            p[1:] = np.where(known, mixed, p[1:])
        losses: np.ndarray = -np.log(p)
        return losses


def _colours(example: Example) -> np.ndarray:
    """The colours of an example's image. [pixels]"""
    return np.concatenate([example["input_ids"][1:], [example["last"]]]).astype(np.int64)


def _scored(losses: np.ndarray) -> dict[str, Any]:
    """The fields of a prediction that the losses of an image's pixels make."""
    nats = float(losses.sum())
    return {"loss": nats / len(losses), "details": {"nats": nats, "pixels": len(losses)}}
