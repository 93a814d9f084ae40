"""The wave itself, made equally loud: what networks read that learn their own filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class Wave:
    """Sounds → one batch of waves, each of mean 0 and variance 1, padded to the longest.

        x → (x - mean(x)) / √(variance(x) + 1e-7)

    normalised: do so · masked: say which samples are padding · padding_value: what padding is
    Source: Baevski et al. 2020 (wav2vec 2.0), section 4.2.
    Differs: the reference library, where it gives no mask, measures mean and variance over a sound and its padding
    together, so that a sound depends on those beside it; here never.
    """

    sample_rate_hz: int = 16_000
    normalised: bool = True
    masked: bool = False
    padding_value: float = 0.0

    def __call__(self, sounds: Sequence[Float[Tensor, "samples"]]) -> dict[str, Tensor]:
        """Sounds → `input_values` [N, samples], and `attention_mask` [N, samples]: 1 for sound, 0 for padding."""
        x = torch.nn.utils.rnn.pad_sequence(list(sounds), batch_first=True)
        lengths = torch.tensor([len(sound) for sound in sounds])[:, None]
        keep = torch.arange(x.shape[1]) < lengths  # [N, samples]
        if self.normalised:
            x = x - x.sum(dim=1, keepdim=True) / lengths  # padding is 0 and adds nothing
            variance = (x * keep).square().sum(dim=1, keepdim=True) / lengths
            x = x / (variance + 1e-7).sqrt()
        x = x.masked_fill(~keep, self.padding_value)
        return {"input_values": x, "attention_mask": keep.long()} if self.masked else {"input_values": x}
