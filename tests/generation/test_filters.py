"""Filters take words from a model's mouth, all along or at one place only."""

from __future__ import annotations

import torch

from glassformer.generation.filters import only, suppress

IDS, LOGITS = torch.tensor([[5, 6], [7, 8]]), torch.arange(10.0).reshape(2, 5)


def test_never() -> None:
    changed = suppress([1, 4])(IDS, LOGITS)
    assert changed[:, [1, 4]].isneginf().all()
    assert torch.equal(changed[:, [0, 2, 3]], LOGITS[:, [0, 2, 3]])
    assert LOGITS.isfinite().all(), "the model's own numbers stay"


def test_at_one_place_only() -> None:
    assert suppress([4], at=2)(IDS, LOGITS)[:, 4].isneginf().all()
    assert torch.equal(suppress([4], at=3)(IDS, LOGITS), LOGITS)


def test_only_these() -> None:
    changed = only([1, 4], at=2)(IDS, LOGITS)
    assert torch.equal(changed[:, [1, 4]], LOGITS[:, [1, 4]])
    assert changed[:, [0, 2, 3]].isneginf().all()
    assert torch.equal(only([1], at=3)(IDS, LOGITS), LOGITS)


def test_one_is_forced_though_it_was_suppressed() -> None:
    assert only([4], at=2)(IDS, suppress([4])(IDS, LOGITS)).argmax(-1).tolist() == [4, 4]
