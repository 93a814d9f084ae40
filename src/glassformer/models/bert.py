"""BERT: a bidirectional post-norm encoder with two token types.

    ids + positions + token types ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Devlin et al. 2019. The same recipe serves MiniLM and PubMedBERT.
"""

from __future__ import annotations

from typing import Any, TypeVar

from glassformer.core import AttentionSpec, BlockSpec, FeedForwardSpec, LayerNormSpec, ResidualSpec, StackSpec
from glassformer.core.embeddings import EmbeddingSpec, LearnedPositionsSpec
from glassformer.models._config import Keys, Values, constant
from glassformer.models._family import CLASSIFIERS, Family, architectures
from glassformer.models._network import AS_DECODER, Encoder, TextSpec
from glassformer.weights.name_table import NameTable

AnySpec = TypeVar("AnySpec", bound=TextSpec)

KEYS = Keys(
    width="hidden_size",
    layers="num_hidden_layers",
    heads="num_attention_heads",
    hidden="intermediate_size",
    vocabulary="vocab_size",
    max_tokens="max_position_embeddings",
    token_types=("type_vocab_size", 2),
    padding=("pad_token_id", 0),
    activation=("hidden_act", "gelu"),
    eps=("layer_norm_eps", 1e-12),
    dropout=("hidden_dropout_prob", 0.1),
    attention_dropout=("attention_probs_dropout_prob", 0.1),
    classifier_dropout=("classifier_dropout", "=dropout"),
    init_std=("initializer_range", 0.02),
    causal=constant(False),
    fixed={"position_embedding_type": "absolute", "is_decoder": False, "tie_word_embeddings": True},
)


def block_spec(c: Values) -> BlockSpec:
    """One post-norm block."""
    return BlockSpec(
        attention=AttentionSpec(**c("width heads causal"), dropout=c.attention_dropout),
        feed_forward=FeedForwardSpec(**c("width hidden activation")),
        residual=ResidualSpec(on_residual=LayerNormSpec(**c("width eps")), dropout=c.dropout),
    )


def text_spec(c: Values, kind: type[AnySpec], block: BlockSpec | None = None, **more: Any) -> AnySpec:
    """A spec with the fields of BERT's; `block` and `more` are a sibling's, in their place or added."""
    norm, positions = LayerNormSpec(**c("width eps")), LearnedPositionsSpec(count=c.max_tokens)
    shared = {
        "embed": EmbeddingSpec(**c("vocabulary width token_types padding dropout"), positions=positions, norm=norm),
        "blocks": StackSpec(blocks=(block or block_spec(c),) * c.layers),
        **c("labels problem classifier_dropout activation init_std"),
    }
    return kind(**shared | more)


@KEYS.extend(**AS_DECODER).spec
def spec(c: Values) -> TextSpec:
    return text_spec(c, TextSpec)


NAMES = NameTable(
    """
    embed.tokens                            embeddings.word_embeddings
    embed.positions                         embeddings.position_embeddings
    embed.segments                          embeddings.token_type_embeddings
    embed.norm                              embeddings.LayerNorm
    blocks.{i}.attn.qkv                     encoder.layer.{i}.attention.self.(query|key|value)
    blocks.{i}.attn.out                     encoder.layer.{i}.attention.output.dense
    blocks.{i}.attn_residual.on_residual    encoder.layer.{i}.attention.output.LayerNorm
    blocks.{i}.ffn.up                       encoder.layer.{i}.intermediate.dense
    blocks.{i}.ffn.down                     encoder.layer.{i}.output.dense
    blocks.{i}.ffn_residual.on_residual     encoder.layer.{i}.output.LayerNorm
    head.dense                              pooler.dense
    head.pooler.dense                       pooler.dense
    head.next_sentence.pooler.dense         pooler.dense

    [head]
    head.classifier                         classifier
    head.transform                          cls.predictions.transform.dense
    head.norm                               cls.predictions.transform.LayerNorm
    head.decoder.weight                     cls.predictions.decoder.weight   =
    head.decoder.bias                       cls.predictions.bias
    [pre-training]
    head.masked.transform                   cls.predictions.transform.dense
    head.masked.norm                        cls.predictions.transform.LayerNorm
    head.masked.decoder.weight              cls.predictions.decoder.weight   =
    head.masked.decoder.bias                cls.predictions.bias
    head.next_sentence.classifier           cls.seq_relationship
    [next-sentence-prediction]
    head.classifier                         cls.seq_relationship
    [question-answering]
    head.classifier                         qa_outputs
    """,
    prefix="bert",
    ignored=("embeddings.position_ids", "cls.predictions.decoder.bias"),
)

FAMILY = Family(
    model_type="bert",
    distinction="two token types; the first token's state, through a pooler, represents the text",
    architectures=architectures(
        "Bert",
        f"Model ForMaskedLM ForPreTraining ForNextSentencePrediction {CLASSIFIERS} LMHeadModel",
    ),
    requires={"text-generation": {"is_decoder": True}},
    spec=spec,
    build=Encoder,
    names=NAMES,
    tiny=KEYS.tiny("bert"),
)
