"""The best span by both of its ends, and how spans and answers as texts are evaluated."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.core.classification_heads import SpanClassifier
from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.masks import Packing
from glassformer.errors import ConfigError
from glassformer.tasks.metrics.answers import (
    SpanMetric,
    best_spans,
    best_threshold,
    exact_match,
    ranked_spans,
    word_f1,
    words_of,
)
from glassformer.tasks.span import AnswerWindow, SpanBatch


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 5), st.integers(0, 2**31), st.data())
def test_the_best_of_all_pairs(tokens: int, longest: int, seed: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, tokens - 1))
    last = data.draw(st.integers(first, tokens - 1))
    draw = torch.Generator().manual_seed(seed)
    start, end = (torch.randn(1, tokens, generator=draw) for _ in range(2))
    spans, scores = best_spans(start, end, torch.tensor([[first, last]]), longest)
    pairs = {
        (s, e): float(start[0, s] + end[0, e])
        for s in range(first, last + 1)
        for e in range(s, min(last, s + longest - 1) + 1)
    }
    assert tuple(spans[0].tolist()) == max(pairs, key=pairs.__getitem__)
    assert float(scores[0]) == pytest.approx(max(pairs.values()))


def test_each_end_alone_would_give_an_end_before_the_start() -> None:
    start = torch.tensor([[0.0, 9, 0, 5, 0, 9]])
    end = torch.tensor([[0.0, 9, 9, 0, 3, 0]])  # token 1 is of the question, 2 and more of the context
    spans, _ = best_spans(start, end, torch.tensor([[2, 5]]))
    assert int(start[0].argmax()) == 1 and int(end[0, 2:].argmax()) + 2 < int(start[0, 2:].argmax()) + 2
    assert spans.tolist() in ([[2, 2]], [[5, 5]])


def test_without_a_context_there_is_no_span() -> None:
    _, scores = best_spans(torch.ones(1, 3), torch.ones(1, 3), torch.tensor([[1, 0]]))
    assert scores.tolist() == [-torch.inf]


def test_an_answer_has_a_token() -> None:
    with pytest.raises(ConfigError, match="longest is 0"):
        best_spans(torch.ones(1, 3), torch.ones(1, 3), torch.tensor([[1, 2]]), 0)


def judged(spans: list[tuple[int, int]], answers: list[list[list[int]]], *, packs: bool) -> SpanMetric:
    """A meter of texts of 4, 5, … tokens, all but the first of the context, of which `spans` were said."""
    lengths = [4 + i for i in range(len(spans))]
    logits = torch.zeros(2, len(spans), max(lengths))
    for i, span in enumerate(spans):
        logits[0, i, span[0]] = logits[1, i, span[1]] = 9.0
    keep = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    flow = Flow(keep=keep[:, None])
    if packs:
        flow = Flow(packing=Packing(tuple(lengths)))
        logits = logits[:, keep][:, None]
    labels = {
        name: torch.tensor([each[0][i] for each in answers])
        for i, name in enumerate(("start_positions", "end_positions"))
    }
    metric = SpanMetric(SpanClassifier(3))
    words = [f"w{token}" for token in range(max(lengths))]
    text = " ".join(words[1:])
    offsets = np.array([(0, 0), *((3 * i, 3 * i + 2) for i in range(max(lengths) - 1))])
    of_spans = [[" ".join(words[first : last + 1]) for first, last in spans if first] for spans in answers]
    item = SpanBatch(
        Batch(),
        flow,
        labels,
        tuple(range(len(lengths))),
        context=torch.tensor([[1, length - 1] for length in lengths]),
        windows=tuple(AnswerWindow(i, text, offsets, texts) for i, texts in enumerate(of_spans)),
    )
    output = Output(start_logits=logits[0], end_logits=logits[1])
    metric.update(SpanClassifier.one_text_per_row(output, flow), item)
    return metric


@pytest.mark.parametrize("packs", [True, False])
def test_figures(packs: bool) -> None:
    said = [(1, 2), (2, 3), (0, 0), (0, 0)]
    true = [[[1, 2]], [[4, 4], [3, 4]], [[0, 0]], [[1, 1]]]
    figures = judged(said, true, packs=packs).compute()
    assert figures["exact_match"] == 2 / 4
    assert figures["f1"] == pytest.approx((1 + 0.5 + 1 + 0) / 4)
    # Padding is no place to begin: of texts of 4 to 7 tokens, each has a loss over its own.
    by_hand = [
        sum(
            torch.tensor([9.0 * (t == s) for t in range(4 + i)]).log_softmax(0)[g]
            for s, g in zip(span, gold[0], strict=True)
        )
        for i, (span, gold) in enumerate(zip(said, true, strict=True))
    ]
    assert figures["loss"] == pytest.approx(-float(sum(by_hand)) / 2 / 4)


def test_states_of_two_processes_add_up() -> None:
    said, true = [(1, 2), (1, 3), (0, 0)], [[[1, 2]], [[2, 3]], [[1, 1]]]
    whole = judged(said, true, packs=True)
    first = judged(said, true, packs=False)
    for name in first.state:
        first.state[name] += whole.state[name]
    assert first.compute() == pytest.approx(whole.compute())


@pytest.mark.parametrize(
    ("said", "answers", "exact", "f1"),
    [
        ("6000 hours", ["6000 hours"], 1, 1),
        ("about 6000 hours", ["6000 hours"], 0, 0.8),
        ("about 6000 dollars", ["6000 hours"], 0, 0.4),
        ("The 6000 Hours!", ["6000 hours"], 1, 1),
        ("hours hours", ["6000 hours"], 0, 0.5),  # a word counts as often as it stands in both
        ("no", ["nothing", "no way"], 0, pytest.approx(2 / 3)),  # the one that fits best
        ("", [], 1, 1),
        ("something", [], 0, 0),
        ("", ["something"], 0, 0),
        ("the", ["a"], 1, 1),  # nothing is left of either
    ],
)
def test_exact_match_and_f1(said: str, answers: list[str], exact: float, f1: float) -> None:
    assert (exact_match(said, answers), word_f1(said, answers)) == (exact, f1)


def test_words() -> None:
    assert words_of("An  apple, a day: the U.S. theory!") == ["apple", "day", "us", "theory"]


def test_ranked_spans_are_all_pairs_in_order() -> None:
    start, end = torch.randn(2, 9, generator=torch.Generator().manual_seed(2))
    pairs = [(float(start[a] + end[b]), a, b) for a in range(2, 8) for b in range(a, min(a + 3, 8))]
    found = ranked_spans(start, end, (2, 7), longest=3, count=99)
    assert [place for _, *place in found] == [place for _, *place in sorted(pairs, reverse=True)]
    assert [score for score, *_ in found] == pytest.approx(sorted((score for score, *_ in pairs), reverse=True))
    assert ranked_spans(start, end, (2, 7), longest=3, count=2) == found[:2]
    assert ranked_spans(start, end, (1, 0)) == []


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 4), st.booleans()), min_size=1, max_size=12))
def test_the_best_threshold_is_that_of_an_exhaustive_search(questions: list[tuple[int, int, bool]]) -> None:
    differences = [float(difference) for difference, *_ in questions]
    of_span = [f1 / 4 if answerable else 0.0 for _, f1, answerable in questions]
    of_none = [float(not answerable) for *_, answerable in questions]

    def mean(threshold: float) -> float:
        pairs = zip(differences, of_span, of_none, strict=True)
        return float(np.mean([span if difference <= threshold else none for difference, span, none in pairs]))

    threshold, score = best_threshold(differences, of_span, of_none)
    assert score == pytest.approx(mean(threshold))
    assert score == pytest.approx(max(map(mean, np.arange(-4.5, 5))))
    assert all(abs(threshold - difference) >= 0.5 for difference in differences)  # no rounding decides


def test_a_question_without_a_span_has_no_answer_at_any_threshold() -> None:
    assert best_threshold([np.inf, 1.0], [0, 1], [1, 0]) == (2.0, 1.0)
    assert best_threshold([np.inf], [0], [1]) == (0.0, 1.0)


def test_an_answer_of_articles_alone_is_none() -> None:
    """By the rules of SQuAD 2.0; those of 1.1 know no such answer."""
    assert exact_match("", ["the"]) == word_f1("", ["the"]) == 1
    assert exact_match("", ["the", "cat"]) == word_f1("", ["the", "cat"]) == 0
    assert exact_match("A cat", ["the", "cat"]) == word_f1("A cat", ["the", "cat"]) == 1
