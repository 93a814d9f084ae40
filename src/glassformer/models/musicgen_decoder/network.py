"""The network of MusicGen's decoder, and the parts that it alone has."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from glassformer.core.codebooks import CodebookEmbedding, CodebookEmbeddingSpec, CodebookLMHead
from glassformer.core.embeddings import Sinusoidal, SinusoidalSpec
from glassformer.core.flow import Batch
from glassformer.core.heads import Head
from glassformer.core.stack import Stack
from glassformer.models._network import Sizes, TextModel, TextSpec, require_ids


@dataclass(frozen=True, kw_only=True, slots=True)
class CosineFirstSpec(SinusoidalSpec):
    """Sinusoidal position encoding, all cosines before all sines."""

    def make(self, width: int) -> Sinusoidal:
        return CosineFirst(self, width)


class CosineFirst(Sinusoidal):
    """Sinusoidal position encoding whose slowest wave turns 1/θ a token, all cosines before all sines.

        PE(p)[i] = cos(p / θ^(i/(D/2 - 1))),   PE(p)[D/2 + i] = sin(p / θ^(i/(D/2 - 1)))

    Source: released code of MusicGen (audiocraft).
    Differs: exponents run from 0 to 1, both included; in the paper of 2017 to 1 - 2/D.
    """

    def frequencies(self, device: torch.device, dtype: torch.dtype) -> Tensor:
        half = self.width // 2
        return torch.exp(torch.arange(half, device=device, dtype=dtype) * -(math.log(self.theta) / (half - 1)))

    def arrange(self, sines: Tensor, cosines: Tensor) -> Tensor:
        return torch.cat([cosines, sines], dim=-1)


@dataclass(frozen=True, kw_only=True, slots=True)
class MusicgenSpec(TextSpec):
    """The spec of a language model over codes.

    codes: that can be predicted of each codebook; the embedding knows one id more, which is where no code is
    frame_rate_hz: frames of codes a second
    """

    embed: CodebookEmbeddingSpec
    codes: int
    frame_rate_hz: float = 50.0


class MusicgenDecoder(TextModel):
    """Language model over the codes of an audio codec, K at each position, each codebook a step later than the last.

    Args:
        batch: `input_ids` [B, T, K], laid out by `CodePattern(kind="delayed")`
        flow: `memory`, states that the blocks attend to [B, S, D]; None = nothing but the codes
    """

    READS = ("input_ids",)
    EMBEDDING = CodebookEmbedding

    def __init__(self, spec: MusicgenSpec, task: str) -> None:
        self.spec = spec
        super().__init__(spec, task)

    def sizes_of(self, spec: MusicgenSpec) -> Sizes:
        return replace(Sizes.of_text(spec.embed), target_vocabulary=spec.codes)

    def make_head(self, spec: MusicgenSpec, task: str) -> Head | None:
        return CodebookLMHead(self.width, spec.codes, spec.embed.books) if task == "text-to-audio" else None

    def stacks(self) -> dict[str, Stack]:
        return {"sound": self.blocks}

    def token_labels(self, batch: Batch) -> dict[str, list[str]]:
        rate = self.spec.frame_rate_hz
        return {"sound": [f"{frame / rate:.2f} s" for frame in range(require_ids(batch).shape[1])]}
