"""The encoder-decoder of the lesson: its sizes are free, its masks follow the device, and its loss falls."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from glassformer.core import Batch, CrossAttention, CrossAttentionSpec, EncoderOutput, Flow
from glassformer.errors import ConfigError
from glassformer.lessons.encoder_decoder import TinyEncoderDecoder


def make(**changes: int | bool) -> TinyEncoderDecoder:
    torch.manual_seed(0)
    sizes = {
        "N": 2, "model_dim": 24, "num_heads": 4, "key_dim": 3, "encoder_vocab": 50, "decoder_vocab": 20
    }  # fmt: skip
    return TinyEncoderDecoder(**{**sizes, **changes})  # type: ignore[arg-type]


def ids(*shape: int, vocabulary: int) -> Tensor:
    return torch.randint(0, vocabulary, shape, generator=torch.Generator().manual_seed(1))


def test_the_head_speaks_the_decoders_vocabulary() -> None:
    batch = Batch(input_ids=ids(10, 8, vocabulary=50), decoder_input_ids=ids(10, 6, vocabulary=20))
    output = make()(batch, Flow())
    assert output.logits.shape == (10, 6, 20)
    assert output.encoder_last_hidden_state.shape == (10, 8, 24)


def test_key_dim_is_not_tied_to_the_width() -> None:
    """Width 24, 4 heads of 3; queries from X [10, 10, 24], keys and values from a memory [10, 8, 24]."""
    layer = CrossAttention(CrossAttentionSpec(width=24, heads=4, head_width=3))
    x, memory = torch.randn(10, 10, 24), torch.randn(10, 8, 24)
    assert layer(x, Flow(memory=EncoderOutput(memory))).shape == (10, 10, 24)
    assert make(key_dim=7).encoder.blocks[0].attn.qkv.weight.shape == (3 * 4 * 7, 24)


@pytest.mark.parametrize("pre_norm", [True, False], ids=["pre-norm", "post-norm"])
def test_the_loss_falls(pre_norm: bool) -> None:
    """The target is the source read backwards, modulo the smaller vocabulary."""
    network = make(pre_norm=pre_norm, model_dim=32, key_dim=16).train()
    source = ids(64, 5, vocabulary=50)
    labels = source.flip(1) % 20
    inputs = torch.cat([torch.zeros(64, 1, dtype=torch.long), labels[:, :-1]], dim=1)
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    losses = []
    for _ in range(60):
        output = network(Batch(input_ids=source, decoder_input_ids=inputs), Flow())
        loss = network.head.loss(output, labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[0] > 2.5  # about ln 20 = 3.0, knowing nothing
    assert losses[-1] < 0.5 * losses[0]


def test_the_target_is_read_from_left_to_right() -> None:
    network = make().eval()
    source, target = ids(1, 8, vocabulary=50), ids(1, 6, vocabulary=20)
    changed = target.clone()
    changed[0, 3] = (changed[0, 3] + 1) % 20
    first, second = (network(Batch(input_ids=source, decoder_input_ids=t), Flow()).logits for t in (target, changed))
    assert torch.equal(first[:, :3], second[:, :3])
    assert not torch.equal(first[:, 3], second[:, 3])


def test_a_mask_of_the_wrong_length_is_an_error() -> None:
    """A 10 by 10 mask next to a memory of 8 once passed in silence."""
    batch = Batch(input_ids=ids(1, 8, vocabulary=50), decoder_input_ids=ids(1, 10, vocabulary=20))
    with pytest.raises(ConfigError, match=r"\[1, 1, 10\].*\[B, 8, 8\]"):
        make()(batch, Flow(keep=torch.ones(1, 1, 10, dtype=torch.bool)))


def test_masks_follow_the_device() -> None:
    network = make().to("meta")
    batch = Batch(input_ids=ids(2, 8, vocabulary=50).to("meta"), decoder_input_ids=ids(2, 6, vocabulary=20).to("meta"))
    logits = network(batch, Flow()).logits
    assert logits.device.type == "meta" and logits.shape == (2, 6, 20)


def test_nine_blocks_keep_the_shape_and_the_state_comes_back() -> None:
    network, other = make(N=9).eval(), make(N=9).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    x = torch.randn(10, 10, 24)
    assert network.encoder.blocks(x, Flow()).shape == (10, 10, 24)
    assert not torch.equal(network.encoder.blocks(x, Flow()), other.encoder.blocks(x, Flow()))
    other.load_state_dict(network.state_dict())
    assert torch.equal(network.encoder.blocks(x, Flow()), other.encoder.blocks(x, Flow()))


def test_the_order_of_rows_in_a_batch_means_nothing() -> None:
    """Positions run along a text, never along the batch."""
    network = make().eval()
    source, target = ids(5, 8, vocabulary=50), ids(5, 6, vocabulary=20)
    forward = network(Batch(input_ids=source, decoder_input_ids=target), Flow()).logits
    backward = network(Batch(input_ids=source.flip(0), decoder_input_ids=target.flip(0)), Flow()).logits
    torch.testing.assert_close(forward, backward.flip(0), atol=1e-5, rtol=1e-5)
