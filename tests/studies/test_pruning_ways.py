"""Ways to prune: what they write is smaller or sparser, loads and predicts; and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glassformer import load
from glassformer.compression.prune import prunable_weights, sparsity_of
from glassformer.compression.structure import only_stack
from glassformer.errors import ConfigError, GlassformerError
from glassformer.evaluation.runs import open_run
from glassformer.runs.config import parse_config
from glassformer.studies.trained import configured_trainer, train_run
from glassformer.studies.ways import Source, find_way
from tests.studies.samples import sizes_values, trained_source, with_own_model


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """A classifier of two labels, trained for a step."""
    return trained_source(tmp_path_factory.mktemp("source"), num_hidden_layers=3, num_attention_heads=4)


@pytest.fixture
def source(trained: Source) -> Source:
    """The same, with a model of its own."""
    return with_own_model(trained)


def written(source: Source, name: str, options: dict[str, Any], folder: Path) -> Any:
    """The model that a way has written; its rows are predicted, and the source is as it was."""
    way = find_way(name)
    before = {path.name: path.read_bytes() for path in source.folder.iterdir()}
    tables = way(source, way.parse(options), folder)
    assert tables and all(table.rows for table in tables)
    assert {path.name: path.read_bytes() for path in source.folder.iterdir()} == before
    again = Source(folder, source.config, None, None, source.validation)
    assert source.validation is not None
    assert len(list(again.task.predict(source.validation))) == len(source.validation)
    return load(folder)


def size_of(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.network.parameters())


@pytest.mark.parametrize(
    "options",
    [
        {"sparsity": 0.6},
        {"method": "wanda", "sparsity": 0.5},
        {"pattern": "2:4"},
        {"method": "wanda", "pattern": "1:2"},
        {"sparsity": 0.6, "epochs": 2},
        {"method": "movement", "sparsity": 0.6, "epochs": 2, "learning_rate": 1e-3},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_a_share_of_the_weights_is_zero(source: Source, options: dict[str, Any], tmp_path: Path) -> None:
    model = written(source, "pruned", options, tmp_path / "out")
    share = options.get("sparsity", 0.5)
    report = sparsity_of(prunable_weights(model.network))
    assert report.sparsity == pytest.approx(share, abs=0.01)
    assert size_of(model) == size_of(load(source.folder))


def test_heads_neurons_layers_and_tokens_go(source: Source, tmp_path: Path) -> None:
    before = load(source.folder)
    stack = only_stack(before.network)
    heads = len(stack) * stack[0].attn.spec.heads
    model = written(source, "heads", {"share": 0.5}, tmp_path / "heads")
    left = sum(block.attn.spec.heads for block in only_stack(model.network))
    assert left == max(heads - round(heads / 2), len(stack))
    assert size_of(model) < size_of(before)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("neurons", {"share": 0.25}),
        ("layers", {}),
        ("layers", {"names": ["blocks.0"]}),
        ("vocabulary", {}),
        ("heads", {"share": 0.25, "epochs": 1}),
    ],
)
def test_what_goes_makes_the_model_smaller(source: Source, name: str, options: dict[str, Any], tmp_path: Path) -> None:
    assert size_of(written(source, name, options, tmp_path / "out")) < size_of(load(source.folder))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("pruned", {"sparsity": 1.0}, "sparsity is 1.0; .*not including, 1"),
        ("pruned", {"method": "movement"}, "give epochs"),
        ("pruned", {"method": "wanda", "epochs": 1}, "not with wanda"),
        ("pruned", {"pattern": "2-4"}, "such as 2:4"),
        ("pruned", {"pattern": "4:4"}, "fewer than 4"),
        ("pruned", {"pattern": "2:5"}, "no multiple of 5"),
        ("heads", {"share": 1.0}, "share is 1.0"),
        ("heads", {"share": 0.99}, "must stay in each"),
        ("layers", {"count": 99}, "at least one must stay"),
        ("layers", {"names": ["block.0"]}, "no layer 'block.0'; nearest: 'blocks.0'"),
        ("vocabulary", {"least": 0}, "least is 0"),
    ],
)
def test_what_is_refused(source: Source, name: str, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    way = find_way(name)
    with pytest.raises(ConfigError, match=message):
        parsed = way.parse(options)
        way.check(source, parsed)  # as the evaluator does before anything is measured
        way(source, parsed, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["heads", "neurons", "layers", "vocabulary"])
def test_rows_are_needed(source: Source, name: str, tmp_path: Path) -> None:
    way = find_way(name)
    without = Source(source.folder, source.config, None, None, source.validation)
    with pytest.raises(GlassformerError, match=r"needs .* rows"):
        way(without, way.parse({}), tmp_path / "out")


def test_a_run_with_a_section_is_trained_evaluated_and_opened(tmp_path: Path) -> None:
    values = sizes_values(tmp_path)
    del values["study"]
    values["data"] |= {"train": "far.csv", "validation": "test.csv"}
    values["training"] |= {"epochs": 4}
    values["pruning"] = {"method": "movement", "sparsity": 0.8, "every": 1}
    config = parse_config(values)
    train_run(config, configured_trainer(config), evaluate=True)
    run = open_run(config.output)
    assert run.config.pruning == config.pruning
    assert sparsity_of(prunable_weights(load(run.folder / "model").network)).sparsity == pytest.approx(0.8, abs=0.01)
