"""BART: an encoder-decoder pre-trained as a denoising autoencoder, with a norm right after each embedding.

    source ids + positions ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ────────── memory
    target ids + positions ─ norm ─ [ causal attention ─ add, norm ─ cross-attention ─ add, norm ─ … ] × L ─ head

Source: Lewis et al. 2020, sections 2 and 3.
"""

from __future__ import annotations

from glassformer.core import LearnedPositionsSpec
from glassformer.models._config import Keys, Values, constant, constants, flag, token_id
from glassformer.models._family import Family, architectures
from glassformer.models._seq2seq import EncoderDecoderSpec, encoder_decoder_spec
from glassformer.models.bart.names import NAMES, with_decoder_alone
from glassformer.models.bart.network import Bart, build

SHARED_KEYS = Keys(
    width="d_model",
    vocabulary="vocab_size",
    padding=("pad_token_id", 1),
    max_tokens="max_position_embeddings",
    positions=constant(lambda c: LearnedPositionsSpec(count=c.max_tokens, offset=2)),  # the first two rows are unused
    encoder_layers="encoder_layers",
    encoder_heads="encoder_attention_heads",
    encoder_hidden="encoder_ffn_dim",
    decoder_layers="decoder_layers",
    decoder_heads="decoder_attention_heads",
    decoder_hidden="decoder_ffn_dim",
    activation=("activation_function", "gelu"),
    dropout=("dropout", 0.1),
    attention_dropout=("attention_dropout", 0.0),
    activation_dropout=("activation_dropout", 0.0),
    classifier_dropout=("classifier_dropout classif_dropout", 0.0),
    scaled=flag("scale_embedding", False),
    init_std=("init_std", 0.02),
    **constants(head_width=None, eps=1e-5, start_id=2, end_id=2),
    fixed={"is_encoder_decoder": True, "is_decoder": False, "tie_word_embeddings": True},
    # repeats id2label; the bias is in the file, or it is 0; the offset, before it was fixed; whole blocks left out, in
    # training alone; d_model, encoder_layers, encoder_attention_heads under a second name
    unused="_num_labels add_bias_logits extra_pos_embeddings force_bos_token_to_be_generated"
    " decoder_layerdrop encoder_layerdrop hidden_size num_attention_heads num_hidden_layers",
)
"""What BART, mBART, Marian and PEGASUS share; they differ in positions and in where norms are."""


def sibling_keys(*, norm_first: bool, embedding_norm: bool, sinusoidal: bool) -> Keys:
    """The keys of one of them; old configs repeat what is fixed in each family."""
    return SHARED_KEYS.extend(
        **constants(norm_first=norm_first, embedding_norm=embedding_norm),
        fixed={
            **{"is_encoder_decoder": (True, False), "is_decoder": (False, True)},  # as the decoder alone says
            **{"normalize_before": norm_first, "add_final_layer_norm": norm_first},
            **{"normalize_embedding": embedding_norm, "static_position_embeddings": sinusoidal},
        },
    )


KEYS = sibling_keys(norm_first=False, embedding_norm=True, sinusoidal=False).extend(
    start_id=token_id("decoder_start_token_id", 2), end_id=token_id("eos_token_id", 2)
)


def sibling_spec(c: Values) -> EncoderDecoderSpec:
    """The spec of BART or a sibling."""
    labels = c.labels if c.reader.get("id2label", "num_labels", default=None) else 3
    return encoder_decoder_spec(c, labels=labels, **c("start_id end_id problem classifier_dropout init_std"))


spec = KEYS.spec(sibling_spec)


TINY = {
    **{"is_encoder_decoder": True, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    **{"decoder_start_token_id": 2, "forced_eos_token_id": 2},
}

FAMILY = Family(
    model_type="bart",
    distinction="the end token's state classifies; the decoder's start token is the end token",
    architectures=architectures(
        "Bart",
        "Model ForConditionalGeneration ForSequenceClassification ForQuestionAnswering ForCausalLM",
    ),
    spec=spec,
    build=build(Bart),
    names=with_decoder_alone(NAMES),
    tiny=KEYS.tiny("bart", **TINY),
)
