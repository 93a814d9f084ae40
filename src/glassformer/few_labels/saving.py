"""Save what a method of few labels has learned: a model folder, or a scorer without pickle.

    fine-tuning, domain-adaptation, uda, self-training, …       the network, as any model that was trained to classify
    naive-bayes, embeddings, nearest-neighbours, contrastive, …   counts or vectors, and scores by them: `TextScorer`

Of several labels, a network answers those above 0.5; thresholds of its method go into the bias of its head.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from glassformer.errors import UnsupportedError
from glassformer.few_labels.method import Method
from glassformer.model import Model
from glassformer.tasks.classify.kinds import MultiLabel
from glassformer.tasks.classify.scorer import TextScorer
from glassformer.tasks.classify.task import Classify

LEAST = 1e-4
"""Thresholds are this far from 0 and 1 at least: the bias stays finite."""


def save_method(method: Method[Any], folder: str | Path) -> None:
    """Write what a fitted method has learned into a folder, which `predict`, `evaluate` and `pipeline` read.

    Raises: UnsupportedError: it learns nothing that could be saved. DataError: the disk refuses.
    """
    saved = method.saved()
    if isinstance(saved, TextScorer):
        saved.save(folder)
        return
    assert isinstance(saved.model, Model)  # as `new_classifier` loads it
    several = isinstance(method.kind, MultiLabel)
    with (
        shifted_thresholds(saved, np.broadcast_to(method.thresholds, len(method.kind.names)))
        if several
        else nullcontext()
    ):
        saved.model.save_pretrained(folder)


@contextmanager
def shifted_thresholds(task: Classify, thresholds: np.ndarray) -> Iterator[None]:
    """Within the block, the logit of each threshold is subtracted from the bias of the head: a label holds above 0.5.

    After it the bias is as it was learned.

    Raises: UnsupportedError: the head has no such bias.
    """
    outputs = [x for x in task.head.modules() if isinstance(x, nn.Linear) and x.out_features == len(thresholds)]
    if not outputs or outputs[-1].bias is None:
        raise UnsupportedError("the head of this model has no bias for thresholds of several labels; choose another")
    shares = np.clip(thresholds, LEAST, 1 - LEAST)
    bias = outputs[-1].bias
    learned = bias.detach().clone()
    with torch.no_grad():
        bias.sub_(torch.from_numpy(np.log(shares / (1 - shares))))
        try:
            yield
        finally:
            bias.copy_(learned)
