"""Variants of a model: their folders, their table, resuming, chains, and gates that refuse."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import torch
import yaml

from glassformer import load
from glassformer.cli.app import main
from glassformer.errors import ConfigError
from glassformer.files.schema import Doc, Schema
from glassformer.progress import Bar, no_bar
from glassformer.reports.charts import TradeOff
from glassformer.reports.table import Table
from glassformer.runs.config import parse_config
from glassformer.studies.options import ShrinkOptions
from glassformer.studies.report import StudyReport
from glassformer.studies.shrink import shrink, shrink_study
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
    assert costs["original"]["speed"] == 1 and all(x["latency"] > 0 for x in costs.values())
    assert {"variant", report.metric, "size, MB", "RAM, MB", "latency, ms", "p95, ms", "rows/s", "speed, ×"} <= set(
        report.table.headings
    )

    # paired with the original, on the same rows
    assert {(x.first, x.second) for x in report.effects} == {("original", name) for name in variants}
    assert all(x.difference.low is not None for x in report.effects)
    (plot,) = report.charts()
    assert isinstance(plot, TradeOff) and plot.x.label == "latency"
    assert [x.size for x in plot.points] == [x["bytes"] for x in costs.values()]
    (detail,) = report.details
    assert detail.caption == "doubled: Scaled" and detail in report.page_tables()
    assert StudyReport.load(output / "study.json").details[0].rows == [["head", "2"]]
    assert not list(output.glob(".making-*"))


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
    assert "half was not written: it has" in capsys.readouterr().err
    assert not list((tmp_path / "small").glob("*/config.json"))
    assert typed(["shrink", str(source), "--within", "0.0001ms"]) == 4
    assert "a row takes" in capsys.readouterr().err


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
        ({"variants": ["half"], "under": "small"}, "a size such as 25MB"),
        ({"variants": ["half"], "within": "5 minutes"}, "a time such as 5ms"),
        ({"variants": ["half"], "max_drop": -1}, "a number from 0 up"),
        ({"varaints": ["half"]}, "'varaints' is no option"),
    ],
)
def test_mistakes_in_a_recipe(run: Path, tmp_path: Path, section: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        shrink_study(recipe(run, tmp_path / "small", **section))
    assert not (tmp_path / "small").exists()


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
    assert [x.caption for x in report.details] == ["distilled: Distillation"]
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
