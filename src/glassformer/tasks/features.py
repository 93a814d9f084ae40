"""feature-extraction pipeline: the last hidden state of each token, which everything else is read off.

    time flies   ──>   [CLS] time flies [SEP]   ──>   4 vectors, or one of them all by a pooling

One vector a text, pooled and normalised as the model's folder says, is `model.encode`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from glassformer.core.masks import Packing
from glassformer.engine.batching import eval_mode
from glassformer.engine.encoder import BATCH_TOKENS, run_final_states
from glassformer.engine.pooling import POOLINGS
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.model import Model
from glassformer.tasks.pipelines import PackedPipeline


class FeatureExtraction(PackedPipeline):
    """The vectors of a text's tokens, special ones included: an array [tokens, D] a text.

    pooling: one vector of them, [D]: "cls" (the first), "lasttoken", "mean", "max", …
    truncation: as `PackedPipeline`
    """

    HEAD = "feature-extraction"
    WHY = "its states are not those of one text; call the model itself for what it makes of its inputs"
    BODY = True
    OWN = ("pooling", *PackedPipeline.OWN)

    def __init__(self, model: Model, task: str, **options: Any) -> None:
        if (sides := list(model.network.stacks())) != ["text"]:
            raise UnsupportedError(
                f"'feature-extraction' gives the states of one stack for text; this model has {' and '.join(sides)}: "
                "call the model itself"
            )
        super().__init__(model, task, **options)

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        pooling = options.get("pooling")
        if pooling is not None and pooling not in POOLINGS:
            raise ConfigError(f"pooling is {safe_repr(pooling)}; it must be None, or one of: {', '.join(POOLINGS)}")

    def in_words(self, answer: Any) -> str:
        return " × ".join(map(str, answer.shape)) + " numbers"

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        network = self.model.network
        pooling = options.get("pooling")
        rows, cut = self.model.tokenizer.batch_ids(batch, self.limit)
        self.count_truncated(rows, cut, options)
        vectors_of: dict[int, np.ndarray] = {}

        def read(states: Tensor, packing: Packing) -> list[np.ndarray]:
            texts = states.split(list(packing.lengths))
            pooled = texts if pooling is None else [POOLINGS[pooling](own[None])[0] for own in texts]
            return [vectors.float().cpu().numpy() for vectors in pooled]

        with eval_mode(network):
            for indices, vectors in run_final_states(network, rows, BATCH_TOKENS, read):
                vectors_of.update(zip(indices, vectors, strict=True))
        return [vectors_of[i] for i in range(len(batch))]
