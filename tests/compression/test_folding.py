"""Factors of inputs in the norm before a layer: the function stays what it was, and what cannot be folded is left."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from glassformer import Model
from glassformer.compression.folding import norm_readers

SHARED = {
    "vocab_size": 50,
    "max_position_embeddings": 32,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
LLAMA = {**SHARED, "model_type": "llama", "num_key_value_heads": 2, "intermediate_size": 48}
PRE_NORM: dict[str, tuple[dict[str, Any], int, int]] = {
    "gpt2": (
        {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 50},
        4,
        4,
    ),
    "llama": (LLAMA, 4, 6),
    "gemma": ({**LLAMA, "model_type": "gemma", "head_dim": 8}, 4, 6),
    "phi": ({**SHARED, "model_type": "phi", "intermediate_size": 48}, 2, 4),
    "gpt_neox": ({**SHARED, "model_type": "gpt_neox", "intermediate_size": 48}, 4, 4),
}
"""Family → its config, its norms, and the linear layers that read them."""


@pytest.mark.parametrize("family", PRE_NORM)
def test_folding_leaves_the_function_as_it_was(family: str) -> None:
    config, norms, layers = PRE_NORM[family]
    torch.manual_seed(0)
    network = Model.from_config(config).network.eval()
    draw = torch.Generator().manual_seed(1)
    for parameter in network.parameters():  # norms with gains and shifts that are not 1 and 0
        parameter.data.add_(0.2 * torch.randn(parameter.shape, generator=draw))
    model = Model.from_config(config)
    model.network.load_state_dict(network.state_dict())
    model.network.eval()
    ids = torch.randint(0, 50, (3, 7), generator=draw)
    with torch.inference_mode():
        before = model(input_ids=ids).last_hidden_state.clone()
    every = norm_readers(model.network)
    assert len(every) == norms and sum(len(x.layers) for x in every) == layers
    weights = {path: layer.weight.clone() for x in every for path, layer in x.layers.items()}
    for readers in every:
        readers.fold(torch.exp(torch.randn(32, generator=draw)))
    with torch.inference_mode():
        after = model(input_ids=ids).last_hidden_state
    assert float(before.abs().max()) > 0.1
    torch.testing.assert_close(after, before, rtol=1e-5, atol=1e-5)
    assert all(not torch.equal(model.network.get_submodule(path).weight, old) for path, old in weights.items())


def test_layers_that_read_no_norm_alone() -> None:
    bert = {**SHARED, "model_type": "bert", "intermediate_size": 48}
    assert norm_readers(Model.from_config(bert).network) == []
    mixtral = {**LLAMA, "model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 1}
    every = norm_readers(Model.from_config(mixtral).network)  # the router of experts reads the norm too
    assert [list(x.layers) for x in every] == [["blocks.0.attn.qkv"], ["blocks.1.attn.qkv"]]
