"""Phi: parallel sub-layers share a norm; partial rotary positions; the head has a bias."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from glassformer.core import ParallelBlock
from glassformer.core.flow import Tape
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.model import Model
from glassformer.models import phi
from glassformer.weights.load import export_weights

TINY = phi.FAMILY.tiny


def model_of(task: str = "text-generation", **changes: Any) -> Model:
    return Model.from_config({**TINY, **changes}, task=task).eval()


def test_every_block_is_a_parallel_one() -> None:
    blocks = list(model_of().network.blocks)
    assert len(blocks) == 3 and all(isinstance(block, ParallelBlock) for block in blocks)


def test_half_of_each_head_is_turned_unless_the_config_says_otherwise() -> None:
    assert model_of().spec.blocks.blocks[0].attention.rotary.width == 4
    assert model_of(partial_rotary_factor=0.25).spec.blocks.blocks[0].attention.rotary.width == 2
    wide = {"hidden_size": 2560, "num_attention_heads": 32, "partial_rotary_factor": 0.4}  # as in Phi-2
    assert Model.from_config({**TINY, **wide}, device="meta").spec.blocks.blocks[0].attention.rotary.width == 32


@pytest.mark.parametrize("share", [0.1, 0.4, 1.5])
def test_a_share_that_makes_no_pairs_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match=rf"partial_rotary_factor {share} turns .* of the 8 numbers"):
        model_of(partial_rotary_factor=share)


def test_norms_of_queries_and_keys_are_refused_by_name() -> None:
    model_of(qk_layernorm=False)
    with pytest.raises(UnsupportedError, match=r"qk_layernorm = True is not supported for a 'phi' model"):
        model_of(qk_layernorm=True)


@pytest.mark.parametrize("tied", [True, False])
def test_the_head_has_a_bias_and_a_matrix_of_its_own_unless_tied(tied: bool) -> None:
    model = model_of(tie_word_embeddings=tied)
    decoder, tokens = model.network.head.decoder, model.network.embed.tokens
    assert decoder.bias.shape == (99,) and (decoder.weight is tokens.weight) is tied
    saved = export_weights(model.network, phi.FAMILY.names(model.spec, model.task), prefixed=True)
    assert "lm_head.bias" in saved and ("lm_head.weight" in saved) is not tied


@pytest.mark.parametrize(("key", "count"), [("embd_pdrop", 1), ("resid_pdrop", 3), ("attention_dropout", 0)])
def test_each_dropout_stands_in_its_place(key: str, count: int) -> None:
    network = model_of(task="feature-extraction", **{key: 0.25}).network
    modules = [module for module in network.modules() if isinstance(module, torch.nn.Dropout)]
    assert sum(module.p == 0.25 for module in modules) == count
    assert (network.blocks[0].attn.spec.dropout == 0.25) is (key == "attention_dropout")


def test_a_tape_finds_no_middle_and_says_what_there_is() -> None:
    ids = torch.tensor([[5, 6, 7]])
    assert set(model_of()(ids, tape=Tape("blocks.1.before", "blocks.1.out")).taps) == {
        "blocks.1.before",
        "blocks.1.out",
    }
    with pytest.raises(ConfigError, match=r"blocks\.1\.mid"):
        model_of()(ids, tape=Tape("blocks.1.mid"))
