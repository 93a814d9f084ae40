"""Variants of a model: their folders, their table, resuming, chains, and gates that refuse."""

from __future__ import annotations

import importlib
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import torch
import yaml

from glassformer import load
from glassformer.cli.app import main
from glassformer.errors import ConfigError, DataError, GlassformerError, UnsupportedError
from glassformer.files.schema import Doc, Schema
from glassformer.progress import Bar, no_bar
from glassformer.reports.charts import TradeOff
from glassformer.reports.table import Table
from glassformer.runs.config import parse_config
from glassformer.studies.options import ShrinkOptions
from glassformer.studies.report import StudyReport
from glassformer.studies.shrink import ShrinkEvaluator, shrink, shrink_study
from glassformer.studies.trained import configured_trainer, train_run
from glassformer.studies.ways import WAYS, Source, Way
from tests.studies.samples import sizes_values

pytestmark = pytest.mark.filterwarnings("ignore:this processor has no instructions:UserWarning")


@dataclass(frozen=True, kw_only=True)
class ScaledOptions(Schema):
    """Options of scaling."""

    factor: Annotated[float, Doc("Factor of the head's weights.")] = 2.0


class Scaled(Way[ScaledOptions]):
    """The weights of the classifier, scaled: by a negative factor the classifier answers the opposite."""

    OPTIONS = ScaledOptions

    def __call__(self, source: Source, options: ScaledOptions, output: Path, progress: Bar = no_bar) -> Sequence[Table]:
        MADE.append((source.folder.name, options.factor))
        for weight in source.model.network.head.classifier.parameters():
            weight.data *= options.factor
        source.model.save_pretrained(output)
        return [Table(["part", "factor"], [["head", f"{options.factor:g}"]], "Scaled")]


MADE: list[tuple[str, float]] = []


@pytest.fixture(autouse=True)
def own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WAYS, "scaled", Scaled())
    MADE.clear()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of two labels that has learned them."""
    folder = tmp_path_factory.mktemp("shrink")
    values = sizes_values(folder)
    del values["study"]
    values["data"] |= {"train": "far.csv", "validation": "test.csv"}
    values |= {"training": {"epochs": 20, "batch_size": 4, "learning_rate": 1e-2}, "output": str(folder / "run")}
    config = parse_config(values)
    train_run(config, configured_trainer(config), evaluate=False)
    return folder / "run"


def typed(words: list[str]) -> Any:
    """The exit code of a command line."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


def recipe(run: Path, output: Path, **section: Any) -> Path:
    path = output.with_suffix(".yaml")
    values = {"model": str(run), "output": str(output), "shrink": {"runs": 3, **section}}
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path


def test_variants_are_folders_that_load_and_a_table_says_what_each_costs(run: Path, tmp_path: Path) -> None:
    variants = {"half": None, "doubled": {"way": "scaled"}, "doubled-half": {"way": "half", "begin": "doubled"}}
    source = recipe(run, tmp_path / "small", variants=variants)
    report = shrink(source)
    output = tmp_path / "small"
    head, doubled = (load(x).get_parameter("head.classifier.weight") for x in (run / "model", output / "doubled"))
    assert torch.equal(2 * head, doubled)
    assert torch.equal(load(output / "doubled-half").get_parameter("head.classifier.weight"), doubled.bfloat16())
    assert load(output / "half").dtype == torch.bfloat16
    assert report.facts["written"] == [str(output / name) for name in variants] and not report.facts["refused"]

    costs = {x.levels["variant"]: {name: c.value for name, c in x.costs.items()} for x in report.points}
    assert list(costs) == ["original", *variants]
    expected = {"bytes", "ram", "read", "flops", "latency", "p95", "throughput", "speed"}
    assert costs["original"].keys() == expected and costs["half"].keys() == {"seconds", *expected}
    assert costs["half"]["bytes"] < 0.7 * costs["original"]["bytes"]
    assert costs["half"]["ram"] == costs["original"]["ram"] / 2 and costs["half"]["flops"] == costs["original"]["flops"]
    assert costs["original"]["speed"] == 1
    # one timing: what the speed says, the latency says, and so does the gate
    for name, x in costs.items():
        assert x["speed"] == pytest.approx(costs["original"]["latency"] / x["latency"]), name
    assert {"variant", report.metric, "size, MB", "RAM, MB", "latency, ms", "p95, ms", "rows/s", "speed, ×"} <= set(
        report.table.headings
    )

    # paired with the original, on the same rows
    assert {(x.first, x.second) for x in report.effects} == {("original", name) for name in variants}
    assert all(x.difference.low is not None for x in report.effects)
    (plot,) = report.charts()
    assert isinstance(plot, TradeOff) and plot.x.label == "latency" and plot.title.endswith("; area of a dot: size")
    assert [x.size for x in plot.points] == [x["bytes"] for x in costs.values()]
    (detail,) = report.details
    assert detail.caption == "doubled: Scaled" and detail in report.page_tables()
    assert StudyReport.load(output / "study.json").details[0].rows == [["head", "2"]]
    assert not list(output.glob(".making-*"))


def test_the_page_shows_what_a_variant_loses(run: Path, tmp_path: Path) -> None:
    variants = {"wrong": {"way": "scaled", "options": {"factor": -1.0}}}
    report = shrink(recipe(run, tmp_path / "small", variants=variants))
    _, by_label, rows = report.details
    found = re.fullmatch(r"wrong: What is lost, by label: (\d+) of 16 rows; (\d+) others are gained", by_label.caption)
    assert found is not None
    lost, gained = map(int, found.groups())
    original = json.loads((tmp_path / "small" / "original" / "cell.json").read_text())["scores"]["accuracy"]["value"]
    assert (lost, gained) == (round(16 * original), 16 - round(16 * original))  # it answers the opposite
    assert sum(int(str(row[1])) for row in by_label.rows) == lost and rows.caption.startswith(
        "wrong: Rows that are lost"
    )
    assert all(str(row[3]).startswith("test.csv: line ") for row in rows.rows) and len(rows.rows) == min(lost, 10)
    # where the original was measured before, too
    variants["again"] = dict(variants["wrong"])
    again = shrink(recipe(run, tmp_path / "small", variants=variants))
    assert again.details[4].rows == by_label.rows and again.details[5].rows == rows.rows
    assert rows in report.page_tables()


def test_a_machine_that_slows_down_slows_no_variant(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at this clock takes 1 ms, and from the second variant on 3: as where another program has begun."""
    clock = {"now": 0.0}

    def now() -> float:
        clock["now"] += 0.003 if len(MADE) > 1 else 0.001
        return clock["now"]

    for module in ("bench_models", "compare.costs"):
        monkeypatch.setattr(f"glassformer.evaluation.{module}.perf_counter", now)
    variants = {"first": {"way": "scaled"}, "second": {"way": "scaled", "options": {"factor": 3.0}}}
    report = shrink(recipe(run, tmp_path / "small", variants=variants, within="1.5ms"))
    assert len(MADE) == 2
    for x in report.points:
        assert x.costs["latency"].value == pytest.approx(1) == x.costs["speed"].value
        assert x.costs["p95"].value == pytest.approx(1), x.levels
    assert not report.facts["refused"]  # 3 ms by the clock alone
    speed = report.points[1].costs["speed"]
    assert speed.low == pytest.approx(1) == speed.high and "None is smaller or faster" in report.facts["finding"]
    assert any("no faster than the original on this machine: first (1.00 [1.00, 1.00] ×)" in x for x in report.notes)


def test_the_same_command_repeats_nothing_and_another_setting_only_what_it_changes(run: Path, tmp_path: Path) -> None:
    variants: dict[str, Any] = {"a": {"way": "scaled"}, "b": {"way": "scaled", "options": {"factor": 3.0}}}
    variants["a-b"] = {"way": "scaled", "begin": "a"}
    source = recipe(run, tmp_path / "small", variants=variants)
    first = shrink(source)
    assert MADE == [("model", 2.0), ("model", 3.0), ("a", 2.0)]
    again = shrink(source)
    assert len(MADE) == 3 and again.to_dict() == first.to_dict()
    variants["a"] = {"way": "scaled", "options": {"factor": 4.0}}
    shrink(recipe(run, tmp_path / "small", variants=variants))
    assert MADE[3:] == [("model", 4.0), ("a", 2.0)]  # what begins with it, too
    head = load(run / "model").get_parameter("head.classifier.weight")
    assert torch.equal(load(tmp_path / "small" / "a-b").get_parameter("head.classifier.weight"), 8 * head)


def test_a_gate_refuses_to_write_and_says_by_how_much(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name: path.read_bytes() for path in (run / "model").iterdir()}
    variants = {"wrong": {"way": "scaled", "options": {"factor": -1.0}}, "right": {"way": "scaled"}}
    variants["wrong-right"] = {"way": "scaled", "begin": "wrong", "options": {"factor": -1.0}}
    source = recipe(run, tmp_path / "small", variants=variants, max_drop=0.5)
    assert typed(["shrink", str(source), "--json"]) == 4
    out, err = capsys.readouterr()
    report = json.loads(out)
    by = {x["levels"]["variant"]: x["metrics"][report["metric"]]["value"] for x in report["points"]}
    lost = 100 * (by["original"] - by["wrong"])
    assert lost > 50 and by["right"] == by["original"] == by["wrong-right"]
    (refused,) = report["facts"]["refused"]
    assert refused.startswith(f"wrong was not written: it loses {lost:.2f} [") and refused in err.replace("\n", " ")
    assert sorted(path.name for path in (tmp_path / "small" / "wrong").iterdir()) == ["cell.json"]
    assert load(tmp_path / "small" / "right") and load(tmp_path / "small" / "wrong-right")
    assert {path.name: path.read_bytes() for path in (run / "model").iterdir()} == before
    # again: refused still, and nothing is made
    made = len(MADE)
    assert typed(["shrink", str(source), "--json"]) == 4 and len(MADE) == made
    # without the gate it is written
    assert typed(["shrink", str(recipe(run, tmp_path / "small", variants=variants)), "--json"]) == 0
    assert load(tmp_path / "small" / "wrong")


def test_the_best_that_is_small_enough_is_kept(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = (run / "model" / "model.safetensors").stat().st_size
    variants = {"half": {}, "doubled": {"way": "scaled"}, "wrong": {"way": "scaled", "options": {"factor": -1.0}}}
    variants["wrong-half"] = {"way": "half", "begin": "wrong"}
    source = recipe(run, tmp_path / "small", variants=variants)
    assert typed(["shrink", str(source), "--under", f"{size * 0.8}B"]) == 0
    left = sorted(path.parent.name for path in (tmp_path / "small").glob("*/config.json"))
    assert left == ["half"], capsys.readouterr()
    assert typed(["shrink", str(source), "--under", "10B"]) == 4
    out, err = capsys.readouterr()
    assert out.count("half was not written: it takes") == 2 and "above the 10B of --under" in out
    assert err.rstrip().endswith("error: a gate refused half, doubled, wrong, wrong-half")
    assert not list((tmp_path / "small").glob("*/config.json"))
    assert typed(["shrink", str(source), "--within", "0.0001ms"]) == 4
    assert "a row takes" in capsys.readouterr().out


def test_a_model_that_is_no_run_and_variants_by_option(run: Path, tmp_path: Path) -> None:
    model, data, output = run / "model", run.parent / "test.csv", tmp_path / "small"
    words = ["shrink", str(model), "--task", "classify", "--data", str(data), "--to", "half,scaled+half"]
    words += ["--set", "scaled+half.dtype=float16", "--output", str(output), "--html", str(tmp_path / "page.html")]
    assert typed([*words, "--limit", "10"]) == 0
    assert MADE == [("model", 2.0)]
    assert load(output / "half").dtype == torch.bfloat16 and load(output / "scaled+half").dtype == torch.float16
    assert (tmp_path / "page.html").read_bytes() == (output / "study.html").read_bytes()
    assert json.loads((output / "half" / "cell.json").read_text())["scores"]["accuracy"]["rows"] == 10


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"variants": {"a": {"way": "halve"}}}, "there is no way 'halve'; nearest: 'half'"),
        ({"variants": {"half": {"options": {"dtpye": "float16"}}}}, r"variants\.half\.options: 'dtpye' is no option"),
        ({"variants": {"a": {"way": "half", "begin": "b"}, "b": {"way": "half"}}}, r"a\.begin is 'b'"),
        ({"variants": {"original": {"way": "half"}}}, "is no name for a variant"),
        ({"variants": ["half"], "under": "small"}, "a size with its unit, such as 25MB"),
        ({"variants": ["half"], "within": "5 minutes"}, "a time with its unit, such as 5ms"),
        ({"variants": ["half"], "max_drop": -1}, "a number from 0 up"),
        ({"variants": ["half"], "under": 25}, "a size with its unit"),
        ({"variants": ["half"], "within": "5"}, "a time with its unit"),
        ({"variants": []}, "names no variant"),
        ({"variants": {}}, "names no variant"),
        ({"variants": ["half", "scaled", "half"]}, "names 'half' twice"),
        ({"variants": {"half": {"precision": "int7"}}}, r"half\.precision is 'int7'; nearest: 'int8'"),
        ({"varaints": ["half"]}, "'varaints' is no option"),
    ],
)
def test_mistakes_in_a_recipe(run: Path, tmp_path: Path, section: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        shrink_study(recipe(run, tmp_path / "small", **section))
    assert not (tmp_path / "small").exists()


@pytest.mark.parametrize("where", ["", "model", "smaller", "model/half"])
def test_nothing_is_written_into_the_original(run: Path, where: str) -> None:
    before = sorted(run.rglob("*"))
    with pytest.raises(ConfigError, match="in the folder of the original"):
        shrink(run, ShrinkOptions(to=["half"], output=str(run / where)))
    assert sorted(run.rglob("*")) == before


def test_a_folder_of_other_files_is_never_replaced(run: Path, tmp_path: Path) -> None:
    (tmp_path / "small" / "half").mkdir(parents=True)
    (tmp_path / "small" / "half" / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="half: holds files that are not of `glassformer shrink`"):
        shrink(run, ShrinkOptions(to=["half"], output=str(tmp_path / "small")))
    assert [x.name for x in (tmp_path / "small" / "half").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("to", "settings", "message"),
    [
        ("int4", {"int4.group_size": 7}, "groups of 7 do not divide"),
        ("int4", {"int4.group": 8}, "'group' is no option.*nearest: 'group_size'"),
        ("int8", {"int8.keep": ["blocks.9"]}, "'blocks.9'"),
        ("int8", {"int8.wide": 99}, "wide is 99, which leaves no layer"),
        ("int8", {"int8.smooth": True, "int8.fold": True}, "fold is true, and no norm"),
        ("int8+half", {}, r"begins with int8, which is quantised.*put int8 last"),
        ("int8+int4", {}, "begins with int8, which is quantised"),
        ("onnx+half", {}, "begins with onnx, which is a program that ONNX Runtime runs as a whole.*put onnx last"),
        ("gguf", {}, "a 'bert' model cannot be written as a GGUF file"),
        ("pruned", {"pruned.sparsity": 1.0}, "sparsity"),
        ("pruned", {"pruned.pattern": "2:5"}, "no multiple of 5"),
        ("heads", {"heads.share": 0.99}, "2 of 2 units are to go|are to go; at most"),
        ("layers", {"layers.count": 77}, "count is 77, and the model has 1 layer; at least one must stay"),
        ("layers", {"layers.names": ["block.3"]}, "there is no layer 'block.3'"),
        ("distilled", {"distilled.layers": 9}, "9"),
        ("distilled", {"distilled.freeze": ["embed.token"]}, "freeze names 'embed.token'; nearest: 'embed.tokens'"),
        ("distilled", {"distilled.on_policy": 0.5}, "set alpha to 0"),
        ("distilled", {"distilled.on_policy": 0.5, "distilled.alpha": 0}, "writes no text|on_policy"),
        ("distilled", {"distilled.divergence": "jsd", "distilled.beta": 0}, "beta is 0"),
        ("distilled", {"distilled.teacher": "no/such/model"}, "no/such/model"),
        ("half", {"int4.group_size": 8}, "int4.group_size is of a variant that is not made; variants are half"),
        (None, {"int4.group_size": 8}, "is not made; name it: to= int4"),
        ("", {}, "to= names no variant"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_measured(
    run: Path, tmp_path: Path, to: str | None, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(GlassformerError, match=message):
        names = None if to is None else to.split(",")
        shrink(run, ShrinkOptions(to=names, settings=settings, output=str(tmp_path / "small")))
    assert not (tmp_path / "small").exists()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("", "other.csv: holds no row"),
        ("question,context\nwho,an arrow\n", "other.csv: line 2: there is no column 'text'"),
        ("text,label\ntime flies,joy\n", "other.csv: line 2: .*'joy'"),
    ],
    ids=["empty", "another task", "other labels"],
)
@pytest.mark.parametrize("to", ["int8-static", "heads"])
def test_calibration_rows_that_the_task_cannot_read_are_refused_first(
    run: Path, tmp_path: Path, to: str, rows: str, message: str
) -> None:
    (tmp_path / "other.csv").write_text(rows)
    options = ShrinkOptions(to=[to], train=[str(tmp_path / "other.csv")], output=str(tmp_path / "small"))
    with pytest.raises(DataError, match=message):
        shrink(run, options)
    assert not (tmp_path / "small").exists()


def test_a_quantised_model_is_not_quantised_again_and_leaves_no_folder(run: Path, tmp_path: Path) -> None:
    shrink(run, ShrinkOptions(to=["int8"], output=str(tmp_path / "small"), limit=8))
    before = (tmp_path / "small" / "int8" / "model.safetensors").read_bytes()
    data = [str(run.parent / "test.csv")]
    for way in (x for x in WAYS if x != "scaled"):
        options = ShrinkOptions(to=[way], task="classify", data=data, train=data, output=str(tmp_path / "again"))
        with pytest.raises(ConfigError, match=r"the model is quantised .*load the model that it was made from"):
            shrink(tmp_path / "small" / "int8", options)
        assert not (tmp_path / "again").exists()
    assert (tmp_path / "small" / "int8" / "model.safetensors").read_bytes() == before


def test_nothing_is_made_of_a_program_of_another_engine(run: Path, tmp_path: Path) -> None:
    shrink(run, ShrinkOptions(to=["onnx"], output=str(tmp_path / "small"), limit=8))
    folder, data = tmp_path / "small" / "onnx", [str(run.parent / "test.csv")]
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for way in (*(x for x in WAYS if x != "scaled"), None):
        names = None if way is None else [way]
        options = ShrinkOptions(to=names, task="classify", data=data, train=data, output=str(tmp_path / "again"))
        with pytest.raises(UnsupportedError, match=r"model\.onnx: is run by ONNX Runtime .*that it was exported from"):
            shrink(folder, options)
        assert not (tmp_path / "again").exists()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_each_variant_is_checked_once_and_what_begins_with_another_when_that_is_made(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []

    class Checked(Scaled):
        """Remembers of what it was checked."""

        def check(self, source: Source, options: ScaledOptions) -> None:
            checked.append(source.folder.name)
            if options.factor == 7.0:
                raise ConfigError("seven does not suit it")

    monkeypatch.setitem(WAYS, "scaled", Checked())
    variants: dict[str, Any] = {"a": {"way": "scaled"}, "b": {"way": "scaled", "begin": "a"}}
    shrink(recipe(run, tmp_path / "small", variants=variants))
    assert checked == ["model", "a"]
    variants["b"]["options"] = {"factor": 7.0}
    with pytest.raises(ConfigError, match="seven does not suit it"):
        shrink(recipe(run, tmp_path / "small", variants=variants))
    assert [factor for _, factor in MADE] == [2.0, 2.0], "it is not made"


def test_a_recipe_serves_other_models_and_its_values_can_be_given(run: Path, tmp_path: Path) -> None:
    source = recipe(tmp_path / "no-run", tmp_path / "small", variants={"a": {"way": "scaled"}})
    settings = {"shrink.limit": 5, "a.factor": 3.0, "data.limit": 6, "shrink.report.more": ["accuracy"]}
    report = shrink(source, ShrinkOptions(model=str(run), settings=settings))
    assert MADE == [("model", 3.0)] and report.options.more == ["accuracy"]
    assert json.loads((tmp_path / "small" / "a" / "cell.json").read_text())["scores"]["accuracy"]["rows"] == 5
    with pytest.raises(ConfigError, match=r"model= is of a recipe, and .* is none"):
        shrink(run, ShrinkOptions(model=str(run), to=["half"]))


def test_a_folder_of_fetched_data_sets_takes_the_place_of_theirs(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module("huggingface_hub.constants"), "HF_ASSETS_CACHE", str(tmp_path / "none"))
    (tmp_path / "emotion").mkdir()
    shutil.copy(run.parent / "test.csv", tmp_path / "emotion")
    path = recipe(run, tmp_path / "small", variants=["half"])
    values, rows = yaml.safe_load(path.read_text()), {"train": "emotion/test.csv", "validation": "emotion/test.csv"}
    path.write_text(yaml.safe_dump({**values, "data": {"fetch": "emotion", **rows, "folder": None}}))
    with pytest.raises(DataError, match=r"emotion is not on this machine yet.*--data FOLDER of train, .* shrink"):
        shrink_study(path)
    evaluator = shrink_study(path, ShrinkOptions(data=[str(tmp_path)])).evaluator
    assert isinstance(evaluator, ShrinkEvaluator) and evaluator.config.data.folder == str(tmp_path)


def test_the_sentence_and_the_title_of_the_report(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variants = {"half": {}, "wrong": {"way": "scaled", "options": {"factor": -1.0}}}
    report = shrink(recipe(run, tmp_path / "small", variants=variants))
    assert report.title == "run, smaller and faster"
    assert report.finding.startswith("Of those not worse than original beyond chance, half is the smallest")
    assert "wrong" not in report.finding
    slower = shrink(recipe(run, tmp_path / "slow", variants={"wrong": variants["wrong"]}))
    assert slower.finding == f"None is as good as original by the {report.metric}: it is worse, beyond chance."
    assert StudyReport.load(tmp_path / "small" / "study.json").finding == report.finding


def test_a_narrow_terminal_shows_quality_size_latency_and_speed(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert typed(["shrink", str(recipe(run, tmp_path / "small", variants=["half", "scaled"]))]) == 0
    lines = capsys.readouterr().out.splitlines()
    headings = next(line for line in lines if line.startswith("variant"))
    assert re.match(r"variant +f1_weighted +size, MB +latency, ms +speed, ×", headings)
    assert sum(bool(re.search(r"\[\d\.\d+, \d\.\d+\]", line)) for line in lines) >= 3, "with intervals"
    assert max(map(len, lines[: lines.index(headings) + 7])) <= 80
    assert "--json and the page of --html have all" in " ".join(" ".join(lines).split())


def test_a_gate_without_validation_rows(run: Path, tmp_path: Path) -> None:
    values = yaml.safe_load((run / "config.yaml").read_text())
    values["data"]["validation"] = None
    values |= {"model": str(run / "model"), "output": str(tmp_path / "small"), "scratch": None, "tokenizer": None}
    values["shrink"] = {"variants": ["half"], "max_drop": 0.5}
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump({name: x for name, x in values.items() if x is not None}))
    with pytest.raises(ConfigError, match=r"the gate max_drop is measured on validation rows, and .* has none"):
        shrink(path)
    with pytest.raises(ConfigError, match="is no run folder; name the task"):
        shrink(run / "model", ShrinkOptions(data=[str(run.parent / "test.csv")], to=["half"]))
    with pytest.raises(ConfigError, match="no section `shrink`"):
        shrink(run / "config.yaml")


def test_a_way_that_lacks_its_rows_is_refused_before_anything_is_made(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Needy(Scaled):
        """Needs training rows."""

        NEEDS = ("train",)

    monkeypatch.setitem(WAYS, "needy", Needy())
    options = ShrinkOptions(
        data=[str(run.parent / "test.csv")], task="classify", to=["scaled", "needy"], output=str(tmp_path / "small")
    )
    with pytest.raises(ConfigError, match="needy needs train rows"):
        shrink(run / "model", options)
    assert not MADE
    report = shrink(run, ShrinkOptions(to=["needy"], output=str(tmp_path / "with")))
    assert report.facts["written"] == [str(tmp_path / "with" / "needy")]


def test_ways_that_do_not_suit_a_model_are_left_out_where_none_was_named(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unsuitable(Scaled):
        """Suits no model."""

        def __call__(self, source: Source, options: Any, output: Path, progress: Bar = no_bar) -> Sequence[Table]:
            raise ConfigError("the widths are odd")

    monkeypatch.setattr("glassformer.studies.shrink.WAYS", {"half": "", "odd": "", "scaled": ""})
    monkeypatch.setitem(WAYS, "odd", Unsuitable())
    report = shrink(run, ShrinkOptions(output=str(tmp_path / "small"), limit=8))
    assert report.facts["written"] == [str(tmp_path / "small" / name) for name in ("half", "scaled")]
    assert "left out: odd: the widths are odd" in report.notes and MADE == [("model", 2.0)]
    with pytest.raises(ConfigError, match="the widths are odd"):
        shrink(run, ShrinkOptions(output=str(tmp_path / "named"), to=["odd"], limit=8))
    monkeypatch.setattr("glassformer.studies.shrink.WAYS", {"odd": ""})
    with pytest.raises(ConfigError, match=r"no way suits .*odd: the widths are odd"):
        shrink(run, ShrinkOptions(output=str(tmp_path / "none"), limit=8))


def test_several_seeds(run: Path, tmp_path: Path) -> None:
    report = shrink(recipe(run, tmp_path / "small", variants=["half", "scaled"]), ShrinkOptions(seeds=[0, 1]))
    assert report.seeds == [0, 1] and load(tmp_path / "small" / "half" / "seed-1")
    assert len(report.cells) == 6 and all(x.difference.low is not None for x in report.effects)


def test_a_student_is_distilled_and_begins_another_variant(run: Path, tmp_path: Path) -> None:
    values = yaml.safe_load((run / "config.yaml").read_text())
    deeper = {**values["scratch"], "num_hidden_layers": 2}
    data = values["data"] | {"train": str(run.parent / "far.csv"), "validation": str(run.parent / "test.csv")}
    config = parse_config({**values, "scratch": deeper, "output": str(tmp_path / "deep"), "data": data})
    train_run(config, configured_trainer(config), evaluate=False)
    options = {"epochs": 2.0, "alpha": 0.0}
    variants = {"distilled": {"options": options}, "distilled+half": {}}
    report = shrink(recipe(tmp_path / "deep", tmp_path / "small", variants=variants))
    student = load(tmp_path / "small" / "distilled")
    assert len(student.network.blocks) == 1 and student.config.num_hidden_layers == 1
    assert load(tmp_path / "small" / "distilled+half").dtype == torch.bfloat16
    assert report.details[0].caption == "distilled: Distillation"
    assert report.details[0].rows[0] == ["layers", "1 of 2"]
    costs = {x.levels["variant"]: x.costs for x in report.points}
    assert costs["distilled"]["flops"].value < 0.8 * costs["original"]["flops"].value
    assert not (tmp_path / "small" / ".work").exists()


def test_an_interrupted_distillation_continues(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from glassformer.training.trainer import Trainer

    steps: list[int] = []
    step = Trainer.train_step

    def counted(trainer: Trainer) -> Any:
        steps.append(trainer.state.step)
        if len(steps) == 3:
            raise KeyboardInterrupt
        return step(trainer)

    monkeypatch.setattr(Trainer, "train_step", counted)
    source = recipe(run, tmp_path / "small", variants={"distilled": {"options": {"layers": 1, "epochs": 2.0}}})
    values = yaml.safe_load(source.read_text()) | {"training": {"save_every": 1, "batch_size": 8}}
    source.write_text(yaml.safe_dump(values))
    with pytest.raises(KeyboardInterrupt):
        shrink(source)
    assert (tmp_path / "small" / ".work").is_dir()
    shrink(source)
    assert steps[3] == 2 and load(tmp_path / "small" / "distilled")
