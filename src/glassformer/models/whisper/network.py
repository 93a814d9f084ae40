"""Whisper's networks: the encoder-decoder, and its encoder alone with a classifier."""

from __future__ import annotations

from torch import Tensor

from glassformer.core.flow import Batch, Flow
from glassformer.core.stack import Stack
from glassformer.models._network import READS_ALL_LAYERS, Network, Sizes, require
from glassformer.models._seq2seq import EncoderDecoder, Seq2SeqLMHead, Stream, make_stream
from glassformer.models._speech import MeanPoolingClassifier, WeightedLayerSum, random_spans
from glassformer.models.whisper.stem import SpectrogramStem, WhisperSpec

FRAME_SECONDS = 0.02
"""Seconds between encoder states: two frames of 10 ms; no config.json has it."""


def make_encoder(spec: WhisperSpec) -> Stream[SpectrogramStem]:
    """The encoder: convolutional stem, blocks, final norm."""
    return Stream(SpectrogramStem(spec), spec.encoder, spec.norm)


class Whisper(EncoderDecoder):
    """Whisper: encoder and decoder, with the embedding table as output projection, or the body alone."""

    READS = ("input_features", "decoder_input_ids")

    def __init__(self, spec: WhisperSpec, task: str) -> None:
        super().__init__(make_encoder(spec), make_stream(spec.decoder), Sizes.of_text(spec.decoder.embed))
        self.spec = spec
        transcribes = task == "automatic-speech-recognition"
        self.head = self.tie(Seq2SeqLMHead(self.width, self.vocabulary)) if transcribes else None
        self.name_nodes()

    def encoder_input(self, batch: Batch) -> Tensor:
        """The spectrogram; in training, with random spans of time and of bins masked (SpecAugment).

        Source: Park et al. 2019, section 2.
        """
        x = require(batch.input_features, "input_features [B, mel bins, frames]")
        for axis, spans in ((2, self.spec.time_mask), (1, self.spec.bin_mask)):
            if self.training and spans is not None:
                masked = random_spans([x.shape[axis]] * len(x), x.shape[axis], spans).to(x.device)
                x = x.masked_fill(masked.unsqueeze(3 - axis), 0.0)
        return x

    def token_labels(self, batch: Batch) -> dict[str, list[str]]:
        return {"source": frame_times(self.spec)}


class WhisperClassifier(Network):
    """Whisper's encoder alone, with an audio classifier."""

    READS = ("input_features",)

    def __init__(self, spec: WhisperSpec, task: str) -> None:
        super().__init__(Sizes(width=spec.encoder.width, max_tokens=spec.positions))
        self.spec = spec
        self.encoder = make_encoder(spec)
        self.head = MeanPoolingClassifier(self.width, spec.hidden, spec.labels)
        self.mix = WeightedLayerSum(len(self.encoder.blocks) + 1) if spec.layer_sum else None
        self.name_nodes()

    def stacks(self) -> dict[str, Stack]:
        return {"sound": self.encoder.blocks}

    def token_labels(self, batch: Batch) -> dict[str, list[str]]:
        return {"sound": frame_times(self.spec)}

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        features = require(batch.input_features, "input_features [B, mel bins, frames]")
        if self.mix is None:
            last: Tensor = self.encoder(features, flow)
            return last
        *states, last = self.encoder.blocks.hidden_states(self.encoder.embed(features, flow), flow)
        mixed: Tensor = self.mix([*states, self.encoder.final_norm(last)])
        return mixed

    def finish(self, x: Tensor, flow: Flow) -> Tensor:
        return self.encoder.finish(x)

    @property
    def unreadable(self) -> str:
        return "" if self.mix is None else READS_ALL_LAYERS


def frame_times(spec: WhisperSpec) -> list[str]:
    """The time at which each encoder state begins."""
    return [f"{i * FRAME_SECONDS:.2f} s" for i in range(spec.positions)]


def build(spec: WhisperSpec, task: str) -> Network:
    """The network of a task."""
    return (WhisperClassifier if task == "audio-classification" else Whisper)(spec, task)
