"""Rows by loss, both ways; loss by class, by tag and by word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from glassformer.evaluation.error_analysis.errors import ErrorGroup, analyse_errors
from glassformer.tasks.predictions import total_loss
from glassformer.tasks.types import Prediction
from tests.evaluation.judged_run import EVIL, classified, tagged


def test_rows_by_loss_both_ways() -> None:
    records = classified()
    found = analyse_errors(records, top=3)
    losses = [x.loss for x in records]
    assert [x.loss for x in found.worst] == sorted(losses, reverse=True)[:3]
    assert [x.loss for x in found.best] == sorted(losses)[:3]
    assert found.count == 30 and found.wrong == sum(not x.correct for x in records) == 4
    assert [x.index for x in found.confident] == [27, 18, 9], "the surest of those that are wrong"
    anger = next(group for group in found.labels if group.name == "anger")
    held = [x for x in records if x.label == "anger"]
    assert anger.count == len(held) == 10 and anger.wrong == 4
    assert anger.total == pytest.approx(sum(x.loss or 0 for x in held))
    assert found.to_dict()["labels"][0]["mean"] == found.labels[0].mean


def test_a_wrong_row_is_confident_half_way_from_chance_to_certainty() -> None:
    def said(*shares: float, others: int = 1) -> list[Prediction]:
        rest = {f"other {i}": 0.0 for i in range(others)}
        return [
            Prediction(index=i, where=f"line {i}", row={"text": "x"}, label="other 0", predicted="a", correct=False,
                       loss=1.0, details={"scores": {"a": share, **rest}})
            for i, share in enumerate(shares)
        ]  # fmt: skip

    two = analyse_errors(said(0.53, 0.75, 0.9))
    assert [x.index for x in two.confident] == [2, 1] and two.sure_from == 0.75
    assert "Wrong and confident: 75% or more" in str(two)
    assert [x.index for x in analyse_errors(said(0.53, 0.56, others=9)).confident] == [1], "of ten classes 55%"
    assert "Wrong and confident" not in str(analyse_errors(said(0.53)))
    assert analyse_errors(tagged()).sure_from is None


def test_words_that_are_tagged() -> None:
    records = tagged()
    found = analyse_errors(records)
    assert found.label_kind == "tags"
    assert [total_loss(x) for x in found.worst] == [2.75, 1.375], "the sum over its words"
    assert found.words[0] == ErrorGroup("Rome", 2, 2.25, 1), "wherever it stands"
    assert {g.name: (g.count, g.total, g.wrong) for g in found.labels} == {
        "B-PER": (2, 1.5, 1), "B-LOC": (2, 2.25, 1), "O": (2, 0.375, 0)
    }  # fmt: skip
    assert "1996-08-22" not in [g.name for g in found.words], "it was not read"


def test_several_labels_numbers_and_texts() -> None:
    first = classified(1)[0]
    several = analyse_errors([replace(first, label=["bug", "docs"], predicted=["docs"], correct=False, details={})])
    assert {g.name: g.wrong for g in several.labels} == {"bug": 1, "docs": 0}
    assert analyse_errors([replace(first, label=3.5, predicted=2.0, correct=None)]).label_kind == "number"
    texts = [
        Prediction(
            index=i,
            where="x",
            row={"source": "a"},
            label=["b"],
            predicted="c",
            details={"metrics": {"chrF": i}},
        )
        for i in range(3)
    ]
    assert [x.index for x in analyse_errors(texts).worst] == [0, 1, 2], "without a loss the lowest figure comes first"


def test_texts_steer_neither_terminal_nor_notebook() -> None:
    found = analyse_errors(classified(4, text=f"\x1b[31m{EVIL}"))
    assert "\x1b" not in str(found) and "flies" not in str(found)
    assert "<img" not in found._repr_html_() and "&lt;img" in found._repr_html_()


def test_of_the_path_of_a_file_the_part_that_differs_is_shown() -> None:
    first, second = (replace(x, where=f"/data/{part}.csv: line 2") for x, part in zip(classified(2), "ab", strict=True))
    assert "a.csv: line 2" in str(analyse_errors([first])) and "/data/" not in str(analyse_errors([first, second]))
