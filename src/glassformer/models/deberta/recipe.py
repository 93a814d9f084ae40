"""DeBERTa v1: BERT with disentangled attention to contents and relative positions; queries and values have biases.

    ids (+ positions) ─ norm ─ [ disentangled attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head
    relative positions ────────────────┘ of every block

Source: He et al. 2021, "DeBERTa", section 3.
Differs: the mask decoder of the paper, which reads absolute positions late, is in no head of the reference library, and
here neither.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from glassformer.core.attention import AttentionSpec
from glassformer.core.stack import StackSpec
from glassformer.errors import UnsupportedError
from glassformer.models import bert
from glassformer.models._config import Key, Values, constant, flag, probability, size, text
from glassformer.models._family import CLASSIFIERS, Family, architectures
from glassformer.models.deberta.attention import DisentangledAttentionSpec, RelativeEmbeddingSpec
from glassformer.models.deberta.names import weight_names
from glassformer.models.deberta.network import Deberta, DebertaSpec, initialise

KEYS = bert.KEYS.extend(
    token_types=("type_vocab_size", 0),
    eps=("layer_norm_eps", 1e-7),
    classifier_dropout=probability("cls_dropout", "=dropout"),
    embedding_width=size("embedding_size", "=width"),
    pooler_width=size("pooler_hidden_size", "=width"),
    pooler_activation=text("pooler_hidden_act", "gelu"),
    pooler_dropout=("pooler_dropout", 0.0),
    absolute=flag("position_biased_input", True),
    farthest=Key("integer", ("max_relative_positions",), -1, {"minimum": -1}),
    longest=constant(lambda c: c.farthest if c.farthest > 0 else c.max_tokens),
    relative=flag("relative_attention", False),
    legacy=flag("legacy", True),
    fixed={"talking_head": False},
    unused="attention_head_size norm_rel_ebd position_buckets share_att_key",
)


def text_spec(c: Values, attention: AttentionSpec, relative: RelativeEmbeddingSpec | None) -> DebertaSpec:
    """BERT's spec with another attention, and the relative position embeddings that its layers share."""
    for key, width in {"embedding_size": c.embedding_width, "pooler_hidden_size": c.pooler_width}.items():
        if width != c.width:
            raise UnsupportedError(
                f"config.json: {key} = {width} is not supported for a {c.reader.family!r} model; supported: {c.width}, "
                "the hidden_size"
            )
    made = bert.text_spec(c, DebertaSpec, **c("pooler_activation pooler_dropout legacy"))
    blocks = (replace(bert.block_spec(c), attention=attention),) * c.layers
    embed = made.embed if c.absolute else replace(made.embed, positions=None)
    return replace(made, embed=embed, blocks=StackSpec(blocks=blocks, bias=relative))


def attention_spec(c: Values, relative: RelativeEmbeddingSpec | None, **changes: Any) -> DisentangledAttentionSpec:
    """Disentangled attention: its scale counts the terms of a score, also where there are no relative positions."""
    terms = c.reader.get("pos_att_type", default=[])
    terms = terms.lower().split("|") if isinstance(terms, str) else terms
    if not isinstance(terms, list) or set(map(str, terms)) - {"c2p", "p2c"}:
        raise UnsupportedError(
            f"config.json: pos_att_type = {terms!r:.60} is not supported for a {c.reader.family!r} model; supported: a "
            "list of 'c2p' and 'p2c'"
        )
    return DisentangledAttentionSpec(
        **c("width heads"),
        dropout=c.attention_dropout,
        scale=(AttentionSpec(**c("width heads")).E * (1 + len(terms))) ** -0.5,
        relative=relative,
        terms=tuple(terms),
        position_dropout=c.dropout,
        **changes,
    )


@KEYS.spec
def spec(c: Values) -> DebertaSpec:
    relative = RelativeEmbeddingSpec(**c("heads width"), span=c.longest) if c.relative else None
    attention = attention_spec(c, relative, bias=False, query_value_bias=True, position_bias=False)
    return text_spec(c, attention, relative)


FAMILY = Family(
    model_type="deberta",
    distinction="disentangled attention: terms of the scores for contents and for relative positions",
    architectures=architectures("Deberta", f"Model ForMaskedLM {CLASSIFIERS}"),
    spec=spec,
    build=Deberta,
    names=weight_names,
    tiny=KEYS.tiny("deberta", relative_attention=True, pos_att_type=["c2p", "p2c"], max_relative_positions=8),
    initialise=initialise,
)
