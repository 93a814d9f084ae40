"""feature-extraction: the final state of each token, which everything else is read off.

    time flies   ──>   [CLS] time flies [SEP]   ──>   4 vectors, or one of them all by a pooling

One vector a text, pooled and normalised as the model's folder says, is `model.encode`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from glassformer.engine.encoder import PASS_TOKENS, final_states
from glassformer.engine.modes import evaluating
from glassformer.engine.passes import plan_passes
from glassformer.engine.sentences import POOLINGS
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import shown
from glassformer.model import Model
from glassformer.tasks.packed_pipeline import Reading


class FeatureExtraction(Reading):
    """The vectors of a text's tokens, special ones included: an array [tokens, D] a text.

    pooling: one vector of them, [D]: "cls" (the first), "lasttoken", "mean", "max", …
    truncation: as `Reading`
    """

    HEAD = "feature-extraction"
    WHY = "its states are not those of one text; call the model itself for what it makes of its inputs"
    BODY = True
    OWN = ("pooling", *Reading.OWN)

    def __init__(self, model: Model, task: str, **options: Any) -> None:
        if (sides := list(model.network.sides())) != ["text"]:
            raise UnsupportedError(
                f"'feature-extraction' gives the states of one stack for text; this model has {' and '.join(sides)}: "
                "call the model itself"
            )
        super().__init__(model, task, **options)

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        pooling = options.get("pooling")
        if pooling is not None and pooling not in POOLINGS:
            raise ConfigError(
                f"pooling is {shown(pooling)}; it must be None, or one of: {', '.join(POOLINGS)}"
            )

    def in_words(self, answer: Any) -> str:
        return " × ".join(map(str, answer.shape)) + " numbers"

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        network = self.model.network
        pooling = options.get("pooling")
        rows, cut = self.model.tokenizer.batch_ids(batch, self.limit)
        self.counted(rows, cut, options)
        found: dict[int, np.ndarray] = {}
        with evaluating(network), torch.inference_mode():
            for chosen in plan_passes([len(ids) for ids in rows], PASS_TOKENS):
                states, segments = final_states(network, [rows[i] for i in chosen])
                for index, own in zip(chosen, states[0].split(list(segments.lengths)), strict=True):
                    vectors = own if pooling is None else POOLINGS[pooling](own[None])[0]
                    found[index] = vectors.float().cpu().numpy()
        return [found[i] for i in range(len(batch))]
