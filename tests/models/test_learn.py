"""Loss sums and label counts of every family equal its loss, in one call or in several."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from glassformer import Model
from glassformer.core.flow import Batch, Flow
from glassformer.core.heads import Labels
from glassformer.core.masks import Packing
from glassformer.errors import ConfigError
from glassformer.models import FAMILIES, Network
from glassformer.models._speech import CTCHead
from tests.core.small import assert_close
from tests.parity.families import HEADS, Row
from tests.parity.inputs import draw_inputs, draw_labels


def build(row: Row, architecture: str) -> tuple[Network, Batch, Flow, Any]:
    """A tiny network in which nothing is dropped, what a call hands it but for its cache, and labels."""
    config = {**row.config(architecture, **row.no_dropout), "architectures": [architecture]}
    torch.manual_seed(0)
    model = Model.from_config(config).train()
    calls: list[tuple[Batch, Flow]] = []
    model.network.register_forward_pre_hook(lambda network, call: calls.append((call[0], replace(call[1], cache=None))))
    inputs = draw_inputs(model.config, "none")
    with torch.no_grad():
        model(**inputs.ours)
    labels = draw_labels(row.record.architectures[architecture], inputs, model.config)
    return model.network, *calls[0], None if labels is None else labels[0]


def rows_of(batch: Batch, flow: Flow, labels: Labels, rows: slice) -> tuple[Batch, Flow, Labels]:
    sliced = {f.name: x[rows] for f in fields(batch) if (x := getattr(batch, f.name)) is not None}
    keep = None if flow.keep is None else flow.keep[rows]
    return Batch(**sliced), replace(flow, keep=keep), tree_map(lambda x: x[rows], labels)


def gradients(network: Network, loss: Tensor) -> dict[str, Tensor]:
    network.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(("row", "architecture"), HEADS, ids=[name for _, name in HEADS])
def test_learning_in_parts_is_learning_at_once(row: Row, architecture: str) -> None:
    network, batch, flow, labels = build(row, architecture)
    if labels is None:
        with pytest.raises(ConfigError, match=r"no loss of its own|has none"):
            network.loss_sums(batch, flow, torch.zeros(3, dtype=torch.int64))
        return
    head = network.require_head()
    if architecture == "CLIPModel":
        # Two halves of a batch have another loss, which training refuses: tests/tasks/test_contrastive.py.
        assert head.WHOLE_BATCH
        counts, sums = head.label_counts(labels), network.loss_sums(batch, flow, labels)
        loss = head.loss(network(batch, flow), labels)
        assert_close(sum(sums[name] / counts[name] for name in sums), loss, 1e-6)
        return
    if isinstance(labels, dict) and "start_positions" in labels:  # beyond the text: `loss` alone forgives it
        labels = {name: x.masked_fill(x >= 11, -100) for name, x in labels.items()}
    loss = head.loss(network(batch, flow), labels)
    expected = gradients(network, loss)

    counts = head.label_counts(labels)
    if isinstance(head, CTCHead) and head.reduction == "sum":  # training takes the mean of rows all the same
        expected = {name: x / counts["loss"] for name, x in expected.items()}
        loss = loss / counts["loss"]
    learned, parts = [], []
    for rows in (slice(0, 1), slice(1, 3)):
        sums = network.loss_sums(*rows_of(batch, flow, labels, rows))
        assert set(sums) == set(counts)
        learned.append(sum(sums[name] / counts[name] for name in sums))
        parts.append(head.label_counts(rows_of(batch, flow, labels, rows)[2]))
    assert counts == {name: sum(part[name] for part in parts) for name in counts}
    assert_close(sum(learned), loss, 1e-6)
    ours = gradients(network, sum(learned))
    assert set(ours) == set(expected)
    largest = max(float(x.abs().max()) for x in expected.values())
    rounding = 8e-6 if isinstance(head, CTCHead) else 2e-6  # torch's CTC has gradients of less precision
    for name, x in expected.items():
        assert float((ours[name] - x).abs().max()) <= rounding * largest, name


@pytest.mark.parametrize("family", ["bert", "big_bird", "gpt2"])
def test_texts_in_one_row_learn_what_they_learn_apart(family: str) -> None:
    """Answers: packed, padded and alone, the softmax goes over the tokens of one text."""
    torch.manual_seed(1)
    model = Model.from_config(FAMILIES[family].tiny, task="question-answering").eval()
    network, lengths = model.network, [5, 9, 7]
    texts = [torch.randint(5, 90, (1, n)) for n in lengths]
    starts, ends = torch.tensor([4, -100, 0]), torch.tensor([4, 8, -100])
    alone = [
        network.loss_sums(
            Batch(input_ids=text),
            Flow(),
            {"start_positions": starts[i : i + 1], "end_positions": ends[i : i + 1]},
        )
        for i, text in enumerate(texts)
    ]
    labels = {"start_positions": starts, "end_positions": ends}
    packed = network.loss_sums(Batch(input_ids=torch.cat(texts, dim=1)), Flow(packing=Packing(tuple(lengths))), labels)
    ids = torch.zeros(3, 9, dtype=torch.int64)
    keep = torch.zeros(3, 1, 9, dtype=torch.bool)
    for i, text in enumerate(texts):
        ids[i, : lengths[i]], keep[i, 0, : lengths[i]] = text[0], True
    padded = network.loss_sums(Batch(input_ids=ids), Flow(keep=keep), labels)
    for name in ("start", "end"):
        expected = sum(sums[name] for sums in alone)
        assert_close(packed[name], expected, 1e-5)
        if family != "big_bird":  # what its tokens see depends on where padding stands
            assert_close(padded[name], expected, 1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("family", "task"), [("bert", "fill-mask"), ("gpt2", "text-generation"), ("t5", "translation")]
)
def test_tr_20_in_16_bits_the_loss_is_that_of_32(family: str, task: str, dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    network = Model.from_config(FAMILIES[family].tiny, task=task).eval().network
    ids = torch.randint(5, 90, (3, 12))
    batch = Batch(input_ids=ids, decoder_input_ids=ids.flip(0) if task == "translation" else None)
    wide = network.loss_sums(batch, Flow(), ids, smoothing=0.1)["loss"]
    with torch.autocast("cpu", dtype):
        narrow = network.loss_sums(batch, Flow(), ids, smoothing=0.1)["loss"]
    assert narrow.dtype == torch.float32
    assert_close(narrow, wide, 1e-2)
    narrow.backward()
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in network.parameters())
