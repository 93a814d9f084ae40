"""Configs: default sizes are the reference library's, in any spelling; generation configs are read and written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import transformers
import yaml

from glassformer import ConfigError, UnsupportedError, hf
from glassformer.hf.configs import SIZES
from glassformer.models import FAMILIES, ConfigReader

DEFAULTS = yaml.safe_load(SIZES.read_text())


@pytest.mark.parametrize("model_type", sorted(set(FAMILIES) - {"transformer", "gemma3_text"}))
def test_a_config_without_keys_is_the_references(model_type: str) -> None:
    """gemma3_text is left out: the reference's defaults there are those of no released model."""
    theirs = transformers.AutoConfig.for_model(model_type).to_dict()
    ours = hf.AutoConfig.for_model(model_type)
    for name, size in DEFAULTS.get(model_type, {}).items():
        assert theirs[name] == size
    FAMILIES[model_type].spec(ConfigReader(ours))


def test_sizes_in_another_spelling_take_the_place_of_defaults() -> None:
    config = hf.GPT2Config(hidden_size=16, n_head=2, num_hidden_layers=1)
    assert config.n_embd == config.hidden_size == 16 and config.n_layer == 1 and config.vocab_size == 50257
    assert "n_embd" not in config.to_dict()


def test_from_dict_and_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps({"hidden_size": 24}))
    config = hf.BertConfig.from_json_file(tmp_path / "c.json")
    assert (config.model_type, config.hidden_size, config.num_hidden_layers) == ("bert", 24, 12)
    (tmp_path / "c.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"c\.json"):
        hf.BertConfig.from_json_file(tmp_path / "c.json")


def test_generation_configs(tmp_path: Path) -> None:
    config = hf.GenerationConfig(max_new_tokens=4)
    config.num_beams = 2
    config.save_pretrained(tmp_path)
    assert hf.GenerationConfig.from_pretrained(tmp_path, top_k=3).to_dict() == {
        "max_new_tokens": 4,
        "num_beams": 2,
        "top_k": 3,
    }
    assert config.temperature is None


def test_a_generation_config_of_another_name(tmp_path: Path) -> None:
    hf.GenerationConfig(num_beams=3).save_pretrained(tmp_path, config_file_name="translation.json")
    assert hf.GenerationConfig.from_pretrained(tmp_path, "translation.json").num_beams == 3
    for name in ("../translation.json", "a/b.json"):
        with pytest.raises(ConfigError, match="must be the name of a file, without a folder"):
            hf.GenerationConfig.from_pretrained(tmp_path, config_file_name=name)
        with pytest.raises(ConfigError, match="must be the name of a file, without a folder"):
            hf.GenerationConfig().save_pretrained(tmp_path, config_file_name=name)
    hf.GenerationConfig().save_pretrained(tmp_path, push_to_hub=False)
    with pytest.raises(UnsupportedError, match="push_to_hub=True: upload the folder with its model"):
        hf.GenerationConfig().save_pretrained(tmp_path, push_to_hub=True)
