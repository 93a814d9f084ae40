"""Weight name rules, each with its inverse, and the table that finds the rule of a parameter."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import WeightsError
from glassformer.weights.names import (
    Fused,
    FusedNoKeyBias,
    HeadByHead,
    Rule,
    Same,
    Slice,
    StackedExperts,
    Tied,
    TiedUnlessStored,
    Transposed,
    Unsqueezed,
    WeightNames,
)

SIZES = st.integers(1, 5)


@given(
    rule=st.sampled_from(
        [Same("a"), Tied("a"), TiedUnlessStored("a", "b"), Transposed("a"), Fused(("a", "b", "c"), (2, 1, 1))]
    ),
    D=SIZES,
)
def test_writing_inverts_reading_bit_for_bit(rule: Rule, D: int) -> None:
    for ours in (torch.randn(4, D), torch.randn(4)):
        theirs = rule.write(ours)
        assert [tuple(tensor.shape) for tensor in theirs] == rule.shapes(tuple(ours.shape))
        assert len(theirs) == len(rule.stems)
        again = rule.read(theirs)
        assert torch.equal(again, ours)
        for tensor, once_more in zip(theirs, rule.write(again), strict=True):
            assert torch.equal(tensor, once_more)


@given(gap=st.integers(0, 2), D=SIZES)
def test_a_part_that_no_file_holds_is_zero(gap: int, D: int) -> None:
    sizes = (2, 1, 3)
    rule = FusedNoKeyBias(("a", "b"), sizes, gap=gap)
    for ours in (torch.randn(6, D), torch.randn(6)):
        parts = list(ours.split(list(sizes)))
        parts[gap].zero_()
        theirs = rule.write(ours)
        assert [tuple(tensor.shape) for tensor in theirs] == rule.shapes(tuple(ours.shape))
        assert len(theirs) == len(rule.stems) == 2
        again = rule.read(theirs)
        assert again.is_contiguous() and again.dtype == ours.dtype and torch.equal(again, ours)
        parts[gap].fill_(7.0)
        assert all(torch.equal(one, other) for one, other in zip(theirs, rule.write(ours), strict=True))


def test_a_vector_may_be_the_only_row_of_their_matrix() -> None:
    rule, vector = Unsqueezed("a"), torch.arange(3.0)
    assert rule.shapes((3,)) == [(1, 3)]
    assert rule.write(vector)[0].tolist() == [[0, 1, 2]]
    assert torch.equal(rule.read(rule.write(vector)), vector)


@given(heads=SIZES, E=SIZES, D=SIZES)
def test_heads_one_after_another_become_all_queries_before_all_keys(heads: int, E: int, D: int) -> None:
    rule = HeadByHead("a", E)
    matrix, vector = torch.randn(heads * 3 * E, D), torch.arange(heads * 3 * E)
    ours = rule.read([matrix])
    assert rule.shapes(tuple(ours.shape)) == [tuple(matrix.shape)]
    for head in range(heads):
        for part in range(3):  # q, k, v
            start, there = (part * heads + head) * E, (head * 3 + part) * E
            assert torch.equal(ours[start : start + E], matrix[there : there + E])
    for theirs in (matrix, vector):
        (again,) = rule.write(rule.read([theirs]))
        assert again.is_contiguous() and torch.equal(again, theirs)


@given(X=SIZES, rows=SIZES, D=SIZES, parts=st.integers(1, 3))
def test_unstacking_and_stacking_are_inverse(X: int, rows: int, D: int, parts: int) -> None:
    rule = StackedExperts(tuple("abc")[:parts])
    stack = torch.randn(X, parts * rows, D)
    matrices = rule.read(stack)
    assert [tuple(matrix.shape) for matrix in matrices] == rule.shapes(tuple(stack.shape))
    assert torch.equal(rule.write(matrices), stack)
    assert torch.equal(matrices[-1], stack[-1, -rows:]), "the last part of the last expert"


def test_transposed_turns_matrices_and_leaves_vectors() -> None:
    matrix = torch.arange(6.0).reshape(2, 3)
    assert Transposed("a").read([matrix]).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert Transposed("a").read([matrix[0]]).tolist() == [0, 1, 2]
    assert Transposed("a").shapes((3, 2)) == [(2, 3)]


def test_fused_lays_theirs_one_below_the_other() -> None:
    q, k, v = torch.full((2, 3), 1.0), torch.full((1, 3), 2.0), torch.full((1, 3), 3.0)
    ours = Fused(("q", "k", "v"), (2, 1, 1)).read([q, k, v])
    assert ours[:, 0].tolist() == [1, 1, 2, 3]


def test_parts_are_rows_of_one_of_theirs() -> None:
    theirs = torch.arange(8.0).reshape(4, 2)
    upper, lower = (Slice("gate_up", (3, 1), number) for number in (0, 1))
    assert upper.read([theirs]).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert lower.read([theirs]).tolist() == [[6, 7]]
    assert upper.shapes((3, 2)) == lower.shapes((1, 2)) == [(4, 2)]
    assert torch.equal(torch.cat([rule.write(rule.read([theirs]))[0] for rule in (upper, lower)]), theirs)


TABLE = WeightNames(
    prefix="bert",
    body={
        "embed.tokens": "words",
        "blocks.{i}.attn.qkv": Fused(("layer.{i}.q", "layer.{i}.k"), (2, 2)),
        "blocks.{i}.experts.{j}.up": Transposed("layer.{i}.expert.{j}.in"),
    },
    head={
        "head.decoder.weight": Tied("cls.decoder.weight"),
        "head.decoder.bias": "cls.bias",
        "head.norm": "cls.norm",
    },
    ignored=("position_ids", "layer.{i}.attn.masked_bias", "cls.old"),
)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("embed.tokens.weight", ["words.weight"]),
        ("blocks.3.attn.qkv.bias", ["layer.3.q.bias", "layer.3.k.bias"]),
        ("blocks.10.experts.2.up.weight", ["layer.10.expert.2.in.weight"]),
    ],
)
def test_names_of_the_body(ours: str, theirs: list[str]) -> None:
    assert TABLE.find(ours, prefixed=False)[1] == theirs
    assert TABLE.find(ours, prefixed=True)[1] == [f"bert.{name}" for name in theirs]


@pytest.mark.parametrize("prefixed", [False, True])
def test_names_of_the_head_are_full_names(prefixed: bool) -> None:
    rule, theirs = TABLE.find("head.decoder.weight", prefixed=prefixed)
    assert isinstance(rule, Tied) and theirs == ["cls.decoder.weight"]
    assert TABLE.find("head.decoder.bias", prefixed=prefixed)[1] == ["cls.bias"]
    assert TABLE.find("head.norm.bias", prefixed=prefixed)[1] == ["cls.norm.bias"]


def test_an_empty_prefix_adds_no_dot() -> None:
    assert WeightNames(body={"a": "b"}).find("a.weight", prefixed=True)[1] == ["b.weight"]


def test_a_parameter_without_a_rule_is_an_error() -> None:
    with pytest.raises(WeightsError, match=r"has no line for the parameter blocks\.0\.cross\.q\.weight; add a line"):
        TABLE.find("blocks.0.cross.q.weight", prefixed=True)


@pytest.mark.parametrize(
    "name",
    [
        "position_ids",
        "bert.position_ids",
        "layer.0.attn.masked_bias",
        "bert.layer.11.attn.masked_bias",
        "cls.old",
    ],
)
def test_what_is_ignored(name: str) -> None:
    assert TABLE.is_ignored(name)


@pytest.mark.parametrize(
    "name",
    ["xposition_ids", "layer.x.attn.masked_bias", "layer.0.attn.masked_bias.weight", "bert.words.weight"],
)
def test_what_is_not_ignored(name: str) -> None:
    assert not TABLE.is_ignored(name)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_axes_of_length_one_stand_before_ours(axes: int) -> None:
    rule, ours = Unsqueezed("a", axes=axes), torch.arange(6.0).reshape(2, 3)
    assert rule.shapes((2, 3)) == [(1,) * axes + (2, 3)]
    (theirs,) = rule.write(ours)
    assert tuple(theirs.shape) == (1,) * axes + (2, 3)
    assert torch.equal(rule.read([theirs]), ours)
