"""wav2vec 2.0: a self-supervised speech encoder, fine-tuned with CTC for speech recognition.

    samples ─ [ convolution ─ norm ─ gelu ] × n ─ norm ─ projection ─ frames
    frames + convolved positions ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

The large models norm before each sub-layer instead, and at the end of the stack; their convolutions norm each frame,
where those of the base models norm each channel over time (`feat_extract_norm`: "layer" and "group").

Not supported: the quantiser of pre-training, adapters, and the speaker verification head.
Source: Baevski et al. 2020; the large layout: Conneau et al. 2020 (XLSR).
Differs: no LayerDrop in training, which the reference library supports, and SpecAugment uses torch's random numbers.
"""

from __future__ import annotations

from glassformer.core import AttentionSpec, BlockSpec, FeedForwardSpec, LayerNormSpec, ResidualSpec, StackSpec
from glassformer.models._config import Keys, Values, constant, flag, size, sizes, text, token_id
from glassformer.models._family import Family, architectures
from glassformer.models._speech import spec_augment
from glassformer.models.wav2vec2.names import NAMES
from glassformer.models.wav2vec2.network import SpeechEncoderSpec, build, initialise
from glassformer.models.wav2vec2.positions import ConvolvedPositionsSpec
from glassformer.models.wav2vec2.waveform import FrameEmbeddingSpec, waveform_spec

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
    widths=sizes("conv_dim", (512,) * 7),
    strides=sizes("conv_stride", (5, 2, 2, 2, 2, 2, 2)),
    kernels=sizes("conv_kernel", (10, 3, 3, 3, 3, 2, 2)),
    convolution_norm=text("feat_extract_norm", "group"),
    convolution_bias=flag("conv_bias", False),
    layer_sum=flag("use_weighted_layer_sum", False),
    blank=token_id("pad_token_id", 0),
    reduction=text("ctc_loss_reduction", "sum"),
    zero_infinity=flag("ctc_zero_infinity", False),
    classifier_hidden=size("classifier_proj_size", 256),
    features_norm=constant(True),
    augments=flag("apply_spec_augment", True),
    init_std=("initializer_range", 0.02),
    fixed={
        **{"add_adapter": False, "adapter_attn_dim": None},
        **{"ctc_loss_reduction": ("sum", "mean"), "feat_extract_norm": ("group", "layer")},
    },
    # of the adapter; of pre-training; of speaker verification; of training alone, and most of them only in old releases
    unused="""adapter_kernel_size adapter_stride num_adapter_layers output_hidden_size codevector_dim
        contrastive_logits_temperature diversity_loss_weight feat_quantizer_dropout num_codevector_groups
        num_codevectors_per_group num_negatives proj_codevector_dim tdnn_dim tdnn_dilation tdnn_kernel
        xvector_output_dim feat_extract_dropout freeze_feat_extract_train hidden_dropout_prob layerdrop
        mask_channel_length mask_channel_min_space mask_channel_other mask_channel_prob mask_channel_selection
        mask_time_min_space mask_time_other mask_time_selection no_mask_channel_overlap no_mask_time_overlap
        num_feat_extract_layers replace_prob""",
)


def encoder_spec(c: Values) -> SpeechEncoderSpec:
    """The spec of the encoder and its heads, with the fields of these keys or a sibling's."""
    norm = LayerNormSpec(**c("width eps"))
    block = BlockSpec(
        attention=AttentionSpec(**c("width heads"), dropout=c.attention_dropout),
        feed_forward=FeedForwardSpec(**c("width hidden activation"), dropout=c.activation_dropout),
        residual=ResidualSpec.pre_or_post(norm, pre=c.norm_first, dropout=c.dropout),
    )
    return SpeechEncoderSpec(
        waveform=waveform_spec(c),
        embed=FrameEmbeddingSpec(
            features=c.widths[-1],
            positions=ConvolvedPositionsSpec(**c("width kernel groups"), activation=c.convolution_activation),
            augment=spec_augment(c),
            norm=None if c.norm_first else norm,
            **c("feature_dropout dropout"),
        ),
        blocks=StackSpec(blocks=(block,) * c.layers),
        final_norm=norm if c.norm_first else None,  # the pre-norm stream is not normed until here
        **c("layer_sum vocabulary blank reduction zero_infinity head_dropout classifier_hidden labels init_std"),
    )


spec = KEYS.spec(encoder_spec)

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
