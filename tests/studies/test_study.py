"""A study: what is trained on what, the table and the curve, and that the same command goes on."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from glassformer.cli.app import main
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.files.schema import parse
from glassformer.runs.data import sample_rows
from glassformer.studies.page import study_page
from glassformer.studies.plan import StudyPlan
from glassformer.studies.results import (
    CurveOptions,
    StudyResults,
    TrainedModel,
    crossing_point,
    mean_over_seeds,
)
from glassformer.studies.study import parse_study
from glassformer.studies.training import StudyProgress
from glassformer.tasks.metrics.metric import Interval
from tests.e2e.tiny_models import word_tokenizer

BERT = {
    "model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 16,
}  # fmt: skip


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    """A study so small that it takes moments."""
    words = ["time", "fruit", "flies", "like", "an", "arrow"]

    def write(name: str, start: int, count: int) -> None:
        lines = [f"{words[i % 6]} {words[i // 6 % 6]},{'ab'[i % 2]}" for i in range(start, start + count)]
        (tmp_path / name).write_text("text,label\n" + "\n".join(lines) + "\n")

    write("near.csv", 0, 24)
    write("far.csv", 6, 20)
    write("test.csv", 20, 16)
    (tmp_path / "words").mkdir()
    word_tokenizer().save(str(tmp_path / "words" / "tokenizer.json"))
    return {
        "task": "classify",
        "scratch": BERT,
        "tokenizer": str(tmp_path / "words"),
        "output": str(tmp_path / "study"),
        "data": {"folder": str(tmp_path)},
        "training": {"epochs": 1, "batch_size": 8, "learning_rate": 1e-3},
        "study": {
            "train": {
                "far": {"files": "far.csv"},
                "near": {"files": "near.csv", "rows": [4, 12]},
                "both": {"of": ["far", "near"]},
                "then": {"of": ["near"], "rows": [4], "begin": "far"},
            },
            "test_sets": {"new": "test.csv", "old": "far.csv"},
            "limit": 10,
            "at_least_steps": 2,
            "curve": {"over": "near", "test_set": "new", "zero_shot": "far"},
        },
    }


class Heard(StudyProgress):
    def __init__(self) -> None:
        self.trained: list[str] = []
        self.judged: list[str] = []

    def training(self, number: int, count: int, training: Any) -> None:
        self.trained.append(f"{number}/{count} {training.name}")

    def evaluating(self, training: Any, judged: str, rows: int) -> None:
        self.judged.append(f"{training.name} {judged} {rows}")


def test_a_study_from_plan_to_page(values: dict[str, Any], tmp_path: Path) -> None:
    study, heard = parse_study(values), Heard()
    planned = study.dry_run().trainings
    assert [each.name for each in planned] == ["far", "near-4", "near-12", "both", "then-4"]
    assert [each.examples for each in planned] == [20, 4, 12, 32, 4]
    assert [each.steps for each in planned] == [3, 2, 2, 4, 2], "few rows take at least 2 steps"
    found = study.run(progress=heard)
    assert heard.trained[0] == "1/5 far" and len(heard.trained) == 5 and len(heard.judged) == 10
    assert [each.rows for each in found.trainings] == [20, 4, 12, 32, 4]
    assert [each.steps for each in found.trainings] == [3, 2, 2, 4, 2]
    headings, rows = found.table.headings, found.table.rows
    assert headings == ["trained on", "rows", "new", "old"] and [row[0] for row in rows] == found.names
    assert {line.name: list(line.points) for line in found.lines} == {
        "near": [4, 12],
        "both": [12],
        "then": [4],
    }
    assert len(found.sentences) == 1 and "rows of near" in found.sentences[0]

    place = tmp_path / "study"
    kept = json.loads((place / "study.json").read_text())
    assert kept["table"]["headings"] == headings and len(kept["trainings"]) == 5
    assert (place / "near-4" / "seed-0" / "model" / "config.json").is_file()
    assert not (place / "near-4" / "seed-0" / "checkpoints").exists()
    report = json.loads((place / "both" / "seed-0" / "evaluation" / "new" / "report.json").read_text())
    assert report["metrics"][found.metric]["value"] == found.cell("both", "new").value  # type: ignore[union-attr]
    begun = yaml.safe_load((place / "then-4" / "seed-0" / "config.yaml").read_text())
    assert begun["model"] == str(place / "far" / "seed-0" / "model")


def test_what_is_finished_is_kept_and_what_is_not_goes_on(values: dict[str, Any]) -> None:
    class Enough(Heard):
        def training(self, number: int, count: int, training: Any) -> None:
            if number == 3:
                raise KeyboardInterrupt
            super().training(number, count, training)

    with pytest.raises(KeyboardInterrupt):
        parse_study(values).run(progress=Enough())
    heard = Heard()
    found = parse_study(values).run(progress=heard)
    assert heard.trained == ["3/5 near-12", "4/5 both", "5/5 then-4"]

    values["study"]["train"]["more"] = {"files": ["far.csv", "near.csv"]}
    del values["study"]["test_sets"]["old"]
    again = Heard()
    more = parse_study(values).run(progress=again)
    assert again.trained == ["6/6 more"] and again.judged == ["more new 10"], "only what is new"
    assert more.cell("near-4", "new") == found.cell("near-4", "new")

    values["training"]["learning_rate"] = 1e-4
    with pytest.raises(ConfigError, match="trained otherwise: training was"):
        parse_study(values).run()


def test_several_seeds_and_what_has_baselines(values: dict[str, Any]) -> None:
    values["study"]["train"] = {"near": {"files": "near.csv", "rows": [4]}}
    values["study"].pop("curve")
    values["study"]["baselines"] = True
    found = parse_study(values).run([0, 1])
    assert (
        found.seeds == [0, 1]
        and "t-interval" in found.caption
        and found.curve == CurveOptions(over="near", test_set="new")
    )
    each = [x.metrics["new"].value for x in found.trainings]
    cell = found.cell("near-4", "new")
    assert cell is not None and cell.value == pytest.approx(np.mean(each))
    assert all(set(x.baselines) == {"new", "old"} for x in found.trainings)


def test_leaks_are_left_out_and_labels_are_those_of_all(values: dict[str, Any]) -> None:
    values["data"]["without_leaks"] = True
    values["study"]["test_sets"] = {"new": "test.csv"}
    del values["study"]["limit"]
    study = parse_study(values)
    known = {row["text"] for row in study.training_rows}
    assert 0 < len(study.test_rows["new"]) < 16
    assert not known & {row["text"] for row in study.test_rows["new"]}
    assert set(study.overrides["label2id"]) == {"a", "b"}


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
        ("test_sets", {}, "one under `test_sets`"),
        ("curve", {"over": "far", "test_set": "new"}, "curve.over is 'far'; nearest: 'near'"),
        ("curve", {"over": "near", "test_set": "none"}, "curve.test_set is 'none'"),
        ("limit", 0, "study.limit is 0"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(values: dict[str, Any], place: str, value: Any, message: str) -> None:
    values["study"].pop("curve")
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


def found_of(figures: dict[int, float], level: float) -> StudyResults:
    sizes: list[tuple[str, int | None, float]] = [
        ("de", None, level),
        *(("fr", n, x) for n, x in figures.items()),
    ]
    trainings = [
        TrainedModel(
            name=f"{of}-{n}", of=of, size=n, seed=0, rows=n or 9, steps=1, tokens=1, seconds=1.0, folder="x",
            metrics={"<fr>": Interval(x, x - 0.1, x + 0.1)},
        )
        for of, n, x in sizes
    ]  # fmt: skip
    return StudyResults(
        task="tag", metric="f1", higher=True, method="", test_sets={"<fr>": {"files": [], "rows": 5}},
        trainings=trainings, planned=9, curve=CurveOptions(over="fr", test_set="<fr>", zero_shot="de-None"),
    )  # fmt: skip


@pytest.mark.parametrize(
    "figures, words",
    [
        ({250: 0.3, 1000: 0.7}, "With about 500 rows of fr training on fr alone beats de-None alone"),
        ({250: 0.6, 1000: 0.7}, "Already with 250 rows of fr, the fewest tried"),
        ({250: 0.3, 1000: 0.4}, "With none of the numbers tried, up to 1,000 rows"),
        (
            {250: 0.6, 1000: 0.4},
            "With 250 rows of fr training on fr alone beats de-None alone on <fr> by its value (the 95% intervals "
            "overlap), but not with 1,000.",
        ),
    ],
)
def test_the_crossing_in_words_and_on_the_page(figures: dict[int, float], words: str) -> None:
    found = found_of(figures, 0.5)
    assert found.sentences[0].startswith(words)
    page = study_page(found)
    assert page.count('<circle class="c1 dot"') == 2 and 'class="c0 dashed"' in page
    assert "<fr>" not in page and "&lt;fr&gt;" in page and "3 of 9 trainings" in page
    assert f"1,000 rows: f1 {figures[1000]:.3f}" in page


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
    assert code == 0 and json.loads(out)["planned"] == 4 and "training" not in err
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
    page = study_page(found)
    assert "nan%" not in page and "inf%" not in page and not re.search(r'[dxy]="[^"]*(nan|inf)', page)
    assert page.count('<circle class="c1 dot"') == 2 and ('class="c0 dashed"' in page) == math.isfinite(level)
    assert "nan" in str(found)


def test_the_crossing_beside_what_is_no_number() -> None:
    nan, inf = math.nan, math.inf
    assert crossing_point({250: nan, 1000: 0.7}, 0.5, True) == 1000
    assert crossing_point({250: 0.3, 1000: nan}, 0.5, True) is None
    assert crossing_point({250: inf, 1000: 3.0}, 5.0, False) == 1000
    assert crossing_point({250: 3.0, 1000: 2.0}, inf, False) == 250
    assert found_of({250: 0.3, 1000: nan}, 0.5).sentences == [
        "With none of the numbers tried, up to 1,000 rows of fr, training on fr alone beats de-None alone on <fr>."
    ]
    assert found_of({250: 0.3, 1000: 0.7}, nan).sentences == []


def test_intervals_that_overlap_are_said_where_a_value_is_better() -> None:
    chance = " by its value (the 95% intervals overlap)"
    curves = ({250: 0.3, 1000: 0.6}, {250: 0.6, 1000: 0.7}, {9: 0.6, 90: 0.4})
    crossing, already, after = (found_of(values, 0.5).sentences[0] for values in curves)
    assert found_of({250: 0.3, 1000: 0.8}, 0.5).sentences[0].endswith("with 1,000 it does.")
    assert crossing.endswith(f"with 1,000 it does{chance}.")
    assert already.endswith(f"beats de-None alone on <fr>{chance}.")
    assert after.endswith(f"beats de-None alone on <fr>{chance}, but not with 90.")


def test_the_crossing_after_what_is_no_number() -> None:
    nan = math.nan
    assert found_of({250: nan, 1000: 0.8}, 0.5).sentences[0].endswith("with 250 not yet, with 1,000 it does.")
