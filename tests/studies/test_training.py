"""A study: what is trained on what, the table and the curve, and that the same command goes on."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from glassformer.cli.app import main
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.files.schema import parse
from glassformer.reports.charts import Series
from glassformer.reports.page import report_data
from glassformer.runs.data import sample_rows
from glassformer.studies.cells import label_of
from glassformer.studies.plan import StudyPlan
from glassformer.studies.report import ReportOptions, StudyPoint, StudyReport, crossing_point
from glassformer.studies.study import parse_study
from glassformer.studies.summary import mean_over_seeds
from glassformer.studies.training import TrainingEvaluator
from glassformer.tasks.metrics.metric import Interval
from tests.studies.samples import Heard, sizes_values


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    return sizes_values(tmp_path)


def evaluator_of(values: dict[str, Any]) -> TrainingEvaluator:
    evaluator = parse_study(values).evaluator
    assert isinstance(evaluator, TrainingEvaluator)
    return evaluator


def test_a_study_from_plan_to_page(values: dict[str, Any], tmp_path: Path) -> None:
    study, heard = parse_study(values), Heard()
    planned = study.plan().trainings
    assert [each.name for each in planned] == ["far", "near-4", "near-12", "both", "then-4"]
    assert [each.counts["examples"] for each in planned] == [20, 4, 12, 32, 4]
    assert [each.counts["steps"] for each in planned] == [3, 2, 2, 4, 2], "few rows take at least 2 steps"
    found = study.run(progress=heard)
    assert heard.told == ["5 trainings; each is evaluated on 20 rows of new, old"]
    assert heard.trained[0] == "1/5 far, seed 0" and len(heard.trained) == 5 and len(heard.evaluated) == 10
    assert [x.costs["rows"].value for x in found.cells] == [20, 20, 4, 4, 12, 12, 32, 32, 4, 4]
    assert [x.costs["steps"].value for x in found.cells][::2] == [3, 2, 2, 4, 2]
    assert all({"seconds", "tokens"} <= x.costs.keys() for x in found.cells)
    headings, rows = found.table.headings, found.table.rows
    assert headings == ["trained on", "rows of near", "new", "old", "rows", "steps", "tokens", "time"]
    sizes = [("far", ""), ("near", "4"), ("near", "12"), ("both", "12"), ("then", "4")]
    assert [tuple(row[:2]) for row in rows] == sizes
    assert {line.name: list(line.x) for line in found.lines} == {
        "trained on near": [4, 12],
        "trained on both": [12],
        "trained on then": [4],
    }
    assert len(found.crossings) == 1 and "rows of near" in found.crossings[0]
    where = {(x.second, label_of(x.where)) for x in found.effects}
    assert ("trained on near", "12 rows of near, evaluated on new") in where and len(where) == 8, (
        "each set with the first, on the same rows"
    )

    place = tmp_path / "study"
    kept = json.loads((place / "study.json").read_text())
    assert kept["table"]["headings"] == headings and len(kept["cells"]) == 10
    assert kept["facts"]["test_sets"]["new"] == {"files": ["test.csv"], "rows": 10}
    assert (place / "near-4" / "seed-0" / "model" / "config.json").is_file()
    assert not (place / "near-4" / "seed-0" / "checkpoints").exists()
    report = json.loads((place / "both" / "seed-0" / "evaluation" / "new" / "report.json").read_text())
    both = next(x for x in found.points if x.has({"trained on": "both", "evaluated on": "new"}))
    assert report["metrics"][found.metric]["value"] == both.metrics[found.metric].value
    begun = yaml.safe_load((place / "then-4" / "seed-0" / "config.yaml").read_text())
    assert begun["model"] == str(place / "far" / "seed-0" / "model")


def test_what_is_finished_is_kept_and_what_is_not_goes_on(values: dict[str, Any]) -> None:
    class Enough(Heard):
        def training(self, number: int, count: int, what: str) -> None:
            if number == 3:
                raise KeyboardInterrupt
            super().training(number, count, what)

    with pytest.raises(KeyboardInterrupt):
        parse_study(values).run(progress=Enough())
    heard = Heard()
    found = parse_study(values).run(progress=heard)
    assert heard.told == ["5 trainings (2 finished before); each is evaluated on 20 rows of new, old"]
    assert heard.trained == ["3/5 near-12, seed 0", "4/5 both, seed 0", "5/5 then-4, seed 0"]
    assert len(heard.evaluated) == 6

    values["study"]["train"]["more"] = {"files": ["far.csv", "near.csv"]}
    del values["study"]["test_sets"]["old"]
    again = Heard()
    more = parse_study(values).run(progress=again)
    assert again.trained == ["6/6 more, seed 0"] and again.evaluated == ["more on 10 rows of new"], "only what is new"
    same = {"trained on": "near", "rows of near": 4, "evaluated on": "new"}
    before, after = (next(x.metrics for x in each.points if x.has(same)) for each in (found, more))
    assert before == after

    values["training"]["learning_rate"] = 1e-4
    difference = "training.learning_rate was 0.001, is now 0.0001"
    planned = parse_study(values).plan()
    assert [x.otherwise for x in planned.trainings] == [difference] * 6
    assert f"was trained otherwise: {difference}" in str(planned)
    with pytest.raises(ConfigError, match=f"trained otherwise: {difference};"):
        parse_study(values).run()


def test_an_evaluation_of_other_rows_or_weights_is_made_again(values: dict[str, Any], tmp_path: Path) -> None:
    values["study"]["train"] = {"far": {"files": "far.csv"}}
    values["study"]["report"] = {}
    parse_study(values).run()
    values["study"]["limit"] = 9
    heard = Heard()
    parse_study(values).run(progress=heard)
    assert not heard.trained and heard.evaluated == ["far on 9 rows of new", "far on 9 rows of old"]
    finished = tmp_path / "study" / "far" / "seed-0" / "finished.json"
    finished.write_text(json.dumps({**json.loads(finished.read_text()), "weights": "others"}))
    again = Heard()
    parse_study(values).run(progress=again)
    assert again.evaluated == heard.evaluated
    finished.write_text("{")
    with pytest.raises(DataError, match=r"finished\.json"):
        parse_study(values).run()


def test_a_metric_that_there_is_not_is_named_with_those_that_there_are(values: dict[str, Any]) -> None:
    values["study"] |= {"train": {"far": {"files": "far.csv"}}, "report": {"metric": "f1_macr"}}
    with pytest.raises(ConfigError, match=r"names the metric 'f1_macr'; nearest: 'f1_macro'.* has: .*accuracy"):
        parse_study(values).run()


def test_settings_are_factors(values: dict[str, Any], tmp_path: Path) -> None:
    """A key of the configuration with its values; and levels of several keys."""
    values["study"]["train"] = {"far": {"files": "far.csv"}}
    values["study"] |= {"latency": True, "report": {"at": {"evaluated on": "new"}, "cost": "latency"}}
    method = {"full": {}, "lora": {"adapter": {"rank": 2}, "training": {"epochs": 2}}}
    values["study"]["factors"] = {"training.learning_rate": [1e-3, 1e-2], "method": method}
    study = parse_study(values)
    runs = evaluator_of(values).runs()
    assert [run.name for run in runs][:2] == [
        "far, training.learning_rate 0.001, full",
        "far, training.learning_rate 0.001, lora",
    ]
    assert [(x.config.training.learning_rate, x.config.training.epochs, x.config.adapter is None) for x in runs] == [
        (1e-3, 1, True), (1e-3, 2, False), (1e-2, 1, True), (1e-2, 2, False),
    ]  # fmt: skip
    assert runs[3].folder == tmp_path / "study" / "far-training.learning_rate-0.01-lora" / "seed-0"
    report = study.run()
    assert report.table.headings[:4] == ["training.learning_rate", "method", "new", "old"]
    assert {"latency", "bytes", "parameters"} <= report.cells[0].costs.keys()
    assert len(list(report.charts())) == 3, "a curve over the learning rate on each test set, and a trade-off"
    values["study"]["factors"] = {"training.learning_rat": [1e-3]}
    with pytest.raises(ConfigError, match="'learning_rat' is no option; nearest: 'learning_rate'"):
        evaluator_of(values).runs()


def test_several_seeds_and_what_has_baselines(values: dict[str, Any]) -> None:
    values["study"]["train"] = {"near": {"files": "near.csv", "rows": [4]}}
    values["study"].pop("report")
    values["study"]["baselines"] = True
    found = parse_study(values).run([0, 1])
    assert found.seeds == [0, 1] and "t-intervals" in found.caption
    each = [x.metrics[found.metric].value for x in found.cells if x.has({"evaluated on": "new"})]
    assert found.points[0].metrics[found.metric].value == pytest.approx(np.mean(each))
    assert all(x.baselines for x in found.cells) and {x.levels["evaluated on"] for x in found.cells} == {"new", "old"}


def test_leaks_are_left_out_and_labels_are_those_of_all(values: dict[str, Any]) -> None:
    values["data"]["without_leaks"] = True
    values["study"]["test_sets"] = {"new": "test.csv"}
    del values["study"]["limit"]
    evaluator = evaluator_of(values)
    known = {row["text"] for row in evaluator.training_rows}
    assert 0 < len(evaluator.test_rows["new"]) < 16
    assert not known & {row["text"] for row in evaluator.test_rows["new"]}
    assert all(set(run.config.overrides["label2id"]) == {"a", "b"} for run in evaluator.runs())


@pytest.mark.parametrize(
    "place, value, message",
    [
        ("train", {}, "at least one set"),
        ("train", {"far": {}}, "give either files, or of"),
        ("train", {"far": {"files": "far.csv", "rows": 0}}, "whole numbers from 1 up"),
        ("train", {"far": {"files": "far.csv", "row": 3}}, "'row' is no option; nearest: 'rows'"),
        ("train", {"../far": {"files": "far.csv"}}, "is no name for a set"),
        ("train", {"both": {"of": ["near"]}}, "names 'near'; sets that are before it: none"),
        (
            "train",
            {"a": {"files": "a", "rows": [1]}, "b": {"files": "b", "begin": "a"}},
            "which is several models",
        ),
        ("train", {"a": {"files": "a", "rows": [1]}, "a-1": {"files": "b"}}, "would be called a-1"),
        ("train", {"a": {"files": "a"}, "b": {"of": ["a"], "rows": [1]}}, "none of a grows"),
        ("test_sets", {}, "at least one under `test_sets`"),
        ("report", {"over": "rows of far"}, "report.over is 'rows of far'; nearest: 'rows of near'"),
        ("report", {"at": {"evaluated on": "none"}}, "report.at.evaluated on is 'none'"),
        ("pretrained", True, "no model before the training of one from scratch"),
        ("factors", {"model": []}, "study.factors.model has no level"),
        ("limit", 0, "limit is 0"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(values: dict[str, Any], place: str, value: Any, message: str) -> None:
    values["study"].pop("report")
    values["study"][place] = value
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        parse_study(values)


def test_what_is_wrong_is_said_before_anything_is_trained(values: dict[str, Any], tmp_path: Path) -> None:
    heard = Heard()
    with pytest.raises(ConfigError, match="which rows, and how many"):
        parse_study({**values, "data": {"train": "near.csv"}})
    (tmp_path / "test.csv").write_text("text,label\ntime,c\n")
    with pytest.raises(DataError, match=r"test\.csv"):
        parse_study(values).run(progress=heard)
    assert not (tmp_path / "study" / "far" / "seed-0" / "model").exists()
    (tmp_path / "test.csv").unlink()
    with pytest.raises(DataError, match=r"test\.csv"):
        parse_study(values).run(progress=heard)


def test_more_rows_than_there_are(values: dict[str, Any]) -> None:
    values["study"]["train"]["near"]["rows"] = [4, 400]
    heard = Heard()
    with pytest.raises(DataError, match="400 rows cannot be sampled from 24"):
        parse_study(values).run(progress=heard)
    assert not heard.trained


# ------------------------------------------------------------------------------------------------ results


def test_where_a_curve_crosses_a_level() -> None:
    grows = {100: 0.2, 400: 0.4, 1600: 0.6}
    assert crossing_point(grows, 0.5, True) == pytest.approx(800), "half way between on a logarithmic axis"
    assert crossing_point(grows, 0.1, True) == 100 and crossing_point(grows, 0.7, True) is None
    assert crossing_point({n: -x for n, x in grows.items()}, -0.5, False) == pytest.approx(800)
    assert crossing_point({100: 0.6, 400: 0.4, 1600: 0.6}, 0.5, True) == pytest.approx(800), "for good"
    assert crossing_point({100: 0.6, 400: 0.4}, 0.5, True) is None


def test_the_mean_over_seeds_has_a_t_interval() -> None:
    from scipy.stats import t

    values = [0.5, 0.6, 0.55]
    low, high = t.interval(0.95, 2, loc=np.mean(values), scale=np.std(values, ddof=1) / 3**0.5)
    found = mean_over_seeds([Interval(x) for x in values])
    assert (found.value, found.low, found.high) == pytest.approx((0.55, low, high))
    assert mean_over_seeds([Interval(0.5, 0.4, 0.6)]) == Interval(0.5, 0.4, 0.6)


def found_of(figures: dict[int, float], level: float) -> StudyReport:
    """A curve, and the horizontal line that it may cross."""
    values: list[tuple[str, int | None, float]] = [("de", None, level), *(("fr", n, x) for n, x in figures.items())]
    points = [
        StudyPoint(
            levels={"trained on": of, "rows of fr": n, "evaluated on": "<fr>"}, seeds=[0],
            metrics={"f1": Interval(x, x - 0.1, x + 0.1)},
        )
        for of, n, x in values
    ]  # fmt: skip
    options = ReportOptions(columns="evaluated on", against={"trained on": "de"})
    factors = {"trained on": ["de", "fr"], "rows of fr": [*figures], "evaluated on": ["<fr>"]}
    return StudyReport(
        factors=factors, metric="f1", higher=True, methods={}, options=options, planned=9, cells=points, points=points,
        effects=[],
    )  # type: ignore[arg-type] # fmt: skip


@pytest.mark.parametrize(
    "figures, words",
    [
        (
            {250: 0.3, 1000: 0.7},
            "With about 500 rows of fr, trained on fr beats trained on de, evaluated on <fr>: with 250 not yet",
        ),
        ({250: 0.6, 1000: 0.7}, "Already with 250 rows of fr, the fewest tried"),
        ({250: 0.3, 1000: 0.4}, "With none of the numbers tried, up to 1,000 rows of fr"),
        (
            {250: 0.6, 1000: 0.4},
            "With 250 rows of fr, trained on fr beats trained on de, evaluated on <fr> by its value (the 95% intervals "
            "overlap), but not with 1,000.",
        ),
    ],
)
def test_the_crossing_in_words_and_on_the_page(figures: dict[int, float], words: str) -> None:
    found = found_of(figures, 0.5)
    assert found.sentences[0].startswith(words) and found.finding == found.sentences[0]
    (chart,) = found.charts()
    assert isinstance(chart, Series) and chart.log_x and chart.title == "f1, evaluated on <fr>"
    curve, flat = chart.lines
    assert (curve.name, list(curve.x), curve.dashed) == ("trained on fr", [250, 1000], False)
    assert (flat.name, flat.y, flat.dashed) == ("trained on de, without rows of fr", [0.5, 0.5], True)
    assert f"{9 - 1 - len(figures)} of 9 cells are still to come" in found.caption


def test_rows_are_drawn_once_for_all() -> None:
    rows = read_rows([{"text": f"row {i}"} for i in range(50)])
    few, more = sample_rows(rows, 10, seed=42), sample_rows(rows, 20, seed=42)
    assert [row["text"] for row in sample_rows(rows, 10, seed=42)] == [row["text"] for row in few]
    assert {row["text"] for row in few} < {row["text"] for row in more}
    numbers = [int(row["text"].split()[1]) for row in more]
    assert numbers == sorted(numbers) and sample_rows(rows, 10, seed=1).fingerprint != few.fingerprint
    assert sample_rows(rows, None) is rows and sample_rows(rows, 99) is rows
    with pytest.raises(ConfigError, match="limit is 0"):
        sample_rows(rows, 0)


# ------------------------------------------------------------------------------------------------ the command


def typed(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[Any, str, str]:
    with pytest.raises(SystemExit) as done:
        main(["study", *map(str, words)])
    said = capsys.readouterr()
    return done.value.code or 0, said.out, said.err


def test_the_command(values: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values["study"]["train"].pop("then")
    config, page = tmp_path / "study.yaml", tmp_path / "page.html"
    config.write_text(yaml.safe_dump(values, sort_keys=False))
    code, out, _ = typed(capsys, config, "--plan")
    assert code == 0 and "near-12" in out and "to train:" in out and not (tmp_path / "study").exists()
    code, out, err = typed(capsys, config, "--html", page)
    assert code == 0 and "training 4 of 4: both, seed 0" in err and "evaluating far on 10 rows of old" in err
    assert "trained on" in out and "rows of near" in " ".join(out.split()) and page.read_text().startswith("<!doctype")
    code, out, err = typed(capsys, config, "--json")
    assert code == 0 and json.loads(out)["planned"] == 8 and "training" not in err
    for words, message in ((("--seeds", "1,1"), "each once"), (("--html", "page.txt"), "must end in .html")):
        code, _, err = typed(capsys, config, *words)
        assert code == 2 and message in err


def test_the_plan_of_the_example_is_read(shared: Path) -> None:
    asked = yaml.safe_load((Path(__file__).parents[2] / "examples" / "transfer.yaml").read_text())
    plan = parse(StudyPlan, asked["study"], "study")
    assert plan.files_and_limits("de+fr", 2000) == (
        ["wikiann/de.train.conll.gz", "wikineural/fr.train.conll.gz"],
        [5000, 2000],
    )


@pytest.mark.parametrize("level", [0.5, math.nan, math.inf])
def test_metrics_that_are_no_numbers_are_said_and_not_drawn(level: float) -> None:
    """A correlation of constant predictions is NaN, and a perplexity may be infinite."""
    found = found_of({250: math.nan, 500: math.inf, 1000: 0.7, 2000: 0.8}, level)
    json.dumps(report_data(found), allow_nan=False)
    assert "nan" in str(found)
    assert StudyReport.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False))).metric == "f1"


def test_the_crossing_beside_what_is_no_number() -> None:
    nan, inf = math.nan, math.inf
    assert crossing_point({250: nan, 1000: 0.7}, 0.5, True) == 1000
    assert crossing_point({250: 0.3, 1000: nan}, 0.5, True) is None
    assert crossing_point({250: inf, 1000: 3.0}, 5.0, False) == 1000
    assert crossing_point({250: 3.0, 1000: 2.0}, inf, False) == 250
    assert found_of({250: 0.3, 1000: nan}, 0.5).sentences == [
        "With none of the numbers tried, up to 1,000 rows of fr, trained on fr beats trained on de, evaluated on <fr>."
    ]
    assert found_of({250: 0.3, 1000: 0.7}, nan).sentences == []


def test_intervals_that_overlap_are_said_where_a_value_is_better() -> None:
    chance = " by its value (the 95% intervals overlap)"
    curves = ({250: 0.3, 1000: 0.6}, {250: 0.6, 1000: 0.7}, {9: 0.6, 90: 0.4})
    crossing, already, after = (found_of(values, 0.5).sentences[0] for values in curves)
    assert found_of({250: 0.3, 1000: 0.8}, 0.5).sentences[0].endswith("with 1,000 it does.")
    assert crossing.endswith(f"with 1,000 it does{chance}.")
    assert already.endswith(f"trained on fr beats trained on de, evaluated on <fr>{chance}.")
    assert after.endswith(f"trained on fr beats trained on de, evaluated on <fr>{chance}, but not with 90.")


def test_the_crossing_after_what_is_no_number() -> None:
    nan = math.nan
    assert found_of({250: nan, 1000: 0.8}, 0.5).sentences[0].endswith("with 250 not yet, with 1,000 it does.")
