"""Pieces that are learned: likely, few enough, and the same at every run."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest
import tokenizers
from tokenizers import models, trainers

from glassformer.text.unigram import _Lattice, train_unigram
from tests.text.families import lines

WORDS = Counter({"▁flies": 6, "▁fly": 3, "▁time": 5, "▁times": 2, "▁lies": 4})


def segmentations_of(word: str, pieces: dict[str, float]) -> list[list[str]]:
    """Every way of cutting a word into pieces, one by one."""
    segmentations = []
    for ends in product([False, True], repeat=len(word) - 1):
        positions = [0, *(i + 1 for i, end in enumerate(ends) if end), len(word)]
        parts = [word[a:b] for a, b in pairwise(positions)]
        if all(part in pieces for part in parts):
            segmentations.append(parts)
    return segmentations


def test_expected_counts_and_best_cuts_are_those_of_all_cuts_one_by_one() -> None:
    pieces = ["▁", *"fliestmy", "fl", "ies", "li", "lies", "▁fl", "me", "▁time"]
    draw = np.random.default_rng(0).dirichlet(np.ones(len(pieces)))
    logs = np.log(draw)
    weights = dict(zip(pieces, draw, strict=True))
    expected, best = Counter[str](), []
    for word, count in WORDS.items():
        chances = [(parts, math.prod(weights[part] for part in parts)) for parts in segmentations_of(word, weights)]
        total = sum(chance for _, chance in chances)
        best.append(max(math.log(chance) for _, chance in chances))
        for parts, chance in chances:
            expected.update(dict.fromkeys(parts, 0.0))
            for part in parts:
                expected[part] += count * chance / total
    lattice = _Lattice(list(WORDS), pieces)
    computed = lattice.expected_counts(logs, np.array(list(WORDS.values()), dtype=float))
    assert np.allclose(computed, [expected[piece] for piece in pieces])
    assert np.allclose(lattice.best_log_probs(logs), best)
    fewer = np.array([i for i in range(len(pieces)) if pieces[i] != "lies"])
    again = _Lattice(list(WORDS), [pieces[i] for i in fewer])
    counts = np.array(list(WORDS.values()), dtype=float)
    restricted = lattice.restricted_to(fewer).expected_counts(logs[fewer], counts)
    assert np.allclose(restricted, again.expected_counts(logs[fewer], counts))


def test_so_many_pieces_with_every_character_most_probable_first() -> None:
    pieces_and_scores = train_unigram(WORDS, 14)
    assert len(pieces_and_scores) == 14 and {letter for word in WORDS for letter in word} <= {
        piece for piece, _ in pieces_and_scores
    }
    assert [score for _, score in pieces_and_scores] == sorted((score for _, score in pieces_and_scores), reverse=True)
    assert sum(math.exp(score) for _, score in pieces_and_scores) == pytest.approx(1, abs=1e-4)
    assert "▁time" in dict(pieces_and_scores)
    assert (
        train_unigram(Counter(dict(reversed(WORDS.items()))), 14) == pieces_and_scores
    )  # the order of the words says nothing


def test_fewer_where_nothing_else_comes_twice() -> None:
    assert len(train_unigram(Counter({"▁ab": 1}), 50)) == 3


def test_it_cuts_as_well_as_the_engines_own() -> None:
    words = Counter(f"▁{word}" for line in lines()[:500] for word in line.split())
    ours = tokenizers.Tokenizer(models.Unigram([("<unk>", 0.0), *train_unigram(words, 499)], 0))
    theirs = tokenizers.Tokenizer(models.Unigram())
    trainer = trainers.UnigramTrainer(vocab_size=500, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False)
    theirs.train_from_iterator(list(words.elements()), trainer)
    counts = [sum(len(engine.encode(word).ids) * n for word, n in words.items()) for engine in (ours, theirs)]
    assert counts[0] <= 0.98 * counts[1]
