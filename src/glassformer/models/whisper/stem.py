"""Whisper's convolutional stem, from log-mel spectrograms to frames, and initial weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core import init
from glassformer.core.flow import Flow, Node
from glassformer.core.norms import LayerNormSpec
from glassformer.core.stack import StackSpec
from glassformer.errors import ConfigError, DataError
from glassformer.models._seq2seq import StreamSpec
from glassformer.models._speech import SpansSpec

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class WhisperSpec:
    """Convolutional stem and encoder stack, decoder, and what heads need.

    bins: M, of the spectrogram
    positions: encoder states of a window, half as many as it has frames
    time_mask, bin_mask: SpecAugment in training
    layer_sum: the classifier reads a weighted sum of all layers
    hidden: width in the classifier
    """

    bins: int
    positions: int
    dropout: float
    encoder: StackSpec
    decoder: StreamSpec
    norm: LayerNormSpec
    time_mask: SpansSpec | None
    bin_mask: SpansSpec | None
    layer_sum: bool
    hidden: int
    labels: int
    init_std: float

    def __post_init__(self) -> None:
        if self.encoder.width % 2:
            raise ConfigError(
                f"config.json: d_model is {self.encoder.width}; it must be even: half of it is sines, half is cosines"
            )


class SpectrogramStem(Node):
    """Convolutional stem: log-mel spectrogram → frame embeddings, at half the frame rate.

        out = dropout(gelu(conv2(gelu(conv1(x)))) + positions)

    Args:
        features: log-mel, cast to the dtype of the weights. [B, M, 2 T]
        flow: `positions` [1, T], where the encoder context is shorter than a window (short clips)
    Raises: DataError: another number of bins or frames.
    Taps: out [B T D]
    Source: Radford et al. 2022, section 2.2.
    Differs: the paper computes sinusoidal positions; here they are read from the checkpoint, and never trained. The
    reference library freezes a new model's, but not a loaded one's.
    """

    TAPS = ("out",)

    def __init__(self, spec: WhisperSpec) -> None:
        super().__init__()
        width = spec.encoder.width
        self.spec = spec
        self.conv1 = nn.Conv1d(spec.bins, width, kernel_size=3, padding=1)
        self.conv2 = nn.Conv1d(width, width, kernel_size=3, stride=2, padding=1)
        self.positions = nn.Embedding(spec.positions, width)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, features: Float[Tensor, "B M frames"], flow: Flow) -> Float[Tensor, "B T D"]:
        given = flow.positions
        expected = [self.spec.bins, 2 * (self.spec.positions if given is None else given.shape[-1])]
        if list(features.shape[1:]) != expected:
            raise DataError(
                f"input_features has shape {list(features.shape)}; it must be [B, {expected[0]}, {expected[1]}], mel "
                "bins and the frames of a whole window (config.json: num_mel_bins, max_source_positions); "
                "model.processor(sound) makes it"
            )
        x = F.gelu(self.conv1(features.to(self.conv1.weight.dtype)))
        x = F.gelu(self.conv2(x)).transpose(1, 2)  # [B, T, D]
        positions = self.positions.weight if given is None else self.positions(given)
        return self.tap(flow, "out", self.dropout(x + positions.detach()))


@torch.no_grad()
def initialise(network: nn.Module, spec: WhisperSpec) -> None:
    """Initialise: normal, and sinusoidal positions in the encoder: sines, then cosines, periods from 2π to 20,000π."""
    init.normal(network, spec.init_std)
    for module in network.modules():
        if isinstance(module, nn.Conv1d):
            nn.init.normal_(module.weight, std=spec.init_std)
            nn.init.zeros_(module.bias)  # type: ignore[arg-type]
        elif isinstance(module, SpectrogramStem):
            count, width = module.positions.weight.shape
            steps = torch.arange(width // 2, device=module.positions.weight.device)
            angles = torch.arange(count, device=steps.device)[:, None] * torch.exp(
                -math.log(10_000) / max(width // 2 - 1, 1) * steps
            )
            module.positions.weight.copy_(torch.cat([angles.sin(), angles.cos()], dim=1))
