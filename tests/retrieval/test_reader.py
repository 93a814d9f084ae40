"""The reader: the best spans of all passages by the stated formula, their places in the file, and "no answer"."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer
from glassformer import ConfigError, DataError, Model, UnsupportedError
from glassformer.errors import WeightsError
from glassformer.retrieval.reader import PassageSpan, Reader
from glassformer.tasks.span import keep_threshold
from tests.core.small import perturbed
from tests.e2e.tiny_models import make_folder

QUESTION = "fruit flies"


@dataclass
class Passage:
    text: str
    start: int = 0
    score: float = 1.0


@dataclass
class OfFile(Passage):
    file: str = "notes.md"


PASSAGES = [
    Passage("time flies like an arrow", 100, 3.0),
    Passage("fruit flies like a banana . time flies like an arrow", 200, 2.0),
    Passage("an arrow", 300, 0.5),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = make_folder(tmp_path_factory.mktemp("qa"), "bert", task="question-answering", max_position_embeddings=40)
    model = glassformer.load(folder)
    perturbed(model.network)
    return model


def exhaustive(model: Model, weight: float, longest: int) -> list[tuple[float, int, int, int]]:
    """Each span of each passage: its joint score by the formula of the module, its passage, and its words."""
    logits = []
    for passage in PASSAGES:
        encoding = model.tokenizer(QUESTION, passage.text, return_tensors="pt")
        first = model.tokenizer(QUESTION, passage.text).sequence_ids(0).index(1)
        with torch.no_grad():
            output = model(**encoding)
        words = len(passage.text.split())
        logits.append([x[0, first : first + words].tolist() for x in (output.start_logits, output.end_logits)])
    whole = sum(math.log(sum(math.exp(x) for pair in logits for x in pair[side])) for side in (0, 1))
    scaled = np.array([passage.score for passage in PASSAGES]) / np.std([passage.score for passage in PASSAGES])
    chances = np.log(np.exp(scaled) / np.exp(scaled).sum())
    spans = []
    for number, (starts, ends) in enumerate(logits):
        for a in range(len(starts)):
            for b in range(a, min(len(ends), a + longest)):
                joint = weight * (starts[a] + ends[b] - whole) + (1 - weight) * chances[number]
                spans.append((float(joint), number, a, b))
    return sorted(spans, reverse=True)


@pytest.mark.parametrize("weight", [0.0001, 0.5, 1.0])
def test_the_best_spans_of_all_passages(model: Model, weight: float) -> None:
    found = Reader(model, weight=weight, longest=3).read(QUESTION, PASSAGES, top=4)
    expected: list[tuple[float, int, int, int]] = []
    for joint, number, a, b in exhaustive(model, weight, 3):
        if not any(number == n and a <= last and first <= b for _, n, first, last in expected):
            expected.append((joint, number, a, b))
    assert [span.score for span in found] == pytest.approx([joint for joint, *_ in expected[:4]], abs=1e-5)
    texts = [" ".join(PASSAGES[number].text.split()[a : b + 1]) for _, number, a, b in expected]
    assert [(span.passage, span.text) for span in found] == [
        (number, text) for (_, number, *_), text in zip(expected[:4], texts, strict=False)
    ]


def test_places_are_those_of_the_passage_and_of_the_file(model: Model) -> None:
    for span in Reader(model).read(QUESTION, PASSAGES, top=5):
        assert span.answered and span.passage is not None
        passage = PASSAGES[span.passage]
        assert passage.text[span.start : span.stop] == span.text != ""
        assert (span.file_start, span.file_stop) == (passage.start + span.start, passage.start + span.stop)
        assert span.passage_score == passage.score


def test_no_answer_overlaps_a_better_one(model: Model) -> None:
    with pytest.warns(UserWarning, match=r"top is 99, and the passages have \d+ answers that do not overlap"):
        found = Reader(model, longest=2).read(QUESTION, PASSAGES, top=99)
    assert all(better.score >= other.score for better, other in pairwise(found))
    for passage in range(3):
        spans = sorted((x.start, x.stop) for x in found if x.passage == passage)
        assert all(stop <= start for (_, stop), (start, _) in pairwise(spans))
        covered = " ".join(PASSAGES[passage].text[a:b] for a, b in spans)
        assert covered == PASSAGES[passage].text  # what is left beside a span is searched, too


def test_passages_that_share_text_of_a_file_give_it_once(model: Model) -> None:
    text = "time flies like an arrow"
    shared = [OfFile(text, 0, 1.0), OfFile("flies like an arrow .", 5, 1.0)]
    with pytest.warns(UserWarning, match="do not overlap"):
        once = Reader(model, longest=1).read(QUESTION, shared, top=99)
    assert sorted(span.file_start for span in once) == [0, 5, 11, 16, 19, 25]
    with pytest.warns(UserWarning, match="do not overlap"):
        twice = Reader(model, longest=1).read(QUESTION, [shared[0], OfFile(shared[1].text, 5, 1.0, "b.md")], top=99)
    assert len(twice) == 10


def test_a_long_passage_is_read_in_windows(model: Model) -> None:
    long = [Passage("banana . " * 30 + PASSAGES[1].text, 7)]
    found = Reader(model, window=16, stride=4).read("time", long, top=5)
    assert len(found) == 5 and all(long[0].text[x.start : x.stop] == x.text for x in found)
    assert len({(x.start, x.stop) for x in found}) == 5


def test_passages_are_read_alike_alone_and_together(model: Model) -> None:
    """The weight 1 leaves the search out; what all share, the sums over all tokens, cancels out of differences."""
    reader = Reader(model, weight=1.0)
    together = {(x.passage, x.text): x.span_score for x in reader.read(QUESTION, PASSAGES, top=6)}
    alone = {(0, x.text): x.span_score for x in reader.read(QUESTION, PASSAGES[:1], top=2)}
    same = [key for key in alone if key in together]
    shifts = [alone[key] - together[key] for key in same]
    assert same and max(shifts) - min(shifts) < 1e-5


def test_no_answer_is_first_where_it_beats_each_by_more_than_the_threshold(model: Model) -> None:
    reader = Reader(model)
    best = reader.read(QUESTION, PASSAGES)[0]
    try:
        keep_threshold(model, -50.0)
        none, second = reader.read(QUESTION, PASSAGES, top=2)
        assert none.text == "" and none.passage is None and not none.answered and none.score > second.score
        assert second == best and reader.read(QUESTION, PASSAGES) == [none]
        keep_threshold(model, 50.0)
        assert reader.read(QUESTION, PASSAGES) == [best]
        keep_threshold(model, math.inf)
        assert reader.read(QUESTION, PASSAGES) == [best]
    finally:
        del model.config["task_specific_params"]


def test_a_reader_from_a_folder(model: Model, tmp_path: Path, minilm: Path) -> None:
    model.save_pretrained(tmp_path)
    assert Reader(tmp_path).read(QUESTION, PASSAGES) == Reader(model).read(QUESTION, PASSAGES)
    with pytest.raises(WeightsError, match="holds no head for 'question-answering', so"):
        Reader(minilm)
    with pytest.raises(UnsupportedError, match="for 'question-answering' load it with task="):
        Reader(glassformer.load(minilm))


@pytest.mark.parametrize(
    ("question", "passages", "message"),
    [
        ("", PASSAGES, "the question is ''; it must have a word"),
        (" \n", PASSAGES, "the question is ' .n'; it must have a word"),
        ("time", [PASSAGES[0], Passage("  ")], "passage 1 is '  '; it must have a word"),
        ("flies " * 10_000, PASSAGES, "the question has 10000 tokens; in a window of 40 .* shorten it"),
    ],
)
def test_what_cannot_be_read(model: Model, question: str, passages: list[Passage], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Reader(model).read(question, passages)


def test_options(model: Model) -> None:
    with pytest.raises(ConfigError, match=r"weight is 1.5; it must be a number from 0 to 1"):
        Reader(model, weight=1.5)
    with pytest.raises(ConfigError, match="top is 0"):
        Reader(model).read(QUESTION, PASSAGES, top=0)
    assert Reader(model).read(QUESTION, []) == []
    span = Reader(model).read(QUESTION, PASSAGES)[0]
    assert isinstance(span, PassageSpan) and math.isfinite(span.score)
