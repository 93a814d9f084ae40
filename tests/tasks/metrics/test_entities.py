"""Entities in tags, as seqeval finds them."""

from __future__ import annotations

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval import metrics

from glassformer.core.classification_heads import TokenClassifier
from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.masks import Packing
from glassformer.tasks.metrics.classes import per_class
from glassformer.tasks.metrics.entities import EntityMetric, marks_entities
from glassformer.tasks.microbatch import joined, padded
from glassformer.tasks.tag.task import WordBatch

NAMES = ["O", "B-PER", "I-PER", "E-PER", "S-PER", "B-LOC", "I-LOC", "B-a-b", "I-a-b"]
TEXTS = st.lists(st.lists(st.tuples(*[st.integers(0, len(NAMES) - 1)] * 2), min_size=1), min_size=1, max_size=5)

Text = list[tuple[int, int]]


def meter_of(texts: list[Text], *, packs: bool, names: list[str] = NAMES) -> EntityMetric:
    """A meter that has seen texts of (true, said) tags, between tokens that do not count."""
    metric = EntityMetric(TokenClassifier(3, len(names)), names)
    labels = [[-100, *(true for true, _ in text), -100] for text in texts]
    said = [[1, *(said for _, said in text), 1] for text in texts]
    if packs:
        flow, tensors = Flow(packing=Packing(tuple(map(len, labels)))), (joined(labels), joined(said))
    else:
        flow, tensors = Flow(), (padded(labels, -100), padded(said, 0))
    logits = torch.nn.functional.one_hot(tensors[1], len(names)).float()
    words = tuple(torch.tensor([[true, 1 + place] for place, (true, _) in enumerate(text)]) for text in texts)
    metric.update(Output(logits=logits), WordBatch(Batch(), flow, tensors[0], words=words))
    return metric


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.booleans())
def test_as_seqeval(texts: list[Text], packs: bool) -> None:
    true = [[NAMES[tag] for tag, _ in text] for text in texts]
    said = [[NAMES[tag] for _, tag in text] for text in texts]
    found = meter_of(texts, packs=packs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # figures of 0 / 0, which are 0
        wanted = {
            "precision": metrics.precision_score(true, said, zero_division=0),
            "recall": metrics.recall_score(true, said, zero_division=0),
            "f1": metrics.f1_score(true, said, zero_division=0),
            "accuracy": metrics.accuracy_score(true, said),
        }
        table = metrics.classification_report(true, said, output_dict=True, zero_division=0)
    figures = found.compute()
    assert {name: figures[name] for name in wanted} == pytest.approx(wanted)
    for kind, row in per_class(found.names, *found.counts()).items():
        if row["support"] or kind in table:
            theirs = table[kind]
            assert {name: score or 0.0 for name, score in row.items()} == pytest.approx(
                {
                    "precision": theirs["precision"],
                    "recall": theirs["recall"],
                    "f1": theirs["f1-score"],
                    "support": theirs["support"],
                }
            )


def test_one_wrong_word_spoils_an_entity_but_not_a_tag() -> None:
    figures = meter_of([[(1, 1), (2, 0), (0, 0), (0, 0), (5, 5)]], packs=True).compute()
    assert figures["accuracy"] == 0.8
    assert figures["f1"] == 0.5


def test_an_entity_ends_with_its_text() -> None:
    """Side by side in a packed row, B-PER | I-PER are two, and not one."""
    for packs in (True, False):
        assert meter_of([[(1, 1)], [(2, 2)]], packs=packs).counts()[2].sum() == 2


def test_states_of_two_processes_add_up() -> None:
    texts: list[Text] = [[(1, 1), (2, 2)], [(5, 0), (0, 5)], [(7, 7)]]
    whole = meter_of(texts, packs=True).compute()
    first, second = meter_of(texts[:1], packs=True), meter_of(texts[1:], packs=False)
    for name in first.state:
        first.state[name] += second.state[name]
    assert first.compute() == pytest.approx(whole)


def test_which_names_are_tags_of_entities() -> None:
    assert marks_entities(["O", "B-PER", "I-PER"]) and marks_entities(["B", "I", "O"])
    assert not marks_entities(["NOUN", "VERB"])
    assert not marks_entities(["0", "B-PER"])  # the number is no O
    assert not marks_entities(["O"])
