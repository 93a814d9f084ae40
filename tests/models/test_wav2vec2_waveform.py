"""Waveform feature encoder: the samples of each frame, and how far padding reaches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from glassformer.core import Flow, LayerNormSpec
from glassformer.errors import ConfigError, DataError
from glassformer.models._speech import SpecAugmentSpec
from glassformer.models.wav2vec2.positions import ConvolvedPositionsSpec
from glassformer.models.wav2vec2.waveform import (
    FrameEmbedding,
    FrameEmbeddingSpec,
    TimeConvolutionSpec,
    TimeNorm,
    TimeNormSpec,
    WaveformEncoder,
    WaveformSpec,
)
from tests.core.small import assert_close, examples, perturbed, recorded, recording

KERNELS, STRIDES = (10, 3, 3, 3, 3, 2, 2), (5, 2, 2, 2, 2, 2, 2)  # of all published models
FIRST = TimeConvolutionSpec(channels=1, width=6, kernel=5, stride=3, norm=LayerNormSpec(width=6))
SECOND = TimeConvolutionSpec(channels=6, width=8, kernel=3, stride=2, bias=True, norm=LayerNormSpec(width=8))
SPEC = WaveformSpec(layers=(FIRST, SECOND), norm=LayerNormSpec(width=8))
POSITIONS = ConvolvedPositionsSpec(width=12, kernel=4, groups=3)


def encoder(spec: WaveformSpec = SPEC) -> WaveformEncoder:
    torch.manual_seed(0)
    return perturbed(WaveformEncoder(spec))


def published() -> WaveformSpec:
    sizes = zip(KERNELS, STRIDES, strict=True)
    layers = [
        TimeConvolutionSpec(channels=4 if i else 1, width=4, kernel=kernel, stride=stride)
        for i, (kernel, stride) in enumerate(sizes)
    ]
    return WaveformSpec(layers=tuple(layers))


def test_published_models_take_25_ms_a_frame_one_every_20_ms() -> None:
    spec = published()
    assert (spec.samples, spec.hop) == (400, 320)
    assert WaveformEncoder(spec).frames(16_000) == 49


@examples(30)
@given(samples=st.integers(11, 200))
def test_frames_are_as_many_as_are_computed(samples: int) -> None:
    network = encoder()
    frames = network(torch.randn(1, samples), Flow())
    assert frames.shape == (1, network.frames(samples), 8)
    assert network.frames(torch.tensor([samples])).tolist() == [network.frames(samples)]
    assert network.frames(SPEC.samples) == 1 and network.frames(SPEC.samples - 1) == 0


def test_a_frame_is_made_of_its_own_samples_alone() -> None:
    wave = torch.randn(1, 60, requires_grad=True)
    features = encoder()(wave, Flow())
    for t in range(features.shape[1]):
        (gradient,) = torch.autograd.grad(features[0, t].square().sum(), wave, retain_graph=True)
        read = gradient[0].nonzero().flatten()
        assert (int(read[0]), int(read[-1])) == (t * SPEC.hop, t * SPEC.hop + SPEC.samples - 1)


@torch.no_grad()
def test_frames_of_a_padded_sound_are_those_of_the_sound_alone() -> None:
    lengths, wave = [60, 41, 11], torch.randn(3, 60)
    keep = torch.arange(60)[None] < torch.tensor(lengths)[:, None]
    network, embed = encoder(), perturbed(FrameEmbedding(FrameEmbeddingSpec(features=8, positions=POSITIONS)))
    mask = network.frame_mask(keep[:, None])
    features = network(wave.where(keep, 7.0), Flow())
    stream = embed(features, Flow(keep=mask))
    for row, length in enumerate(lengths):
        alone = network(wave[row : row + 1, :length], Flow())
        assert mask[row, 0].sum() == alone.shape[1]
        assert_close(features[row : row + 1, : alone.shape[1]], alone)
        assert_close(stream[row : row + 1, : alone.shape[1]], embed(alone, Flow()))


@torch.no_grad()
def test_padding_is_heard_where_channels_are_normed_over_time() -> None:
    """Which is why models that do were trained without a mask."""
    network = encoder(WaveformSpec(layers=(replace(FIRST, norm=TimeNormSpec(width=6)),)))
    wave = torch.randn(1, 30)
    longer = torch.cat([wave, torch.zeros(1, 30)], dim=1)
    frames = network.frames(30)
    assert (network(longer, Flow())[:, :frames] - network(wave, Flow())).abs().max() > 0.1


@torch.no_grad()
def test_a_channel_is_normed_over_all_time() -> None:
    x = torch.randn(2, 9, 6) * 3 + 1
    norm = perturbed(TimeNorm(TimeNormSpec(width=6, eps=1e-3)))
    centred = x - x.mean(1, keepdim=True)
    by_hand = centred / (x.var(1, correction=0, keepdim=True) + 1e-3).sqrt() * norm.weight + norm.bias
    assert_close(norm(x), by_hand)
    torch_norm = nn.InstanceNorm1d(6, eps=1e-3, affine=True)
    torch_norm.load_state_dict(norm.state_dict())
    assert_close(norm(x), torch_norm(x.mT).mT)


@torch.no_grad()
def test_a_single_step_is_normed_to_nothing() -> None:
    norm = perturbed(TimeNorm(TimeNormSpec(width=6)))
    assert_close(norm(torch.randn(1, 1, 6)), norm.bias.expand(1, 1, 6), 1e-3)


def test_samples_take_the_dtype_of_the_weights() -> None:
    assert encoder().bfloat16()(torch.randn(1, 60), Flow()).dtype == torch.bfloat16


def test_what_comes_out_can_be_listened_to() -> None:
    network = encoder()
    flow = recording(network, "out")
    assert network(torch.randn(1, 60), flow) is recorded(flow, "out")


@pytest.mark.parametrize(
    ("hidden", "says"),
    [
        ((slice(0, 4),), "row 1 of attention_mask hides samples before the sound ends.*pad on the right"),
        ((slice(20, 24),), "row 1 of attention_mask hides samples before"),
        (
            (slice(10, None),),
            r"row 1 of input_values has, without its padding, 10 samples.*made of 11.*conv_kernel",
        ),
        ((slice(0, None),), "row 1 of input_values has, without its padding, 0 samples"),
    ],
)
def test_masks_that_no_sound_has_are_refused(hidden: Any, says: str) -> None:
    keep = torch.ones(2, 1, 60, dtype=torch.bool)
    keep[1, 0][hidden] = False
    with pytest.raises(DataError, match=says):
        encoder().frame_mask(keep)


def test_a_wave_without_a_frame_is_refused() -> None:
    with pytest.raises(DataError, match="input_values has 10 samples; the first frame is made of 11"):
        encoder()(torch.randn(1, 10), Flow())


# ── into the stream ──────────────────────────────────────────────────────────────────────────────────────


@torch.no_grad()
def test_the_stream_is_the_formula() -> None:
    norm = LayerNormSpec(width=12)
    embed = perturbed(FrameEmbedding(FrameEmbeddingSpec(features=8, positions=POSITIONS, norm=norm)))
    features = torch.randn(2, 9, 8)
    x = features @ embed.projection.weight.T + embed.projection.bias
    assert_close(embed(features, Flow()), embed.norm(x + embed.positions(x)))


def test_every_dropout_is_where_the_spec_says() -> None:
    spec = FrameEmbeddingSpec(features=8, positions=POSITIONS, feature_dropout=0.3, dropout=0.4)
    embed = FrameEmbedding(spec)
    assert (embed.feature_dropout.p, embed.dropout.p) == (0.3, 0.4)


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "no kernel": (lambda: replace(FIRST, kernel=0), "TimeConvolutionSpec.kernel is 0"),
    "norm of another width": (
        lambda: replace(FIRST, norm=LayerNormSpec(width=5)),
        "width 5, its convolution 6",
    ),
    "no convolution": (lambda: WaveformSpec(layers=()), "WaveformSpec.layers read .. channels"),
    "first reads no wave": (lambda: WaveformSpec(layers=(SECOND,)), r"read \[6\] channels.*\[1\]"),
    "layers that do not fit": (
        lambda: WaveformSpec(layers=(FIRST, FIRST)),
        r"read \[1, 1\] channels.*\[1, 6\]",
    ),
    "frames normed at another width": (
        lambda: replace(SPEC, norm=LayerNormSpec(width=6)),
        "width 6, the frames 8",
    ),
    "no time": (lambda: TimeNormSpec(width=0), "TimeNormSpec.width is 0"),
    "groups that do not divide": (
        lambda: replace(POSITIONS, groups=5),
        "width 12 is not a multiple of groups 5.*num_conv_pos_embedding_groups",
    ),
    "another norm": (
        lambda: FrameEmbeddingSpec(features=8, positions=POSITIONS, norm=LayerNormSpec(width=8)),
        "FrameEmbeddingSpec.norm has width 8, its positions 12",
    ),
    "another vector": (
        lambda: FrameEmbeddingSpec(features=8, positions=POSITIONS, augment=SpecAugmentSpec(width=8)),
        "FrameEmbeddingSpec.augment has width 8",
    ),
    "all dropped": (
        lambda: FrameEmbeddingSpec(features=8, positions=POSITIONS, dropout=1.0),
        "dropout is 1.0",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_refused_at_once_and_named(case: str) -> None:
    build, says = WRONG[case]
    with pytest.raises(ConfigError, match=says):
        build()


def test_gradients_reach_every_parameter() -> None:
    network = encoder()
    embed = FrameEmbedding(FrameEmbeddingSpec(features=8, positions=POSITIONS))
    loss: Tensor = embed(network(torch.randn(2, 60), Flow()), Flow()).square().sum()
    loss.backward()
    assert all(parameter.grad is not None for part in (network, embed) for parameter in part.parameters())
