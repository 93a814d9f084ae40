"""Anything that predicts is compared: models, runs, baselines, functions, pipelines; and functions that are wrong."""

from __future__ import annotations

import itertools
import json
import shutil
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glassformer
from glassformer import ConfigError, DataError, UnsupportedError
from glassformer.data.rows import read_rows
from glassformer.data.sequence import InMemoryRows
from glassformer.evaluation.compare.compare import compare
from glassformer.evaluation.compare.predictors import label_answer, score_by_task
from glassformer.evaluation.evaluate import evaluate
from glassformer.evaluation.runs import EvaluatedSplit, TrainedRun, open_run
from glassformer.tasks.classify.kinds import MultiLabel, SingleLabel
from glassformer.tasks.metrics.metric import differences
from glassformer.tasks.predictions import read_predictions
from glassformer.tasks.types import Prediction
from tests.evaluation.compare.conftest import BERT, trained
from tests.evaluation.made import AccuracyTask, make_run

ROWS = [
    {"text": f"{word} flies {i}", "label": label} for i in range(6) for word, label in (("time", "a"), ("fruit", "b"))
]


def by_word(texts: list[str]) -> list[str]:
    return ["a" if "time" in text else "b" for text in texts]


def always_a(texts: list[str]) -> list[str]:
    return ["a"] * len(texts)


def test_functions_are_scored_by_the_labels_of_rows() -> None:
    found = glassformer.compare([always_a, by_word], ROWS, task="classify")
    worse, better = found.systems
    assert (worse.name, better.name, found.metric, found.rows) == ("always_a", "by_word", "f1_weighted", 12)
    assert worse.metrics["accuracy"].value == 0.5 and better.metrics["accuracy"].value == 1
    assert better.differences["accuracy"].value == 0.5 and better.differences["accuracy"].leaves_out_zero
    assert found.caption.startswith(
        "classify of 12 rows, by f1_weighted: always_a, by_word; differences are to always_a"
    )
    assert found.finding.startswith("by_word has a better f1_weighted than always_a")
    assert found.examples == [] and found.words is None


def test_functions_may_give_the_probability_of_each_label() -> None:
    def probabilities(texts: list[str]) -> list[dict[str, float]]:
        return [{"a": 0.25 + 0.5 * (label == "a"), "b": 0.75 - 0.5 * (label == "a")} for label in by_word(texts)]

    labels, scored = glassformer.compare([by_word, probabilities], ROWS, task="classify").systems
    assert scored.metrics == labels.metrics
    row = Prediction(index=0, where="row 0", row={}, label="a", predicted=None)
    scores = {"a": 0.75, "b": 0.25}
    assert label_answer(SingleLabel(["a", "b"]))(scores, row) == {"predicted": "a", "correct": True, "scores": scores}
    holds = label_answer(MultiLabel(["a", "b"]))({"a": 0.75, "b": 0.6}, replace(row, label=["a", "b"]))
    assert holds["predicted"] == ["a", "b"] and holds["correct"]


def test_a_run_a_model_a_baseline_and_a_function(run: Path) -> None:
    """On the validation rows of the run, whose saved predictions are those that are compared."""
    model = glassformer.load(run / "model", task="text-classification")
    systems = {"run": run, "model": model, "words": "bag of words", "rule": by_word}
    found = compare(systems, resamples=100)
    names = [one.name for one in found.systems if one.seeds]
    assert names == ["run", "model", "words", "rule"] and found.rows == 12
    first, same, words, rule = (one for one in found.systems if one.seeds)
    assert [one.name for one in found.systems if not one.seeds] == ["most frequent"], "not the named baseline again"
    assert {name: x.value for name, x in first.metrics.items()} == {name: x.value for name, x in same.metrics.items()}
    assert same.differences["accuracy"].value == 0 and rule.metrics["accuracy"].value == 1
    report = json.loads((run / "evaluation" / "validation" / "report.json").read_text())
    assert words.metrics["f1_weighted"].value == report["baselines"]["bag of words"]["metrics"]["f1_weighted"]["value"]
    records = read_predictions(run / "evaluation" / "validation" / "examples.jsonl")
    task = open_run(run).task_for_evaluation()
    right = [x.by_baseline(x.label, True) for x in records]
    assert rule.differences == differences(task.metrics(right), task.metrics(records), 100)
    assert same.cost.parameters == sum(x.numel() for x in model.parameters()) and same.cost.bytes


def test_on_other_data_a_run_predicts_too(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "test.csv"
    path.write_text("text,mood\n" + "".join(f"{row['text']},{row['label']}\n" for row in ROWS))
    found = compare([str(run), str(run / "model"), by_word], path, resamples=100, latency=True, limit=10)
    first, model, rule = found.systems
    opened = open_run(run)
    rows = opened.read_rows(str(path)).select(range(10))
    alone = evaluate("classify", opened.task_for_evaluation(), rows, baselines=False, resamples=100).report
    assert first.metrics == alone.metrics == model.metrics and found.rows == found.total == 10
    assert rule.metrics["accuracy"].value == 1 and rule.differences["accuracy"].value > 0
    assert all(one.latency is not None and one.latency.runs == 100 for one in found.systems)
    assert "ms alone" in found.cost_table().headings
    with pytest.raises(ConfigError, match=r"run is a run of 'classify', not of 'tag'; leave task= out"):
        compare([run], path, task="tag")
    with pytest.raises(ConfigError, match="is an evaluation, of its own rows; to predict data= name the folder"):
        compare([run / "evaluation" / "validation"], path)


def test_baselines_that_a_run_was_not_evaluated_with(run: Path) -> None:
    found = compare([run, "bag of words"], run.parent / "rows.csv", resamples=50)
    assert [one.name for one in found.systems] == ["run", "bag of words"]
    with pytest.raises(
        ConfigError, match="there is no baseline 'bag of wrds'; nearest: 'bag of words'; there are: most"
    ):
        compare([run, "bag of wrds"], run.parent / "rows.csv")


def test_a_run_that_is_open_is_a_system(run: Path) -> None:
    opened = open_run(run)
    assert isinstance(opened, TrainedRun)
    assert compare([opened]).systems[0].metrics == compare([run]).systems[0].metrics


def test_a_function_may_be_first_and_a_system_alone(run: Path, tmp_path: Path) -> None:
    found = compare([by_word, run], resamples=50)
    assert found.systems[1].differences["accuracy"].value <= 0 and len(found.systems) == 2
    assert compare(str(run)).systems[0].name == "run" and compare(by_word, ROWS, task="classify").rows == 12
    elsewhere = shutil.copytree(run / "evaluation" / "validation", tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="no run is among the systems, whose rows the others could predict"):
        compare([elsewhere, by_word])


def test_rows_of_a_generator_are_read_once(run: Path) -> None:
    rows = ({"text": row["text"], "mood": row["label"]} for row in ROWS)
    found = compare([run, by_word], rows)
    assert found.rows == 12 and found.systems[1].metrics["accuracy"].value == 1
    named = [{"text": row["text"], "feeling": row["label"]} for row in ROWS]
    assert compare([run, by_word], named, columns={"label": "feeling"}).systems[0].metrics == found.systems[0].metrics


def test_a_pipeline_of_transformers(run: Path) -> None:
    """The same weights in the reference library: the same predictions."""
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(run / "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(run / "model")
    theirs = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)
    found = compare({"run": run, "theirs": theirs}, resamples=50)
    assert found.systems[1].differences["accuracy"].value == 0
    ours, others = ({name: x.value for name, x in one.metrics.items()} for one in found.systems[:2])
    assert ours == others


def test_a_model_without_a_run(run: Path) -> None:
    """Functions take their labels from its head."""
    columns = {"label": "mood"}
    data = run.parent / "rows.csv"
    found = compare({"model": run / "model", "rule": by_word}, data, task="classify", columns=columns)
    assert [one.rows for one in found.systems] == [30, 30] and found.systems[1].metrics["accuracy"].value == 1
    assert set(found.systems[1].differences) == set(found.systems[0].metrics)


class Estimator:
    """As those of scikit-learn."""

    def predict(self, texts: list[str]) -> np.ndarray:
        return np.array(by_word(texts))


def pipe(texts: list[str]) -> list[dict[str, Any]]:
    """As a pipeline of Hugging Face transformers."""
    return [{"label": label, "score": 0.9} for label in by_word(texts)]


def all_scores(texts: list[str]) -> list[list[dict[str, Any]]]:
    return [
        [{"label": "a", "score": float(x == "a")}, {"label": "b", "score": float(x == "b")}] for x in by_word(texts)
    ]


def test_estimators_and_pipelines_of_other_libraries() -> None:
    found = compare([by_word, Estimator(), pipe, all_scores], ROWS, task="text-classification")
    assert [one.name for one in found.systems] == ["by_word", "Estimator", "pipe", "all_scores"]
    for one in found.systems:
        assert one.metrics["accuracy"].value == 1, one.name


def test_a_scikit_learn_pipeline() -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'glassformer[evaluate]'")
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    fitted = make_pipeline(CountVectorizer(), LogisticRegression())
    fitted.fit([row["text"] for row in ROWS], [row["label"] for row in ROWS])
    (one,) = compare({"words": fitted}, ROWS, task="classify").systems
    assert one.metrics["accuracy"].value == 1


def test_several_labels_and_numbers() -> None:
    rows = [{"text": "x", "label": ["a", "b"]}, {"text": "y", "label": ["b"]}, {"text": "z", "label": []}]
    both = {
        "right": lambda texts: [["b", "a"], ["b"], []],
        "scores": lambda texts: [[{"label": "a", "score": 0.9}]] * 3,
    }
    right, scores = compare(both, rows, task="classify").systems
    assert right.metrics["f1_micro"].value == 1 and scores.metrics["f1_micro"].value == pytest.approx(1 / 3)
    numbers = [{"text": str(i), "label": i / 4} for i in range(8)]
    half = {"half": lambda texts: [int(text) / 8 for text in texts], "np": lambda texts: np.ones(len(texts))}
    found = compare(half, numbers, task="classify")
    assert found.systems[0].metrics["pearson"].value == pytest.approx(1)
    assert found.systems[1].metrics["mse"].value == pytest.approx(np.mean([(1 - i / 4) ** 2 for i in range(8)]))


@pytest.mark.parametrize(("number", "shown"), [(float("nan"), "nan"), (float("inf"), "inf"), ("much", "'much'")])
def test_numbers_that_are_none(number: Any, shown: str) -> None:
    rows = [{"text": str(i), "label": i / 4} for i in range(4)]
    with pytest.raises(DataError, match=f"it, for the list: row 0: gave {shown}; it must give a finite number"):
        compare({"it": lambda texts: [number] * len(texts)}, rows, task="classify")


def test_tasks_whose_rows_are_no_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TrainedRun, "task_for_evaluation", lambda self, **options: AccuracyTask())
    made = make_run(tmp_path / "sounds", [True, False])
    monkeypatch.setattr(EvaluatedSplit, "rows", lambda self: InMemoryRows([{"file": "a"}, {"file": "b"}]))
    with pytest.raises(UnsupportedError, match="by_word is a function, which reads texts; the rows are none"):
        compare([made, by_word])
    with pytest.raises(UnsupportedError, match=r"functions are compared by labels, .*; pedals is none of these"):
        score_by_task("pedals", AccuracyTask()).answer("a", read_predictions(predictions_of(made))[0])  # type: ignore[arg-type]


def predictions_of(made: Path) -> Path:
    return made / "evaluation" / "validation" / "examples.jsonl"


def test_pairs_of_texts_are_dicts() -> None:
    rows = [{"text": "a", "text_pair": str(i), "label": "yes" if i % 2 else "no"} for i in range(4)]

    def judged(pairs: list[dict[str, str]]) -> list[str]:
        return ["yes" if int(pair["text_pair"]) % 2 else "no" for pair in pairs]

    assert compare([judged], rows, task="classify").systems[0].metrics["accuracy"].value == 1


def test_tags_of_a_run_and_a_function(tmp_path: Path) -> None:
    words = [["Ada", "ran", "to", "Paris", str(i)] for i in range(24)]
    rows = [{"tokens": tokens, "tags": ["B-PER", "O", "O", "B-LOC", "O"]} for tokens in words]
    made = trained(tmp_path, "tag", rows, BERT, kind="wordpiece", size=50, family="bert")

    def rule(sentences: list[list[str]]) -> list[list[str]]:
        return [["B-PER" if word == "Ada" else "O" for word in words] for words in sentences]

    found = compare({"run": made, "rule": rule, "learnt": "dictionary"}, resamples=50)
    assert [one.metrics["recall"].value for one in found.systems[1:3]] == [0.5, 1.0]
    assert found.systems[1].differences["accuracy"].value == pytest.approx(
        0.8 - found.systems[0].metrics["accuracy"].value
    )
    with pytest.raises(DataError, match=r"it, for .*: gave \['X'\]; it must give 5 tags, of these: O, B-LOC, B-PER"):
        compare({"run": made, "it": lambda sentences: [["X"]] * len(sentences)})


def test_texts_of_a_run_and_a_baseline(tmp_path: Path) -> None:
    pytest.importorskip("rouge_score", reason="needs rouge-score: pip install 'glassformer[evaluate]'")
    rows = [{"source": f"Ada {i} ran. It was wet. She slept.", "target": f"Ada {i} ran."} for i in range(24)]
    t5 = {"model_type": "t5", "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 2}
    made = trained(tmp_path, "summarise", rows, t5, kind="unigram", size=40, family="t5")
    found = compare({"run": made, "lead": "lead-1"}, resamples=50)
    assert found.systems[1].metrics["ROUGE-L f"].value == 1 and found.metric == "ROUGE-L f" and found.words == 3
    assert found.examples[0].outputs.keys() == {"run", "lead"}, "the saved text too"
    live = compare({"run": made, "lead": "lead-1"}, tmp_path / "rows.jsonl", limit=6, resamples=50)
    assert live.rows == 6 and live.examples[0].outputs["lead"] == "Ada 0 ran." and live.systems[0].words is not None


def test_tags_and_answers() -> None:
    from glassformer.evaluation.compare.predictors import tag_answer, text_answer
    from glassformer.tasks.types import Prediction

    row = Prediction(index=0, where="a: line 1", row={"tokens": ["Ada", "ran"]}, label=["B-PER", "O"], predicted=None)
    tags = tag_answer(["O", "B-PER"])
    assert tags(["B-PER", "O"], row) == {"predicted": ["B-PER", "O"], "correct": True}
    for wrong in (["O"], ["O", "B-LOC"], "OO", None):
        with pytest.raises(DataError, match="it must give 2 tags, of these: O, B-PER"):
            tags(wrong, row)
    assert text_answer({"answer": "Ada", "score": 0.5, "start": 0}, row) == {"predicted": "Ada"}
    assert text_answer({"translation_text": "Ada"}, row) == {"predicted": "Ada"}


def endless(texts: list[str]) -> Iterator[str]:
    return itertools.repeat("a")


def raises(texts: list[str]) -> list[str]:
    raise ValueError("no such word")


WRONG: list[tuple[Callable[[list[str]], Any], str]] = [
    (
        lambda texts: ["a"],
        r"it gave \['a'\] for 8 rows \(the list: row 0 to the list: row 7\); it must give one for each",
    ),
    (lambda texts: ["a"] * 9, "it gave more for 8 rows"),
    (endless, "it gave more for 8 rows"),
    (lambda texts: (x for x in "a"), r"it gave \['a'\] for 8 rows"),
    (lambda texts: "aaaaaaaa", "it gave 'aaaaaaaa' for 8 rows"),
    (lambda texts: None, "it gave None for 8 rows"),
    (lambda texts: dict.fromkeys(texts, "a"), r"it gave \{.*for 8 rows"),
    (lambda texts: {*texts}, r"it gave \{.*for 8 rows"),
    (lambda texts: ["c"] * 8, "it, for the list: row 0: gave 'c'; it must give one of: a, b"),
    (lambda texts: ["A"] * 8, "it, for the list: row 0: gave 'A'; it must give one of: a, b"),
    (lambda texts: [0.5] * 8, "gave 0.5; it must give one of: a, b"),
    (lambda texts: [None] * 8, "gave None; it must give one of"),
    (lambda texts: [{"label": "a", "score": float("nan")}] * 8, "gave 'a' the score nan; it must be a finite number"),
    (lambda texts: [{"label": "a", "score": "0.5"}] * 8, "gave 'a' the score '0.5'; it must be a finite number"),
    (lambda texts: [{"a": float("inf"), "b": 0.5}] * 8, "gave 'a' the score inf; it must be a finite number"),
    (lambda texts: [{"a": 0.5, "c": 0.5}] * 8, r"gave \{'a': 0.5, 'c': 0.5\}; it must give one of: a, b"),
    (lambda texts: [{"label": "LABEL_1", "score": 0.5}] * 8, "gave 'LABEL_1'; it must give one of: a, b"),
    (lambda texts: [1] * 8, r"it, for the list: row 0: gave 1, a number, and the labels are names; .* one of: a, b"),
    (lambda texts: ["1"] * 8, "gave '1', a number, and the labels are names; it must give one of: a, b"),
    (lambda texts: np.zeros(8, np.int64), "a number, and the labels are names; it must give one of: a, b"),
    (raises, "it, for the list: row 0 to the list: row 7: ValueError: no such word"),
    (lambda: ["a"], r"it, for the list: row 0 to the list: row 7: TypeError: .*positional argument"),  # type: ignore[misc,list-item]
]


@pytest.mark.parametrize(("function", "message"), WRONG)
def test_functions_that_are_wrong(function: Callable[[list[str]], Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        compare({"it": function}, ROWS, task="classify")


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (5, r"it, for the list: row 0: gave 5; it must give a text"),
        (float("nan"), "gave nan; it must give a text"),
        (None, "gave None; it must give a text"),
        ({"label": "a"}, r"gave \{'label': 'a'\}; it must give a text"),
    ],
)
def test_what_is_no_text(output: Any, message: str) -> None:
    pytest.importorskip("rouge_score", reason="needs rouge-score: pip install 'glassformer[evaluate]'")
    rows = [{"article": "One. Two.", "highlights": "One."}]
    with pytest.raises(DataError, match=message):
        compare({"it": lambda texts: [output]}, rows)


def test_numbers_are_labels_where_labels_are_numbers_and_never_their_positions(tmp_path: Path) -> None:
    """The emotions are numbered in the order of the data set, sadness first; sorted, anger would be."""
    numbered = [{"text": str(i), "label": i % 3} for i in range(6)]
    for kind in (int, str, np.int64):
        right = compare([lambda texts, kind=kind: [kind(int(x) % 3) for x in texts]], numbered, task="classify")  # type: ignore[misc]
        assert right.systems[0].metrics["f1_weighted"].value == 1
    (tmp_path / "test.txt").write_text("I am sad;sadness\nlovely;joy\nI love you;love\nI hate it;anger\n")
    order = {"I am sad": 0, "lovely": 1, "I love you": 2, "I hate it": 3}
    with pytest.raises(
        DataError, match=r"gave 0, a number, and the labels are names; .* one of: anger, joy, love, sad"
    ):
        compare([lambda texts: [order[x] for x in texts]], tmp_path / "test.txt", kind="emotion")
    several = [{"text": "x", "label": ["a", "b"]}, {"text": "y", "label": ["b"]}]
    with pytest.raises(
        DataError, match=r"gave \[0\], a number, and the labels are names; .*a list of labels, of these"
    ):
        compare([lambda texts: [[0]] * 2], several, task="classify")


def test_a_published_data_set_brings_its_columns_and_its_task(tmp_path: Path, run: Path) -> None:
    data = tmp_path / "emotion"
    data.mkdir()
    (data / "test.txt").write_text("time flies;joy\nfruit flies;anger\n")
    (data / "val.txt").write_text("time flies;anger\n")
    said = {"time flies": "joy", "fruit flies": "anger"}
    found = compare([lambda texts: [said[x] for x in texts]], data, kind="emotion", part="test")
    assert (found.task, found.rows, found.systems[0].metrics["accuracy"].value) == ("classify", 2, 1)
    pytest.importorskip("rouge_score", reason="needs rouge-score: pip install 'glassformer[evaluate]'")
    (tmp_path / "test.json").write_text(json.dumps([{"id": "1", "dialogue": "A: Hi. B: Bye.", "summary": "A: Hi."}]))
    summaries = compare(["lead-1"], tmp_path / "test.json", kind="samsum")
    assert (summaries.task, summaries.rows) == ("summarization", 1)
    assert compare(["lead-1"], read_rows(tmp_path / "test.json", kind="samsum")).metric == summaries.metric


def test_rows_are_read_in_the_format_that_is_named(tmp_path: Path, run: Path) -> None:
    rows = tmp_path / "rows.txt"
    rows.write_text("time flies;a\nfruit flies;b\n")
    found = compare([by_word], rows, task="classify", kind="csv", delimiter=";", names=["text", "label"])
    assert (found.rows, found.systems[0].metrics["accuracy"].value) == (2, 1)
    mood = open_run(run).config.data.columns.get("label", "label")
    assert compare([run, by_word], rows, kind="csv", delimiter=";", names=["text", mood]).rows == 2


def test_a_task_that_is_missing_is_named() -> None:
    missing = "task= is missing, so they are to be summarised; there are: summarization, translation, classify"
    with pytest.raises(DataError, match=f"no column 'article'; there are: 'text', 'label'; {missing}"):
        compare([by_word], ROWS)
    with pytest.raises(ConfigError, match=f"no column for 'label'; there is one for: source, target; {missing}"):
        compare([by_word], ROWS, columns={"label": "label"})
    with pytest.raises(DataError, match=r"'label'; say which one it is: columns=\{'source': NAME\}$"):
        compare([by_word], ROWS, columns={"target": "label"})
    with pytest.raises(ConfigError, match="'bag of words' is no model; a baseline needs a run among the systems"):
        compare([by_word, "bag of words"], ROWS, task="classify")


def test_the_nearest_label_is_named() -> None:
    rows = [{"text": "x", "label": "sadness"}, {"text": "y", "label": "joy"}] * 2
    with pytest.raises(DataError, match="gave 'sadnes'; nearest: 'sadness'; it must give one of: joy, sadness"):
        compare({"it": lambda texts: ["sadnes"] * len(texts)}, rows, task="classify")


def test_a_failure_names_its_rows_and_keeps_its_cause() -> None:
    with pytest.raises(DataError, match="raises, for the list: row 0 to the list: row 2") as found:
        compare([raises], ROWS, task="classify", batch=3)
    assert isinstance(found.value.__cause__, ValueError)

    def unsupported(texts: list[str]) -> list[str]:
        raise UnsupportedError("not here")

    with pytest.raises(UnsupportedError, match=r"^not here$"):
        compare([unsupported], ROWS, task="classify")


@pytest.mark.parametrize(
    ("systems", "data", "options", "message"),
    [
        ([by_word], None, {}, r"there are no rows; name folders .* wrote, or give the test data"),
        (
            [by_word],
            None,
            {"limit": 3, "columns": {"a": "b"}},
            r"^columns= and limit=: of systems that predict test data",
        ),
        (
            [lambda x: x, lambda x: x],
            ROWS,
            {"task": "classify"},
            r"two systems are called 'function'; .*\{name: system\}",
        ),
        ([5], ROWS, {"task": "classify"}, "int is 5; a system is a run, a model or a function"),
        ([by_word], ROWS, {"task": "tag"}, "tag is scored as a model of it does; give one among the systems, or a run"),
        ([by_word], ROWS, {"task": "classify", "columns": {"label": "mood"}}, "there is no column 'mood'"),
        ([by_word], [{"text": "a", "label": "a"}], {"task": "classify"}, "there is nothing to tell apart"),
    ],
)
def test_what_cannot_be_compared(systems: Any, data: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(glassformer.GlassformerError, match=message):
        compare(systems, data, **options)


def test_ctrl_c_keeps_the_labels_that_all_have_predicted() -> None:
    calls = itertools.count()

    def slow(texts: list[str]) -> list[str]:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return by_word(texts)

    found = compare({"rule": by_word, "slow": slow}, ROWS, task="classify", batch=5)
    assert found.interrupted and (found.rows, found.total) == (10, 12) and "before Ctrl-C" in found.caption
    assert found.systems[0].rows == 10


def test_memory_does_not_grow_with_texts_that_are_classified(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        path = tmp_path / f"{count}.csv"
        path.write_text("text,label\n" + "".join(f"{'x' * 100_000} {i},{'ab'[i % 2]}\n" for i in range(count)))
        tracemalloc.start()
        compare(always_a, path, task="classify", batch=4)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(8)
    assert peak(200) - peak(20) < 5_000_000  # 180 more texts have 18 million characters


def test_progress_counts_each_system() -> None:
    from contextlib import contextmanager

    done: list[tuple[str, int | None, int]] = []

    @contextmanager
    def bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
        yield lambda more: done.append((what, total, more))

    compare([by_word, always_a], ROWS, task="classify", batch=5, bar=bar)
    assert done == [("evaluating", 24, 10), ("evaluating", 24, 10), ("evaluating", 24, 4)]
