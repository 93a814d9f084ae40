"""Ways to shrink a model: the registry, and that what a way writes loads and predicts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from glassformer import load
from glassformer.errors import ConfigError
from glassformer.studies.ways import WAYS, Half, Source, Way, find_way, register
from tests.studies.samples import trained_source


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """A classifier of two labels, trained for a step."""
    return trained_source(tmp_path_factory.mktemp("source"))


def test_half_precision_is_written_and_loads(source: Source, tmp_path: Path) -> None:
    way = find_way("half")
    before = {path.name: path.read_bytes() for path in source.folder.iterdir()}
    assert list(way(source, way.parse({}), tmp_path / "half")) == []
    model = load(tmp_path / "half")
    assert model.dtype == torch.bfloat16
    wide = load(source.folder)
    for name, weight in model.named_parameters():
        assert torch.equal(weight, wide.get_parameter(name).to(torch.bfloat16)), name
    assert {path.name: path.read_bytes() for path in source.folder.iterdir()} == before
    again = Source(tmp_path / "half", source.config, None, None, source.validation)
    assert source.validation is not None
    assert len(list(again.task.predict(source.validation))) == len(source.validation)


def test_a_way_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.studies.ways.WAYS", dict(WAYS))
    with pytest.raises(ConfigError, match=r"no way 'halve'.*half"):
        find_way("halve")
    own = Half()
    register("own", own)
    assert find_way("own") is own
    with pytest.raises(ConfigError, match="'own' already"):
        register("own", Half())
    with pytest.raises(ConfigError, match="must be a glassformer"):
        register("none", Half)  # type: ignore[arg-type] # the class instead of a way


@pytest.mark.parametrize("name", WAYS)
def test_every_way_has_options_with_documentation(name: str) -> None:
    way = find_way(name)
    assert isinstance(way, Way) and way.__doc__
    assert way.OPTIONS.__doc__
    with pytest.raises(ConfigError, match="no option"):
        way.parse({"dtpye": "float16"})


def test_rows_that_a_way_needs_and_lacks_are_named(source: Source) -> None:
    without = Source(source.folder, source.config, None, None, source.validation)
    with pytest.raises(ConfigError, match=r"distilled needs train rows.*data\.train"):
        without.needed("train", "distilled")
    assert without.needed("validation", "the gate") is source.validation
