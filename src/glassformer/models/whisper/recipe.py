"""Whisper: an encoder-decoder for speech recognition and translation, over windows of 30 seconds.

    log-mel [M, T] ─ convolution ─ gelu ─ convolution, stride 2 ─ gelu ─ + positions ─ [ block ] × L ─ norm ─ memory
    tokens ─ embedding + positions ─ [ causal block with cross-attention ] × L ─ norm ─ embeddingᵀ ─ logits

Blocks are pre-norm, and their keys have no bias. All windows have one length; silence in them is not masked.
Source: Radford et al. 2022, "Robust speech recognition via large-scale weak supervision", section 2.2.
Differs: `scale_embedding` is not read, as in the reference library, which keeps the number and multiplies by nothing.
"""

from __future__ import annotations

from glassformer.core import LayerNormSpec, LearnedPositionsSpec
from glassformer.models._config import Values, constant, constants, flag, rows, size
from glassformer.models._family import Family, architectures
from glassformer.models._seq2seq import encoder_decoder_spec
from glassformer.models._speech import mask_spans
from glassformer.models.bart import recipe as bart
from glassformer.models.bart.names import NAMES as BART_NAMES
from glassformer.models.whisper.network import build
from glassformer.models.whisper.stem import WhisperSpec, initialise

KEYS = bart.SHARED_KEYS.extend(
    bins=size("num_mel_bins", 80),
    window=rows("max_source_positions", 1500),
    max_tokens=("max_target_positions", 448),
    padding=("pad_token_id", 50_256),
    positions=constant(lambda c: LearnedPositionsSpec(count=c.max_tokens)),
    activation=("activation_function", "gelu"),
    dropout=("dropout", 0.0),
    **constants(norm_first=True, embedding_norm=False, scaled=False, classifier_dropout=0.0),
    augments=flag("apply_spec_augment", False),
    layer_sum=flag("use_weighted_layer_sum", False),
    hidden=size("classifier_proj_size", 256),
    # how transcripts begin; for word timestamps, from cross-attention
    unused="forced_decoder_ids median_filter_width scale_embedding",
)


@KEYS.spec
def spec(c: Values) -> WhisperSpec:
    spans = mask_spans(c)
    used = spans if c.augments else {}
    made = encoder_decoder_spec(c)
    return WhisperSpec(
        encoder=made.encoder.blocks,
        decoder=made.decoder,
        norm=LayerNormSpec(**c("width eps")),
        time_mask=used.get("time"),
        bin_mask=used.get("feature"),
        positions=c.window,
        **c("bins dropout layer_sum hidden labels init_std"),
    )


NAMES = BART_NAMES.extend(
    """
    encoder.embed.conv1                 encoder.conv1
    encoder.embed.conv2                 encoder.conv2
    decoder.embed.tokens                decoder.embed_tokens
    {side}.blocks.{i}.attn.qkv.bias     {side}.layers.{i}.self_attn.(q_proj||v_proj).bias
    decoder.blocks.{i}.cross.kv.bias    decoder.layers.{i}.encoder_attn.(|v_proj).bias

    [head]
    head.decoder                        proj_out                                           =
    head.projection                     projector
    head.classifier                     classifier
    mix.weights                         layer_weights
    """,
    unprefixed=("audio-classification",),
    ignored=(),
    renamed={},
    zero_if_missing=(),
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
