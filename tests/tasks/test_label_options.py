"""Candidate labels: a list, or a text with commas between them."""

from __future__ import annotations

import pytest

from glassformer.errors import ConfigError
from glassformer.tasks.label_options import candidate_labels, check_candidates


@pytest.mark.parametrize("text", ["politics,sport", "politics,sport,", "politics,,sport", " politics , sport ,, "])
def test_a_comma_too_many_makes_no_label(text: str) -> None:
    assert candidate_labels({"candidate_labels": text}) == ["politics", "sport"]


@pytest.mark.parametrize("given", [" , ", "", []])
def test_no_label_at_all(given: object) -> None:
    with pytest.raises(ConfigError, match="names none; give the labels to choose from"):
        candidate_labels({"candidate_labels": given})


def test_labels_that_are_missing() -> None:
    with pytest.raises(ConfigError, match="candidate_labels is missing"):
        candidate_labels({})


@pytest.mark.parametrize("given", [["a", ""], ["a", " "], ["a", 5], 5])
def test_a_list_holds_texts_that_are_not_blank(given: object) -> None:
    with pytest.raises(ConfigError, match="it must be a list of labels"):
        check_candidates({"candidate_labels": given})
