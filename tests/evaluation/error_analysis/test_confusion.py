"""The confusion matrix: the numbers are scikit-learn's, on the terminal and as a chart of its page."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.error_analysis.confusion import confusion_matrix
from glassformer.reports.page import report_data, report_page
from tests.evaluation.judged_run import EVIL, NAMES, classified, tagged


@pytest.mark.parametrize("normalise", [None, "true", "predicted"])
def test_the_numbers_are_those_of_the_package(normalise: Literal["true", "predicted"] | None) -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="needs scikit-learn: pip install scikit-learn")
    records, names = classified(), [*NAMES, "nobody's"]
    found = confusion_matrix(records, names)
    assert found is not None
    theirs = metrics.confusion_matrix(
        [x.label for x in records], [x.predicted for x in records], labels=names,
        normalize={None: None, "true": "true", "predicted": "pred"}[normalise],
    )  # fmt: skip
    np.testing.assert_allclose(found.shares(normalise), theirs)


def test_what_is_confused_most() -> None:
    found = confusion_matrix(classified())
    assert found is not None and found.pairs() == [("anger", "joy", 4, 0.4)]
    assert found.to_dict()["counts"][0] == [6, 4, 0]


def test_words_that_were_not_read_do_not_count() -> None:
    found = confusion_matrix(tagged())
    assert found is not None and found.names == ["O", "B-LOC", "B-PER"]
    assert found.charts()[0].unit == "words"
    assert found.counts.tolist() == [[2, 0, 0], [1, 1, 0], [0, 1, 1]]


@pytest.mark.parametrize("count", [2, 150])
def test_the_chart_of_its_page(count: int) -> None:
    found = confusion_matrix(classified(3 * count, [f"{EVIL} {i}" for i in range(count)]))
    assert found is not None
    (chart,) = report_data(found)["charts"]
    assert chart["names"][0] == f"{EVIL} 0" and chart["counts"] == found.counts.tolist()
    assert ("confused most" in str(found)) == (count > 12)
    assert "<img" not in found._repr_html_() and "<img" not in report_page(found)


def test_in_the_terminal() -> None:
    found = confusion_matrix(classified())
    lines = str(found).splitlines()
    assert lines[2].split() == ["anger", "6", "4", "0"]
    assert found is not None and found.tables()[0].shades is not None
    assert found.tables()[0].shades[0] == pytest.approx([0.6, -0.4, 0.0])


def test_what_is_refused() -> None:
    found = confusion_matrix(classified())
    assert found is not None
    with pytest.raises(ConfigError, match="normalise is 'all'"):
        found.shares("all")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="'love'"):
        confusion_matrix(classified(), ["anger", "joy"])


def test_numbers_in_names_count_unless_an_order_was_chosen() -> None:
    names = [f"class {i}" for i in range(12)]
    found = confusion_matrix(classified(36, names), sorted(names))
    assert found is not None and found.names == names
    assert found.counts.sum() == 36 and found.counts.diagonal().sum() == sum(
        x.correct is True for x in classified(36, names)
    )
    other = confusion_matrix(classified(36, names), names[::-1])
    assert other is not None and other.names == names[::-1]
