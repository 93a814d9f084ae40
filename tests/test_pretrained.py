"""Loading and saving: heads of other tasks, configs without weights, the files of a folder."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from glassformer import ConfigError, DataError, Model, UnsupportedError, load
from glassformer.core import processor
from glassformer.engine.pooling import PoolingSettings
from glassformer.engine.prepare import prepared_precision
from glassformer.files.schema import given
from glassformer.loading import InferenceLoading
from glassformer.models import FAMILIES
from tests.e2e.tiny_models import make_folder

TEXT = "time flies like an arrow"
SOURCE = torch.tensor([[4, 5, 6]])


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("bert"), "bert", task="feature-extraction")


def test_a_part_that_the_folder_lacks_is_no_attribute(bert: Path) -> None:
    model = load(bert)
    assert not hasattr(model, "processor") and getattr(model, "processor", 0) == 0
    with pytest.raises(DataError, match="reads text only"):
        _ = model.processor


def test_a_body_saved_without_its_pooler_loads(bert: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(bert / "model.safetensors")
    save_file({k: v for k, v in tensors.items() if "pooler" not in k}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((bert / "config.json").read_text())
    model = load(tmp_path)
    assert model.report.new == ["head.dense.weight", "head.dense.bias"]
    ids = torch.tensor([[1, 4, 5, 2]])
    assert torch.equal(model(ids).last_hidden_state, load(bert)(ids).last_hidden_state)


def test_a_precision_of_inference_is_a_keyword_of_loading(bert: Path) -> None:
    ids = torch.tensor([[1, 4, 5, 2]])
    loaded = load(bert, **given(InferenceLoading(precision="bf16")))
    assert prepared_precision(loaded.network) == "bf16" and prepared_precision(load(bert).network) is None
    assert torch.equal(loaded(ids).last_hidden_state, load(bert).prepare("bf16")(ids).last_hidden_state)
    with pytest.raises(ConfigError, match="precision is 'fp61'; allowed: fp32, fp16, bf16, int8"):
        load(bert, precision="fp61")
    with pytest.raises(ConfigError, match="precision is 'fp61'; allowed: fp32, fp16, bf16, int8"):
        InferenceLoading(precision="fp61")  # type: ignore[arg-type]
    with pytest.raises(
        ConfigError, match="dtype is 'int3'; allowed: float32, float64, float16, bfloat16, int8, int4, auto"
    ):
        InferenceLoading(dtype="int3")  # type: ignore[arg-type]


def test_a_head_of_another_task_is_new_and_reported(bert: Path) -> None:
    model = load(bert, task="tag")
    assert model.task == "token-classification"
    assert model.report.new == ["head.classifier.weight", "head.classifier.bias"]
    assert "train them before use" in str(model.report)


def test_a_head_for_other_labels_is_new_though_its_names_and_shapes_fit(bert: Path, tmp_path: Path) -> None:
    classifier = load(bert, task="classify")
    classifier.save_pretrained(tmp_path)
    head = ["head.classifier.weight", "head.classifier.bias"]
    assert not load(tmp_path).report.new and not load(tmp_path, task="classify").report.new

    tagger = load(tmp_path, task="tag")
    assert tagger.report.new == head
    assert {"classifier.weight", "classifier.bias"} <= {*tagger.report.unused}
    old, new = (model.network.get_parameter(head[0]) for model in (classifier, tagger))
    assert old.shape == new.shape and not torch.equal(old, new)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_config_alone_has_shapes_on_the_meta_device(family: str) -> None:
    model = Model.from_config(FAMILIES[family].tiny, device="meta")
    assert all(parameter.is_meta for parameter in model.parameters())
    real = Model.from_config(FAMILIES[family].tiny)
    assert {n: p.shape for n, p in model.named_parameters()} == {n: p.shape for n, p in real.named_parameters()}


def test_a_prepared_model_saves_what_it_was_loaded_from(bert: Path, tmp_path: Path) -> None:
    load(bert).prepare("int8").save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == (bert / "model.safetensors").read_bytes()


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


def test_damaged_pooling_settings_stop_encode_alone(bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bert, tmp_path / "model")
    (folder / "modules.json").write_text('[{"type": "x.CNN", "path": "2_CNN"}]')
    model = load(folder)
    assert model(input_ids=torch.tensor([[2, 3]])).last_hidden_state.shape[:2] == (1, 2)
    with pytest.raises(UnsupportedError, match="'CNN' is not supported"):
        model.encode(["time"])


def test_pooling_settings_are_read_with_the_model(bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bert, tmp_path / "model")
    pooling, normalise = {"type": "x.Pooling", "path": "1_Pooling"}, {"type": "x.Normalize", "path": "2"}
    (folder / "modules.json").write_text(json.dumps([pooling, normalise]))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls"}')
    model = load(folder)
    assert model.pooling == PoolingSettings(poolings=("cls",), normalise=True)
    assert np.linalg.norm(model.encode(TEXT)) == pytest.approx(1)


@pytest.mark.parametrize("config", [None, [], "bert"])
def test_a_config_is_a_mapping(config: Any) -> None:
    with pytest.raises(ConfigError, match="give a dict"):
        Model.from_config(config)


@pytest.mark.parametrize(
    ("dtype", "cure"), [("bfloat16", 'model.prepare("bf16")'), ("float16", "float32"), (None, None)]
)
def test_a_dtype_that_the_processor_emulates_is_noted(
    dtype: str | None, cure: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "is_fast", lambda dtype, device="cpu": dtype == torch.float32)
    folder = make_folder(tmp_path, "bert")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        glassformer.load(folder, dtype=dtype)
    messages = [str(w.message) for w in caught]
    assert len(messages) == (dtype is not None)
    assert all(f"the weights are {dtype}, for which this processor" in text and str(cure) in text for text in messages)


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "xlm-roberta", "mpnet", "layoutlm"])
@pytest.mark.parametrize("task", ["fill-mask", "token-classification"])
def test_a_pooler_is_kept_by_models_whose_head_does_not_read_it(family: str, task: str, tmp_path: Path) -> None:
    """A sentence encoder that is trained on a language, or to tag, still begins a classifier with its pooler."""
    encoder = Model.from_config(FAMILIES[family].tiny)
    encoder.save_pretrained(tmp_path / "encoder")
    load(tmp_path / "encoder", task=task).save_pretrained(tmp_path / "trained")
    load(tmp_path / "trained").save_pretrained(tmp_path / "again")
    for folder in ("trained", "again"):
        back = load(tmp_path / folder, task="feature-extraction")
        assert not back.report.new
        for ours, expected in zip(back.network.head.parameters(), encoder.network.head.parameters(), strict=True):
            assert torch.equal(ours, expected)
    classifier = load(tmp_path / "again", task="text-classification")
    assert family not in ("bert", "albert", "layoutlm") or not any("pooler" in name for name in classifier.report.new)
