"""T5: a text-to-text encoder-decoder with relative position biases that all layers of a stack share.

    source ids ─ embed ─ [ norm ─ attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ memory
                               └ + bias of the distance, in both directions
    target ids ─ embed ─ [ … causal, + bias of the distance back … cross-attention … ] × L ─ norm ─ head

Scores are not divided by √E (the weights start small instead), norms do not centre, and no layer has a bias.
Version 1.1 gates the feed-forward layer and does not tie the head; so does Flan-T5.
Source: Raffel et al. 2020, section 2.1; version 1.1: Shazeer 2020, "GLU variants", section 3, and the released code.
Differs: in fp16 the reference library clamps the residual stream, and keeps W_down in fp32; here a stream beyond 65,504
overflows. Load such a checkpoint in bf16 or fp32, where neither library clamps.
"""

from __future__ import annotations

from glassformer.core import AttentionSpec, BlockSpec, BucketedBiasSpec, EmbeddingSpec, ResidualSpec, RMSNormSpec
from glassformer.core.feed_forward import FeedForwardSpec, GatedFeedForwardSpec
from glassformer.errors import UnsupportedError
from glassformer.files import safe_repr
from glassformer.models._config import Keys, Values, flag, size, text, token_id
from glassformer.models._family import Family, architectures
from glassformer.models._seq2seq import EncoderDecoderSpec, streams
from glassformer.models.t5.names import names
from glassformer.models.t5.network import build, initialise

KEYS = Keys(
    width="hidden_size d_model",
    heads="num_attention_heads num_heads",
    head_width=("head_dim d_kv", 64),
    hidden="d_ff",
    encoder_layers="num_hidden_layers num_layers",
    decoder_layers=("num_decoder_layers", "=encoder_layers"),
    vocabulary="vocab_size",
    eps=("layer_norm_epsilon", 1e-6),
    feed_forward=text("feed_forward_proj", "relu"),  # newer configs repeat its parts
    gated=flag("is_gated_act", lambda c: c.feed_forward.startswith("gated-")),
    activation=(
        "dense_act_fn",
        lambda c: "gelu_new" if c.feed_forward == "gated-gelu" else c.feed_forward.rpartition("-")[2],
    ),
    dropout=("dropout_rate", 0.1),
    classifier_dropout=("classifier_dropout", 0.0),
    buckets=size("relative_attention_num_buckets", 32),
    max_distance=size("relative_attention_max_distance", 128),
    tied_head=flag("scale_decoder_outputs tie_word_embeddings", True),
    start_id=token_id("decoder_start_token_id", 0),
    end_id=token_id("eos_token_id", 1),
    init_std=("initializer_factor", 1.0),
    # False where an encoder was saved alone
    fixed={"is_encoder_decoder": (True, False), "is_decoder": False},
    unused="n_positions",  # the length in training; relative positions have no limit
)


@KEYS.spec
def spec(c: Values) -> EncoderDecoderSpec:
    """config.json → spec.

    Raises: UnsupportedError: a feed-forward layer with another kind of gate.
    """
    if c.feed_forward.rpartition("-")[0] not in ("", "gated"):
        raise UnsupportedError(
            f"config.json: feed_forward_proj = {safe_repr(c.feed_forward)} is not supported; supported: an activation, "
            "such as 'relu', or a gated one, such as 'gated-gelu'"
        )
    norm = RMSNormSpec(**c("width eps"))
    block = BlockSpec(
        attention=AttentionSpec(**c("width heads head_width dropout"), bias=False, out_bias=False, scale=1.0),
        feed_forward=(GatedFeedForwardSpec if c.gated else FeedForwardSpec)(
            **c("width hidden activation dropout"), bias=False
        ),
        residual=ResidualSpec(before=norm, dropout=c.dropout),
    )
    biases = tuple(BucketedBiasSpec(**c("heads buckets max_distance"), bidirectional=both) for both in (True, False))
    embed = EmbeddingSpec(**c("vocabulary width dropout"))
    return EncoderDecoderSpec(
        **streams(c, embed, block, block, biases, final_norm=norm, final_dropout=c.dropout),
        **c("tied_head start_id end_id labels problem classifier_dropout init_std"),
    )


FAMILY = Family(
    model_type="t5",
    distinction="relative position bias shared by all layers; unscaled attention scores",
    architectures=architectures(
        "T5",
        "Model ForConditionalGeneration ForSequenceClassification ForQuestionAnswering ForTokenClassification "
        "EncoderModel",
        EncoderModel="sentence-similarity",
    ),
    old_architectures={"T5WithLMHeadModel": "T5ForConditionalGeneration"},
    spec=spec,
    build=build,
    names=names,
    initialise=initialise,
    tiny=KEYS.tiny(
        "t5",
        **{"is_encoder_decoder": True, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0},
        **{"d_model": 32, "num_heads": 4, "d_kv": 6, "num_layers": 3},
        relative_attention_num_buckets=8,
        relative_attention_max_distance=11,
        initializer_factor=0.3,  # 1 is usual; scores that nothing divides are then steep in so narrow a model
    ),
)
