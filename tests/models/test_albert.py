"""ALBERT: layers that share their weights are one on disk and in RAM, and each layer is there to look at."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import glassformer
from glassformer import Model
from glassformer.errors import ConfigError
from glassformer.inspect.ram import ram
from glassformer.models import FAMILIES
from tests.e2e.tiny_models import make_folder

TINY = FAMILIES["albert"].tiny
TEXTS = ["time flies like an arrow", "fruit flies like a banana"]


@pytest.mark.parametrize("layers", [1, 4, 12])
def test_the_number_of_layers_changes_no_size(layers: int, tmp_path: Path) -> None:
    model = Model.from_config({**TINY, "num_hidden_layers": layers}, task="fill-mask")
    one = Model.from_config({**TINY, "num_hidden_layers": 1}, task="fill-mask")
    count = sum(p.numel() for p in model.parameters())
    assert count == sum(p.numel() for p in one.parameters())
    assert ram(model.network).inference.weights == 4 * count
    model.save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert sum(x.numel() for x in stored.values()) == count
    assert len([name for name in model.taps() if name.endswith("attn.probs")]) == layers


@pytest.mark.parametrize(
    ("layers", "groups", "inner", "expected"),
    [
        (6, 1, 1, (0, 0, 0, 0, 0, 0)),
        (6, 2, 1, (0, 0, 0, 3, 3, 3)),
        (5, 2, 1, (0, 0, 0, 3, 3)),
        (3, 3, 1, (0, 1, 2)),
        (4, 2, 2, (0, 1, 0, 1, 4, 5, 4, 5)),
    ],
)
def test_which_layer_has_the_parameters_of_which(
    layers: int, groups: int, inner: int, expected: tuple[int, ...]
) -> None:
    config = {"num_hidden_layers": layers, "num_hidden_groups": groups, "inner_group_num": inner}
    assert Model.from_config({**TINY, **config}).spec.blocks.shared == expected


def test_a_loaded_model_shares_and_learns_as_one(tmp_path: Path) -> None:
    Model.from_config(TINY, task="text-classification").save_pretrained(tmp_path)
    model = glassformer.load(tmp_path)
    weights = [model.network.get_parameter(f"blocks.{i}.ffn.up.weight") for i in range(3)]
    assert len({id(weight) for weight in weights}) == 1
    model(torch.tensor([[5, 6, 7]]), labels=torch.tensor([1])).loss.backward()
    before = weights[0].detach().clone()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    torch.testing.assert_close(weights[2], before - 0.1 * weights[1].grad)


def test_encode_with_a_prompt(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "albert")
    (folder / "1_Pooling").mkdir()
    for name, content in {
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        ],
        "1_Pooling/config.json": {"pooling_mode_mean_tokens": True},
        "config_sentence_transformers.json": {"prompts": {"query": "like "}},
    }.items():
        (folder / name).write_text(json.dumps(content))
    model = glassformer.load(folder)
    vectors = model.encode(TEXTS, prompt_name="query")
    assert vectors.shape == (2, model.network.width)
    with torch.no_grad():
        for text, vector in zip(TEXTS, vectors, strict=True):
            ids = torch.tensor([model.tokenizer("like " + text)["input_ids"]])
            states = model(ids).last_hidden_state
            np.testing.assert_allclose(vector, states[0].mean(0).numpy(), atol=1e-5)
    np.testing.assert_allclose(model.encode(TEXTS, prompt_name="query", compute="int8"), vectors, atol=0.1)
    with pytest.raises(ConfigError, match="prompt_name is 'passage'"):
        model.encode(TEXTS, prompt_name="passage")
