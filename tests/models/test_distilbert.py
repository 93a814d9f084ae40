"""DistilBERT: no token types, no pooler, sinusoidal initialisation of positions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from glassformer.errors import ConfigError
from glassformer.model import Model
from glassformer.models import distilbert

TINY = distilbert.FAMILY.tiny


def model_of(task: str = "feature-extraction", **changes: Any) -> Model:
    return Model.from_config({**TINY, **changes}, task=task)


def test_positions_that_start_as_waves_start_as_the_reference_has_them() -> None:
    config = transformers.DistilBertConfig.from_dict({**TINY, "sinusoidal_pos_embds": True})
    theirs = transformers.DistilBertModel(config).embeddings.position_embeddings.weight
    ours = model_of(sinusoidal_pos_embds=True).network.embedding.positions.weight
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-6)
    assert ours.requires_grad, "and are learned from there"
    learned = model_of().network.embedding.positions.weight
    assert 0 < learned.std() < 0.03, "otherwise they start as any table"


def test_the_body_has_no_head_and_no_segments() -> None:
    model = model_of()
    assert model.network.head is None
    with pytest.raises(ConfigError, match="a 'distilbert' model has no token types"):
        model(torch.tensor([[1, 2]]), token_type_ids=torch.tensor([[0, 1]]))


def test_only_what_the_feed_forward_adds_is_dropped() -> None:
    for block in model_of(dropout=0.5, attention_dropout=0.3).network.blocks:
        assert (block.attn_residual.dropout.p, block.ffn_residual.dropout.p) == (0.0, 0.5)


def test_an_untied_head_has_a_matrix_of_its_own() -> None:
    tied, untied = model_of("fill-mask"), model_of("fill-mask", tie_word_embeddings=False)
    assert tied.network.head.decoder.weight is tied.network.embed.tokens.weight
    assert untied.network.head.decoder.weight is not untied.network.embed.tokens.weight
