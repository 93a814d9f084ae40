"""A task may say that its batches stay whole, as contrastive losses need; examples of several texts, codes of books."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, log_softmax

from glassformer.core.flow import Batch, Flow
from glassformer.data.rows import read_rows
from glassformer.data.store import ExampleStore
from glassformer.errors import ConfigError
from glassformer.model import Model
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.microbatch import collate_inputs, micro_batches
from glassformer.tasks.types import Examples
from glassformer.text.train import train_tokenizer
from glassformer.training.callbacks import Callback
from glassformer.training.distributed import Distributed
from glassformer.training.trainer import Trainer
from tests.tasks.added_contrastive_task import PairHead, Pairs
from tests.training.tiny import BERT, STILL

WORDS = "red green blue cold warm small large old new round".split()
ROWS = [
    {"text": " ".join([WORDS[i % 10]] * (1 + i % 4)), "other": f"{WORDS[i % 10]} {WORDS[(i + 3) % 10]} {i}"}
    for i in range(20)
]


class Steps(Callback):
    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_step(self, trainer: Any, report: Any) -> None:
        self.losses.append(report.loss)


@pytest.fixture
def task() -> Pairs:
    texts = [text for row in ROWS for text in row.values()]
    tokenizer = train_tokenizer(texts, size=280)
    torch.manual_seed(0)
    config = {**BERT, **STILL, "vocab_size": tokenizer.largest_id + 1}
    model = Model.from_config(config, head=PairHead, tokenizer=tokenizer)
    return Pairs(model)


def trainer_of(task: Pairs, callbacks: Sequence[Callback] = (), **options: Any) -> Trainer:
    examples = task.encode(read_rows(ROWS))
    given = TrainingOptions(**{"steps": 3, "batch_size": 8, "learning_rate": 1e-3, **options})
    return Trainer(task.model, task, given, train=examples, validation=examples, callbacks=callbacks)


def loss_by_hand(task: Pairs, examples: Examples, indices: Sequence[int]) -> Tensor:
    """Symmetric cross-entropy on the cosine similarities of a batch, each text alone through the network."""
    vectors: list[list[Tensor]] = [[], []]
    for i in indices:
        ids, (first, _) = examples[int(i)]["input_ids"], examples[int(i)]["documents"]
        for side, own in zip(vectors, (ids[:first], ids[first:]), strict=True):
            x = torch.tensor(own, dtype=torch.int64)[None]
            side.append(task.model.network.states(Batch(input_ids=x), Flow())[0].mean(0))
    scores = torch.stack([torch.stack([cosine_similarity(a, b, dim=0) for b in vectors[1]]) for a in vectors[0]])
    scores = scores / 0.1
    return -(log_softmax(scores, 1).diagonal().mean() + log_softmax(scores, 0).diagonal().mean()) / 2


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("compared", [None, 4])
def test_the_loss_and_gradient_of_a_step_are_those_of_whole_batches(
    task: Pairs, compared: int | None, packed: bool
) -> None:
    """`micro_batch_size` accumulates the gradients of several whole batches; without it, the step is one of them."""
    task.packs = packed
    trainer = trainer_of(task, micro_batch_size=compared)
    chosen = trainer.batch_sampler.batch_indices(0, 0)
    groups = [chosen] if compared is None else [chosen[:4], chosen[4:]]
    by_hand = torch.stack([loss_by_hand(task, trainer.train_examples, group) for group in groups]).mean()
    by_hand.backward()
    learnt = {name: p for name, p in task.model.network.named_parameters() if p.grad is not None}
    expected = {name: p.grad.clone() for name, p in learnt.items()}
    task.model.network.zero_grad()
    batches, loss, tokens = trainer.gradients.of_step(trainer.state, lambda *_, **__: None)
    assert [list(batch.indices) for batch in batches] == [list(group) for group in groups]
    assert loss == pytest.approx(float(by_hand.detach()), rel=1e-5)
    assert tokens == sum(len(trainer.train_examples[int(i)]["input_ids"]) for i in chosen)
    torch.testing.assert_close({name: p.grad for name, p in learnt.items()}, expected, rtol=1e-3, atol=1e-5)
    trainer.gradients.batch_loader.close()


def test_it_trains_and_is_validated_on_batches_of_the_same_size(task: Pairs) -> None:
    watch = Steps()
    trainer = trainer_of(task, [watch], steps=30, learning_rate=3e-3, micro_batch_size=4)
    before = trainer.validate()["loss"]
    groups = [range(i, i + 4) for i in range(0, 20, 4)]
    by_hand = [float(loss_by_hand(task, trainer.train_examples, group).detach()) for group in groups]
    assert before == pytest.approx(np.mean(by_hand), rel=1e-5)
    result = trainer.train()
    assert len(watch.losses) == 30 and result.metrics["loss"] < before


def test_a_batch_that_does_not_fit_whole_is_an_error(task: Pairs) -> None:
    trainer = trainer_of(task, micro_batch_tokens=20)
    with pytest.raises(ConfigError, match=r"a batch of 8 examples has \d+ tokens, and micro_batch_tokens is 20; .*"):
        trainer.train()
    with pytest.raises(ConfigError, match="raise micro_batch_tokens, or lower micro_batch_size"):
        trainer.validate()
    examples = [{"input_ids": [1] * 30, "documents": [10, 20]}] * 3
    (batch,) = micro_batches(task, examples, [4, 5, 6], tokens=90)
    assert batch.indices == (4, 5, 6)
    assert len(micro_batches(task, examples, [4, 5, 6], tokens=60, size=2)) == 2


def test_out_of_memory_names_what_helps_instead_of_cutting(task: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of(task)

    def full(batches: Any) -> Any:
        raise torch.OutOfMemoryError("full")

    monkeypatch.setattr(trainer.gradients, "accumulate", full)
    with pytest.raises(ConfigError, match="a batch of 8 examples, which cannot be cut; lower micro_batch_size"):
        trainer.train()


def test_several_processes_would_each_see_a_part(task: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Distributed, "world_size", 2)
    with pytest.raises(ConfigError, match="Pairs compares all examples of a batch, and 2 processes"):
        trainer_of(task)


def test_a_run_is_resumed_with_the_same_compared_examples_only(task: Pairs, tmp_path: Path) -> None:
    examples = task.encode(read_rows(ROWS))

    def train(**options: Any) -> None:
        given = TrainingOptions(**{"steps": 1, "batch_size": 8, **options})
        Trainer(task.model, task, given, train=examples, folder=tmp_path / "run").train()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train(micro_batch_size=4)
        with pytest.raises(ConfigError, match="micro_batch_size was 4, is now 8"):
            train(micro_batch_size=8)


@pytest.mark.parametrize("packed", [True, False])
def test_an_example_may_be_several_texts(packed: bool, tmp_path: Path) -> None:
    """Triples: an anchor, one that belongs to it, one that does not; the texts of an example lie end to end."""
    triples = [
        {"input_ids": [5, 6, 7, 8, 9, 10], "documents": [1, 2, 3]},
        {"input_ids": [11, 12, 13, 14], "documents": [2, 1, 1]},
    ]
    store = ExampleStore.make(triples, path=tmp_path, key="triples")
    assert store.lengths.tolist() == [6, 4]
    batch, flow = collate_inputs(list(store), 0, packed=packed)
    assert batch.input_ids is not None
    if packed:
        assert flow.packing is not None and flow.packing.lengths == (1, 2, 3, 2, 1, 1)
    else:
        rows = [[5, 0, 0], [6, 7, 0], [8, 9, 10], [11, 12, 0], [13, 0, 0], [14, 0, 0]]
        assert batch.input_ids.tolist() == rows
        assert flow.keep is not None and flow.keep[:, 0].sum(-1).tolist() == [1, 2, 3, 2, 1, 1]


def test_ids_of_several_books(tmp_path: Path) -> None:
    """Codes of a neural audio codec: [T, books] an example, padded along T or laid end to end."""
    codes = [np.arange(6, dtype=np.int32).reshape(3, 2), np.arange(10, 14, dtype=np.int32).reshape(2, 2)]
    store = ExampleStore.make([{"input_ids": x} for x in codes], path=tmp_path, key="codes")
    assert store.lengths.tolist() == [3, 2]
    padded, flow = collate_inputs(list(store), 99, packed=False)
    assert padded.input_ids is not None and flow.keep is not None
    assert padded.input_ids.tolist() == [codes[0].tolist(), [*codes[1].tolist(), [99, 99]]]
    assert flow.keep[:, 0].tolist() == [[True] * 3, [True, True, False]]
    packed, flow = collate_inputs(list(store), 99, packed=True)
    assert packed.input_ids is not None and packed.input_ids.shape == (1, 5, 2)
    assert flow.packing is not None and flow.packing.lengths == (3, 2)


def test_other_tasks_are_cut_as_before(task: Pairs) -> None:
    task.WHOLE_BATCH = False  # type: ignore[misc]
    examples = [{"input_ids": [1] * 30, "documents": [10, 20]}] * 3
    assert [batch.indices for batch in micro_batches(task, examples, [0, 1, 2], tokens=30)] == [
        (0,),
        (1,),
        (2,),
    ]
