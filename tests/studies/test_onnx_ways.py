"""Ways `onnx` and `onnx-int8`: what they write loads and predicts nearly the same; and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from glassformer import load
from glassformer.engine.onnx_network import OnnxNetwork
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.evaluation.bench_models import bench
from glassformer.evaluation.bench_options import BenchOptions
from glassformer.evaluation.compare.comparison import Comparison
from glassformer.export.onnx_int8 import LengthDifference, check_differences
from glassformer.studies.ways import Source, find_way
from tests.studies.samples import trained_source, with_own_model


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """A classifier of two labels, trained for a step."""
    return trained_source(tmp_path_factory.mktemp("source"))


@pytest.fixture
def source(trained: Source) -> Source:
    """The same, with a model of its own."""
    return with_own_model(trained)


WAYS: list[tuple[str, dict[str, Any]]] = [
    ("onnx", {}),
    ("onnx-int8", {}),
    ("onnx-int8", {"embeddings": False, "fuse": False}),
    ("onnx-int8", {"inputs": "static", "gate": 0.8}),
]


@pytest.mark.parametrize(("name", "options"), WAYS, ids=lambda x: x if isinstance(x, str) else "-".join(map(str, x)))
def test_a_way_writes_a_folder_that_onnx_runtime_runs(
    source: Source, name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    way = find_way(name)
    before = {path.name: path.read_bytes() for path in source.folder.iterdir()}
    tables = {tuple(table.headings): table for table in way(source, way.parse(options), tmp_path / "out")}
    assert {path.name: path.read_bytes() for path in source.folder.iterdir()} == before
    fused = tables.get(("fused operation", "count"))
    assert (fused is not None) == options.get("fuse", True)
    if fused is not None:
        assert ["SkipLayerNormalization", "3"] in [list(row) for row in fused.rows]
    differences = tables["tokens", "", "largest difference", "cosine"].rows
    assert len(differences) == 2 * len({row[0] for row in differences}) == 6  # of 16 positions: 4, 8, 16
    network = load(tmp_path / "out").network
    assert isinstance(network, OnnxNetwork)
    narrow = {x.shape for x in network.program.weights if x.dtype in ("int8", "uint8") and len(x.shape) == 2}
    assert bool(narrow) == (name == "onnx-int8")
    assert ((13, 16) in narrow) == (bool(narrow) and options.get("embeddings", True))
    assert network.fixed_precision == ("int8" if narrow else "fp32")
    operations = {node.op_type for node in onnx.load(str(tmp_path / "out" / "model.onnx")).graph.node}
    kinds = {"onnx": "MatMul", "static": "QuantizeLinear", "dynamic": "DynamicQuantizeLinear"}
    assert kinds["onnx" if name == "onnx" else options.get("inputs", "dynamic")] in operations
    assert source.validation is not None
    again = Source(tmp_path / "out", source.config, None, None, source.validation)
    exact, close = ([x.predicted for x in one.task.predict(source.validation)] for one in (source, again))
    assert close == exact


def test_bench_measures_it_in_its_own_precision(source: Source, trained: Source, tmp_path: Path) -> None:
    way = find_way("onnx-int8")
    way(source, way.parse({}), tmp_path / "out")
    folder = Path(trained.config.data.folder or "")
    asked = BenchOptions(task="classify", data=[str(folder / "test.csv")], runs=2)
    report = bench([str(tmp_path / "out")], asked)
    assert isinstance(report, Comparison)
    assert [system.name for system in report.systems] == ["out, int8"]
    cost = report.systems[0].cost
    assert cost is not None and cost.flops is None and cost.bytes and cost.weights and cost.read
    assert cost.read < cost.weights < cost.bytes  # of the table a row for each token


def test_what_is_refused(source: Source, tmp_path: Path) -> None:
    way = find_way("onnx-int8")
    with pytest.raises(ConfigError, match=r"its cosine is 0\.\d+, and the gate is 0\.999999"):
        way(source, way.parse({"gate": 0.999999}), tmp_path / "near")
    with pytest.raises(ConfigError, match="onnx-int8 needs calibration rows"):
        empty = Source(source.folder, source.config, None, None, source.validation)
        way(empty, way.parse({"inputs": "static"}), tmp_path / "none")
    assert way.needs(way.parse({"inputs": "static"})) == ("calibration",) and not way.needs(way.parse({}))
    with pytest.raises(ConfigError, match="inputs"):
        way.parse({"inputs": "guessed"})
    int8 = find_way("int8")
    int8(source, int8.parse({}), tmp_path / "int8")
    for name, folder, action in (("onnx", "int8", "exported"), ("int8", "near", "quantised again")):
        again = Source(tmp_path / folder, source.config, None, None, source.validation)
        with pytest.raises((ConfigError, UnsupportedError), match=f"cannot be {action}"):
            find_way(name)(again, find_way(name).parse({}), tmp_path / "again")
    quantised = Source(tmp_path / "int8", source.config, None, None, source.validation)
    with pytest.raises(ConfigError, match="cannot be shrunk again"):
        find_way("onnx").check(quantised, find_way("onnx").parse({}))  # before anything is measured


def test_a_cosine_that_is_no_number_is_refused() -> None:
    good, bad = LengthDifference(4, False, 0.0, 1.0), LengthDifference(8, True, 1.0, float("nan"))
    check_differences([good], 0.9)
    with pytest.raises(ConfigError, match="at 8 tokens, padded among others, its cosine is nan"):
        check_differences([bad], 0.9)
