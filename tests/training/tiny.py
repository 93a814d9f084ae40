"""A model, an objective and examples so small that a whole run takes moments."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.compression.movement import PruningSpec
from glassformer.compression.quantisation_aware import QuantisationSpec
from glassformer.core.flow import Output
from glassformer.core.heads import Head
from glassformer.model import Model
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.base import Task
from glassformer.tasks.metrics.metric import Metric
from glassformer.tasks.microbatch import text_labels
from glassformer.tasks.types import Dataset, Example, Examples, MicroBatch
from glassformer.training.state import seed_all
from glassformer.training.trainer import Trainer

BERT = {
    "model_type": "bert",
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 24,
    "num_labels": 3,
}
GPT2 = {"model_type": "gpt2", "vocab_size": 40, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 24}
T5 = {
    "model_type": "t5",
    "vocab_size": 40,
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 24,
    "num_layers": 2,
    "num_heads": 2,
}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
STILL_GPT2 = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


class Many:
    """Examples in memory."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.held = list(examples)
        self.lengths = np.array([len(e["input_ids"]) for e in self.held])
        self.fingerprint = hashlib.sha256(repr(self.held).encode()).hexdigest()

    def __len__(self) -> int:
        return len(self.held)

    def __getitem__(self, index: int) -> Example:
        return self.held[index]


class Counts(Metric):
    """The loss, and the accuracy."""

    def __init__(self, head: Head) -> None:
        super().__init__(head)
        self.add_state("right")
        self.add_state("all")

    def update(self, output: Output, item: MicroBatch) -> None:
        super().update(output, item)
        assert output.logits is not None and isinstance(item.labels, Tensor)
        right = (output.logits.argmax(-1) == item.labels) & (item.labels != -100)
        self.state["right"] += right.sum()
        self.state["all"] += (item.labels != -100).sum()

    def compute(self) -> dict[str, float]:
        return {**super().compute(), "accuracy": float(self.state["right"] / self.state["all"])}


class Texts(Task):
    """A class for each text."""

    HEAD = "text-classification"
    COLUMNS: Mapping[str, str] = {}
    VALIDATION_METRIC = "accuracy"

    def encode(self, rows: Dataset, *, cache: Path | None = None) -> Examples:
        raise NotImplementedError("these examples are made without rows")

    def labels(self, examples: Sequence[Example], flow: Any) -> Tensor:
        return text_labels(examples)

    def metric(self) -> Counts:
        assert self.model.network.head is not None
        return Counts(self.model.network.head)


class Words(Texts):
    """Each token from those before it."""

    HEAD = "text-generation"
    VALIDATION_METRIC = "loss"

    def labels(self, examples: Sequence[Example], flow: Any) -> Tensor:
        hidden = [np.concatenate([[-100], e["input_ids"][1:]]) for e in examples]
        if flow.packing is not None:
            return torch.from_numpy(np.concatenate(hidden))[None]
        longest = max(map(len, hidden))
        return torch.tensor([[*row, *[-100] * (longest - len(row))] for row in hidden])


def some(count: int, *, seed: int = 0, longest: int = 20) -> Many:
    """Texts of uneven lengths whose class is that of their first token."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(2, longest + 1, count)
    ids = [draw.integers(3, 40, length) for length in lengths]
    return Many([{"input_ids": row, "labels": np.int64(row[0] % 3)} for row in ids])


def model_of(config: Mapping[str, Any], task: str, *, seed: int = 1) -> Model:
    seed_all(seed)
    return Model.from_config(dict(config), task=task)


def trainer_of(
    folder: Path | None = None,
    *,
    config: Mapping[str, Any] = BERT,
    kind: type[Texts] = Texts,
    examples: Examples | None = None,
    validation: Examples | None = None,
    callbacks: Iterable[Any] = (),
    sharded: bool = False,
    pruning: PruningSpec | None = None,
    quantisation: QuantisationSpec | None = None,
    **options: Any,
) -> Trainer:
    """A trainer of a new tiny model; the same arguments make the same run."""
    torch.set_num_threads(1)
    model = model_of(config, kind.HEAD)
    given: dict[str, Any] = {
        "steps": 12,
        "batch_size": 8,
        "learning_rate": 1e-2,
        "schedule": "cosine",
        **options,
    }
    return Trainer(
        model,
        kind(model),
        TrainingOptions(**given),
        train=examples or some(29),
        validation=validation,
        folder=folder,
        callbacks=list(callbacks),
        sharded=sharded,
        pruning=pruning,
        quantisation=quantisation,
    )


def weights_of(trainer: Trainer) -> dict[str, Tensor]:
    return {name: trainer.distributed.full_tensor(x).clone() for name, x in trainer.network.named_parameters()}


def digest(trainer: Trainer) -> str:
    """One number for all weights, to the last bit."""
    found = hashlib.sha256()
    for name, x in weights_of(trainer).items():
        found.update(name.encode() + x.contiguous().numpy().tobytes())
    return found.hexdigest()
