"""Keywords of `load` that users of the reference library type: mapped, accepted, or refused with what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer import Model, load
from glassformer.errors import ConfigError, DataError, GlassformerError, UnsupportedError
from glassformer.models.model_config import ModelConfig
from tests.e2e.tiny_models import make_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bert")
    make_folder(root / "sub", "bert", task="text-classification")
    return make_folder(root, "bert", task="text-classification", id2label={"0": "no", "1": "yes"})


TAKEN: list[tuple[dict[str, Any], str]] = [
    ({"torch_dtype": "float16"}, "m.dtype is torch.float16"),
    ({"torch_dtype": torch.bfloat16}, "m.dtype is torch.bfloat16"),
    ({"dtype": "auto"}, "m.dtype is torch.float32"),
    ({"torch_dtype": "auto", "dtype": None}, "m.dtype is torch.float32"),
    ({"device_map": "cpu"}, "m.device.type == 'cpu'"),
    ({"device_map": {"": "cpu"}}, "m.device.type == 'cpu'"),
    ({"device_map": "auto", "low_cpu_mem_usage": True}, "m.device.type in ('cpu', 'cuda', 'mps')"),
    ({"device_map": None, "token": None, "use_auth_token": False, "force_download": False}, "True"),
    ({"num_labels": 5}, "m.config.num_labels == 5 and m.config.id2label[4] == 'LABEL_4'"),
    ({"num_labels": 3, "ignore_mismatched_sizes": True, "use_safetensors": True}, "m.config.num_labels == 3"),
    ({"id2label": {0: "a", 1: "b", 2: "c"}, "label2id": {"a": 0, "b": 1, "c": 2}}, "m.config.label2id['c'] == 2"),
    ({"num_labels": 2, "id2label": {0: "a", 1: "b"}}, "m.config.id2label == {0: 'a', 1: 'b'}"),
    ({"local_files_only": True, "cache_dir": "nowhere", "trust_remote_code": False}, "not m.training"),
    ({"attn_implementation": "sdpa"}, "True"),
    ({"attn_implementation": "eager"}, "True"),
    ({"subfolder": "sub"}, "m.config.id2label[0] == 'LABEL_0'"),
    ({"hidden_dropout_prob": 0.0}, "m.config.hidden_dropout_prob == 0.0 and m.network.embed.dropout.p == 0.0"),
    ({"problem_type": "multi_label_classification"}, "m.config.problem_type == 'multi_label_classification'"),
    ({"config": ModelConfig(hidden_dropout_prob=0.0)}, "m.config.hidden_dropout_prob == 0.0"),
    ({"quantization_config": None, "load_in_8bit": False}, "True"),
    ({"dtype": "int8"}, "m.dtype is torch.float32 and m.network.get_submodule('embed.tokens').stored.bits == 8"),
    ({"dtype": torch.int8}, "m.network.blocks[0].attn.qkv.stored.levels.dtype is torch.int8"),
]


@pytest.mark.parametrize(("keywords", "wanted"), TAKEN, ids=lambda each: str(each)[:40])
def test_taken(folder: Path, keywords: dict[str, Any], wanted: str) -> None:
    model = load(folder, **keywords)
    assert eval(wanted, {"m": model, "torch": torch})


REFUSED: list[tuple[dict[str, Any], type[GlassformerError], str]] = [
    ({"trust_remote_code": True}, UnsupportedError, "never run"),
    ({"quantization_config": {"bits": 4}}, UnsupportedError, r"load\(…, dtype='int8'\)"),
    ({"load_in_8bit": True}, UnsupportedError, r"write dtype='int8'"),
    ({"load_in_4bit": True}, UnsupportedError, r"write dtype='int4', or quantise the folder once .*--to int4"),
    ({"attn_implementation": "flash_attention_2"}, UnsupportedError, "attn_implementation.*leave it out"),
    ({"device_map": {"embed": 0, "blocks": 1}}, UnsupportedError, "one device"),
    ({"device_map": 97}, ConfigError, "'cuda:97'.*does not have"),
    ({"torch_dtype": "float16", "dtype": "float32"}, ConfigError, "two names of one thing"),
    ({"torch_dtype": "int3"}, ConfigError, "allowed: float32"),
    ({"use_safetensors": False}, ConfigError, "allow_pickle=True"),
    ({"subfolder": "nothing"}, ConfigError, r"holds no config\.json"),
    ({"divice": "cpu"}, ConfigError, "takes no 'divice'.*nearest: 'device'"),
    ({"hidden_dropout": 0.1}, ConfigError, "no key of a 'bert' model's config; nearest: 'hidden_dropout_prob'"),
    ({"num_labels": -1}, ConfigError, "num_labels is -1"),
    ({"config": 3}, DataError, "config is 3"),
    ({"output_loading_info": True}, UnsupportedError, r"model\.report"),
]


@pytest.mark.parametrize(("keywords", "error", "words"), REFUSED, ids=lambda each: str(each)[:40])
def test_refused(folder: Path, keywords: dict[str, Any], error: type[GlassformerError], words: str) -> None:
    with pytest.raises(error, match=words):
        load(folder, **keywords)


def test_other_labels_make_a_new_head(folder: Path) -> None:
    model = load(folder, num_labels=5)
    assert any(name.startswith("head.") for name in model.report.new)
    assert not load(folder).report.new


def test_the_config_of_another_load(folder: Path, tmp_path: Path) -> None:
    config = load(folder, num_labels=3).config
    model: Model = load(folder, config=config)
    assert model.config.num_labels == 3
    model.save_pretrained(tmp_path)
    assert load(tmp_path).config.num_labels == 3
