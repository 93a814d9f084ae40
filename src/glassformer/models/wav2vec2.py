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

from glassformer.core import AttentionSpec, BlockSpec, FeedForwardSpec, LayerNormSpec, ResidualSpec, StackSpec
from glassformer.core.positions import ConvolvedPositionsSpec
from glassformer.core.spec_augment import SpansSpec, SpecAugmentSpec
from glassformer.core.waveform import FrameEmbeddingSpec, TimeConvolutionSpec, TimeNormSpec, WaveformSpec
from glassformer.errors import ConfigError
from glassformer.files import safe_repr
from glassformer.models._config import MAX_WIDTH, ConfigReader
from glassformer.models._family import Family, architectures
from glassformer.models._keys import Keys, Values, flag, size, text, token_id
from glassformer.models._speech import SpeechEncoderSpec, build, initialise
from glassformer.weights.name_table import NameTable

MAX_CONVOLUTIONS = 32
"""Limit on convolutions. No published model has more than 7."""


KEYS = Keys(
    width="hidden_size",
    layers="num_hidden_layers",
    heads="num_attention_heads",
    hidden="intermediate_size",
    vocabulary=("vocab_size", 32),
    activation=("hidden_act", "gelu"),
    convolution_activation=text("feat_extract_activation", "gelu"),
    eps=("layer_norm_eps", 1e-5),
    norm_first=flag("do_stable_layer_norm", False),
    dropout=("hidden_dropout", 0.1),
    attention_dropout=("attention_dropout", 0.1),
    activation_dropout=("activation_dropout", 0.1),
    feature_dropout=("feat_proj_dropout", 0.0),
    head_dropout=("final_dropout", 0.1),
    kernel=size("num_conv_pos_embeddings", 128),
    groups=size("num_conv_pos_embedding_groups", 16),
    convolution_norm=text("feat_extract_norm", "group"),
    convolution_bias=flag("conv_bias", False),
    layer_sum=flag("use_weighted_layer_sum", False),
    blank=token_id("pad_token_id", 0),
    reduction=text("ctc_loss_reduction", "sum"),
    zero_infinity=flag("ctc_zero_infinity", False),
    classifier_hidden=size("classifier_proj_size", 256),
    init_std=("initializer_range", 0.02),
    fixed={
        **{"add_adapter": False, "adapter_attn_dim": None},
        **{"ctc_loss_reduction": ("sum", "mean"), "feat_extract_norm": ("group", "layer")},
    },
    # of the adapter; of pre-training; of speaker verification; of training alone, and most of them only in old releases
    unused="""adapter_kernel_size adapter_stride num_adapter_layers output_hidden_size
        codevector_dim contrastive_logits_temperature diversity_loss_weight feat_quantizer_dropout
        num_codevector_groups num_codevectors_per_group num_negatives proj_codevector_dim
        tdnn_dim tdnn_dilation tdnn_kernel xvector_output_dim
        feat_extract_dropout freeze_feat_extract_train hidden_dropout_prob layerdrop
        mask_channel_length mask_channel_min_space mask_channel_other mask_channel_prob mask_channel_selection
        mask_time_min_space mask_time_other mask_time_selection no_mask_channel_overlap no_mask_time_overlap
        num_feat_extract_layers replace_prob""",
)


@KEYS.spec
def spec(c: Values) -> SpeechEncoderSpec:
    """config.json → spec."""
    return encoder_spec(c)


def encoder_spec(c: Values) -> SpeechEncoderSpec:
    """The spec of the encoder and its heads, with the fields of these keys or a sibling's."""
    norm = LayerNormSpec(**c("width eps"))
    layers = convolutions(c)
    features = layers[-1].width
    block = BlockSpec(
        attention=AttentionSpec(**c("width heads"), dropout=c.attention_dropout),
        feed_forward=FeedForwardSpec(**c("width hidden activation"), dropout=c.activation_dropout),
        residual=ResidualSpec.pre_or_post(norm, pre=c.norm_first, dropout=c.dropout),
    )
    return SpeechEncoderSpec(
        waveform=WaveformSpec(layers=layers, norm=LayerNormSpec(width=features, eps=c.eps)),
        embed=FrameEmbeddingSpec(
            features=features,
            positions=ConvolvedPositionsSpec(**c("width kernel groups"), activation=c.convolution_activation),
            augment=spec_augment(c.reader, c.width),
            norm=None if c.norm_first else norm,
            **c("feature_dropout dropout"),
        ),
        blocks=StackSpec(blocks=(block,) * c.layers),
        final_norm=norm if c.norm_first else None,  # the pre-norm stream is not normed until here
        hidden=c.classifier_hidden,
        **c("layer_sum vocabulary blank reduction zero_infinity head_dropout labels init_std"),
    )


def convolutions(c: Values) -> tuple[TimeConvolutionSpec, ...]:
    """The convolutions of the feature encoder; with group norm, the first layer alone is normed.

    Raises: ConfigError: widths, strides and kernels differ in number.
    """
    over_time = c.convolution_norm == "group"
    widths = sizes(c.reader, "conv_dim", (512,) * 7)
    strides = sizes(c.reader, "conv_stride", (5, 2, 2, 2, 2, 2, 2))
    kernels = sizes(c.reader, "conv_kernel", (10, 3, 3, 3, 3, 2, 2))
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
            activation=c.convolution_activation,
            bias=c.convolution_bias,
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


NAMES = NameTable(
    """
    features.{i}.conv                       feature_extractor.conv_layers.{i}.conv
    features.{i}.norm                       feature_extractor.conv_layers.{i}.layer_norm
    features.norm                           feature_projection.layer_norm
    embed.projection                        feature_projection.projection
    embed.augment.vector                    masked_spec_embed
    embed.positions.gain                    encoder.pos_conv_embed.conv.parametrizations.weight.original0
    embed.positions.direction               encoder.pos_conv_embed.conv.parametrizations.weight.original1
    embed.positions.bias                    encoder.pos_conv_embed.conv.bias
    embed.norm                              encoder.layer_norm
    final_norm                              encoder.layer_norm
    blocks.{i}.attn_residual.before         encoder.layers.{i}.layer_norm
    blocks.{i}.attn.qkv                     encoder.layers.{i}.attention.(q|k|v)_proj
    blocks.{i}.attn.out                     encoder.layers.{i}.attention.out_proj
    blocks.{i}.attn_residual.on_residual    encoder.layers.{i}.layer_norm
    blocks.{i}.ffn_residual.before          encoder.layers.{i}.final_layer_norm
    blocks.{i}.ffn.up                       encoder.layers.{i}.feed_forward.intermediate_dense
    blocks.{i}.ffn.down                     encoder.layers.{i}.feed_forward.output_dense
    blocks.{i}.ffn_residual.on_residual     encoder.layers.{i}.final_layer_norm

    [head]
    head.decoder                            lm_head
    head.projection                         projector
    head.classifier                         classifier
    head.mix.weights                        layer_weights
    """,
    prefix="wav2vec2",
    renamed={  # two spellings of weight normalisation; files with `weight_g` are older, but either is read
        f"encoder.pos_conv_embed.conv.weight_{old}": f"encoder.pos_conv_embed.conv.parametrizations.weight.{new}"
        for old, new in (("g", "original0"), ("v", "original1"))
    },
    # the first models were published without it; training starts at 0
    zero_if_missing=("embed.augment.vector",),
)

TINY = {
    **{"feat_extract_norm": "layer", "conv_bias": True, "do_stable_layer_norm": True},
    **{"conv_dim": [12, 16, 20], "conv_kernel": [10, 3, 3], "conv_stride": [5, 4, 2]},
    **{"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4, "classifier_proj_size": 24},
    **{"ctc_loss_reduction": "mean", "mask_time_prob": 0.0},
    **{"activation_dropout": 0.0, "final_dropout": 0.0, "layerdrop": 0.0},
}
AUDIO_TASKS = {"ForSequenceClassification": "audio-classification"}

FAMILY = Family(
    model_type="wav2vec2",
    distinction="convolutions over the waveform; convolutional positions",
    architectures=architectures(
        "Wav2Vec2", "Model ForCTC ForSequenceClassification ForAudioFrameClassification", **AUDIO_TASKS
    ),
    spec=spec,
    build=build,
    names=NAMES,
    initialise=initialise,
    modality="sound",
    tiny=KEYS.tiny("wav2vec2", **TINY),
)
