"""The config of a model: a dict whose keys are attributes, by the names that most families use."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import pytest

from glassformer.errors import ConfigError
from glassformer.models import FAMILIES
from glassformer.models.model_config import ModelConfig

OTHER_SIZES = {"clip", "dac", "encodec"}  # whose sizes are those of its two parts; which has no layers of attention
CODES = {"musicgen_decoder": 16}  # of a codebook


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - OTHER_SIZES))
def test_every_family_has_the_common_names(family: str) -> None:
    config = ModelConfig(FAMILIES[family].tiny)
    assert config.model_type == family
    assert config.hidden_size == 32 and config.num_attention_heads == 4
    assert config.num_hidden_layers == (1 if family == "lxmert" else 3)
    assert config.is_encoder_decoder is ("decoder_layers" in config or "num_decoder_layers" in config)
    if FAMILIES[family].modality != "picture":
        assert config.vocab_size == CODES.get(family, 99)


def test_it_is_a_dict_and_more() -> None:
    tiny = {key: value for key, value in FAMILIES["gpt2"].tiny.items() if key != "pad_token_id"}
    config = ModelConfig(tiny)
    assert config == tiny and isinstance(config, dict)
    assert config.n_embd == config["n_embd"] == config.hidden_size and "hidden_size" not in config
    assert config.layer_norm_epsilon == 1e-5, "the default of a key that the file leaves out"
    assert config.pad_token_id is None and config.output_attentions is False
    config.pad_token_id = 7
    assert config["pad_token_id"] == 7 and config.to_dict() == dict(config) and type(config.to_dict()) is dict
    assert json.loads(config.to_json_string())["pad_token_id"] == 7
    for twin in (copy.copy(config), copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert type(twin) is ModelConfig and twin == config
    with pytest.raises(AttributeError, match="no key 'hiden_size'"):
        _ = config.hiden_size
    assert not hasattr(config, "__array__") and not hasattr(ModelConfig(), "hidden_size")


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ({}, {0: "LABEL_0", 1: "LABEL_1"}),
        ({"num_labels": 1}, {0: "LABEL_0"}),
        ({"id2label": {"0": "no", "1": "yes"}}, {0: "no", 1: "yes"}),
        ({"id2label": {0: "no"}, "num_labels": 5}, {0: "no"}),
        ({"id2label": None, "num_labels": None}, {0: "LABEL_0", 1: "LABEL_1"}),
    ],
)
def test_labels(config: dict[str, object], names: dict[int, str]) -> None:
    read = ModelConfig(config)
    assert read.id2label == names and read.num_labels == len(names)
    assert read.label2id == {name: number for number, name in names.items()}


def test_a_broken_config_has_its_keys_still() -> None:
    broken = ModelConfig(model_type="bert", hidden_size="wide")
    assert broken.hidden_size == "wide"
    with pytest.raises(AttributeError):
        _ = broken.num_hidden_layers
    assert ModelConfig(text_config={"hidden_size": 3}).text_config.hidden_size == 3


def test_it_is_saved(tmp_path: Path) -> None:
    config = ModelConfig(FAMILIES["bert"].tiny)
    config.save_pretrained(tmp_path / "new")
    assert json.loads((tmp_path / "new" / "config.json").read_text()) == config
    with pytest.raises(ConfigError, match="is a file"):
        config.save_pretrained(tmp_path / "new" / "config.json")
