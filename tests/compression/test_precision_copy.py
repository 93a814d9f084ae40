"""A copy in another precision: the weights that loading in it gives, from whatever the network holds now."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import glassformer
from glassformer.compression.precision_copy import other_precisions, precision_copy
from glassformer.errors import ConfigError
from tests.e2e.tiny_models import make_folder

WIDE = {"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 96}
FAMILIES = {"bert": "fill-mask", "llama": "text-generation", "mixtral": "text-generation"}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("precision", ["bfloat16", "float16", "int8", "int4"])
def test_it_is_what_loading_gives_and_the_network_stays(family: str, precision: str, tmp_path: Path) -> None:
    folder = make_folder(tmp_path, family, task=FAMILIES[family], **WIDE)
    model = glassformer.load(folder)
    model.prepare("fp32")
    before = {name: x.clone() for name, x in model.network.state_dict().items()}
    copied = precision_copy(model.network, precision)
    loaded = glassformer.load(folder, dtype=precision).network
    ours, theirs = copied.state_dict(), loaded.state_dict()
    assert list(ours) == list(theirs)
    for name, x in theirs.items():
        assert ours[name].dtype is x.dtype and torch.equal(ours[name], x), name
    for parameter in copied.parameters():
        parameter.data.zero_()
    after = model.network.state_dict()
    assert list(after) == list(before) and all(torch.equal(after[name], x) for name, x in before.items())


def test_a_changed_network_is_copied_as_it_is(tmp_path: Path) -> None:
    model = glassformer.load(make_folder(tmp_path, "bert", task="fill-mask"))
    with torch.no_grad():
        model.network.embedding.tokens.weight.mul_(2)
    copied = precision_copy(model.network, "bfloat16")
    assert torch.equal(copied.embedding.tokens.weight, model.network.embedding.tokens.weight.bfloat16())
    assert copied.head.decoder.weight is copied.embedding.tokens.weight  # tied, as they were


def test_what_a_network_can_be_copied_in(tmp_path: Path) -> None:
    narrow = glassformer.load(make_folder(tmp_path / "narrow", "bert", task="fill-mask", hidden_size=24))
    assert other_precisions(narrow.network) == ["float16", "bfloat16", "int8"]  # groups of 32 do not divide 24
    with pytest.raises(ConfigError, match="groups of 32 do not divide"):
        precision_copy(narrow.network, "int4")
    folder = make_folder(tmp_path / "wide", "bert", task="fill-mask", **WIDE)
    wide = glassformer.load(folder, dtype="bfloat16")
    assert other_precisions(wide.network) == ["float32", "float16", "int8", "int4"]
    wide.add_adapter()
    assert other_precisions(wide.network) == ["float32", "float16"]
    with pytest.raises(ConfigError, match="has adapters"):
        precision_copy(wide.network, "int8")
    levels = glassformer.load(folder, dtype="int8")
    assert other_precisions(levels.network) == []
    with pytest.raises(ConfigError, match="cannot be copied as bfloat16"):
        precision_copy(levels.network, "bfloat16")
