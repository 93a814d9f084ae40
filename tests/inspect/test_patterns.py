"""Masks and position encodings: by plain loops, as tensors of the modules, at any size, and of models."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.errors import DataError
from glassformer.inspect.patterns import attention_masks, own_patterns, position_encodings
from glassformer.model import load
from tests.e2e.tiny_models import make_folder
from tests.inspect.passes import session_of

T = 20


def by_loops(allowed: Any, tokens: int = T) -> list[list[bool]]:
    return [[bool(allowed(t, s)) for s in range(tokens)] for t in range(tokens)]


@pytest.mark.parametrize("tokens", [20, 1, 7, 33])
def test_masks_are_those_of_plain_loops(tokens: int) -> None:
    small = {"texts": min(3, tokens), "padding": min(4, tokens), "reading": min(2, tokens), "random": min(3, tokens)}
    masks = attention_masks(tokens, window=3, **small)
    sizes = [tokens // small["texts"] + (i < tokens % small["texts"]) for i in range(small["texts"])]
    text = [i for i, size in enumerate(sizes) for _ in range(size)]
    rules: dict[str, Any] = {
        "full": lambda t, s: True,
        "causal": lambda t, s: s <= t,
        "padding": lambda t, s: s < tokens - small["padding"],
        "band": lambda t, s: abs(s - t) < 3,
        "causal band": lambda t, s: t - 3 < s <= t,
        "packed": lambda t, s: text[t] == text[s],
        "global": lambda t, s: abs(s - t) < 3 or min(s, t) < small["reading"],
    }
    for name, rule in rules.items():
        assert masks[name].values.tolist() == by_loops(rule, tokens), name
    assert masks.keys() - rules.keys() == {"random", "block-sparse"}


def test_random_masks() -> None:
    masks, again, other = attention_masks(random=3), attention_masks(random=3), attention_masks(random=3, seed=1)
    drawn = masks["random"].values
    assert drawn.diagonal().all() and set(drawn.sum(-1).tolist()) <= {3, 4}
    assert torch.equal(drawn, again["random"].values) and not torch.equal(drawn, other["random"].values)
    blocks = masks["block-sparse"].values
    assert blocks.shape == (T, T)
    N = T // 2
    seen = blocks[::2, ::2]
    assert torch.equal(seen.repeat_interleave(2, 0).repeat_interleave(2, 1), blocks), "whole blocks"
    assert seen[0].all() and seen[-1].all() and seen[:, 0].all() and seen[:, -1].all()
    for row in range(1, N - 1):
        assert all(seen[row, near] for near in (row - 1, row, row + 1))
        others = set(seen[row].nonzero().flatten().tolist()) - {0, N - 1, row - 1, row, row + 1}
        assert len(others) == 1
    assert attention_masks(14)["block-sparse"].values.all() and "so few" in attention_masks(14)["block-sparse"].rule


def test_positions_are_their_formulas() -> None:
    found = position_encodings(T, width=32, heads=8, head=2)
    waves, cosines, sines = (found[name].values for name in ("sinusoids", "rotary cosines", "rotary sines"))
    for p in range(T):
        for i in range(16):
            angle = p / 10_000 ** (2 * i / 32)
            assert float(waves[p, 2 * i]) == pytest.approx(math.sin(angle), abs=2e-6)
            assert float(waves[p, 2 * i + 1]) == pytest.approx(math.cos(angle), abs=2e-6)
            assert float(cosines[p, i]) == pytest.approx(math.cos(angle), abs=2e-6)
            assert float(sines[p, i]) == pytest.approx(math.sin(angle), abs=2e-6)
    slope = 2 ** (-8 * 3 / 8)
    assert found["ALiBi"].values.tolist() == [[-slope * abs(s - t) for s in range(T)] for t in range(T)]
    buckets = found["buckets"].values
    assert buckets.diagonal().tolist() == [0] * T
    assert [int(buckets[10, 10 - d]) for d in range(8)] == list(range(8)), "near ones have a bucket each"
    assert [int(buckets[0, d]) for d in range(1, 8)] == [16 + d for d in range(1, 8)], "later keys have the other half"


@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama", "t5", "bart"])
def test_those_of_a_model_are_its_tensors(kind: str) -> None:
    session = session_of(kind)
    name = next(iter(session.maps))
    own = own_patterns(session, 6, layer=1, head=1, map=name)
    head = session.head(1, 1, name)
    tokens = len(session.streams[session.maps[name].queries])
    exact = own_patterns(session, tokens, layer=1, head=1, map=name)
    masked = head.masked(range(tokens))
    expected = torch.ones(tokens, tokens, dtype=torch.bool) if masked is None else ~masked
    assert torch.equal(exact["mask"].values, expected)
    assert own["mask"].values.shape == (6, 6)
    if kind == "gpt2":
        assert torch.equal(own["positions"].values, session.network.embedding.positions.weight[:6].detach())
    if kind == "t5":
        stack = session.attention_layer(1, name).stack
        assert stack is not None and stack.bias is not None
        assert torch.equal(own["bias"].values, stack.bias(6, 6, torch.device("cpu"))[0, 1].detach())
    if kind == "llama":
        rotary = session.attention_layer(1, name).attention.spec.rotary
        assert rotary is not None
        angles = torch.arange(6)[:, None] * rotary.frequencies(torch.device("cpu"), torch.float32)
        assert torch.allclose(own["rotary"].values, angles.cos(), atol=1e-6)


def padded(kind: str, folder: Path) -> Any:
    """A model of a family, and what it makes of a batch whose second row has two tokens of padding at its end."""
    model = load(make_folder(folder, kind), task="translation" if kind == "bart" else None)
    ids = torch.randint(5, 20, (2, 6), generator=torch.Generator().manual_seed(1))
    keep = torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
    more = {"decoder_input_ids": ids} if kind == "bart" else {}
    return model(input_ids=ids, attention_mask=keep, output_attentions=True, **more)


@pytest.mark.parametrize(
    ("kind", "outputs"),
    [
        ("bert", {"mask": "attentions"}),
        ("gpt2", {"mask": "attentions"}),
        (
            "bart",
            {
                "encoder mask": "encoder_attentions",
                "decoder mask": "decoder_attentions",
                "cross mask": "cross_attentions",
            },
        ),
    ],
)
def test_masks_of_a_model_are_what_its_attention_hides_of_a_padded_batch(
    kind: str, outputs: dict[str, str], tmp_path: Path
) -> None:
    own = own_patterns(session_of(kind), 6, layer=1, padding=2)
    assert [name for name in own if name.endswith("mask")] == list(outputs)
    made = padded(kind, tmp_path)
    for name, field in outputs.items():
        weights, causal = getattr(made, field)[-1][1], "causal" in own[name].rule
        texts = slice(0, 4) if causal else slice(None)  # what padding after a text looks at is nobody's business
        assert torch.equal(own[name].values[texts], (weights > 0).all(0)[texts]), name
        assert own[name].options == (("layer",) if causal else ("layer", "padding"))
        assert causal or own[name].rule.endswith("but the last 2, which are padding")


def test_a_map_alone_has_plain_names() -> None:
    session = session_of("bart")
    assert list(own_patterns(session, 6, map="cross")) == ["mask", "positions"]
    assert own_patterns(session, 6, map="cross")["mask"].rule == (
        "every token of the target attends to every token of the source"
    )
    sound = own_patterns(session_of("whisper"), 6, padding=2)
    assert sound["encoder mask"].values.all() and sound["cross mask"].values.all(), "a sound is not padded by a mask"
    with pytest.raises(DataError, match="padding is 7; it must be a whole number from 0 to 6"):
        own_patterns(session, 6, padding=7)


def test_numbers_out_of_range_are_refused() -> None:
    for options, words in (
        ({"tokens": 0}, "tokens is 0; it must be a whole number from 1 to 4,096"),
        ({"tokens": 20, "padding": 21}, "padding is 21; it must be a whole number from 0 to 20"),
        ({"window": 0}, "window is 0; it must be a whole number from 1 up"),
        ({"block": True}, "block is True"),
    ):
        with pytest.raises(DataError, match=words):
            attention_masks(**options)
    with pytest.raises(DataError, match="head is 8; it must be below the number of heads, 8"):
        position_encodings(head=8)


def test_a_pattern_ends_a_cell_as_a_shaded_table() -> None:
    causal = attention_masks()["causal"]
    assert causal.caption == "s ≤ t: no token attends to a later one; 210 of 400 pairs (52%)"
    (table,) = causal.tables()
    assert len(table.rows) == T and table.shades is not None and sum(map(sum, table.shades)) == 210
    assert "20 × 20" in repr(causal)
    assert position_encodings()["ALiBi"].caption.startswith("−m · |s − t|")
