"""Tiny models that learn words, and rows of a few texts: nothing is read from disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tokenizers
import torch
from tokenizers import models, pre_tokenizers, processors
from torch import Tensor

from glassformer.model import Model
from glassformer.models import FAMILIES
from glassformer.tasks.base import Task
from glassformer.tasks.types import Example, MicroBatch
from glassformer.text.settings import TokenizerSettings
from glassformer.text.tokenizer import Tokenizer

SPECIAL = "[PAD] [CLS] [SEP] [UNK] [MASK] <s> </s>".split()
SENTINELS = [f"<extra_id_{i}>" for i in range(12)]
WORDS = (
    "time flies like an arrow fruit a banana . the bird eats figs cat sat on mat dog ran home red blue sky falls "
    "old river runs slow we saw it and they did not know why this is so but yes one two three four five"
).split()
VOCABULARY = [*SPECIAL, *SENTINELS, "<mask_1>", *WORDS]
NUMBER = {word: number for number, word in enumerate(VOCABULARY)}
PAD, CLS, SEP, UNK, MASK, BOS, EOS = range(len(SPECIAL))

ROLES = {"pad": "[PAD]", "unk": "[UNK]", "mask": "[MASK]"}
FRAMES = {
    "bert": ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", {"cls": "[CLS]", "sep": "[SEP]"}),
    "bart": ("<s> $A </s>", "<s> $A </s> $B </s>", {"bos": "<s>", "eos": "</s>"}),
    "t5": ("$A </s>", "$A </s> $B </s>", {"eos": "</s>"}),
    "llama": ("<s> $A", "<s> $A $B", {"bos": "<s>", "eos": "</s>"}),
    "gpt2": ("$A", "$A $B", {"eos": "</s>"}),
    "none": ("$A", "$A $B", {}),
}


def word_tokenizer(frame: str, limit: int | None = None) -> Tokenizer:
    """A token a word, and around a text what a family puts there."""
    single, pair, roles = FRAMES[frame]
    engine = tokenizers.Tokenizer(models.WordLevel(NUMBER, unk_token="[UNK]"))
    engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    engine.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(token, NUMBER[token]) for token in SPECIAL]
    )
    engine.add_special_tokens([*SPECIAL, *SENTINELS, "<mask_1>"])
    return Tokenizer(engine, TokenizerSettings(roles={**ROLES, **roles}, model_max_length=limit))


def tiny(family: str, task: str, frame: str, *, tokenizer: Tokenizer | None = None, **config: Any) -> Model:
    """A fresh model of a family's tiny config, always with the same numbers, without dropout."""
    whole = {
        **FAMILIES[family].tiny,
        "vocab_size": len(VOCABULARY),
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        **config,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Model.from_config(whole, task=task, tokenizer=tokenizer or word_tokenizer(frame))
    return model.eval()


class Listed:
    """Rows from a list."""

    fingerprint = "a list"

    def __init__(self, *rows: Mapping[str, Any]) -> None:
        self._rows = rows
        self.columns: Sequence[str] = tuple(rows[0]) if rows else ("text",)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        return self._rows[index]

    def where(self, index: int) -> str:
        return f"rows.csv: line {index + 2}"


def texts(*values: str) -> Listed:
    return Listed(*({"text": value} for value in values))


def pairs(*values: tuple[str, str]) -> Listed:
    return Listed(*({"source": source, "target": target} for source, target in values))


def drawing(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def ids_of(text: str) -> list[int]:
    return [NUMBER[word] for word in text.split()]


def words_of(ids: Any) -> str:
    return " ".join("-" if int(number) == -100 else VOCABULARY[int(number)] for number in ids)


def loss_of(objective: Task, item: MicroBatch) -> Tensor:
    """The mean loss of one pass: from what training sums up, which is that of a whole call."""
    network = objective.model.network
    assert network.head is not None
    sums = network.loss_sums(item.batch, item.flow, item.labels)
    counts = network.head.label_counts(item.labels)
    loss = torch.stack([sums[part] / counts[part] for part in counts]).sum()
    torch.testing.assert_close(loss, network.head.loss(network(item.batch, item.flow), item.labels))
    return loss


def judged(objective: Task, items: Sequence[MicroBatch]) -> dict[str, float]:
    """The figures of a validation."""
    metric = objective.metric()
    with torch.no_grad():
        for item in items:
            metric.update(objective.model.network(item.batch, item.flow), item)
    return metric.compute()


def shown(objective: Task, examples: Any, seed: int = 0) -> list[Example]:
    """All examples as they are shown once."""
    draw = drawing(seed)
    return [objective.augment(examples[index], draw) for index in range(len(examples))]


def trained(objective: Task, examples: Any, steps: int, lr: float, each: int = 8) -> Iterator[float]:
    """The losses of a plain loop, which draws examples."""
    objective.model.train()
    optimiser = torch.optim.AdamW(objective.model.parameters(), lr=lr, weight_decay=0.0)
    draw = drawing(0)
    for _ in range(steps):
        chosen = [examples[int(i)] for i in draw.integers(len(examples), size=each)]
        loss = loss_of(objective, objective.collate([objective.augment(e, draw) for e in chosen]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        yield float(loss.detach())


def both_layouts(objective: Task, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
    """The same examples packed and padded: the loss of each."""
    losses = []
    for packs in (True, False):
        objective.packs = packs
        item = objective.collate(examples)
        assert (item.flow.packing is not None) == packs
        losses.append(loss_of(objective, item))
    return losses[0], losses[1]
