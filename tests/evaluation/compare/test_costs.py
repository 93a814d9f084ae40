"""The table of variants: latency of single rows, bytes, and the figure; and that `bench` still times encoders."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from glassformer import load
from glassformer.cli.app import main
from glassformer.engine.prepare import prepare, prepared_precision
from glassformer.evaluation.bench_models import bench, speed_of
from glassformer.evaluation.bench_options import BenchOptions
from glassformer.evaluation.compare.comparison import Comparison
from glassformer.evaluation.compare.costs import LatencySummary, read_bytes, row_flops, weight_bytes
from glassformer.evaluation.runs import open_run
from glassformer.reports.charts import TradeOff
from glassformer.tasks.classify.task import Classify


def typed(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[Any, str, str]:
    with pytest.raises(SystemExit) as done:
        main(["bench", *map(str, words)])
    said = capsys.readouterr()
    return done.value.code or 0, said.out, said.err


def test_latency_is_what_numpy_says() -> None:
    times = [1.0, 2.0, 3.0, 10.0]
    found = LatencySummary.of(times, sample=True)
    assert (found.mean, found.std, found.runs) == (
        pytest.approx(4.0),
        pytest.approx(np.std([1, 2, 3, 10], ddof=1)),
        4,
    )
    assert (found.p50, found.p95) == (pytest.approx(2.5), pytest.approx(np.quantile([1, 2, 3, 10], 0.95)))
    assert LatencySummary.of([500.0], sample=True).std == 0


def test_the_speed_of_rows_that_were_timed_in_turn() -> None:
    own = np.random.default_rng(1).uniform(1, 2, 50)
    exact = speed_of(own.tolist(), (1.5 * own).tolist())  # each row in two thirds of the time
    assert (exact.value, exact.low, exact.high) == (pytest.approx(1.5),) * 3
    noisy = speed_of(own.tolist(), own[::-1].tolist())
    assert noisy.value == pytest.approx(1) and noisy.low is not None and noisy.high is not None
    assert 0.7 < noisy.low < 1 < noisy.high < 1.5 and speed_of([2.0], [3.0]).low is None


@pytest.mark.filterwarnings("ignore:.*products need an x86 processor:UserWarning")
def test_a_system_for_each_model_and_precision(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    precisions: list[str | None] = []
    predict = Classify.predict

    def counted(task: Any, some: Any, progress: Any = None) -> Any:
        asked.append(len(some))
        precisions.append(prepared_precision(task.model.network))
        return predict(task, some, progress)

    monkeypatch.setattr(Classify, "predict", counted)
    options = BenchOptions(precision=["fp32", "bf16"], runs=5, task="classify", columns={"label": "mood"})
    costs = bench([str(run), str(run / "model")], options)
    # of FLOPs; timed, alone or in turn with the first; all
    alone, in_turn = [*[1] * 8, *[1] * 15, 12], [*[1] * 8, *[1] * 30, 12]
    assert isinstance(costs, Comparison) and asked == [*alone, *in_turn * 3]
    # each in its precision, the first's next to the second being a copy
    assert [its for its, rows in zip(precisions, asked, strict=True) if rows == 12] == ["fp32", "bf16"] * 2
    timed = precisions[len(alone) + 8 : len(alone) + 38]
    assert timed.count("fp32") == timed.count("bf16") == 15
    first, second, same, last = costs.systems
    assert [one.name for one in costs.systems] == ["run, fp32", "run, bf16", "model, fp32", "model, bf16"]
    assert first.differences == {} and first.metrics == same.metrics
    assert first.latency is not None and first.latency.runs == 5 and first.speed is not None and first.speed.value == 1
    assert second.latency is not None and second.speed is not None and second.speed.low is not None
    assert second.speed.value == pytest.approx(first.latency.p50 / second.latency.p50)
    assert same.differences["f1_weighted"].value == 0 and second.metrics == last.metrics
    assert first.cost.bytes == (run / "model" / "model.safetensors").stat().st_size
    assert first.cost.weights is not None and first.cost.weights < first.cost.bytes and first.cost.precision == "fp32"
    table = costs.cost_table()
    assert {"MB", "RAM, MB", "read, MB", "FLOPs", "ms a row", "ms alone", "median, p95"} <= set(table.headings) and len(
        table.rows
    ) == 4
    assert all(len(row) == len(table.headings) for row in table.rows)
    (plot,) = costs.charts()
    assert isinstance(plot, TradeOff) and plot.x.more is False and len(plot.points) == 4
    assert plot.points[0].size == first.cost.bytes and plot.points[0].x.value == first.latency.p50
    written = json.loads(json.dumps(costs.to_dict(), allow_nan=False))
    assert written["kind"] == "comparison" and written["systems"][0]["differences"] == {}


def test_variants_of_a_model_each_as_it_is_stored(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [tmp_path / "a" / "model", tmp_path / "b" / "model", tmp_path / "int8", tmp_path / "halved"]
    for folder, dtype in zip(folders, ("float32", "bfloat16", "int8", "float16"), strict=True):
        load(run / "model", dtype=dtype).save_pretrained(folder)
    page = tmp_path / "page.html"
    words = [run, *folders, "--task", "classify", "--column", "label=mood", "--runs", 3, "--html", page]
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = typed(capsys, *words)
    assert code == 0 and "<title>Classify: run, a/model, b/model, int8 and 1 more</title>" in page.read_text()
    for name in ("run", "a/model", "b/model", "int8", "halved"):
        assert re.search(rf"^{name} +\d", out, re.MULTILINE), name
    costs = out.partition("costs")[2]
    assert costs.split()[:7] == ["rows", "MB", "median,", "p95", "speed", "ms", "a"]
    # next to a run its task, columns and rows are known
    code, out, _ = typed(capsys, folders[2], run, "--runs", 1)
    assert code == 0 and len(re.findall(r"^(?:int8|run) +[╶\d]", out, re.MULTILINE)) == 4, out
    # a precision that one of them cannot be in is refused before anything is measured
    code, out, err = typed(capsys, *words, "--precision", "fp16")
    assert code == 2 and not out
    assert "precision is fp16, and b/model can be bf16 or int8; leave --precision out" in err.replace("\n", " ")
    code, out, err = typed(capsys, run, folders[3], "--task", "classify", "--precision", "fp32")
    assert code == 2 and "halved runs as it is stored alone" in err.replace("\n", " ")


@pytest.mark.filterwarnings("ignore:.*products need an x86 processor:UserWarning")
def test_networks_are_unprepared_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import glassformer.evaluation.bench_models as module

    networks: list[Any] = []
    prepare_network = module.prepare
    monkeypatch.setattr(
        module, "prepare", lambda network, name: (networks.append(network), prepare_network(network, name))
    )
    bench([str(run)], BenchOptions(precision=["bf16"], runs=1))
    assert len(networks) == 1 and prepared_precision(networks[0]) is None


def test_operations_and_bytes_read_are_those_of_a_row(run: Path) -> None:
    """Counted by hand: 2 · in · out for each token and linear layer, and 4 · T² · D for attention."""
    task = open_run(run).task_for_evaluation()
    rows = open_run(run).read_rows().select([0, 1])
    network, lengths = task.model.network, [len(e["input_ids"]) for e in map(task.encode(rows).__getitem__, (0, 1))]
    layers = [m for name, m in network.named_modules() if isinstance(m, nn.Linear) and name.startswith("blocks.")]
    depth, width = len(network.blocks), network.width
    products = sum(2 * m.weight.numel() for m in layers)
    head = sum(2 * m.weight.numel() for m in network.head.modules() if isinstance(m, nn.Linear))
    pooler = sum(
        2 * m.weight.numel()
        for name, m in network.named_modules()
        if isinstance(m, nn.Linear) and not name.startswith(("blocks.", "head."))
    )
    expected = [products * n + 4 * depth * n * n * width + head + pooler for n in lengths]
    assert row_flops(task, rows) == pytest.approx(sum(expected) / 2)

    whole = sum(x.numel() for x in network.parameters()) * 4
    tables = [m for m in network.modules() if isinstance(m, nn.Embedding)]
    unread = sum(4 * m.weight.numel() * (1 - min(1, 2 / m.num_embeddings)) for m in tables)
    assert read_bytes(network, 2) == pytest.approx(whole - unread)


def test_narrow_weights_are_counted_where_they_are_packed(run: Path) -> None:
    network = open_run(run).model.network
    whole = sum(x.numel() for x in network.parameters()) * 4
    assert weight_bytes(network) == whole
    prepare(network, "fp16")
    packed = [m for m in network.modules() if getattr(m, "fast", False)]
    assert weight_bytes(network) == whole - 2 * sum(m.weight.numel() for m in packed)


@pytest.mark.filterwarnings("ignore:.*products need an x86 processor:UserWarning")
def test_the_command(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "bench.html"
    code, out, err = typed(capsys, run, "--precision", "fp32,fp16", "--runs", 3, "--limit", 9, "--json", "--html", page)
    assert "<title>Classify: run, fp32, run, fp16" in page.read_text()
    row, _ = json.loads(out)["systems"]
    assert code == 0 and row["rows"] == 9 and row["latency"]["runs"] == 3
    assert 0 <= row["metrics"]["f1_weighted"]["value"] <= 1
    data = ("--data", run.parent / "rows.csv", "--column", "label=mood")
    code, out, err = typed(capsys, run / "model", "--task", "classify", *data, "--precision", "fp32", "--runs", 2)
    assert code == 0 and "30 rows; times of 2 passes" in out
    long = tmp_path / "long.csv"
    long.write_text("text,mood\n" + f"{'time flies ' * 40},a\n" * 4)
    data = ("--data", long, "--column", "label=mood", "--precision", "fp32", "--runs", 2)
    code, out, err = typed(capsys, run / "model", "--task", "classify", *data)
    assert code == 0 and err.count("note: ") == 1, "not once a row"
    for words, message in (
        ((run, "--task", "tag"), "is a run of 'classify'"),
        ((run / "model", "--task", "classify"), "there are no rows; give --data"),
        ((run / "model", "--task", "clasify"), "nearest: 'classify'"),
        ((run / "model", *data), "name the task of the model"),
        ((run, "--precision", "int3"), "precision is 'int3'"),
    ):
        code, _, err = typed(capsys, *words)
        assert code == 2 and message in err, err


def test_evaluating_a_part_of_the_rows(run: Path) -> None:
    from glassformer.evaluation.runs import open_run
    from glassformer.runs.data import sample_rows

    opened = open_run(run)
    few, again, other = (
        opened.evaluate(sample_rows(opened.read_rows(), 6, seed), baselines=False) for seed in (42, 42, 1)
    )
    assert len(few.predictions) == 6 and few.report.data["rows"] == 6
    assert few.report.data["fingerprint"] == again.report.data["fingerprint"] != other.report.data["fingerprint"]
