"""The face: what load, Model and their thin methods promise beyond parity and bad input."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer import Model, Tape, load
from glassformer.errors import ConfigError
from glassformer.models import FAMILIES
from tests.e2e.tiny_models import make_folder

TEXT = "time flies like an arrow"


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_folder(tmp_path_factory.mktemp("bert"), "bert", task="feature-extraction")
    roles = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | roles))
    return folder


def test_a_head_that_reads_the_first_token_misses_its_marker(bert: Path) -> None:
    """CL-25: the classifier warns when the input does not begin with [CLS]."""
    model = load(bert, task="classify")
    bare = model.tokenizer(TEXT, add_special_tokens=False, return_tensors="pt")
    with pytest.warns(UserWarning, match=r"reads the first token, which should be '\[CLS\]'"):
        model(**bare)
    left = model.tokenizer([TEXT, "time"], padding=True, padding_side="left", return_tensors="pt")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model(**model.tokenizer(TEXT, return_tensors="pt")).logits.shape == (1, 2)
        model(**left)  # the first token that is not padding is [CLS]
        load(bert)(**bare)  # a bare body judges nothing


def test_a_body_saved_without_its_pooler_loads(bert: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(bert / "model.safetensors")
    save_file({k: v for k, v in tensors.items() if "pooler" not in k}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((bert / "config.json").read_text())
    model = load(tmp_path)
    assert model.report.new == ["head.dense.weight", "head.dense.bias"]
    ids = torch.tensor([[1, 4, 5, 2]])
    assert torch.equal(model(ids).last_hidden_state, load(bert)(ids).last_hidden_state)


def test_a_head_of_another_task_is_new_and_reported(bert: Path) -> None:
    model = load(bert, task="tag")
    assert model.task == "token-classification"
    assert model.report.new == ["head.classifier.weight", "head.classifier.bias"]
    assert "train them before use" in str(model.report)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_config_alone_has_shapes_on_the_meta_device(family: str) -> None:
    model = Model.from_config(FAMILIES[family].tiny, device="meta")
    assert all(parameter.is_meta for parameter in model.parameters())
    real = Model.from_config(FAMILIES[family].tiny)
    assert {n: p.shape for n, p in model.named_parameters()} == {
        n: p.shape for n, p in real.named_parameters()
    }


def test_a_prepared_model_saves_what_it_was_loaded_from(bert: Path, tmp_path: Path) -> None:
    load(bert).prepare("int8").save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == (bert / "model.safetensors").read_bytes()


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_a_prepared_model_can_be_called_as_any_other(bert: Path, precision: str) -> None:
    plain, model = load(bert), load(bert).prepare(precision)
    ids = torch.tensor([[1, 4, 5, 2]])
    torch.testing.assert_close(model(ids).last_hidden_state, plain(ids).last_hidden_state, atol=0.1, rtol=0.1)


def test_narrow_weights_have_no_gradients_and_say_so(bert: Path) -> None:
    model = load(bert).prepare("int8").train()
    with pytest.raises(ConfigError, match="gradients are asked for"):
        model(torch.tensor([[1, 4, 5, 2]]))


def test_one_string_gives_one_vector(bert: Path) -> None:
    model = load(bert)
    assert model.encode(TEXT).shape == (8,) and model.encode([TEXT]).shape == (1, 8)
    assert (model.encode(TEXT) == model.encode([TEXT])[0]).all()


def test_saving_keeps_the_config_and_names_the_head(bert: Path, tmp_path: Path) -> None:
    load(bert, task="classify").save_pretrained(tmp_path)
    before, after = (json.loads((folder / "config.json").read_text()) for folder in (bert, tmp_path))
    assert after["architectures"] == ["BertForSequenceClassification"]
    assert {k: v for k, v in after.items() if k != "architectures"} == {
        k: v for k, v in before.items() if k != "architectures"
    }
    assert load(tmp_path, strict=True).report.new == []


def test_what_others_call_it() -> None:
    assert {"load", "Model", "Tape", "Flow"} <= set(dir(glassformer))


def test_taps_arrive_with_the_output(bert: Path) -> None:
    model = load(bert)
    output = model(**model.tokenizer(TEXT, return_tensors="pt"), tape=Tape("attn.probs", "final"))
    assert list(output.taps) == ["blocks.0.attn.probs", "final"]
    assert "taps: 2 tensors" in repr(output)
