"""What encoders of waves have in common: from samples to frames, a stack over them, and their heads.

samples ─ WaveEncoder ─ features ─ FrameEmbedding ─ frames ─ Stack ─ norm ─ head
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from glassformer.core import init
from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.frames import LayerMix, MeanClassifier, Transcriber
from glassformer.core.heads import Head, Tagger
from glassformer.core.norms import make_norm
from glassformer.core.positions import ConvolvedPositions
from glassformer.core.specs import FrameEmbeddingSpec, NormSpec, StackSpec, WaveSpec
from glassformer.core.stack import Stack
from glassformer.core.waves import FrameEmbedding, WaveEncoder
from glassformer.models._family import Network, needed

SAMPLE_RATE_HZ = 16_000
"""Of all sound that these models have heard; no config.json says so."""
CLASSIFIES = ("audio-classification", "audio-frame-classification")


@dataclass(frozen=True, kw_only=True, slots=True)
class WaveNetworkSpec:
    """A wave, its frames, one stack over them.

    mixes: classifying heads read a learned mix of all blocks instead of the last
    blank, reduction, forgives: the loss of a transcriber · hidden: width in a classifier
    """

    wave: WaveSpec
    embed: FrameEmbeddingSpec
    blocks: StackSpec
    final_norm: NormSpec | None
    mixes: bool
    vocabulary: int
    blank: int
    reduction: str
    forgives: bool
    head_dropout: float
    hidden: int
    labels: int
    init_std: float


class WaveNetwork(Network):
    """Wave encoder, embedding of its frames, stack, head."""

    READS = ("input_values",)

    def __init__(self, spec: WaveNetworkSpec, task: str) -> None:
        super().__init__()
        self.features = WaveEncoder(spec.wave)
        self.embed = FrameEmbedding(spec.embed)
        self.blocks = Stack(spec.blocks)
        self.final_norm = make_norm(spec.final_norm)
        self.head = make_head(spec, task)
        self.name_nodes()

    @property
    def width(self) -> int:
        return self.blocks.spec.width

    @property
    def max_tokens(self) -> int | None:
        return None  # a sound may be as long as it likes

    @property
    def vocabulary(self) -> int:
        return self.head.decoder.out_features if isinstance(self.head, Transcriber) else 0

    def sides(self) -> dict[str, Stack]:
        return {"sound": self.blocks}

    def places(self, batch: Batch) -> dict[str, list[str]]:
        frames = self.features.frames(needed(batch.input_values, "input_values [B, samples]").shape[1])
        seconds = self.features.spec.hop / SAMPLE_RATE_HZ
        return {"sound": [f"{frame * seconds:.2f} s" for frame in range(frames)]}

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        features, flow = self.heard(batch, flow)
        return self.last(self.embed(features, flow), flow)

    def forward(self, batch: Batch, flow: Flow) -> Output:
        features, flow = self.heard(batch, flow)
        x = self.tap(flow, "final", self.last(self.embed(features, flow), flow))
        return replace(self.read(x, flow), extract_features=features)

    learn = Network.learn_from_output

    def heard(self, batch: Batch, flow: Flow) -> tuple[Tensor, Flow]:
        """The features of a wave [B, T, C], and the flow with `keep` of frames instead of samples."""
        wave = needed(batch.input_values, "input_values [B, samples]")
        keep = None if flow.keep is None else self.features.kept(flow.keep)
        return self.features(wave, flow), replace(flow, keep=keep)

    def last(self, x: Tensor, flow: Flow) -> Tensor:
        """What the head reads of the frames that enter the stack. [B, T, D]"""
        x = self.final_norm(self.blocks(x, flow))
        return x


class Mixed(WaveNetwork):
    """The same, with a head that reads a mix of the stream before and after each block.

    Differs: the last of these states is mixed as it leaves its block, as in the reference library of today; its
    version 4 mixed large models' last state after the final norm.
    """

    def __init__(self, spec: WaveNetworkSpec, task: str) -> None:
        super().__init__(spec, task)
        assert self.head is not None  # `build` asks for this class with a classifier alone
        self.head.add_module("mix", LayerMix(len(self.blocks) + 1))

    def last(self, x: Tensor, flow: Flow) -> Tensor:
        assert self.head is not None
        mixed: Tensor = self.head.get_submodule("mix")(self.blocks.stream(x, flow))
        return mixed


def build(spec: WaveNetworkSpec, task: str) -> WaveNetwork:
    """spec, task → network."""
    return Mixed(spec, task) if spec.mixes and task in CLASSIFIES else WaveNetwork(spec, task)


def make_head(spec: WaveNetworkSpec, task: str) -> Head | None:
    """The head of a task; None for the bare body."""
    width = spec.blocks.width
    if task == "automatic-speech-recognition":
        return Transcriber(
            width,
            spec.vocabulary,
            blank=spec.blank,
            reduction=spec.reduction,
            forgives=spec.forgives,
            dropout=spec.head_dropout,
        )
    if task == "audio-classification":
        return MeanClassifier(width, spec.hidden, spec.labels)
    return Tagger(width, spec.labels) if task == "audio-frame-classification" else None


@torch.no_grad()
def initialise(network: nn.Module, spec: WaveNetworkSpec) -> None:
    """Normal, but for convolutions: those keep the variance of what they read."""
    init.normal(network, spec.init_std)
    for module in network.modules():
        if isinstance(module, nn.Conv1d):
            nn.init.kaiming_normal_(module.weight)
        elif isinstance(module, ConvolvedPositions):
            module.start()
