"""Renamed checkpoints: stacked experts of newer files one by one, as views, whatever shapes the file declares."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor

import glassformer
from glassformer.models import FAMILIES
from glassformer.weights.names import MAX_EXPERTS, RenamedCheckpoint, StackedExperts, WeightNames
from glassformer.weights.read import WeightFiles, open_checkpoint
from glassformer.weights.write import write_checkpoint

PARTS = ("layers.{i}.moe.{j}.w1.weight", "layers.{i}.moe.{j}.w3.weight")
NAMES = WeightNames(
    prefix="model",
    body={},
    renamed={
        "layers.{i}.mlp.up": StackedExperts(PARTS),
        "layers.{i}.mlp.gate.weight": "layers.{i}.moe.gate.weight",
    },
)


def opened(folder: Path, tensors: dict[str, Tensor]) -> WeightFiles:
    write_checkpoint(folder, tensors)
    return open_checkpoint(folder)


@pytest.mark.parametrize("prefix", ["", "model."])
def test_newer_names_become_older_ones(tmp_path: Path, prefix: str) -> None:
    stack, gate, other = torch.randn(3, 8, 5), torch.randn(3, 5), torch.randn(2)
    with opened(
        tmp_path,
        {
            f"{prefix}layers.7.mlp.up": stack,
            f"{prefix}layers.7.mlp.gate.weight": gate,
            f"{prefix}layers.7.norm.weight": other,
        },
    ) as checkpoint:
        renamed = RenamedCheckpoint(checkpoint, NAMES)
        parts = {f"{prefix}layers.7.moe.{j}.{w}.weight" for j in range(3) for w in ("w1", "w3")}
        assert set(renamed.tensors) == parts | {
            f"{prefix}layers.7.moe.gate.weight",
            f"{prefix}layers.7.norm.weight",
        }
        for j in range(3):
            for w, rows in (("w1", slice(0, 4)), ("w3", slice(4, 8))):
                name = f"{prefix}layers.7.moe.{j}.{w}.weight"
                assert torch.equal(renamed.read(name), stack[j, rows])
                assert renamed.tensors[name].shape == (4, 5) and renamed.tensors[name].bytes == 4 * 4 * 5
                assert renamed.read(name).is_contiguous()
        assert torch.equal(renamed.read(f"{prefix}layers.7.moe.gate.weight"), gate)
        assert torch.equal(renamed.read(f"{prefix}layers.7.norm.weight"), other)


@pytest.mark.parametrize(
    "shape", [(3, 7, 5), (3, 8), (8,), (0, 8, 5), (3, 8, 0), (2 * MAX_EXPERTS, 2, 1), (1, 2, 3, 4)]
)
def test_a_stack_that_cannot_be_cut_stays_whole(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """Then the experts are missing, which `load_weights` reports; and no file makes a million names of nothing."""
    with opened(tmp_path, {"layers.0.mlp.up": torch.zeros(shape)}) as checkpoint:
        renamed = RenamedCheckpoint(checkpoint, NAMES)
        assert list(renamed.tensors) == ["layers.0.mlp.up"]
        assert renamed.tensors["layers.0.mlp.up"] == checkpoint.tensors["layers.0.mlp.up"]
        assert renamed.read("layers.0.mlp.up").shape == shape


def test_in_a_file_with_both_spellings_the_older_counts(tmp_path: Path) -> None:
    old = torch.randn(2, 3)
    stored = {"layers.0.mlp.up": torch.randn(1, 4, 3), "layers.0.moe.0.w1.weight": old}
    with opened(tmp_path, stored) as checkpoint:
        renamed = RenamedCheckpoint(checkpoint, NAMES)
        assert set(renamed.tensors) == set(stored)
        assert torch.equal(renamed.read("layers.0.moe.0.w1.weight"), old)


def test_a_table_without_newer_names_changes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, {"layers.0.mlp.up": torch.randn(1, 4, 3)}) as checkpoint:
        assert RenamedCheckpoint(checkpoint, WeightNames(body={})).tensors == checkpoint.tensors


@pytest.mark.parametrize("family", ["layoutlm", "tapas", "big_bird"])
def test_a_pooler_survives_a_tagger(family: str, tmp_path: Path) -> None:
    """What no head reads goes from the file that was loaded to the one that is saved, for whoever loads the body."""
    record = FAMILIES[family]
    task = "table-question-answering" if family == "tapas" else "token-classification"
    kind = getattr(transformers, record.architecture(task))
    theirs = kind(kind.config_class.from_dict({**record.tiny, "num_aggregation_labels": 0}))
    theirs.save_pretrained(tmp_path / "theirs")
    tagger = glassformer.load(tmp_path / "theirs", task=task, dtype="bfloat16")
    with torch.no_grad():
        tagger.network.head.token.bias.zero_() if family == "tapas" else tagger.network.head.classifier.bias.zero_()
    tagger.save_pretrained(tmp_path / "tagger")
    body = glassformer.load(tmp_path / "tagger", task="feature-extraction")
    assert not body.report.new and body.dtype == torch.bfloat16
    body.save_pretrained(tmp_path / "body")
    stored, bare = (load_file(tmp_path / name / "model.safetensors") for name in ("theirs", "body"))
    poolers = [name for name in stored if "pooler" in name]
    assert len(poolers) == 2
    for name in poolers:
        assert torch.equal(bare[name.split(".", 1)[1]], stored[name].bfloat16())
