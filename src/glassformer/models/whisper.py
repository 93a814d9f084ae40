"""Whisper: an encoder-decoder for speech recognition and translation, over windows of 30 seconds.

    log-mel [M, T] ─ convolution ─ gelu ─ convolution, stride 2 ─ gelu ─ + positions ─ [ block ] × L ─ norm ─ memory
    tokens ─ embedding + positions ─ [ causal block with cross-attention ] × L ─ norm ─ embeddingᵀ ─ logits

Blocks are pre-norm, and their keys have no bias. All windows have one length; silence in them is not masked.
Source: Radford et al. 2022, "Robust speech recognition via large-scale weak supervision", section 2.2.
Differs: `scale_embedding` is not read, as in the reference library, which keeps the number and multiplies by nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core import init
from glassformer.core.audio_heads import MeanPoolingClassifier, WeightedLayerSum
from glassformer.core.embeddings import EmbeddingSpec
from glassformer.core.flow import Batch, Flow, Node
from glassformer.core.norms import LayerNormSpec
from glassformer.core.positions import LearnedPositionsSpec
from glassformer.core.spec_augment import SpansSpec, random_spans
from glassformer.core.stack import Stack, StackSpec
from glassformer.errors import ConfigError, DataError
from glassformer.models import bart
from glassformer.models._family import Family, architectures
from glassformer.models._keys import Values, constant, flag, rows, size
from glassformer.models._network import Network, Sizes, require
from glassformer.models._seq2seq import (
    EncoderDecoder,
    Seq2SeqLMHead,
    Stream,
    StreamSpec,
    decoder_block,
    make_stream,
)
from glassformer.models.wav2vec2 import mask_spans
from glassformer.weights.name_table import NameTable

if TYPE_CHECKING:
    from jaxtyping import Float

FRAME_SECONDS = 0.02
"""Seconds between encoder states: two frames of 10 ms; no config.json has it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WhisperSpec:
    """Convolutional stem and encoder stack, decoder, and what heads need.

    bins: M, of the spectrogram · positions: encoder states of a window, half as many as it has frames
    time_mask, bin_mask: SpecAugment in training · layer_sum: the classifier reads a weighted sum of all layers
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


KEYS = bart.SHARED_KEYS.extend(
    bins=size("num_mel_bins", 80),
    positions=rows("max_source_positions", 1500),
    max_tokens=("max_target_positions", 448),
    activation=("activation_function", "gelu"),
    dropout=("dropout", 0.0),
    norm_first=constant(True),
    augments=flag("apply_spec_augment", False),
    layer_sum=flag("use_weighted_layer_sum", False),
    hidden=size("classifier_proj_size", 256),
    scaled=constant(False),
    classifier_dropout=constant(0.0),
    # how transcripts begin; for word timestamps, from cross-attention
    unused="forced_decoder_ids median_filter_width scale_embedding",
)


@KEYS.spec
def spec(c: Values) -> WhisperSpec:
    """config.json → spec."""
    norm = LayerNormSpec(width=c.width)
    encoder, decoder = (bart.block_spec(c, stream, norm) for stream in ("encoder", "decoder"))
    time, bins = mask_spans(c.reader, "time", 0.05, 2), mask_spans(c.reader, "feature", 0.0, 0)
    positions = LearnedPositionsSpec(count=c.max_tokens)
    return WhisperSpec(
        encoder=StackSpec(blocks=(encoder,) * c.encoder_layers),
        decoder=StreamSpec(
            embed=EmbeddingSpec(**c("vocabulary width dropout"), positions=positions),
            blocks=StackSpec(blocks=(decoder_block(decoder),) * c.decoder_layers),
            final_norm=norm,
        ),
        norm=norm,
        time_mask=time if c.augments and time.share else None,
        bin_mask=bins if c.augments and bins.share else None,
        **c("bins positions dropout layer_sum hidden labels init_std"),
    )


class SpectrogramStem(Node):
    """Convolutional stem: log-mel spectrogram → frame embeddings, at half the frame rate.

        out = dropout(gelu(conv2(gelu(conv1(x)))) + positions)

    Args:
        features: log-mel, cast to the dtype of the weights. [B, M, 2 T]
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
        expected = [self.spec.bins, 2 * self.spec.positions]
        if list(features.shape[1:]) != expected:
            raise DataError(
                f"input_features has shape {list(features.shape)}; it must be [B, {expected[0]}, {expected[1]}], mel "
                "bins and the frames of a whole window (config.json: num_mel_bins, max_source_positions); "
                "model.processor(sound) makes it"
            )
        x = F.gelu(self.conv1(features.to(self.conv1.weight.dtype)))
        x = F.gelu(self.conv2(x)).transpose(1, 2)  # [B, T, D]
        return self.tap(flow, "out", self.dropout(x + self.positions.weight.detach()))


def make_encoder(spec: WhisperSpec) -> Stream[SpectrogramStem]:
    """The encoder: convolutional stem, blocks, final norm."""
    return Stream(SpectrogramStem(spec), spec.encoder, spec.norm)


class Whisper(EncoderDecoder):
    """Whisper: encoder and decoder, with the embedding table as output projection, or the body alone."""

    READS = ("input_features", "decoder_input_ids")

    def __init__(self, spec: WhisperSpec, task: str) -> None:
        super().__init__(make_encoder(spec), make_stream(spec.decoder), Sizes.of_text(spec.decoder.embed))
        self.spec = spec
        self.head = None
        if task == "automatic-speech-recognition":
            self.head = Seq2SeqLMHead(self.width, self.vocabulary)
            self.head.decoder.weight = self.decoder.embed.tokens.weight
        self.name_nodes()

    def encoder_input(self, batch: Batch) -> Tensor:
        """The spectrogram; in training, with random spans of time and of bins masked (SpecAugment).

        Source: Park et al. 2019, section 2.
        """
        x = require(batch.input_features, "input_features [B, mel bins, frames]")
        time, bins = self.spec.time_mask, self.spec.bin_mask
        if self.training and time is not None:
            spans = random_spans([x.shape[2]] * len(x), x.shape[2], time)
            x = x.masked_fill(spans.to(x.device)[:, None], 0.0)
        if self.training and bins is not None:
            spans = random_spans([x.shape[1]] * len(x), x.shape[1], bins)
            x = x.masked_fill(spans.to(x.device)[..., None], 0.0)
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


def frame_times(spec: WhisperSpec) -> list[str]:
    """The time at which each encoder state begins."""
    return [f"{i * FRAME_SECONDS:.2f} s" for i in range(spec.positions)]


def build(spec: WhisperSpec, task: str) -> Network:
    """The network of a task."""
    return (WhisperClassifier if task == "audio-classification" else Whisper)(spec, task)


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


NAMES = NameTable(
    """
    encoder.embed.conv1                        encoder.conv1
    encoder.embed.conv2                        encoder.conv2
    decoder.embed.tokens                       decoder.embed_tokens
    {side}.embed.positions                     {side}.embed_positions
    {side}.blocks.{i}.attn_residual.before     {side}.layers.{i}.self_attn_layer_norm
    {side}.blocks.{i}.attn.qkv                 {side}.layers.{i}.self_attn.(q|k|v)_proj
    {side}.blocks.{i}.attn.qkv.bias            {side}.layers.{i}.self_attn.(q_proj||v_proj).bias
    {side}.blocks.{i}.attn.out                 {side}.layers.{i}.self_attn.out_proj
    decoder.blocks.{i}.cross_residual.before   decoder.layers.{i}.encoder_attn_layer_norm
    decoder.blocks.{i}.cross.q                 decoder.layers.{i}.encoder_attn.q_proj
    decoder.blocks.{i}.cross.kv                decoder.layers.{i}.encoder_attn.(k|v)_proj
    decoder.blocks.{i}.cross.kv.bias           decoder.layers.{i}.encoder_attn.(|v_proj).bias
    decoder.blocks.{i}.cross.out               decoder.layers.{i}.encoder_attn.out_proj
    {side}.blocks.{i}.ffn_residual.before      {side}.layers.{i}.final_layer_norm
    {side}.blocks.{i}.ffn.up                   {side}.layers.{i}.fc1
    {side}.blocks.{i}.ffn.down                 {side}.layers.{i}.fc2
    {side}.final_norm                          {side}.layer_norm

    [head]
    head.decoder                               proj_out                                   =
    head.projection                            projector
    head.classifier                            classifier
    mix.weights                                layer_weights
    """,
    prefix="model",
    unprefixed=("audio-classification",),
)

FAMILY = Family(
    model_type="whisper",
    distinction="two convolutions over a log-mel spectrogram of 30 s; keys without a bias",
    architectures=architectures(
        "Whisper",
        "Model ForConditionalGeneration ForAudioClassification",
        ForConditionalGeneration="automatic-speech-recognition",
    ),
    spec=spec,
    build=build,
    names=NAMES,
    initialise=initialise,
    modality="sound",
    tiny=KEYS.tiny(
        "whisper",
        **{"is_encoder_decoder": True, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
        **{"decoder_start_token_id": 1, "begin_suppress_tokens": None},
        **{"num_mel_bins": 12, "max_source_positions": 13, "classifier_proj_size": 24},
    ),
)
