"""A file of predictions from Python: written line by line, resumed, and never that of other texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from glassformer.errors import ConfigError, DataError
from glassformer.tasks.pipeline_options import PipelineOptions, PredictionFileOptions
from glassformer.tasks.prediction_lines import PredictionLines
from glassformer.tasks.results import Label, RankedLabels, best_labels, input_line

RESUMED = PredictionFileOptions(resume=True)


def test_a_stopped_file_continues(tmp_path: Path) -> None:
    path, texts = tmp_path / "out.jsonl", ["a", "b", "c"]

    def stopped() -> Iterator[list[Label]]:
        yield [Label("joy", 0.75)]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PredictionLines(path, texts, PredictionFileOptions()).write(stopped())
    with path.open("a") as file:
        file.write('{"text": "b", "res')
    again = PredictionLines(path, texts, RESUMED)
    assert again.missing == ["b", "c"] and again.write([[Label("fear", 0.5)]] * 2) == 2
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["text"] for line in lines] == texts
    assert lines[0]["results"] == [{"label": "joy", "score": 0.75}]
    assert PredictionLines(path, texts, RESUMED).missing == []
    with pytest.raises(DataError, match="holds predictions for other texts"):
        PredictionLines(path, ["b"], RESUMED)
    with pytest.raises(DataError, match="already exists"):
        PredictionLines(path, texts, PredictionFileOptions())
    assert PredictionLines(path, texts, PredictionFileOptions(overwrite=True)).missing == texts


def test_options_as_keywords_of_a_pipeline() -> None:
    assert PipelineOptions().keywords() == {}
    options = PipelineOptions(all_scores=True, targets=["a"], settings={"num_beams": 4}, aggregation_strategy="none")
    expected = {"top_k": None, "targets": ["a"], "num_beams": 4, "aggregation_strategy": "none"}
    assert options.keywords() == expected
    with pytest.raises(ConfigError, match="all_scores= and top_k= 2 were both given"):
        PipelineOptions(all_scores=True, top_k=2)
    with pytest.raises(ConfigError, match="give one of them"):
        PredictionFileOptions(resume=True, overwrite=True)


def test_columns_have_a_role_of_the_task() -> None:
    assert PredictionFileOptions(columns={"text": "body"}).columns_of(["text"]) == {"text": "body"}
    with pytest.raises(ConfigError, match="'text=body'; it must be role=name, with a role of question, context"):
        PredictionFileOptions(columns={"text": "body"}).columns_of(["question", "context"])


def test_an_answer_in_a_line() -> None:
    assert best_labels(RankedLabels("a", ["x", "y"], [0.75, 0.25])) == [Label("x", 0.75)]
    assert best_labels([Label("x", 0.75), Label("y", 0.5)]) == [Label("x", 0.75), Label("y", 0.5)]
    assert best_labels("no label") == []
    assert input_line({"question": "Who\n wrote it?", "context": "She."}) == "Who wrote it? | She."
