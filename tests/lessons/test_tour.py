"""The tour of a forward pass, from Python: a report with its JSON, its tables, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.errors import DataError
from glassformer.lessons.tour import tour
from glassformer.model import Model, load


@pytest.fixture(scope="module")
def model(shared: Path) -> Model:
    return load(shared / "models" / "stories260k")


def test_a_report(model: Model) -> None:
    made = tour(model, ["Once upon a time", "there was one time"])
    data = made.to_dict()
    assert (data["kind"], data["model"]["layers"]) == ("tour", 5) and data["heads"]
    assert [word["word"] for word in data["words"]] == ["time"]
    text = str(made)
    for words in ("seen through clear glass", "blocks.4.out", "Attention heads", "cosine at", "Sentence embeddings"):
        assert words in text
    assert "<table" in made._repr_html_()


def test_texts_that_are_refused(model: Model) -> None:
    with pytest.raises(DataError, match="two texts, got 1"):
        tour(model, ["one"])
