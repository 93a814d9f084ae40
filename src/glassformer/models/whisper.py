"""Whisper: an encoder-decoder that hears 30 seconds of sound and writes down what was said.

    log-mel [M, frames] ─ convolution ─ gelu ─ convolution, every 2nd ─ gelu ─ + waves ─ [ block ] × L ─ norm ─ memory
    tokens ─ embedding + positions ─ [ causal block with cross-attention ] × L ─ norm ─ embeddingᵀ ─ logits

Blocks are pre-norm, and their keys have no bias. A window has one length, and silence in it is read like sound.
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
from glassformer.core.flow import Batch, Flow, Node
from glassformer.core.frames import LayerMix, MeanClassifier
from glassformer.core.spec_augment import drawn_spans
from glassformer.core.specs import (
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    FeedForwardSpec,
    LayerNormSpec,
    LearnedPositionsSpec,
    SpansSpec,
    StackSpec,
)
from glassformer.core.stack import Stack
from glassformer.errors import ConfigError, DataError
from glassformer.models._family import MOST_LAYERS, MOST_ROWS, Family, Network, Reader, needed
from glassformer.models._seq2seq import EncoderDecoder, Side, SideSpec, Translation, as_decoder, make_side
from glassformer.models.wav2vec2 import spans
from glassformer.weights.names import Fused, Gapped, Names, Rule, Tied

if TYPE_CHECKING:
    from jaxtyping import Float

FRAME_SECONDS = 0.02
"""From one state of the encoder to the next: two frames of 10 ms; no config.json says so."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WhisperSpec:
    """A stem and a stack that hear, a side that writes.

    bins: M, of the spectrogram · places: how many states a window becomes, half as many as it has frames
    hidden_time, hidden_bins: what training hides · mixes: the classifier reads a learned mix of all blocks
    hidden: width in the classifier
    """

    bins: int
    places: int
    dropout: float
    encoder: StackSpec
    decoder: SideSpec
    norm: LayerNormSpec
    hidden_time: SpansSpec | None
    hidden_bins: SpansSpec | None
    mixes: bool
    hidden: int
    labels: int
    init_std: float

    def __post_init__(self) -> None:
        if self.encoder.width % 2:
            raise ConfigError(
                f"config.json: d_model is {self.encoder.width}; it must be even: half of it is sines, half is cosines"
            )


def spec(reader: Reader) -> WhisperSpec:
    """config.json → spec."""
    reader.fixed("is_encoder_decoder", True)
    reader.fixed("is_decoder", False)
    reader.fixed("tie_word_embeddings", True)
    for key in (
        "decoder_layerdrop",  # whole blocks left out, in training alone
        "encoder_layerdrop",
        "forced_decoder_ids",  # how transcripts begin
        "median_filter_width",  # for the times of words, read off cross-attention
        "hidden_size",  # d_model, encoder_layers, encoder_attention_heads under a second name
        "num_attention_heads",
        "num_hidden_layers",
        "scale_embedding",
    ):
        reader.get(key, default=None)
    width = reader.integer("d_model")
    dropout = reader.probability("dropout", default=0.0)
    norm = LayerNormSpec(width=width)

    def block(side: str) -> BlockSpec:
        return BlockSpec(
            attention=AttentionSpec(
                width=width,
                heads=reader.integer(f"{side}_attention_heads"),
                dropout=reader.probability("attention_dropout", default=0.0),
            ),
            feed_forward=FeedForwardSpec(
                width=width,
                hidden=reader.integer(f"{side}_ffn_dim"),
                activation=reader.text("activation_function", default="gelu"),
                dropout=reader.probability("activation_dropout", default=0.0),
            ),
            before=norm,
            dropout=dropout,
        )

    def stack(blocks: BlockSpec, layers: str) -> StackSpec:
        return StackSpec(blocks=(blocks,) * reader.integer(layers, most=MOST_LAYERS))

    time, bins = spans(reader, "time", 0.05, 2), spans(reader, "feature", 0.0, 0)
    hides = reader.flag("apply_spec_augment", default=False)
    return WhisperSpec(
        bins=reader.integer("num_mel_bins", default=80),
        places=reader.integer("max_source_positions", default=1500, most=MOST_ROWS),
        dropout=dropout,
        encoder=stack(block("encoder"), "encoder_layers"),
        decoder=SideSpec(
            embed=EmbeddingSpec(
                vocabulary=reader.integer("vocab_size", most=MOST_ROWS),
                width=width,
                positions=LearnedPositionsSpec(
                    count=reader.integer("max_target_positions", default=448, most=MOST_ROWS)
                ),
                dropout=dropout,
            ),
            blocks=stack(as_decoder(block("decoder")), "decoder_layers"),
            final_norm=norm,
        ),
        norm=norm,
        hidden_time=time if hides and time.share else None,
        hidden_bins=bins if hides and bins.share else None,
        mixes=reader.flag("use_weighted_layer_sum", default=False),
        hidden=reader.integer("classifier_proj_size", default=256),
        labels=reader.labels(),
        init_std=reader.number("init_std", default=0.02),
    )


class Stem(Node):
    """A spectrogram into the stream, every second frame of it.

        out = dropout(gelu(conv2(gelu(conv1(x)))) + waves)

    Args:
        features: log-mel, cast to the dtype of the weights. [B, M, 2 T]
    Raises: DataError: another number of bins or frames.
    Taps: out [B T D]
    Source: Radford et al. 2022, section 2.2.
    Differs: the paper computes the waves; here they are read from the checkpoint, and never trained. The reference
    library freezes a fresh model's, and forgets to when it loads one.
    """

    TAPS = ("out",)

    def __init__(self, spec: WhisperSpec) -> None:
        super().__init__()
        width = spec.encoder.width
        self.spec = spec
        self.conv1 = nn.Conv1d(spec.bins, width, kernel_size=3, padding=1)
        self.conv2 = nn.Conv1d(width, width, kernel_size=3, stride=2, padding=1)
        self.positions = nn.Embedding(spec.places, width)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, features: Float[Tensor, "B M frames"], flow: Flow) -> Float[Tensor, "B T D"]:
        wanted = [self.spec.bins, 2 * self.spec.places]
        if list(features.shape[1:]) != wanted:
            raise DataError(
                f"input_features has shape {list(features.shape)}; it must be [B, {wanted[0]}, {wanted[1]}], mel bins "
                "and the frames of a whole window (config.json: num_mel_bins, max_source_positions); "
                "model.processor(sound) makes it"
            )
        x = F.gelu(self.conv1(features.to(self.conv1.weight.dtype)))
        x = F.gelu(self.conv2(x)).transpose(1, 2)  # [B, T, D]
        return self.tap(flow, "out", self.dropout(x + self.positions.weight.detach()))


def make_encoder(spec: WhisperSpec) -> Side[Stem]:
    """The half that hears."""
    return Side(Stem(spec), spec.encoder, spec.norm)


class Whisper(EncoderDecoder):
    """Both halves, bare or with the embedding table as output projection."""

    READS = ("input_features", "decoder_input_ids")

    def __init__(self, spec: WhisperSpec, task: str) -> None:
        super().__init__(make_encoder(spec), make_side(spec.decoder))
        self.spec = spec
        self.head = None
        if task == "automatic-speech-recognition":
            self.head = Translation(self.width, self.vocabulary)
            self.head.decoder.weight = self.decoder.embed.tokens.weight
        self.name_nodes()

    def source(self, batch: Batch) -> Tensor:
        """The spectrogram; in training, with stretches of time and of bins hidden.

        Source: Park et al. 2019, section 2.
        """
        x = needed(batch.input_features, "input_features [B, mel bins, frames]")
        time, bins = self.spec.hidden_time, self.spec.hidden_bins
        if self.training and time is not None:
            x = x.masked_fill(drawn_spans([x.shape[2]] * len(x), x.shape[2], time).to(x.device)[:, None], 0.0)
        if self.training and bins is not None:
            x = x.masked_fill(
                drawn_spans([x.shape[1]] * len(x), x.shape[1], bins).to(x.device)[..., None], 0.0
            )
        return x

    def places(self, batch: Batch) -> dict[str, list[str]]:
        return {"source": moments(self.spec)}


class WhisperClassifier(Network):
    """The half that hears alone, with labels of the whole sound."""

    READS = ("input_features",)

    def __init__(self, spec: WhisperSpec, task: str) -> None:
        super().__init__()
        self.spec = spec
        self.encoder = make_encoder(spec)
        self.head = MeanClassifier(self.width, spec.hidden, spec.labels)
        self.mix = LayerMix(len(self.encoder.blocks) + 1) if spec.mixes else None
        self.name_nodes()

    @property
    def width(self) -> int:
        return self.spec.encoder.width

    @property
    def max_tokens(self) -> int | None:
        return self.spec.places

    def sides(self) -> dict[str, Stack]:
        return {"sound": self.encoder.blocks}

    def places(self, batch: Batch) -> dict[str, list[str]]:
        return {"sound": moments(self.spec)}

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        features = needed(batch.input_features, "input_features [B, mel bins, frames]")
        if self.mix is None:
            last: Tensor = self.encoder(features, flow)
            return last
        *states, last = self.encoder.blocks.stream(self.encoder.embed(features, flow), flow)
        mixed: Tensor = self.mix([*states, self.encoder.final_norm(last)])
        return mixed


def moments(spec: WhisperSpec) -> list[str]:
    """When each state of the encoder begins."""
    return [f"{place * FRAME_SECONDS:.2f} s" for place in range(spec.places)]


def build(spec: WhisperSpec, task: str) -> Network:
    """spec, task → network."""
    return (WhisperClassifier if task == "audio-classification" else Whisper)(spec, task)


@torch.no_grad()
def initialise(network: nn.Module, spec: WhisperSpec) -> None:
    """Normal, but for the encoder's positions: sines, then cosines, from one turn in 2π places to one in 20,000π."""
    init.normal(network, spec.init_std)
    for module in network.modules():
        if isinstance(module, nn.Conv1d):
            nn.init.normal_(module.weight, std=spec.init_std)
            nn.init.zeros_(module.bias)  # type: ignore[arg-type]
        elif isinstance(module, Stem):
            count, width = module.positions.weight.shape
            steps = torch.arange(width // 2, device=module.positions.weight.device)
            angles = torch.arange(count, device=steps.device)[:, None] * torch.exp(
                -math.log(10_000) / max(width // 2 - 1, 1) * steps
            )
            module.positions.weight.copy_(torch.cat([angles.sin(), angles.cos()], dim=1))


def names(spec: WhisperSpec, task: str) -> Names:
    """Their tensor names."""
    width = spec.encoder.width
    body: dict[str, str | Rule] = {
        "encoder.embed.conv1": "encoder.conv1",
        "encoder.embed.conv2": "encoder.conv2",
        "decoder.embed.tokens": "decoder.embed_tokens",
    }
    for side in ("encoder", "decoder"):
        ours, theirs = f"{side}.blocks.{{i}}", f"{side}.layers.{{i}}"
        for part, layer in {"attn": "self_attn", "cross": "encoder_attn", "ffn": "final"}.items():
            body[f"{ours}.{part}_residual.before"] = f"{theirs}.{layer}_layer_norm"
        for part, layer in {"attn": "self_attn", "cross": "encoder_attn"}.items():
            q, k, v, out = (f"{theirs}.{layer}.{which}_proj" for which in ("q", "k", "v", "out"))
            body[f"{ours}.{part}.out"] = out
            if part == "attn":
                body[f"{ours}.attn.qkv"] = Fused((q, k, v), (width,) * 3)
                body[f"{ours}.attn.qkv.bias"] = Gapped((f"{q}.bias", f"{v}.bias"), (width,) * 3, gap=1)
            else:
                body[f"{ours}.cross.q"] = q
                body[f"{ours}.cross.kv"] = Fused((k, v), (width,) * 2)
                body[f"{ours}.cross.kv.bias"] = Gapped((f"{v}.bias",), (width,) * 2, gap=0)
        body[f"{ours}.ffn.up"] = f"{theirs}.fc1"
        body[f"{ours}.ffn.down"] = f"{theirs}.fc2"
        body[f"{side}.embed.positions"] = f"{side}.embed_positions"
        body[f"{side}.final_norm"] = f"{side}.layer_norm"
    return Names(
        prefix="model",
        body=body,
        head={
            "head.decoder": Tied("proj_out"),
            "head.projection": "projector",
            "head.classifier": "classifier",
            "mix.weights": "layer_weights",
        },
        prefixed=task != "audio-classification",
    )


FAMILY = Family(
    model_type="whisper",
    oddity="two convolutions over a spectrogram of 30 s; keys without a bias",
    architectures={
        "WhisperModel": "feature-extraction",
        "WhisperForConditionalGeneration": "automatic-speech-recognition",
        "WhisperForAudioClassification": "audio-classification",
    },
    spec=spec,
    build=build,
    names=names,
    initialise=initialise,
    opens="sound",
    tiny={
        "model_type": "whisper",
        "is_encoder_decoder": True,
        "vocab_size": 99,
        "num_mel_bins": 12,
        "d_model": 32,
        "encoder_layers": 3,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "max_source_positions": 13,
        "max_target_positions": 40,
        "classifier_proj_size": 24,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 1,
        "begin_suppress_tokens": None,
    },
)
