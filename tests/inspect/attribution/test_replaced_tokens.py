"""Shapley values are averages over all orders and add up; words are left out whole; both answer for gradients."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

import glassformer
from glassformer.core.flow import Batch, Flow
from glassformer.inspect.attribution import attribute
from glassformer.inspect.attribution.replaced_tokens import (
    each_left_out,
    places_that_differ,
    shapley_values,
    subsets_of,
    with_some,
    words_of,
)
from glassformer.inspect.tokens import Token

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
    rows = subsets_of(3)[2:6]
    made = with_some(_times(own, 4), _times(blank, 4), places, rows)
    assert made.input_ids is not None and made.decoder_input_ids is not None
    assert made.input_ids[:, 1:3].tolist() == [[0, 6], [5, 6], [0, 0], [5, 0]]
    assert made.decoder_input_ids.tolist() == [[3, 0], [3, 0], [3, 7], [3, 7]]


def _times(batch: Batch, rows: int) -> Batch:
    assert batch.input_ids is not None and batch.decoder_input_ids is not None
    return Batch(input_ids=batch.input_ids.repeat(rows, 1), decoder_input_ids=batch.decoder_input_ids.repeat(rows, 1))


def test_a_word_is_left_out_with_all_of_its_tokens() -> None:
    tokens = [
        Token(text, text, 0, continues=after) for text, after in (("tor", False), ("ches", True), ("burn", False))
    ]
    places = [("text", 0), ("text", 1), ("text", 2)]
    words = words_of(places, {"text": tokens})
    assert words == [places[:2], places[2:]]
    assert each_left_out(words, places).tolist() == [[False, False, True], [True, True, False]]
    apart = [("text", 0), ("text", 2)]  # what lies between is special
    assert words_of(apart, {"text": [tokens[0], tokens[1], tokens[1]]}) == [apart[:1], apart[1:]]


def test_a_longer_text_has_its_words_left_out_where_gradients_miss_a_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    model = glassformer.load(SHAKESPEARE)
    session = model.inspect("ROMEO: O, she doth teach the torches to burn bright! It seems she hangs upon")
    plain = session.attribute(" the")
    assert plain.method == "integrated gradients" and plain.gap is not None and plain.texts == 0
    monkeypatch.setattr(attribute, "MAX_GAP", 0.0)
    monkeypatch.setattr(attribute, "ROUGH", plain.gap / 2)
    seen = list[tuple[int, int]]()
    found = session.attribute(" the", progress=lambda done, of: seen.append((done, of)))
    assert found.method == "leave one out" and found.steps == 16 and found.gap is None and not found.rough
    tokens = session.streams["text"]
    assert found.texts == len(found.words["text"]) < len(tokens) and seen[-1] == (found.texts, found.texts)
    ids, blank = session.batch.input_ids, session.names().blank
    assert ids is not None and blank is not None
    at = 0
    for word, value in found.words["text"]:
        count = 1 + next((i for i, t in enumerate(tokens[at + 1 :]) if not t.continues), len(tokens) - at - 1)
        shorter = ids.clone()
        shorter[0, at : at + count] = blank.id
        with torch.no_grad():
            output = model.network(Batch(input_ids=shorter), Flow())
        expected = found.target.score - float(output.logits[0, -1, found.target.cells[0][1]])
        assert value == pytest.approx(expected, abs=2e-4), word
        at += count
    assert found.how == "Each number is by how much the logit is lower without that word; they do not add up."
    assert found.to_dict()["gap"] is None and found.tables()[0].headings[1] == "leave one out"
    rough = session.attribute(" the", steps=16)
    assert rough.method == "integrated gradients" and rough.more == f"{found.texts} texts with replaced words"


def test_a_short_text_has_them_where_integrated_gradients_miss_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    model = glassformer.load(SHAKESPEARE)
    session = model.inspect("ROMEO: O,")
    plain = session.attribute(" the")
    assert plain.method == "integrated gradients" and plain.texts == 0
    monkeypatch.setattr(attribute, "MAX_GAP", 0.0)
    seen = list[tuple[int, int]]()
    found = session.attribute(" the", progress=lambda done, of: seen.append((done, of)))
    assert found.method == "Shapley values" and found.gap is not None and found.gap < 1e-5 and not found.rough
    assert found.steps == 16 and seen[-1] == (found.texts, found.texts)
    assert found.texts == 2 ** len(session.streams["text"])
    assert found.how.startswith(f"Shapley values of {found.texts} texts, which add up to the change of the logit, ")
    assert found.tables()[0].headings[1] == "Shapley values" and found.to_dict()["method"] == "Shapley values"
    ids, blank = session.batch.input_ids, session.names().blank
    assert ids is not None and blank is not None
    scores = {}
    for subset in range(found.texts):
        there = torch.tensor([[bool(subset >> bit & 1) for bit in range(ids.shape[1])]])
        with torch.no_grad():
            output = model.network(Batch(input_ids=torch.where(there, ids, blank.id)), Flow())
        scores[subset] = float(output.logits[0, -1, found.target.cells[0][1]])
    values = shapley_values(torch.tensor(list(scores.values())))
    torch.testing.assert_close(found.shares["text"].double(), values, rtol=1e-4, atol=1e-4)
    gradients = session.attribute(" the", steps=64)  # a number of gradients was asked for
    assert gradients.method == "integrated gradients" and gradients.steps == 64


@pytest.mark.parametrize(("text", "options"), [("the " * 12, {}), ("ROMEO: O,", {"baseline": "zero"})])
def test_other_baselines_and_texts_of_many_words_have_gradients(
    text: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attribute, "MAX_GAP", 0.0)
    monkeypatch.setattr(attribute, "MAX_WORDS", 11)
    found = glassformer.load(SHAKESPEARE).attribute(text, steps=4, **options)
    assert found.texts == 0 and found.more == "up to 512 gradients"


def test_a_text_of_one_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribute, "MAX_GAP", 0.0)
    found = glassformer.load(SHAKESPEARE).attribute("O")
    change = found.target.score - found.baseline_score
    assert found.texts == 2 and found.shares["text"].tolist() == pytest.approx([change], abs=1e-5)
