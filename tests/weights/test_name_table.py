"""Tables of weight names as text: each mark is its rule, siblings extend, and a mistake names both sides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from glassformer.errors import WeightsError
from glassformer.weights.load import load_weights
from glassformer.weights.name_table import NameTable
from glassformer.weights.names import (
    Fused,
    FusedNoKeyBias,
    HeadByHead,
    Rule,
    Same,
    Slice,
    Tied,
    TiedUnlessStored,
    Transposed,
    Unsqueezed,
)


def rule(line: str, spec: Any = None) -> Rule:
    """The rule of a table of one line."""
    (entry,) = NameTable(line)(spec, "fill-mask").body.values()
    return Same(entry) if isinstance(entry, str) else entry


GROUPED = SimpleNamespace(
    blocks=SimpleNamespace(blocks=[SimpleNamespace(attention=SimpleNamespace(heads=4, K=2, E=8))])
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("embed.tokens  words", Same("words")),
        ("a.{i}.qkv  h.{i}.(q|k|v)_proj", Fused(("h.{i}.q_proj", "h.{i}.k_proj", "h.{i}.v_proj"))),
        ("a.qkv  (q|k|v)  [H K K]", Fused(("q", "k", "v"), (4, 2, 2))),
        ("a.qkv.bias  (q||v).bias", FusedNoKeyBias(("q.bias", "v.bias"), gap=1)),
        ("a.qkv  qkv  [heads]", HeadByHead("qkv", width=8)),
        ("a.kv.bias  (|v).bias", FusedNoKeyBias(("v.bias",), gap=0)),
        ("a.out  c_proj  ᵀ", Transposed("c_proj")),
        ("a.up  gate_up  [1/2]", Slice("gate_up", (1, 1), 1)),
        ("embed.summary  cls  [1 1]", Unsqueezed("cls", axes=2)),
        ("head.decoder  lm_head  =", Tied("lm_head")),
        ("head.decoder  lm_head  =|embed.tokens", TiedUnlessStored("lm_head", "embed.tokens")),
    ],
)
def test_each_mark_is_its_rule(line: str, expected: Rule) -> None:
    assert rule(line, GROUPED) == expected


@pytest.mark.parametrize(("tied", "expected"), [(True, Tied("lm_head")), (False, Same("lm_head"))])
def test_a_head_is_tied_where_the_spec_says_so(tied: bool, expected: Rule) -> None:
    assert rule("head.decoder  lm_head  =?", SimpleNamespace(tied=tied)) == expected


def test_a_line_of_pre_norm_and_post_norm() -> None:
    body = NameTable("{side}.residual.{norm}  {side}.ln")(None, "translation").body
    places = [f"{side}.residual.{norm}" for side in ("encoder", "decoder") for norm in ("before", "on_residual")]
    assert body == {place: f"{place.partition('.')[0]}.ln" for place in places}


def test_a_line_of_both_sides() -> None:
    body = NameTable("{side}.norm  {side}.layer_norm")(None, "translation").body
    assert body == {"encoder.norm": "encoder.layer_norm", "decoder.norm": "decoder.layer_norm"}


TABLE = NameTable(
    """
    norm               final_norm

    [head]
    head.classifier    classifier
    [question-answering]
    head.classifier    qa_outputs
    """,
    prefix="bert",
    unprefixed=("question-answering",),
)


def test_lines_of_a_task_replace_those_of_all_heads() -> None:
    assert TABLE(None, "text-classification").head == {"head.classifier": "classifier"}
    answers = TABLE(None, "question-answering")
    assert answers.head == {"head.classifier": "qa_outputs"} and not answers.prefixed


def test_a_sibling_replaces_and_removes_lines() -> None:
    sibling = TABLE.extend("norm  -\nscale  gain\n[head]\nhead.classifier  score", prefix="other")
    names = sibling(None, "text-classification")
    assert (names.body, names.head, names.prefix) == (
        {"scale": "gain"},
        {"head.classifier": "score"},
        "other",
    )
    assert TABLE(None, "text-classification").body == {"norm": "final_norm"}, "the table itself stays as it was"


class File:
    """A checkpoint of two tensors, one of which no line names."""

    def __init__(self) -> None:
        from glassformer.weights.header import TensorInfo

        self.tensors = {
            name: TensorInfo(shape=(2,), dtype=torch.float32, bytes=8, file="model.safetensors")
            for name in ("scale.weight", "skale.bias")
        }


def test_a_mistake_in_a_recipe_names_all_of_both_sides() -> None:
    network = torch.nn.ModuleDict({"norm": torch.nn.LayerNorm(2), "other": torch.nn.LayerNorm(2)})
    names = NameTable("norm.weight  scale.weight")(None, "fill-mask")
    with pytest.raises(WeightsError) as error:
        load_weights(network, File(), names)  # type: ignore[arg-type]
    for name in ("3 parameters", "norm.bias", "other.weight", "other.bias", "1 tensors", "skale.bias"):
        assert name in str(error.value)
