"""The network of wav2vec 2.0 and HuBERT, a speech encoder over waveforms: samples → frames → stack → head.

samples ─ WaveformEncoder ─ features ─ FrameEmbedding ─ frames ─ Stack ─ norm ─ head

Where the first convolution is normed over time, padding is not masked: outputs depend on the silence appended to a
waveform, with an `attention_mask` or without. Such models were trained without a mask; a waveform alone in its batch
has no padding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from glassformer.core import init
from glassformer.core.classification_heads import TokenClassifier
from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.heads import Head
from glassformer.core.norms import NormSpec, make_norm
from glassformer.core.stack import Stack, StackSpec
from glassformer.models._network import READS_ALL_LAYERS, Network, Sizes, require
from glassformer.models._speech import CTCHead, MeanPoolingClassifier, WeightedLayerSum
from glassformer.models.wav2vec2.positions import ConvolvedPositions
from glassformer.models.wav2vec2.waveform import FrameEmbedding, FrameEmbeddingSpec, WaveformEncoder, WaveformSpec

SAMPLE_RATE_HZ = 16_000
"""Sample rate of all published models' training data; no config.json has it."""
CLASSIFICATION_TASKS = ("audio-classification", "audio-frame-classification")


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeechEncoderSpec:
    """A waveform encoder, an embedding of its frames, a stack, and what heads need.

    layer_sum: classification heads read a learned weighted sum of all layers instead of the last
    blank, reduction, zero_infinity: of the CTC loss
    classifier_hidden: width in a classifier
    """

    waveform: WaveformSpec
    embed: FrameEmbeddingSpec
    blocks: StackSpec
    final_norm: NormSpec | None
    layer_sum: bool
    vocabulary: int
    blank: int
    reduction: str
    zero_infinity: bool
    head_dropout: float
    classifier_hidden: int
    labels: int
    init_std: float


class SpeechEncoder(Network):
    """Waveform encoder, embedding of its frames, stack, head."""

    READS = ("input_values",)
    NORMED_LAST = False

    def __init__(self, spec: SpeechEncoderSpec, task: str) -> None:
        # Convolved positions have no limit; text is what the transcriber writes.
        writes = task == "automatic-speech-recognition"
        super().__init__(Sizes(width=spec.blocks.width, vocabulary=spec.vocabulary if writes else 0))
        self.features = WaveformEncoder(spec.waveform)
        self.embed = FrameEmbedding(spec.embed)
        self.blocks = Stack(spec.blocks)
        self.final_norm = make_norm(spec.final_norm)
        self.head = make_head(spec, task)
        self.name_nodes()

    def stacks(self) -> dict[str, Stack]:
        return {"sound": self.blocks}

    def token_labels(self, batch: Batch) -> dict[str, list[str]]:
        frames = self.features.frames(require(batch.input_values, "input_values [B, samples]").shape[1])
        seconds = self.features.spec.hop / SAMPLE_RATE_HZ
        return {"sound": [f"{frame * seconds:.2f} s" for frame in range(frames)]}

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        features, flow = self.extract_features(batch, flow)
        return self.encode_frames(self.embed(features, flow), flow)

    def forward(self, batch: Batch, flow: Flow) -> Output:
        features, flow = self.extract_features(batch, flow)
        x = self.tap(flow, "final", self.encode_frames(self.embed(features, flow), flow))
        return replace(self.apply_head(x, flow), extract_features=features)

    loss_sums = Network.loss_sums_from_output

    def extract_features(self, batch: Batch, flow: Flow) -> tuple[Tensor, Flow]:
        """Convolutional features of a waveform [B, T, C], and the flow with `keep` of frames instead of samples."""
        samples = require(batch.input_values, "input_values [B, samples]")
        keep = None if flow.keep is None else self.features.frame_mask(flow.keep)
        return self.features(samples, flow), replace(flow, keep=keep)

    def encode_frames(self, x: Tensor, flow: Flow) -> Tensor:
        """The hidden states that the head reads, from embedded frames. [B, T, D]"""
        return self.finish(self.blocks(x, flow), flow)

    def finish(self, x: Tensor, flow: Flow) -> Tensor:
        normed: Tensor = self.final_norm(x)
        return normed

    def read_states(self, x: Tensor, batch: Batch, flow: Flow) -> Output:
        keep = None if flow.keep is None else self.features.frame_mask(flow.keep)
        return self.apply_head(x, replace(flow, keep=keep))


class LayerMixSpeechEncoder(SpeechEncoder):
    """A speech encoder whose head reads a weighted sum of the hidden states before and after each block.

    Differs: the last of these states is mixed as it leaves its block, as in the reference library of today; its
    version 4 mixed large models' last state after the final norm.
    """

    def __init__(self, spec: SpeechEncoderSpec, task: str) -> None:
        super().__init__(spec, task)
        assert self.head is not None  # `build` uses this class with a classifier alone
        self.head.add_module("mix", WeightedLayerSum(len(self.blocks) + 1))

    def encode_frames(self, x: Tensor, flow: Flow) -> Tensor:
        assert self.head is not None
        mixed: Tensor = self.head.get_submodule("mix")(self.blocks.hidden_states(x, flow))
        return mixed

    @property
    def unreadable(self) -> str:
        return READS_ALL_LAYERS


def build(spec: SpeechEncoderSpec, task: str) -> SpeechEncoder:
    """The network of a task."""
    return (
        LayerMixSpeechEncoder(spec, task)
        if spec.layer_sum and task in CLASSIFICATION_TASKS
        else SpeechEncoder(spec, task)
    )


def make_head(spec: SpeechEncoderSpec, task: str) -> Head | None:
    """The head of a task; None for the body alone."""
    width = spec.blocks.width
    if task == "automatic-speech-recognition":
        return CTCHead(
            width,
            spec.vocabulary,
            blank=spec.blank,
            reduction=spec.reduction,
            zero_infinity=spec.zero_infinity,
            dropout=spec.head_dropout,
        )
    if task == "audio-classification":
        return MeanPoolingClassifier(width, spec.classifier_hidden, spec.labels)
    return TokenClassifier(width, spec.labels) if task == "audio-frame-classification" else None


@torch.no_grad()
def initialise(network: nn.Module, spec: SpeechEncoderSpec) -> None:
    """Initialise: normal, but Kaiming for convolutions, which keeps the variance of their input."""
    init.normal(network, spec.init_std)
    for module in network.modules():
        if isinstance(module, nn.Conv1d):
            nn.init.kaiming_normal_(module.weight)
        elif isinstance(module, ConvolvedPositions):
            module.reset_parameters()
