"""wav2vec 2.0: a self-supervised speech encoder, fine-tuned with CTC for speech recognition.

    samples ─ [ convolution ─ norm ─ gelu ] × n ─ norm ─ projection ─ frames
    frames + convolved positions ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

The large models norm before each sub-layer instead, and at the end of the stack; their convolutions norm each frame,
where those of the base models norm each channel over time (`feat_extract_norm`: "layer" and "group").

With "group", padding is not masked: outputs depend on the silence appended to a waveform, with an `attention_mask` or
without. Such models were trained without a mask; a waveform alone in its batch has no padding.

Not supported: the quantiser of pre-training, adapters, and the speaker verification head.
Source: Baevski et al. 2020; the large layout: Conneau et al. 2020 (XLSR).
Differs: no LayerDrop in training, which the reference library supports, and SpecAugment uses torch's random numbers.
"""

from __future__ import annotations

from glassformer.core.specs import (
    AttentionSpec,
    BlockSpec,
    ConvolvedPositionsSpec,
    FeedForwardSpec,
    FrameEmbeddingSpec,
    LayerNormSpec,
    SpansSpec,
    SpecAugmentSpec,
    StackSpec,
    TimeConvolutionSpec,
    TimeNormSpec,
    WaveformSpec,
)
from glassformer.errors import ConfigError
from glassformer.files import safe_repr
from glassformer.models._config import MAX_LAYERS, MAX_ROWS, MAX_WIDTH, ConfigReader
from glassformer.models._family import Family
from glassformer.models._speech import SpeechEncoderSpec, build, initialise
from glassformer.weights.names import Fused, Rule, WeightNames

MAX_CONVOLUTIONS = 32
"""Limit on convolutions. No published model has more than 7."""


UNUSED_KEYS = (
    "adapter_kernel_size", "adapter_stride", "num_adapter_layers", "output_hidden_size",  # of the adapter
    "codevector_dim", "contrastive_logits_temperature", "diversity_loss_weight", "feat_quantizer_dropout",
    "num_codevector_groups", "num_codevectors_per_group", "num_negatives", "proj_codevector_dim",  # of pre-training
    "tdnn_dim", "tdnn_dilation", "tdnn_kernel", "xvector_output_dim",  # of speaker verification
    "feat_extract_dropout", "freeze_feat_extract_train", "hidden_dropout_prob", "layerdrop",  # of training alone,
    "mask_channel_length", "mask_channel_min_space", "mask_channel_other", "mask_channel_prob",  # and most of
    "mask_channel_selection", "mask_time_min_space", "mask_time_other", "mask_time_selection",  # them only in
    "no_mask_channel_overlap", "no_mask_time_overlap", "num_feat_extract_layers", "replace_prob",  # old releases
)  # fmt: skip


def spec(reader: ConfigReader) -> SpeechEncoderSpec:
    """config.json → spec."""
    reader.fixed("add_adapter", False)
    reader.fixed("adapter_attn_dim", None)
    reader.used.update(UNUSED_KEYS)
    width = reader.integer("hidden_size")
    dropout = reader.probability("hidden_dropout", default=0.1)
    eps = reader.number("layer_norm_eps", default=1e-5)
    activation = reader.text("feat_extract_activation", default="gelu")
    norm_first = reader.flag("do_stable_layer_norm", default=False)
    norm = LayerNormSpec(width=width, eps=eps)
    layers = convolutions(reader, activation)
    reader.fixed("ctc_loss_reduction", "sum", "mean")
    return SpeechEncoderSpec(
        waveform=WaveformSpec(layers=layers, norm=LayerNormSpec(width=layers[-1].width, eps=eps)),
        embed=FrameEmbeddingSpec(
            features=layers[-1].width,
            positions=ConvolvedPositionsSpec(
                width=width,
                kernel=reader.integer("num_conv_pos_embeddings", default=128),
                groups=reader.integer("num_conv_pos_embedding_groups", default=16),
                activation=activation,
            ),
            augment=spec_augment(reader, width),
            norm=None if norm_first else norm,
            feature_dropout=reader.probability("feat_proj_dropout", default=0.0),
            dropout=dropout,
        ),
        blocks=StackSpec(
            blocks=(block_spec(reader, norm, norm_first),)
            * reader.integer("num_hidden_layers", maximum=MAX_LAYERS)
        ),
        final_norm=norm if norm_first else None,  # the pre-norm stream is not normed until here
        layer_sum=reader.flag("use_weighted_layer_sum", default=False),
        vocabulary=reader.integer("vocab_size", default=32, maximum=MAX_ROWS),
        blank=reader.integer("pad_token_id", default=0, minimum=0, maximum=MAX_ROWS),
        reduction=reader.text("ctc_loss_reduction", default="sum"),
        zero_infinity=reader.flag("ctc_zero_infinity", default=False),
        head_dropout=reader.probability("final_dropout", default=0.1),
        hidden=reader.integer("classifier_proj_size", default=256),
        labels=reader.labels(),
        init_std=reader.number("initializer_range", default=0.02),
    )


def block_spec(reader: ConfigReader, norm: LayerNormSpec, norm_first: bool) -> BlockSpec:
    """One block of the transformer."""
    return BlockSpec(
        attention=AttentionSpec(
            width=norm.width,
            heads=reader.integer("num_attention_heads"),
            dropout=reader.probability("attention_dropout", default=0.1),
        ),
        feed_forward=FeedForwardSpec(
            width=norm.width,
            hidden=reader.integer("intermediate_size"),
            activation=reader.text("hidden_act", default="gelu"),
            dropout=reader.probability("activation_dropout", default=0.1),
        ),
        before=norm if norm_first else None,
        on_residual=None if norm_first else norm,
        dropout=reader.probability("hidden_dropout", default=0.1),
    )


def convolutions(reader: ConfigReader, activation: str) -> tuple[TimeConvolutionSpec, ...]:
    """The convolutions of the feature encoder; with group norm, the first layer alone is normed.

    Raises: ConfigError: widths, strides and kernels differ in number.
    """
    reader.fixed("feat_extract_norm", "group", "layer")
    over_time = reader.text("feat_extract_norm", default="group") == "group"
    bias = reader.flag("conv_bias", default=False)
    widths = sizes(reader, "conv_dim", (512,) * 7)
    strides = sizes(reader, "conv_stride", (5, 2, 2, 2, 2, 2, 2))
    kernels = sizes(reader, "conv_kernel", (10, 3, 3, 3, 3, 2, 2))
    if not len(widths) == len(strides) == len(kernels):
        raise ConfigError(
            f"config.json: conv_dim, conv_stride and conv_kernel have {len(widths)}, {len(strides)} and {len(kernels)} "
            "numbers; they must have one each for every convolution"
        )

    def norm(i: int) -> LayerNormSpec | TimeNormSpec | None:
        if over_time:
            return TimeNormSpec(width=widths[0]) if i == 0 else None
        return LayerNormSpec(width=widths[i])

    return tuple(
        TimeConvolutionSpec(
            channels=widths[i - 1] if i else 1,
            width=widths[i],
            kernel=kernels[i],
            stride=strides[i],
            activation=activation,
            bias=bias,
            norm=norm(i),
        )
        for i in range(len(widths))
    )


def sizes(reader: ConfigReader, key: str, default: tuple[int, ...]) -> tuple[int, ...]:
    """A list of sizes, one for each convolution.

    Raises: ConfigError: not a list of sizes.
    """
    values = reader.get(key, default=default)
    fits = isinstance(values, (list, tuple)) and 1 <= len(values) <= MAX_CONVOLUTIONS
    if not fits or not all(type(value) is int and 1 <= value <= MAX_WIDTH for value in values):
        raise ConfigError(
            f"config.json: {key} is {safe_repr(values)}; it must be a list of 1 to {MAX_CONVOLUTIONS} whole numbers, "
            f"each from 1 to {MAX_WIDTH}"
        )
    return tuple(values)


def spec_augment(reader: ConfigReader, width: int) -> SpecAugmentSpec | None:
    """SpecAugment in training; its learned vector exists as soon as a probability is above 0, used or not."""
    time, channels = mask_spans(reader, "time", 0.05, 2), mask_spans(reader, "feature", 0.0, 0)
    used = reader.flag("apply_spec_augment", default=True)
    if not time.share and not channels.share:
        return None
    return SpecAugmentSpec(
        width=width,
        time=time if used and time.share else None,
        channels=channels if used and channels.share else None,
    )


def mask_spans(reader: ConfigReader, axis: str, share: float, minimum: int) -> SpansSpec:
    """The spans that SpecAugment masks along an axis: `time` or `feature`."""
    return SpansSpec(
        share=reader.probability(f"mask_{axis}_prob", default=share),
        length=reader.integer(f"mask_{axis}_length", default=10),
        minimum=reader.integer(f"mask_{axis}_min_masks", default=minimum, minimum=0),
    )


def names(spec: SpeechEncoderSpec, task: str) -> WeightNames:
    """Weight names."""
    layer, convolved = "encoder.layers.{i}", "encoder.pos_conv_embed.conv"
    body: dict[str, str | Rule] = {
        "features.{i}.conv": "feature_extractor.conv_layers.{i}.conv",
        "features.{i}.norm": "feature_extractor.conv_layers.{i}.layer_norm",
        "features.norm": "feature_projection.layer_norm",
        "embed.projection": "feature_projection.projection",
        "embed.augment.vector": "masked_spec_embed",
        "embed.positions.gain": f"{convolved}.parametrizations.weight.original0",
        "embed.positions.direction": f"{convolved}.parametrizations.weight.original1",
        "embed.positions.bias": f"{convolved}.bias",
        "embed.norm": "encoder.layer_norm",
        "final_norm": "encoder.layer_norm",  # one or the other
        "blocks.{i}.attn.qkv": Fused(
            tuple(f"{layer}.attention.{part}_proj" for part in "qkv"), (spec.blocks.width,) * 3
        ),
        "blocks.{i}.attn.out": f"{layer}.attention.out_proj",
        "blocks.{i}.ffn.up": f"{layer}.feed_forward.intermediate_dense",
        "blocks.{i}.ffn.down": f"{layer}.feed_forward.output_dense",
    }
    for slot in ("before", "on_residual"):
        body[f"blocks.{{i}}.attn_residual.{slot}"] = f"{layer}.layer_norm"
        body[f"blocks.{{i}}.ffn_residual.{slot}"] = f"{layer}.final_layer_norm"
    return WeightNames(
        prefix="wav2vec2",
        body=body,
        head={
            "head.decoder": "lm_head",
            "head.projection": "projector",
            "head.classifier": "classifier",
            "head.mix.weights": "layer_weights",
        },
        renamed={  # two spellings of weight normalisation; files with `weight_g` are older, but either is read
            f"{convolved}.weight_g": f"{convolved}.parametrizations.weight.original0",
            f"{convolved}.weight_v": f"{convolved}.parametrizations.weight.original1",
        },
        zero_if_missing=(
            "embed.augment.vector",
        ),  # the first models were published without it; training starts at 0
    )


FAMILY = Family(
    model_type="wav2vec2",
    distinction="convolutions over the waveform; convolutional positions",
    architectures={
        "Wav2Vec2Model": "feature-extraction",
        "Wav2Vec2ForCTC": "automatic-speech-recognition",
        "Wav2Vec2ForSequenceClassification": "audio-classification",
        "Wav2Vec2ForAudioFrameClassification": "audio-frame-classification",
    },
    spec=spec,
    build=build,
    names=names,
    initialise=initialise,
    modality="sound",
    tiny={
        "model_type": "wav2vec2",
        "vocab_size": 99,
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "feat_extract_norm": "layer",
        "conv_bias": True,
        "do_stable_layer_norm": True,
        "conv_dim": [12, 16, 20],
        "conv_kernel": [10, 3, 3],
        "conv_stride": [5, 4, 2],
        "num_conv_pos_embeddings": 8,
        "num_conv_pos_embedding_groups": 4,
        "classifier_proj_size": 24,
        "ctc_loss_reduction": "mean",
        "hidden_dropout": 0.0,
        "activation_dropout": 0.0,
        "attention_dropout": 0.0,
        "final_dropout": 0.0,
        "layerdrop": 0.0,
        "mask_time_prob": 0.0,
    },
)
