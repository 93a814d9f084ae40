"""Weights that become levels as they are read: those of a network that is quantised afterwards, in less memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer.compression.quantise import Scheme, round_to_nearest
from glassformer.compression.quantised_loading import TABLES, rounded_by_rows
from glassformer.compression.quantised_network import quantise_network, stored_levels_of
from glassformer.core.quantised import quantised_layers, stored_levels
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.inspect.outline import outline
from glassformer.loading import HeadLoading
from tests.e2e.tiny_models import make_folder
from tests.peak import measured

FAMILIES = {
    "bert": "fill-mask", "gpt2": "text-generation", "llama": "text-generation", "t5": "translation",
    "albert": "fill-mask", "phi3": "text-generation", "mixtral": "text-generation",
}  # fmt: skip
WIDE = {"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 96}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("stored", ["float32", "bfloat16"])
def test_levels_are_those_of_quantising_afterwards(family: str, stored: str, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "wide", family, task=FAMILIES[family])
    if stored == "bfloat16":
        glassformer.load(folder).to(torch.bfloat16).save_pretrained(folder)
    model = glassformer.load(folder, dtype="int8", strict=True)
    other = glassformer.load(folder, dtype="float32")
    quantise_network(other.network, Scheme(8), embeddings=TABLES)
    ours, theirs = quantised_layers(model.network), quantised_layers(other.network)
    assert list(ours) == list(theirs) and model.dtype is torch.float32
    for path, layer in ours.items():
        assert torch.equal(layer.stored.levels, theirs[path].stored.levels), path
        assert torch.equal(layer.stored.scale, theirs[path].stored.scale), path
    assert len(stored_levels(model.network)) == len(stored_levels(other.network))
    assert sorted(model.report.loaded) == sorted(glassformer.load(folder).report.loaded)
    model.save_pretrained(tmp_path / "small")
    assert list(quantised_layers(glassformer.load(tmp_path / "small", strict=True).network)) == list(ours)


def test_four_bits(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "bert", task="fill-mask", **WIDE)
    layers = quantised_layers(glassformer.load(folder, dtype="int4").network)
    kinds = {path.rpartition(".")[2]: (layer.stored.bits, layer.stored.group) for path, layer in layers.items()}
    wanted = dict.fromkeys(("tokens", "decoder"), (8, 0)) | dict.fromkeys(("qkv", "out", "up", "down"), (4, 32))
    assert kinds == wanted


@pytest.mark.parametrize("scheme", [Scheme(8), Scheme(4, 32)])
def test_rows_in_blocks_are_the_whole(scheme: Scheme, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.compression.quantised_loading.BLOCK_WEIGHTS", 200)
    weight = torch.randn(10, 64, generator=torch.Generator().manual_seed(0))
    blocks = rounded_by_rows(weight, scheme, "w")
    whole = stored_levels_of(round_to_nearest(weight, scheme), scheme, weight)
    assert torch.equal(blocks.levels, whole.levels) and torch.equal(blocks.scale, whole.scale)
    assert blocks.columns == 64


def load_int8(folder: str) -> int:
    return sum(x.numel() for x in glassformer.load(folder, dtype="int8").buffers())


def test_no_copy_in_floating_point(tmp_path: Path) -> None:
    sizes = {"hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 2048, "num_hidden_layers": 12}
    folder = make_folder(tmp_path / "wide", "bert", task="feature-extraction", **sizes)
    size = (folder / "model.safetensors").stat().st_size
    _, before = measured(load_int8, str(make_folder(tmp_path / "tiny", "bert", task="feature-extraction")))
    _, grown = measured(load_int8, str(folder))
    assert size > 150_000_000
    assert grown - before <= 0.45 * size  # levels are 0.25 of it; one tensor is mapped, one block in the making


def test_what_cannot_be_rounded_is_refused(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "wide", "bert", task="fill-mask", hidden_size=24, num_attention_heads=2)
    with pytest.raises(
        ConfigError, match=r"'int4', and .* has 24 columns, which groups of 32 do not divide; take dtype 'int8', or"
    ):
        glassformer.load(folder, dtype="int4")
    model = glassformer.load(folder, dtype="int8")
    with pytest.raises(ConfigError, match="cannot be trained"):
        model.network.check_trainable()
    model.save_pretrained(tmp_path / "small")
    with pytest.raises(ConfigError, match="'int8', and the checkpoint is quantised already: leave dtype out"):
        glassformer.load(tmp_path / "small", dtype="int8")
    with pytest.raises(ConfigError, match=r"allowed: float32, .*int8, int4"):
        glassformer.load(folder, dtype="int3")
    from glassformer.hf import AutoModel  # a module that other tests count when it is loaded

    config = json.loads((folder / "config.json").read_text())
    with pytest.raises(UnsupportedError, match=r"AutoModel.from_config takes no dtype 'int8'.* load\(folder"):
        AutoModel.from_config(config, torch_dtype="int8")


def test_an_outline_in_levels(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "bert", task="fill-mask", **WIDE)
    read = outline(str(folder), HeadLoading(dtype="int4"))
    (folder / "model.safetensors").unlink()
    alone = outline(str(folder), HeadLoading(dtype="int4"))
    sizes = [sum(stored.nbytes for stored in stored_levels(each.model.network)) for each in (read, alone)]
    assert sizes[0] == sizes[1] > 0 and alone.source == "config.json alone"
