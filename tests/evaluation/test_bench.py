"""The table of precisions: a row each, measured against the plain network, which is given back plain."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from glassformer import load
from glassformer.core.processor import is_fast
from glassformer.data.options import ReadingOptions
from glassformer.engine.prepare import prepared_precision
from glassformer.errors import ConfigError
from glassformer.evaluation.bench import EncodingBench, compare_precisions, sample_texts
from glassformer.evaluation.bench_models import bench
from glassformer.evaluation.bench_options import BenchOptions
from tests.e2e.tiny_models import make_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("bert"), "bert", task="feature-extraction")


@pytest.mark.filterwarnings("ignore:.*texts were cut:UserWarning")
def test_a_row_for_each_precision(folder: Path) -> None:
    model = load(folder)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    rows = compare_precisions(model.network, model.tokenizer, sample_texts(20), folder, repeats=1)
    assert [row.precision for row in rows] == ["plain", "fp32", "fp16", "bf16", "int8"]
    plain, fp32, _, bf16, _ = rows
    assert plain.largest_difference == 0 and plain.speedup == 1
    assert fp32.largest_difference <= 1e-5 < bf16.largest_difference
    assert all(row.sentences_per_second > 0 and row.smallest_cosine > 0.9 for row in rows)
    assert prepared_precision(model.network) is None
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_sample_texts_are_of_many_lengths() -> None:
    lengths = [len(text.split()) for text in sample_texts(30)]
    assert len(lengths) == 30 and min(lengths) <= 3 and max(lengths) >= 60


def test_texts_of_a_table_of_another_format(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("a;time flies\nb;like an arrow\n")
    options = BenchOptions(data=[str(tmp_path / "mine.csv")], columns={"text": "title"}, precision=["fp32"], repeats=1)
    (report,) = bench([str(folder)], options, reading=ReadingOptions(delimiter=";", names=["id", "title"]))
    assert isinstance(report, EncodingBench) and report.sentences == 2
    with pytest.raises(ConfigError, match="delimiter= is of the files of data=; give data= too"):
        bench([str(folder)], BenchOptions(), reading=ReadingOptions(delimiter=";"))


@pytest.mark.filterwarnings("ignore:.*texts were cut:UserWarning")
def test_the_command_prints_the_same_as_data(folder: Path, tmp_path: Path) -> None:
    from glassformer.cli.app import app

    mine = tmp_path / "mine.txt"
    mine.write_text("time flies\nlike an arrow\n")
    done = CliRunner().invoke(app, ["bench", str(folder), "--data", str(mine), "--repeats", "1", "--json"])
    assert done.exit_code == 0, done.output
    (report,) = json.loads(done.stdout)
    assert (report["kind"], report["version"], report["sentences"]) == ("encoding-bench", 1, 2)
    assert [row["precision"] for row in report["rows"]] == ["plain", "fp32", "fp16", "bf16", "int8"]
    noted = "note: this processor has no instructions for bf16 products" in done.stderr
    assert noted != is_fast(torch.bfloat16) and done.stderr.count("\n") <= noted
    done = CliRunner().invoke(app, ["bench", str(folder), "--data", str(mine), "--repeats", "1", "--precision", "fp32"])
    heading = " ".join(done.stdout.split("precision")[0].split())
    assert re.search(r"\(bert, [\d,]+ parameters, float32 on cpu\): 2 sentences$", heading), heading
    assert "Model(" not in done.stdout
    table = tmp_path / "mine.csv"
    table.write_text("said\ntime flies\n")
    fast = ["--repeats", "1", "--json", "--precision", "fp32"]
    done = CliRunner().invoke(app, ["bench", str(folder), "--data", str(table), "-c", "text=said", *fast])
    assert done.exit_code == 0 and done.stderr == ""
    done = CliRunner().invoke(app, ["bench", str(folder), "--data", str(table), "-c", "label=mood", *fast])
    assert str(done.exception) == "--column label is of a task; name the task of the model too: --task classify"
    done = CliRunner().invoke(app, ["bench", str(folder), "--data", str(table), *fast])
    assert str(done.exception).endswith("there are: 'said'; say which one it is: --column text=NAME")
