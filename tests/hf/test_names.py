"""Class names of the reference library: what stands behind each, and what says why nothing does."""

from __future__ import annotations

from pathlib import Path

import pytest
import transformers

from glassformer import hf, load
from glassformer.errors import ConfigError, DataError, GlassformerError, UnsupportedError
from glassformer.models import FAMILIES
from tests.e2e.tiny_models import make_folder

OURS = {"TransformerForConditionalGeneration"}  # the paper's own, which the reference library has not


def test_every_family_has_its_classes() -> None:
    for family in FAMILIES.values():
        for name, task in family.architectures.items():
            assert (task,) == getattr(hf, name).TASKS and family.model_type == getattr(hf, name).FAMILY
            assert name in OURS or hasattr(transformers, name)
    for name in ("BertTokenizerFast", "GPT2Tokenizer", "T5Config", "WhisperProcessor", "CLIPProcessor"):
        assert hasattr(hf, name) and hasattr(transformers, name)
    assert hf.BertConfig(hidden_size=8).model_type == "bert"
    assert all(hasattr(hf, name) and hasattr(transformers, name) for name in hf.__all__ if name != "PretrainedConfig")


def test_a_class_of_a_family_loads_its_head(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "bert", task="feature-extraction")
    assert hf.BertForMaskedLM.from_pretrained(folder).task == "fill-mask"
    assert hf.AutoModelForPreTraining.from_pretrained(folder).task == "pre-training"
    assert hf.AutoModel.from_config(hf.AutoConfig.from_pretrained(folder)).training
    refused: list[tuple[type[GlassformerError], str, object]] = [
        (UnsupportedError, "loads 'gpt2' models, and this is a 'bert' model", hf.GPT2Model.from_pretrained),
        (UnsupportedError, "no head for 'automatic-speech-recognition'", hf.AutoModelForCTC.from_pretrained),
        (DataError, "texts are read by AutoTokenizer|AutoTokenizer", hf.AutoFeatureExtractor.from_pretrained),
        (UnsupportedError, r"prepare\('int8'\)", hf.BitsAndBytesConfig),
        (UnsupportedError, r"torch\.optim\.AdamW", hf.AdamW),
    ]
    for error, words, call in refused:
        with pytest.raises(error, match=words):
            call(folder)  # type: ignore[operator]
    with pytest.raises(ConfigError, match="makes no model"):
        hf.AutoModelForMaskedLM()
    with pytest.raises(UnsupportedError, match="no 'AutoModelForEverything'; nearest: "):
        _ = hf.AutoModelForEverything


def test_a_tokenizer_with_options(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "bert")
    assert hf.AutoTokenizer.from_pretrained(folder, padding_side="left", use_fast=True).padding_side == "left"
    with pytest.raises(ConfigError, match="takes no 'nothing'"):
        hf.AutoTokenizer.from_pretrained(folder, nothing=1)
    with pytest.raises(DataError, match="the model is None"):
        hf.AutoTokenizer.from_pretrained(None)  # type: ignore[arg-type]


def test_a_pipeline_with_another_tokenizer_leaves_the_models_own(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "bert", task="text-classification")
    model = load(folder)
    own, other = model.tokenizer, hf.AutoTokenizer.from_pretrained(folder, padding_side="left")
    made = hf.pipeline("text-classification", model, tokenizer=other)
    assert made.tokenizer is other and model.tokenizer is own
    assert made("time flies") == hf.pipeline("text-classification", model)("time flies")


def test_a_name_of_a_model_without_a_counterpart_says_what_to_write(tmp_path: Path) -> None:
    model = hf.AutoModelForCausalLM.from_pretrained(make_folder(tmp_path, "gpt2", task="text-generation"))
    with pytest.raises(
        AttributeError, match=r"a GPT2LMHeadModel has no 'prepare_inputs_for_generation': model\.generate"
    ):
        model.prepare_inputs_for_generation(None)
    with pytest.raises(AttributeError, match=r"has no 'layers': the modules are model\.network's"):
        model.layers()
    assert not hasattr(model, "layers")
