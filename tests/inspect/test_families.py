"""The table of families says what the networks are, and the page of docs says the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from glassformer.core.position_bias import PositionBias
from glassformer.inspect.families import MARKS, as_markdown, family_table, update_page
from glassformer.models import FAMILIES
from tests.senses import CODECS

PAGE = Path(__file__).parents[2] / "docs" / "families.md"
LINES = {line.family: line for line in family_table()}


def test_the_page_is_what_the_specs_say() -> None:
    text = PAGE.read_text("utf-8")
    assert update_page(text) == text, "run python -m glassformer.inspect.families"


def test_only_the_table_is_rewritten() -> None:
    text = update_page(f"before\n{MARKS[0]}\nold\n{MARKS[1]}\nafter")
    assert text.startswith("before\n") and text.endswith("\nafter") and "old" not in text
    assert as_markdown(family_table()) in text


@pytest.mark.parametrize(
    ("family", "column", "expected"),
    [
        ("bert", "norms", "post-LayerNorm"),
        ("gpt2", "norms", "pre-LayerNorm"),
        ("llama", "norms", "pre-RMSNorm"),
        ("phi", "norms", "one pre-LayerNorm, parallel branches"),
        ("gpt_neox", "norms", "pre-LayerNorm of each parallel branch"),
        ("bert", "attention", "bidirectional"),
        ("llama", "attention", "causal, grouped-query, no bias"),
        ("bart", "attention", "source: bidirectional; target: causal, cross-attention"),
        ("qwen2", "attention", "causal, grouped-query / causal, sliding window, grouped-query"),
        ("bert", "positions", "learned"),
        ("llama", "positions", "rotary"),
        ("marian", "positions", "sinusoidal"),
        ("t5", "positions", "bucketed bias"),
        ("wav2vec2", "positions", "convolution"),
        ("vit", "positions", "learned"),
        ("bert", "feed_forward", "gelu"),
        ("llama", "feed_forward", "gated silu"),
        ("mixtral", "feed_forward", "2 of 4 experts, gated silu"),
        ("whisper", "reads", "spectrograms → text"),
        ("bart", "reads", "text → text"),
        ("vit", "reads", "images"),
    ],
)
def test_what_a_family_is_made_of(family: str, column: str, expected: str) -> None:
    assert getattr(LINES[family], column) == expected


def test_the_page_explains_each_word_of_its_table() -> None:
    explained = set(re.findall(r"`([^`]+)`", PAGE.read_text("utf-8").split("How to read it:")[1].split("```")[0]))
    for line in LINES.values():
        assert {*re.findall(r"\b[a-z]+-(?=LayerNorm|RMSNorm)", line.norms)} <= explained, line.family
        for cell in (line.positions, line.attention):
            words = {word.split(": ")[-1] for word in re.split(r", | / |; ", cell)}
            assert words <= explained | {"none"}, line.family


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_says_what_is_its_own(family: str) -> None:
    line = LINES[family]
    assert line.distinction and len(line.distinction) < 120 and "|" not in line.distinction
    assert line.norms and line.attention and line.feed_forward and line.reads and line.tasks
    assert (line.attention == line.norms == "none") is (family in CODECS)
    biases = {bias.KIND for bias in PositionBias.__subclasses__()}
    assert (
        line.positions in {"none", "learned", "sinusoidal", "rotary", "convolution", *biases} or "," in line.positions
    )
