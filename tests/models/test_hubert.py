"""HuBERT: wav2vec 2.0 under other names, with two options of its own."""

from __future__ import annotations

import pytest
import torch

from glassformer.errors import UnsupportedError
from glassformer.model import Model
from glassformer.models import FAMILIES, hubert, wav2vec2
from glassformer.models._speech import CTCHead

TINY = hubert.FAMILY.tiny


def test_positions_that_are_batch_normed_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="conv_pos_batch_norm = True is not supported for a 'hubert'"):
        Model.from_config({**TINY, "conv_pos_batch_norm": True})


def test_features_may_go_without_a_norm() -> None:
    with_norm = {name for name, _ in Model.from_config(TINY).named_parameters()}
    bare = Model.from_config({**TINY, "feat_proj_layer_norm": False})
    without = {name for name, _ in bare.named_parameters()}
    assert with_norm - without == {"features.norm.weight", "features.norm.bias"} and without < with_norm


@torch.no_grad()
def test_the_same_numbers_under_other_names() -> None:
    one = Model.from_config(TINY, task="automatic-speech-recognition").eval()
    config = {**TINY, "model_type": "wav2vec2"}
    other = Model.from_config(config, task="automatic-speech-recognition").eval()
    other.network.load_state_dict(one.state_dict())
    wave = torch.randn(2, 500)
    assert torch.equal(one(input_values=wave).logits, other(input_values=wave).logits)
    names = [hubert.FAMILY.names(one.spec, one.task), wav2vec2.FAMILY.names(one.spec, one.task)]
    for name, _ in one.named_parameters():
        mine, theirs = (table.find(name, prefixed=True)[1] for table in names)
        assert [name.replace("hubert.", "wav2vec2.") for name in mine] == theirs


def test_only_a_transcriber_knows_letters() -> None:
    for task in FAMILIES["hubert"].tasks:
        network = Model.from_config(TINY, task=task).network
        assert network.vocabulary == (99 if isinstance(network.head, CTCHead) else 0)
        assert network.max_tokens is None and network.width == 32 and network.token_types == 0
