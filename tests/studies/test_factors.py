"""Studies of factors that a function evaluates: a file of two factors gets a full report."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from glassformer.cli.app import main
from glassformer.errors import ConfigError, DataError
from glassformer.reports.charts import Series, TradeOff
from glassformer.reports.page import report_data
from glassformer.reports.table import IntervalCell
from glassformer.studies.cells import Cell, CellResult, changed, scored
from glassformer.studies.report import ReportOptions, StudyReport
from glassformer.studies.study import EVALUATORS, Study, parse_study, register
from glassformer.studies.winners import Winner, best_by_number
from glassformer.tasks.metrics.metric import BootstrapMeans, Interval, differences, intervals
from glassformer.training.callbacks import TrainingStopped
from tests.studies.few_labels import score
from tests.studies.samples import Heard

FILE = """
output: OUTPUT
study:
  evaluate: FUNCTION
  factors:
    method: [prompt, knn, set-fit]
    labels: [8, 16, 32, 64]
  options: {rows: 100}
  report: {against: {method: prompt, labels: 8}, cost: seconds}
"""


def values_of(output: Path, function: str = f"{Path(__file__).with_name('few_labels.py')}:score") -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load(FILE.replace("OUTPUT", str(output)).replace("FUNCTION", function))
    return values


def test_the_baseline_is_the_one_that_is_named(tmp_path: Path) -> None:
    values = values_of(tmp_path / "study")
    usual = parse_study(values).run([0])
    assert {(x.first, x.second) for x in usual.effects} == {("prompt", "knn"), ("prompt", "set-fit")}
    other = parse_study(values, baseline="knn").run([0])  # nothing is evaluated again
    assert {(x.first, x.second) for x in other.effects} == {("knn", "prompt"), ("knn", "set-fit")}
    there, back = ([x for x in each.effects if {x.first, x.second} == {"prompt", "knn"}] for each in (usual, other))
    assert [x.difference.value for x in there] == pytest.approx([-x.difference.value for x in back])
    with pytest.raises(ConfigError, match="baseline is 'kn'; nearest: 'knn'; allowed: prompt, knn, set-fit"):
        parse_study(values, baseline="kn")


def test_a_file_of_two_factors_and_a_function_make_a_full_report(tmp_path: Path) -> None:
    heard = Heard()
    report = parse_study(values_of(tmp_path / "study")).run([0, 1, 2], heard)
    assert len(heard.evaluated) == 36 and heard.evaluated[0] == "prompt, 8 labels, seed 0"
    assert [x.levels for x in report.points][:2] == [{"method": "prompt", "labels": n} for n in (8, 16)]
    assert report.title == "accuracy by method (prompt, knn, set-fit), labels (8, 16, 32, 64)"
    assert (report.metric, report.higher, report.seeds) == ("accuracy", True, [0, 1, 2])

    # the table: a row a combination, with the mean of the seeds, its t-interval, and the costs
    assert report.table.headings == ["method", "labels", "accuracy", "time", "latency, ms"]
    knn = report.table.rows[6]
    assert knn[:2] == ["knn", "32"] and knn[3] == "0:25"
    cells = [x.metrics["accuracy"].value for x in report.cells if x.levels == {"method": "knn", "labels": 32}]
    assert isinstance(knn[2], IntervalCell) and knn[2].value == pytest.approx(np.mean(cells))
    assert knn[2].low is not None and knn[2].low < knn[2].value

    # curves over the numeric factor, with bands, and the line to cross
    curves, trade_off = report.charts()
    assert isinstance(curves, Series) and curves.log_x and curves.x_label == "labels"
    assert [line.name for line in curves.lines] == ["prompt", "knn", "set-fit", "prompt, 8 labels"]
    assert all(list(line.x) == [8, 16, 32, 64] and line.low is not None for line in curves.lines[:3])
    assert report.crossings[0].startswith("With about ") and "labels, knn beats prompt" in report.crossings[0]

    # quality over a cost, with the least and the most of the seeds
    assert isinstance(trade_off, TradeOff) and (trade_off.x.label, trade_off.x.unit, trade_off.x.more) == (
        "time",
        "min",
        False,
    )
    first = trade_off.points[0]
    assert first.name == "prompt, 8 labels" and first.x.value == pytest.approx(91 / 60)
    assert (first.x.low, first.x.high) == (pytest.approx(90 / 60), pytest.approx(92 / 60)) and first.y.low is not None

    # differences to the first method at each number of labels, paired by seed
    assert [(x.second, x.first, x.where) for x in report.effects][:2] == [
        ("knn", "prompt", {"labels": n}) for n in (8, 16)
    ]
    assert len(report.effects) == 8
    far = report.effects[7]
    by_seed = {
        (x.levels["method"], x.seeds[0]): x.metrics["accuracy"].value for x in report.cells if x.levels["labels"] == 64
    }
    assert far.seeds == pytest.approx([by_seed["set-fit", i] - by_seed["prompt", i] for i in range(3)])
    assert far.difference.value == pytest.approx(np.mean(far.seeds)) and far.difference.low is not None
    assert far.sentence.startswith("Replacing prompt by set-fit (64 labels) ")
    assert far.agreement == "3 of 3"

    assert StudyReport.load(tmp_path / "study" / "study.json").to_dict() == report.to_dict()
    assert str(StudyReport.load(tmp_path / "study" / "study.json")) == str(report)
    page = report_data(report)
    assert [chart["type"] for chart in page["charts"]] == ["series", "trade-off"]
    assert page["tables"][-1]["folded"] and len(page["tables"][-1]["rows"]) == 36


def test_one_seed_has_intervals_over_rows_and_differences_of_the_same_rows(tmp_path: Path) -> None:
    easy, hard = np.arange(60) % 3 > 0, np.arange(60) % 5 > 2
    rights = {"small": hard, "large": easy | hard}
    study = Study({"size": ["small", "large"]}, lambda cell: {"accuracy": rights[cell["size"]]}, tmp_path)
    report = study.run()
    means = {name: BootstrapMeans({"accuracy": x.astype(float)}, {}) for name, x in rights.items()}
    for point in report.points:
        assert point.metrics["accuracy"] == intervals(means[str(point.levels["size"])])["accuracy"]
    (effect,) = report.effects
    assert effect.difference == differences(means["large"], means["small"])["accuracy"]
    assert (effect.factor, effect.first, effect.second, effect.where) == ("size", "small", "large", {})
    assert report.finding.startswith("Replacing small by large raises the accuracy") and not list(report.charts())


@pytest.mark.parametrize("least", [0.6, 0.9])
def test_baselines_without_a_curve_are_rows_below_the_others(tmp_path: Path, least: float) -> None:
    """What is left out is named so, and the first sentence says where no combination beats a baseline."""

    def evaluate(cell: Cell) -> CellResult:
        right = np.arange(40) % 4 < (3 if cell["recipe"] == "all parts" else 2)
        baselines = {"most frequent": Interval(0.3, None, None), "bag of words": Interval(least, None, None)}
        return scored({"accuracy": right}, {"seconds": 2.0}, baselines=baselines)

    report = Study({"recipe": ["all parts", "without warm-up"]}, evaluate, tmp_path).run()
    assert report.finding.startswith("Leaving out warm-up lowers the accuracy from 0.750 to 0.500")
    assert report.finding.endswith("No combination beats the baseline bag of words: 0.900.") == (least > 0.75)
    table = report.table
    assert [list(row) for row in table.rows[2:]] == [
        ["most frequent", "0.300", ""],
        ["bag of words", f"{least:.3f}", ""],
    ]
    assert list(table.baselines) == [2, 3]


def test_a_variant_by_size_and_latency(tmp_path: Path) -> None:
    """Two factors of which none is a curve's; a number without rows has no interval; no and yes are levels."""

    def measure(cell: Cell) -> Any:
        smaller = 2.0 if cell["quantised"] else 1.0
        rmse = {"base": 0.3, "tiny": 0.5}[cell["variant"]] * (1.1 if cell["quantised"] else 1)
        return scored({"rmse": rmse}, {"bytes": 80e6 / smaller, "latency": 12.5 / smaller})

    factors = {"variant": ["base", "tiny"], "quantised": [False, True]}
    report = Study(factors, measure, tmp_path, options=ReportOptions(cost="bytes")).run()
    assert not report.higher and report.over is None
    assert report.table.headings == ["variant", "quantised", "rmse", "size, MB", "latency, ms"]
    assert report.table.rows[1] == ["base", "yes", "0.330", "40", "6.25"]
    (chart,) = report.charts()
    assert isinstance(chart, TradeOff) and [x.name for x in chart.points][:2] == [
        "base, no quantised",
        "base, quantised",
    ]
    assert chart.groups == ["base", "tiny"] and chart.points[3].group == "tiny" and chart.points[3].mark == "quantised"
    assert [x.factor for x in report.effects] == ["variant"] * 2 + ["quantised"] * 2 + ["variant + quantised"]
    assert report.effects[0].difference == Interval(pytest.approx(0.2))
    assert report.effects[0].sentence.endswith("its interval is not known.")


def test_a_cell_is_kept_and_a_study_that_was_stopped_continues(tmp_path: Path) -> None:
    calls: list[Any] = []

    def evaluate(cell: Cell) -> Any:
        calls.append(cell["n"])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return scored({"accuracy": np.arange(20) % cell["n"] == 0}, {"seconds": 1.0})

    study = Study({"n": [2, 3, 4, 5]}, evaluate, tmp_path / "study")
    with pytest.raises(KeyboardInterrupt):
        study.run()
    partial = StudyReport.load(tmp_path / "study" / "study.json")
    assert len(partial.points) == 2 and "2 of 4 cells are still to come" in partial.caption
    assert [x.finished for x in study.plan().trainings] == [True, True, False, False]
    assert "to evaluate: 2 cells" in str(study.plan())
    heard = Heard()
    report = study.run(progress=heard)
    assert calls == [2, 3, 4, 4, 5] and heard.told == [f"4 cells of {evaluate.__qualname__} (2 finished before)"]
    assert study.run().to_dict() == report.to_dict() and len(calls) == 5
    wider = Study({"n": [2, 3, 4, 5]}, evaluate, tmp_path / "study", settings={"rows": 9})
    cells = wider.plan().trainings
    assert {x.otherwise for x in cells} == {"options.rows was left out, is now 9"} and not cells[0].finished
    assert "was evaluated otherwise: options.rows was left out, is now 9" in str(wider.plan())
    assert "choose another output" in str(wider.plan()) and "finished" not in str(wider.plan())
    with pytest.raises(
        ConfigError, match=r"was evaluated otherwise: options.rows was left out, is now 9; choose another"
    ):
        wider.run()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "Expecting property name"),
        ('{"scores": 3, "made_of": MADE}', "scores is 3"),
        ('{"scores": {}, "score": {}, "made_of": MADE}', "'score' is no option"),
    ],
)
def test_a_damaged_result_is_named(tmp_path: Path, text: str, problem: str) -> None:
    study = Study({"n": [2]}, lambda cell: {"accuracy": 0.5}, tmp_path, name="half")
    study.run()
    path = tmp_path / "2-n" / "seed-0" / "cell.json"
    path.write_text(text.replace("MADE", json.dumps(json.loads(path.read_text())["made_of"])))
    with pytest.raises(DataError, match=rf"cell\.json.*{problem}"):
        study.run()


def test_numbers_that_are_none_are_said_and_not_drawn(tmp_path: Path) -> None:
    """A correlation of constant predictions, as the metrics of a task give it."""
    values = {8: math.nan, 16: 0.7, 32: 0.8}

    def measure(cell: Cell) -> Any:
        return BootstrapMeans({"r": np.full(3, values[cell["labels"]])}, {})

    report = Study({"labels": [8, 16, 32]}, measure, tmp_path).run()
    assert report.table.rows[0][1].startswith("nan")
    assert "NaN" not in (tmp_path / "study.json").read_text()
    again = Study({"labels": [8, 16, 32]}, lambda cell: {}, tmp_path, name="<lambda>")
    with pytest.raises(ConfigError, match="was evaluated otherwise: evaluate was"):
        again.run()


def test_a_curve_that_begins_at_zero_or_below_crosses_a_line_too(tmp_path: Path) -> None:
    """No label at all is a level; there is no logarithm of it."""
    values = {-4: 0.1, 0: 0.2, 8: 0.6, 16: 0.8}

    def measure(cell: Cell) -> Any:
        return {"accuracy": values[cell["labels"]] if cell["method"] == "knn" else 0.4}

    factors = {"method": ["prompt", "knn"], "labels": [-4, 0, 8, 16]}
    options = ReportOptions(against={"method": "prompt", "labels": -4})
    report = Study(factors, measure, tmp_path, options=options).run()
    assert report.crossings[0].startswith("With about 4 labels, knn beats prompt, labels -4: with 0 not yet, with 8")
    (chart,) = report.charts()
    assert isinstance(chart, Series) and not chart.log_x
    values[0], values[-4] = 0.6, 0.2
    again = Study(factors, measure, tmp_path / "again", options=options).run()
    assert again.crossings[0].startswith("With about -2 labels, knn beats prompt")


# ------------------------------------------------------------------------------------------------ files and names


def test_a_function_has_a_name_a_module_or_a_file(tmp_path: Path) -> None:
    register("few labels", score)
    try:
        for name in ("few labels", "tests.studies.few_labels:score"):
            study = parse_study(values_of(tmp_path, name), folder="elsewhere")
            cell = study.evaluator.cells(None)[1]
            assert (cell["method"], cell["labels"], cell.seed) == ("prompt", 16, 0)
            assert cell.options == {"rows": 100, "data": "elsewhere"}
            assert cell.folder == tmp_path / "prompt-16-labels" / "seed-0"
    finally:
        del EVALUATORS["few labels"]


def test_a_file_may_have_dataclasses_and_its_errors_are_told(tmp_path: Path) -> None:
    """A dataclass whose annotations are texts looks for its module among those that are imported."""
    path = tmp_path / "few.py"
    path.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Right:\n    share: float\n"
        "def score(cell):\n    return {'accuracy': Right(0.25).share}\n"
    )
    report = parse_study(values_of(tmp_path / "runs", f"{path}:score")).run()
    assert {cell.metrics["accuracy"].value for cell in report.cells} == {0.25}
    for text, problem in (("def score(cell:", "was never closed"), ("1 / 0", "division by zero")):
        path.write_text(text)
        with pytest.raises(ConfigError, match=f"cannot be imported: .*{problem}"):
            parse_study(values_of(tmp_path, f"{path}:score"))


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"evaluate": "score"}, "it must be module:function, or file.py:function; registered: none"),
        ({"evaluate": "few.py:score"}, "cannot be imported: .*few.py"),
        ({"evaluate": "no_such:score"}, "cannot be imported: No module named 'no_such'"),
        ({"evaluate": "tests.studies.few_labels:scores"}, "has no function 'scores'; nearest: 'score'"),
        ({"factors": {}}, "names no factor"),
        ({"factors": {"labels": []}}, r"study.factors.labels is \[\]"),
        ({"factors": {"labels": [8, 8]}}, "levels, each once"),
        ({"factors": {"labels": [None]}}, "study.factors.labels.0. is None"),
        ({"report": {"over": "method"}}, "study.report.over is 'method'; allowed: labels"),
        ({"report": {"against": {"methods": "knn"}}}, "study.report.against is 'methods'; nearest: 'method'"),
        ({"report": {"at": {"method": "knm"}}}, "study.report.at.method is 'knm'; nearest: 'knn'"),
        ({"report": {"intervals": "cells"}}, "intervals is 'cells'; allowed: seeds, rows"),
        ({"option": {}}, "'option' is no option; nearest: 'options'"),
        (
            {"factors": {"method": ["prompt", None]}},
            r"method\[1\] is None; it must be a text, a number, or true",
        ),
        ({"report": {"at": {"method": None}}}, "at.method is None; it must be a text, a number, or true or false"),
    ],
)
def test_a_file_that_cannot_be_is_refused(tmp_path: Path, changed: dict[str, Any], problem: str) -> None:
    values = values_of(tmp_path)
    values["study"] |= changed
    with pytest.raises(ConfigError, match=problem):
        parse_study(values)


def test_keys_of_a_training_are_refused_where_a_function_evaluates(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'task' is no key of a study whose cells a function evaluates"):
        parse_study({**values_of(tmp_path), "task": "classify"})
    with pytest.raises(ConfigError, match=r"would have one folder, .*a-b.*: rename one of 'a/b' and 'a-b'"):
        Study({"model": ["a/b", "a-b"]}, score, tmp_path).run()


def test_what_a_function_must_give(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"half gave 0\.5 for 8 labels, seed 0; it must give metrics"):
        Study({"labels": [8]}, lambda cell: 0.5, tmp_path, name="half").run()
    options = ReportOptions(metric="f1", more=["accuracy"])
    with pytest.raises(ConfigError, match=r"names the metric 'f1'.*8 labels, seed 0 has: accuracy"):
        Study({"labels": [8]}, lambda cell: {"accuracy": 0.5}, tmp_path, options=options).run()


NUMBER = r"it must be a finite number"
LIST = r"it must be a number for each row, or one"


@pytest.mark.parametrize(
    ("metrics", "costs", "problem"),
    [
        ({"accuracy": [math.nan] * 10}, {}, rf"the metric 'accuracy' is nan for 10 rows of 10; {NUMBER}"),
        ({"accuracy": [1.0, math.inf]}, {}, rf"the metric 'accuracy' is inf for 1 row of 2; {NUMBER}"),
        ({"accuracy": -math.inf}, {}, rf"the metric 'accuracy' is -inf; {NUMBER}"),
        ({"accuracy": None}, {}, rf"the metric 'accuracy' is nan; {NUMBER}"),
        ({"accuracy": ["a"]}, {}, rf"the metric 'accuracy' is \['a'\]; {LIST}"),
        ({"accuracy": "0.5"}, {}, rf"the metric 'accuracy' is '0.5'; {LIST}"),
        ({"accuracy": []}, {}, rf"the metric 'accuracy' is \[\]; {LIST}"),
        ({"accuracy": [[1, 0], [1, 1]]}, {}, rf".*{LIST}"),
        ({"accuracy": [[1, 0], [1]]}, {}, rf".*{LIST}"),
        ({"accuracy": 0.5}, {"seconds": math.nan}, r"the cost 'seconds' is nan; it must be a number from 0 up"),
        ({"accuracy": 0.5}, {"seconds": math.inf}, r"the cost 'seconds' is inf; it must be a number from 0 up"),
        ({"accuracy": 0.5}, {"bytes": -1}, r"the cost 'bytes' is -1; it must be a number from 0 up"),
        ({"accuracy": 0.5}, {"seconds": "three"}, r"the cost 'seconds' is 'three'; it must be a number from 0 up"),
    ],
)
def test_a_metric_or_cost_that_is_no_number_is_named_with_its_cell(
    tmp_path: Path, metrics: Any, costs: Any, problem: str
) -> None:
    study = Study({"labels": [8]}, lambda cell: scored(metrics, costs), tmp_path, name="few.py:score")
    with pytest.raises(
        (ConfigError, DataError), match=rf"few\.py:score \(test_factors\.py:\d+\), for 8 labels, seed 0: {problem}"
    ):
        study.run()
    assert not (tmp_path / "8-labels" / "seed-0" / "cell.json").exists()


def test_numbers_of_other_libraries_are_numbers() -> None:
    import torch

    result = scored({"accuracy": torch.tensor([1.0, 0.0])}, {"seconds": np.float32(2), "bytes": torch.tensor(3)})
    assert result.scores["accuracy"].value == 0.5 and result.costs == {"seconds": 2.0, "bytes": 3.0}


def test_an_error_of_the_function_is_a_sentence_with_its_line_and_its_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, config = tmp_path / "few.py", tmp_path / "study.yaml"
    values = values_of(tmp_path / "runs", f"{path}:score")
    config.write_text(yaml.safe_dump(values, sort_keys=False))
    name = f"{path}:score (few.py:%d), for prompt, 8 labels, seed 0: "
    path.write_text("def score(cell):\n    return half(cell)\ndef half(cell):\n    return 1 / 0\n")
    with pytest.raises(SystemExit, match="2"):
        main(["study", str(config)])
    said = " ".join(capsys.readouterr().err.split())
    assert f"{name % 4}ZeroDivisionError: division by zero" in said and "bug" not in said
    path.write_text("def score(cell):\n    return cell['size']\n")
    with pytest.raises(DataError) as told:
        parse_study(values).run()
    assert str(told.value) == f"{name % 2}the cell has no factor 'size'; it has: method, labels"
    caught = "    try:\n        return cell['size']\n    except KeyError:\n        return {'a': 1}\n"
    path.write_text(f"def score(cell):\n{caught}")
    assert parse_study(values).run().metric == "a"
    path.write_text("def score():\n    pass\n")
    values["output"] = str(tmp_path / "again")
    with pytest.raises(DataError, match=r"few\.py:score, for prompt, 8 labels, seed 0: TypeError: score\(\) takes 0"):
        parse_study(values).run()


def test_a_training_of_the_function_that_was_stopped_is_no_error_of_it(tmp_path: Path) -> None:
    def train(cell: Cell) -> Any:
        raise TrainingStopped("stopped after step 3")

    with pytest.raises(TrainingStopped, match=r"^stopped after step 3$"):
        Study({"n": [1]}, train, tmp_path).run()


def test_cells_of_other_metrics_or_other_numbers_of_rows_are_named(tmp_path: Path) -> None:
    def other_names(cell: Cell) -> Any:
        return {"accuracy": 0.5} if cell["method"] == "prompt" else {"f1": 0.5, "recall": 0.1}

    factors = {"method": ["prompt", "knn"], "labels": [8, 16]}
    message = "prompt, 8 labels, seed 0 has the metrics accuracy, and knn, 8 labels, seed 0 has f1, recall; all cells"
    for _ in range(2):  # it is not kept
        with pytest.raises(ConfigError, match=message):
            Study(factors, other_names, tmp_path / "names", name="names").run()

    def other_rows(cell: Cell) -> Any:
        return {"accuracy": [1, 0] * (5 if cell["method"] == "prompt" else 4)}

    message = "accuracy of prompt, 8 labels, seed 0 is of 10 rows, that of knn, 8 labels, seed 0 of 8; .*remove the"
    with pytest.raises(DataError, match=message):
        Study(factors, other_rows, tmp_path / "rows").run()

    # What is not compared may be of other rows: sizes of a curve, and rows that the function says are others.
    options = ReportOptions(compare=[])
    sizes = Study({"labels": [8, 16]}, lambda cell: {"a": [0.5] * cell["labels"]}, tmp_path / "sizes", options=options)
    assert len(sizes.run().points) == 2
    named = Study(
        {"method": ["prompt", "knn"]},
        lambda cell: scored(other_rows(cell), rows=cell["method"]),
        tmp_path / "named",
    )
    assert named.run().effects == []


def test_what_is_better_is_said_by_the_paired_difference(tmp_path: Path) -> None:
    """The intervals of two systems overlap, while one is right wherever the other is, and on four rows more."""
    base, more = np.arange(60) % 2 == 0, np.arange(60) % 8 == 1

    def measure(cell: Cell) -> Any:
        return {"accuracy": base | more if cell["method"] == "knn" else base}

    factors = {"method": ["prompt", "knn"], "labels": [8, 16]}
    options = ReportOptions(against={"method": "prompt", "labels": 8})
    report = Study(factors, measure, tmp_path / "better", options=options).run()
    low, high = report.points[0].metrics["accuracy"], report.points[2].metrics["accuracy"]
    assert low.overlaps(high) and report.effects[0].difference.leaves_out_zero
    assert report.points[2].beyond == report.effects[0].difference and report.points[0].beyond is None
    assert report.finding == "Already with 8 labels, the fewest tried, knn beats prompt, 8 labels."
    more = np.arange(60) == 1
    chance = Study(factors, measure, tmp_path / "chance", options=options).run()
    assert not chance.effects[0].difference.leaves_out_zero
    assert chance.finding.endswith("knn beats prompt, 8 labels by its value (zero is within the paired interval).")


def test_the_line_to_cross_is_one_combination(tmp_path: Path) -> None:
    values = values_of(tmp_path)
    values["study"]["report"] = {"against": {"method": "prompt"}}
    message = r"against is {'method': 'prompt'}; it leaves out labels: name one level, such as {.*'labels': 8}"
    for act in (lambda study: study.run(), lambda study: study.plan()):
        with pytest.raises(ConfigError, match=message):
            act(parse_study(values))
    assert not list(tmp_path.glob("*/seed-0"))
    of_tests = {"method": ["prompt", "knn"], "test": ["a", "b"]}
    options = ReportOptions(against={"method": "prompt"}, columns="test")
    assert Study(of_tests, lambda cell: {"accuracy": 0.5}, tmp_path / "tests", options=options).plan()


def test_a_cost_that_no_cell_has_is_said_with_the_nearest(tmp_path: Path) -> None:
    values = values_of(tmp_path)
    values["study"]["report"]["cost"] = "secnds"
    report = parse_study(values).run()
    assert "study.report.cost is 'secnds'; nearest: 'seconds'; the cells have: seconds, latency" in report.remarks()
    values["study"]["report"]["cost"] = "seconds"
    assert not parse_study(values).run().unknown_cost


def test_a_misspelt_evaluate_lists_the_options_of_both_kinds(tmp_path: Path) -> None:
    values = values_of(tmp_path)
    values["study"]["evalute"] = values["study"].pop("evaluate")
    both = "of cells that a function evaluates: evaluate, factors, .*; of trainings: train, test_sets"
    with pytest.raises(ConfigError, match=f"'evalute' is no option; nearest: 'evaluate'; {both}"):
        parse_study(values)
    del values["study"]["evalute"]
    with pytest.raises(ConfigError, match=f"study.options is for a function, which study.evaluate does not.*{both}"):
        parse_study(values)


def test_the_first_setting_that_differs_is_named_by_its_path() -> None:
    before = {"training": {"learning_rate": 1e-4, "epochs": 3}, "rows": "a"}
    assert changed(before, {**before, "training": {"learning_rate": 2e-4, "epochs": 3}}) == (
        "training.learning_rate was 0.0001, is now 0.0002"
    )
    assert changed({"options": {"k": 5}}, {"options": {}}) == "options.k was 5, is now left out"
    assert changed({"options": {"sizes": [1, 2]}}, {"options": {"sizes": (1, 2)}}) == ""


def test_ctrl_c_says_that_the_same_command_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, config = tmp_path / "few.py", tmp_path / "study.yaml"
    path.write_text("def score(cell):\n    raise KeyboardInterrupt\n")
    config.write_text(yaml.safe_dump(values_of(tmp_path / "study", f"{path}:score")))
    with pytest.raises((SystemExit, KeyboardInterrupt)):
        main(["study", str(config), "--quiet"])
    assert "stopped; the same command continues" in capsys.readouterr().err


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "study.yaml"
    config.write_text(yaml.safe_dump(values_of(tmp_path / "study"), sort_keys=False))

    def typed(*words: object) -> tuple[str, str]:
        with pytest.raises(SystemExit, match="0"):
            main(["study", str(config), *map(str, words)])
        return capsys.readouterr()

    out, _ = typed("--plan")
    assert "set-fit, 64 labels" in out and "to evaluate: 12 cells" in out and not (tmp_path / "study").exists()
    out, err = typed("--seeds", "0,1", "--html", tmp_path / "page.html")
    assert "evaluating knn, 16 labels, seed 1" in err and "knn instead of prompt" in out
    assert (tmp_path / "page.html").read_text() == (tmp_path / "study" / "study.html").read_text()
    assert json.loads(typed("--seeds", "0,1", "--json")[0])["planned"] == 24


def test_cells_of_other_code_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "few.py"
    code = "def score(cell):\n    return {'accuracy': [1, 0, %s]}\n"
    path.write_text(code % 1)
    values = {"study": {"evaluate": f"{path}:score", "factors": {"n": [2]}}, "output": str(tmp_path / "study")}
    parse_study(values).run()
    path.write_text("# a comment decides about no result\n" + code % 1)
    assert parse_study(values).plan().trainings[0].finished
    path.write_text(code % 0)
    other = r"code was 'few\.py, sha256 [0-9a-f]{12}', is now 'few\.py, sha256 [0-9a-f]{12}'"
    with pytest.raises(ConfigError, match=rf"was evaluated otherwise: {other}; choose another output, or remove"):
        parse_study(values).run()
    assert "was evaluated otherwise: code was" in str(parse_study(values).plan())


def test_points_have_the_colours_of_their_curves_where_some_have_none(tmp_path: Path) -> None:
    """The model before training is first among the levels, and has no number of rows."""

    def evaluate(cell: Cell) -> Any:
        return scored({"accuracy": [1, 0, 1]}, {"seconds": 1.0})

    report = Study({"method": ["zero", "a", "b"], "rows": [8, 16]}, evaluate, tmp_path).run()
    points = [
        replace(x, levels={**x.levels, "rows": None}) if x.levels["method"] == "zero" else x for x in report.points
    ]
    report = replace(report, points=points[1:], options=ReportOptions(cost="seconds"))
    curves, trade_off = report.charts()
    assert isinstance(curves, Series) and isinstance(trade_off, TradeOff)
    assert [line.group for line in curves.lines] == ["a", "b", "zero"] and curves.lines[-1].dashed
    assert list(curves.lines[-1].x) == [8, 16] and curves.lines[-1].y[0] == curves.lines[-1].y[1]
    assert list(trade_off.groups) == ["a", "b", "zero"]
    assert [(x.name, x.group, x.mark) for x in trade_off.points][:2] == [
        ("zero", "zero", ""),
        ("a, 8 rows", "a", "8 rows"),
    ]


def test_intervals_over_rows_and_seeds_resample_both(tmp_path: Path) -> None:
    """Seeds that differ widen the interval beyond that of the rows; equal seeds leave it as it is."""

    def evaluate(cell: Cell) -> Any:
        draw = np.random.default_rng(0).random(200)
        shift = 0.2 * (cell.seed - 1) if cell["method"] == "moody" else 0.0
        return scored({"accuracy": draw < 0.5 + shift}, {"seconds": 1.0})

    def width(intervals: Any, method: str) -> float:
        options = ReportOptions(intervals=intervals)
        report = Study({"method": ["calm", "moody"]}, evaluate, tmp_path, seeds=[0, 1, 2], options=options).run()
        own = next(x.metrics["accuracy"] for x in report.points if x.levels["method"] == method)
        assert own.low is not None and own.high is not None
        return own.high - own.low

    assert width("both", "calm") == pytest.approx(width("rows", "calm"))
    assert width("both", "moody") > 1.5 * width("rows", "moody")


def test_the_winner_of_each_number_is_named_with_those_that_may_be_as_good(tmp_path: Path) -> None:
    right = {("a", 8): 0.5, ("b", 8): 0.52, ("c", 8): 0.2, ("a", 16): 0.9, ("b", 16): 0.5, ("c", 16): 0.2}

    def evaluate(cell: Cell) -> Any:
        draw = np.random.default_rng(len(cell["method"]) + ord(cell["method"][0])).random(300)
        return scored({"accuracy": draw < right[cell["method"], cell["labels"]]})

    options = ReportOptions(winners=True)
    factors = {"method": ["c", "a", "b"], "labels": [8, 16]}
    report = Study(factors, evaluate, tmp_path, options=options).run()
    first, second = report.winners
    assert {first.name, *first.equal} == {"a", "b"} and (second.name, second.equal) == ("a", [])
    assert report.finding == f"{best_by_number(report.winners)} {second.sentence}"
    pairs = [(x.first, x.second, x.where["labels"]) for x in report.effects]
    assert pairs.count(("b", "a", 16)) == 1, "the best and the second"
    assert len(pairs) == len({*pairs})
    winners = [
        Winner(over="labels", number=number, name=name, value=value, equal=equal)
        for number, name, value, equal in ((8, "a", 0.5, ["b"]), (16, "a", 0.9, []), (32, "c", 0.95, ["a"]))
    ]
    assert best_by_number(winners) == (
        "Best: a with 8 and 16 labels (0.900, with 16 beyond chance); c with 32 labels (0.950, others may equal it)."
    )
    assert "not distinguishable from it:" in report.sentences[0]


def test_a_terminal_shows_as_many_differences_as_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    study = StudyReport.load(Path(__file__).parents[2] / "docs/results/studies/transfer.json")
    assert len(study.tables()[-1].rows) == len(study.front) == 6
    monkeypatch.setattr("glassformer.studies.report.MAX_DIFFERENCES", 3)
    few = study.tables()[-1]
    assert few.caption.endswith(": 3 of 6, evaluated on fr, the largest first; the page and the JSON have all")
    assert few.rows[0][0] == "trained on de+fr instead of trained on de" and len(few.rows) == 3
    assert len(study.page_tables()[1].rows) == len(study.effects) == 24
    at = replace(study, options=replace(study.options, at={"rows of fr": 250, "evaluated on": "fr"}))
    assert [row[1] for row in at.tables()[-1].rows] == ["250 rows of fr, evaluated on fr"]
    assert "1 of 6, 250 rows of fr, evaluated on fr" in at.tables()[-1].caption
