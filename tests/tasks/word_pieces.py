"""Tiny models of any family that are about to learn, with a tokenizer of whole and of broken words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import tokenizers
import torch
from tokenizers import models, pre_tokenizers, processors

from glassformer.model import Model
from glassformer.models import FAMILIES
from glassformer.tasks.base import Task
from glassformer.tasks.types import MicroBatch, Prediction
from glassformer.text.settings import TokenizerSettings
from glassformer.text.tokenizer import Tokenizer
from tests.e2e.tiny_models import SMALL

WORDS = "[PAD] [CLS] [SEP] [UNK] time flies like an arrow fruit a banana . ##s ##e ##an dean jeff works at ?".split()
PAD, CLS, SEP, UNK, *_ = range(len(WORDS))
NUMBER = {word: number for number, word in enumerate(WORDS)}


def pieces(*, framed: bool = True) -> tokenizers.Tokenizer:
    """BERT's way: words are split at spaces and signs, and broken into pieces: works ?, dean + ##s."""
    engine = tokenizers.Tokenizer(models.WordPiece(NUMBER, unk_token="[UNK]"))
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if framed:
        engine.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)],
        )
    engine.add_special_tokens(WORDS[:4])
    return engine


def tokenizer_of(family: str, *, framed: bool = True, limit: int | None = None) -> Tokenizer:
    segments = family in ("bert", "big_bird")
    return Tokenizer(
        pieces(framed=framed),
        TokenizerSettings(model_type=family, token_types=segments, model_max_length=limit),
    )


def tiny_model(
    family: str,
    task: str,
    head: Mapping[str, Any] | None = None,
    *,
    framed: bool = True,
    limit: int | None = None,
    **config: Any,
) -> Model:
    """A model of a family with a fresh head, whose config says what `head` says; always the same numbers."""
    whole = {
        **FAMILIES[family].tiny,
        **SMALL.get(family, {}),
        "vocab_size": 32,
        "eos_token_id": SEP,  # by which some classifiers find the end of a text
        "pad_token_id": PAD,
        **config,
        **(head or {}),
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Model.from_config(whole, task=task, tokenizer=tokenizer_of(family, framed=framed, limit=limit))
    model.network.eval()  # no dropout: the same text gives the same loss
    return model


def loss_sums(objective: Task, item: MicroBatch) -> dict[str, float]:
    sums = objective.model.network.loss_sums(item.batch, item.flow, item.labels)
    return {name: float(x.detach()) for name, x in sums.items()}


def check_passes(objective: Task, examples: Any) -> None:
    """All texts in one pass have the losses and gradients that each has alone."""
    network = objective.model.network
    single: dict[str, float] = {}
    for index in range(len(examples)):
        for name, x in loss_sums(objective, objective.collate([examples[index]], [index])).items():
            single[name] = single.get(name, 0.0) + x
    item = objective.collate([examples[i] for i in range(len(examples))], range(len(examples)))
    together = loss_sums(objective, item)
    assert together == pytest.approx(single, rel=2e-5, abs=1e-6), (together, single)
    assert all(0 < x < 1e4 for x in together.values())
    sums = network.loss_sums(item.batch, item.flow, item.labels)
    sum(sums.values()).backward()  # type: ignore[union-attr]
    gradient = max(float(p.grad.abs().max()) for p in network.head.parameters() if p.grad is not None)
    assert 0 < gradient < 1e4
    metric = objective.metric()
    with torch.no_grad():
        metric.update(objective.split_packed(network(item.batch, item.flow), item), item)
    counts = network.head.label_counts(item.labels)
    loss = sum(together[name] / counts[name] for name in together)
    assert metric.compute()["loss"] == pytest.approx(loss, rel=2e-5, abs=1e-6)
    assert objective.VALIDATION_METRIC in metric.compute()


def check_scores(task: Task, rows: Any) -> list[Prediction]:
    """What a validation adds up pass by pass, from predictions: the same figures, and the same loss."""
    predictions = list(task.predict(rows))
    values = task.metrics(predictions).values()
    assert task.METRIC in values
    metric, examples = task.metric(), task.encode(rows)
    item = task.collate([examples[i] for i in range(len(examples))])
    metric.update(task.model.network(item.batch, item.flow), item)
    theirs = metric.compute()
    losses = [loss for x in predictions for loss in x.details.get("losses", [x.loss])]
    assert sum(losses) / len(losses) == pytest.approx(theirs["loss"], rel=1e-5)
    shared = set(values) & set(theirs)
    wanted = {name: theirs[name] for name in shared}
    assert shared and {name: values[name] for name in shared} == pytest.approx(wanted, abs=1e-6)
    return predictions


def families_for(task: str) -> list[str]:
    """The families that have a head for a task and read nothing but text."""
    return [
        name
        for name, family in FAMILIES.items()
        if task in family.tasks and family.modality is None and name != "lxmert"
    ]
