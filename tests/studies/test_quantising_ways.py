"""Ways to quantise: what they write is smaller, loads and predicts nearly the same; and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer import load
from glassformer.compression.folding import norm_readers
from glassformer.core.quantised import QuantisedEmbedding, QuantisedLinear, quantised_layers
from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.runs import open_run
from glassformer.files import read_json_object
from glassformer.runs.config import parse_config
from glassformer.studies.trained import configured_trainer, train_run
from glassformer.studies.ways import Source, find_way
from tests.studies.samples import sizes_values, trained_source, with_own_model


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """A classifier of two labels, trained for a step."""
    return trained_source(tmp_path_factory.mktemp("source"), num_hidden_layers=2)


@pytest.fixture
def source(trained: Source) -> Source:
    """The same, with a model of its own."""
    return with_own_model(trained)


WAYS: list[tuple[str, dict[str, Any]]] = [
    ("int8", {}),
    ("int8", {"smooth": True, "method": "gptq"}),
    ("int8-static", {}),
    ("int8-static", {"calibration": "mse", "smooth": True}),
    ("int4", {"method": "nearest", "group_size": 8}),
    ("int4", {"method": "gptq", "group_size": 8, "wide": 2}),
    ("int4", {"method": "awq", "group_size": 8, "embeddings": False}),
]


@pytest.mark.parametrize(("name", "options"), WAYS, ids=lambda x: x if isinstance(x, str) else "-".join(map(str, x)))
def test_a_way_writes_a_smaller_model(source: Source, name: str, options: dict[str, Any], tmp_path: Path) -> None:
    way = find_way(name)
    before = {path.name: path.read_bytes() for path in source.folder.iterdir()}
    tables = way(source, way.parse(options), tmp_path / "out")
    assert {path.name: path.read_bytes() for path in source.folder.iterdir()} == before
    assert any("share" in table.headings for table in tables)
    model, plain = load(tmp_path / "out", strict=True), load(source.folder)
    layers = quantised_layers(model.network)
    linear = [layer for layer in layers.values() if isinstance(layer, QuantisedLinear)]
    assert {layer.inputs for layer in linear} == {{"int8": "dynamic", "int8-static": "static", "int4": "wide"}[name]}
    assert len(linear) == 8 - options.get("wide", 0)
    assert {layer.stored.bits for layer in linear} == {4 if name == "int4" else 8}
    assert any(isinstance(x, QuantisedEmbedding) for x in layers.values()) == options.get("embeddings", True)
    assert (tmp_path / "out" / "model.safetensors").stat().st_size < (
        source.folder / "model.safetensors"
    ).stat().st_size
    ids = torch.tensor([[3, 4, 5, 6, 3]])
    with torch.inference_mode():
        exact, close = (x(input_ids=ids).logits for x in (plain, model))
    assert float((exact - close).abs().max()) < (0.3 if name == "int4" else 0.1) * float(exact.abs().max())
    again = Source(tmp_path / "out", source.config, None, None, source.validation)
    assert source.validation is not None
    assert len(list(again.task.predict(source.validation))) == len(source.validation)


def test_reports_show_ranges_and_sensitivities(source: Source, tmp_path: Path) -> None:
    way = find_way("int8-static")
    tables = way(source, way.parse({"wide": 1}), tmp_path / "out")
    headings = [table.headings[0:2] for table in tables]
    assert ["layer", "relative error of the outputs"] in [list(x) for x in headings]
    ranges = next(table for table in tables if "zero point" in table.headings)
    assert len(ranges.rows) == 7  # the most sensitive of eight layers stays wide
    sweep = next(table for table in tables if "relative error of the outputs" in table.headings)
    assert sweep.rows[0][0] not in [row[0] for row in ranges.rows]
    assert len(sweep.rows) == 8


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("int8", {"keep": ["blocks.9"]}, "no layer that is quantised is named 'blocks.9'; nearest"),
        ("int4", {"group_size": 7}, "do not divide"),
        ("int4", {"method": "best"}, "method"),
        ("int8-static", {"calibration": "max"}, "calibration"),
    ],
)
def test_options_that_do_not_fit(
    source: Source, name: str, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    way = find_way(name)
    with pytest.raises(ConfigError, match=message):
        way(source, way.parse(options), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_no_calibration_rows(source: Source, tmp_path: Path) -> None:
    empty = Source(source.folder, source.config, None, None, source.validation)
    for name, options in (("int8-static", {}), ("int4", {"group_size": 8}), ("int8", {"wide": 1})):
        way = find_way(name)
        with pytest.raises(ConfigError, match=f"{name} needs calibration rows"):
            way(empty, way.parse(options), tmp_path / "out")


def test_a_quantised_folder_is_not_quantised_again(source: Source, tmp_path: Path) -> None:
    way = find_way("int8")
    way(source, way.parse({}), tmp_path / "out")
    again = Source(tmp_path / "out", source.config, source.train, source.calibration, source.validation)
    with pytest.raises(ConfigError, match="cannot be quantised again"):
        way(again, way.parse({}), tmp_path / "twice")


def test_a_post_norm_network_has_nothing_to_fold_into(source: Source, tmp_path: Path) -> None:
    for name, options in (("int8", {"smooth": True}), ("int4", {"method": "awq", "group_size": 8})):
        way = find_way(name)
        with pytest.raises(ConfigError, match="no norm of this model is read by linear layers alone"):
            way(source, way.parse({**options, "fold": True}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "options"),
    [("int8-static", {"smooth": True, "method": "gptq"}), ("int4", {"method": "awq", "group_size": 8})],
)
def test_factors_fold_into_the_norms_of_a_decoder(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    values = sizes_values(tmp_path)
    del values["study"]
    shape = {"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}
    lines = ["time flies like an arrow", "fruit flies like a banana"] * 8
    (tmp_path / "texts.csv").write_text("text\n" + "\n".join(lines) + "\n")
    values |= {"task": "generate", "scratch": shape}
    values["data"] = {name: str(tmp_path / "texts.csv") for name in ("train", "validation")}
    config = parse_config(values)
    train_run(config, configured_trainer(config), evaluate=False)
    run = open_run(config.output)
    large = load(run.folder / "model")
    for readers in norm_readers(large.network):  # outliers: some channels of what the layers read are large
        readers.fold(torch.tensor([40.0, *[1.0] * 15]))
    large.save_pretrained(tmp_path / "outliers")
    source = Source(tmp_path / "outliers", run.config, None, run.splits[0], run.splits[1])
    way = find_way(name)
    tables = way(source, way.parse({**options, "fold": True}), tmp_path / "out")
    scaled = next(table for table in tables if "scaled by" in table.headings)
    assert {row[2] for row in scaled.rows} == {"norm", ""}
    assert all(row[2] == "" for row in scaled.rows if row[0].endswith((".out", ".down")))
    config_of = read_json_object(tmp_path / "out" / "config.json", DataError)
    assert config_of["quantization_config"]["quant_method"] == "compressed-tensors"  # others read it too
    model = load(tmp_path / "out", strict=True)
    ids = torch.tensor([[3, 4, 5, 6, 3]])
    with torch.inference_mode():
        exact, close = (x(input_ids=ids).logits for x in (large, model))
    assert float((exact - close).abs().max()) < 0.15 * float(exact.abs().max())
