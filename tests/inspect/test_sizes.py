"""Rows of the table of sizes."""

from __future__ import annotations

import json

import pytest

from glassformer.inspect import sizes
from glassformer.models.presets import PRESETS


def test_a_row_by_hand() -> None:
    (row,) = sizes(["gpt2-xl"])
    assert (row.context, row.vocabulary, row.width, row.layers, row.heads) == (1024, 50257, 1600, (48,), 25)
    assert row.parameters == row.active == 1_557_611_200
    assert row.fp32_bytes == 4 * row.int8_bytes == 4 * row.parameters
    assert json.loads(json.dumps(row.to_dict()))["fp32_bytes"] == 6_230_444_800


@pytest.mark.parametrize(
    ("name", "active"),
    [
        ("mixtral-8x7b", 12.9e9),  # "only uses 13B active parameters"; the announcement: 12.9B of 46.7B
        ("mixtral-8x22b", 39e9),  # the announcement: 39B of 141B
    ],
)
def test_experts_that_wait_do_not_run(name: str, active: float) -> None:
    (row,) = sizes([name])
    assert row.active == pytest.approx(active, rel=0.005)
    assert row.active < row.parameters


@pytest.mark.parametrize(
    ("name", "context"),
    [
        ("roberta-base", 512),  # of 514 rows two stand for no position
        ("bart-large", 1024),
        ("pegasus-large", 1024),
        ("transformer-base", None),  # waves have no end
        ("llama3-8b", 8192),
        ("llama3.1-8b", 131_072),
    ],
)
def test_context(name: str, context: int | None) -> None:
    assert sizes([name])[0].context == context


def test_an_encoder_decoder_has_two_stacks() -> None:
    assert sizes(["bart-base"])[0].layers == (6, 6)


def test_all_in_the_order_of_the_presets() -> None:
    assert [row.name for row in sizes()] == list(PRESETS)
