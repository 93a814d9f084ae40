"""Shapley values are averages over all orders, add up exactly, and answer where integrated gradients miss too much."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

import glassformer
from glassformer.core.flow import Batch, Flow
from glassformer.inspect.attribution import attribute
from glassformer.inspect.attribution.shapley import places_that_differ, shapley_values, subset_of

SHAKESPEARE = "package:glassformer/checkpoints/shakespeare"


def test_they_are_averages_over_all_orders() -> None:
    scores = torch.randn(2**4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = torch.zeros(4).double()
    for order in permutations(range(4)):
        subset = 0
        for token in order:
            expected[token] += (scores[subset | 1 << token] - scores[subset]) / 24
            subset |= 1 << token
    torch.testing.assert_close(shapley_values(scores), expected)
    assert float(shapley_values(scores).sum()) == pytest.approx(float(scores[-1] - scores[0]))
    assert shapley_values(scores[:1]).tolist() == []


def test_subsets_have_the_tokens_of_their_bits_in_each_stream() -> None:
    own = Batch(input_ids=torch.tensor([[1, 5, 6, 2]]), decoder_input_ids=torch.tensor([[3, 7]]))
    blank = Batch(input_ids=torch.tensor([[1, 0, 0, 2]]), decoder_input_ids=torch.tensor([[3, 0]]))
    places = places_that_differ(own, blank, ("source", "target"))
    assert places == [("source", 1), ("source", 2), ("target", 1)]
    made = subset_of(own, blank, places, range(2, 6))
    assert made.input_ids is not None and made.decoder_input_ids is not None
    assert made.input_ids[:, 1:3].tolist() == [[0, 6], [5, 6], [0, 0], [5, 0]]
    assert made.decoder_input_ids.tolist() == [[3, 0], [3, 0], [3, 7], [3, 7]]


def test_a_short_text_has_them_where_integrated_gradients_miss_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    model = glassformer.load(SHAKESPEARE)
    session = model.inspect("ROMEO: O,")
    plain = session.attribute(" the")
    assert plain.method == "integrated gradients" and plain.subsets == 2 ** len(session.streams["text"])
    monkeypatch.setattr(attribute, "MAX_GAP", 0.0)
    seen = list[tuple[int, int]]()
    found = session.attribute(" the", progress=lambda done, of: seen.append((done, of)))
    assert found.method == "Shapley values" and found.gap < 1e-5 and not found.rough
    assert found.steps == 16 and seen[-1] == (found.subsets, found.subsets)
    assert found.notes[0].startswith(f"Shapley values: {found.subsets} texts, with each token there or ")
    assert found.tables()[0].headings[1] == "Shapley values" and found.to_dict()["method"] == "Shapley values"
    ids, blank = session.batch.input_ids, session.names().blank
    assert ids is not None and blank is not None
    scores = {}
    for subset in range(found.subsets):
        there = torch.tensor([[bool(subset >> bit & 1) for bit in range(ids.shape[1])]])
        with torch.no_grad():
            output = model.network(Batch(input_ids=torch.where(there, ids, blank.id)), Flow())
        scores[subset] = float(output.logits[0, -1, found.target.cells[0][1]])
    values = shapley_values(torch.tensor(list(scores.values())))
    torch.testing.assert_close(found.shares["text"].double(), values, rtol=1e-4, atol=1e-4)
    gradients = session.attribute(" the", steps=64)  # a number of gradients was asked for
    assert gradients.method == "integrated gradients" and gradients.steps == 64


@pytest.mark.parametrize(("text", "options"), [("the " * 12, {}), ("ROMEO: O,", {"baseline": "zero"})])
def test_a_long_text_and_other_baselines_have_gradients(text: str, options: dict[str, str]) -> None:
    assert glassformer.load(SHAKESPEARE).attribute(text, steps=4, **options).subsets == 0


def test_a_text_of_one_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribute, "MAX_GAP", 0.0)
    found = glassformer.load(SHAKESPEARE).attribute("O")
    change = found.target.score - found.baseline_score
    assert found.subsets == 2 and found.shares["text"].tolist() == pytest.approx([change], abs=1e-5)
