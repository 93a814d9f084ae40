"""Normalised raw waveforms, for networks that learn their own filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class Waveform:
    """Waveform extractor: a batch of waveforms, each normalised to mean 0 and variance 1, padded to the longest.

        x → (x - mean(x)) / √(variance(x) + 1e-7)

    normalised: whether to normalise · masked: return an attention mask · padding_value: of padding samples
    Source: Baevski et al. 2020 (wav2vec 2.0), section 4.2.
    Differs: the reference library, where it gives no mask, computes mean and variance over a recording and its padding
    together, so that it depends on the others of its batch; here never.
    """

    sample_rate_hz: int = 16_000
    normalised: bool = True
    masked: bool = False
    padding_value: float = 0.0

    def __call__(self, sounds: Sequence[Float[Tensor, "samples"]]) -> dict[str, Tensor]:
        """Recordings → `input_values` [N, samples], and `attention_mask` [N, samples]: 1 for audio, 0 for padding."""
        x = torch.nn.utils.rnn.pad_sequence(list(sounds), batch_first=True)
        lengths = torch.tensor([len(sound) for sound in sounds])[:, None]
        keep = torch.arange(x.shape[1]) < lengths  # [N, samples]
        if self.normalised:
            x = x - x.sum(dim=1, keepdim=True) / lengths  # padding is 0 and adds nothing
            variance = (x * keep).square().sum(dim=1, keepdim=True) / lengths
            x = x / (variance + 1e-7).sqrt()
        x = x.masked_fill(~keep, self.padding_value)
        return {"input_values": x, "attention_mask": keep.long()} if self.masked else {"input_values": x}
