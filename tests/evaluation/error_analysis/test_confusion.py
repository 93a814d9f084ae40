"""The confusion matrix: the numbers are scikit-learn's, the picture is XML whatever classes are called."""

from __future__ import annotations

import xml.etree.ElementTree as xml
from typing import Literal

import numpy as np
import pytest

from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.error_analysis.confusion import confusion_matrix
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
    assert found.counts.tolist() == [[2, 0, 0], [1, 1, 0], [0, 1, 1]]


@pytest.mark.parametrize("count", [2, 8, 20, 21, 150])
def test_the_picture(count: int) -> None:
    names = [f"{EVIL} {i}" for i in range(count)]
    found = confusion_matrix(classified(3 * count, names))
    assert found is not None
    tree = xml.fromstring(found.svg("true"))
    cells = list(tree.iter("{http://www.w3.org/2000/svg}g"))
    numbers = [each for cell in cells for each in cell.findall("{http://www.w3.org/2000/svg}text")]
    assert len(cells) == (count * count if count <= 20 else np.count_nonzero(found.counts))
    assert len(numbers) == (count * count if count <= 20 else 0)
    assert ("confused most" in str(found)) == (count > 12)
    assert "<img" not in found._repr_html_()


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
