"""RoBERTa: BERT with optimised pre-training, positions that begin behind the padding id, and other heads.

    ids + positions ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

    row of the position table    padding id         padding, which takes no position, hidden or not
                                 padding id + 1     the first token

Source: Liu et al. 2019. The rest is BERT's.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.core import Head, LearnedPositionsSpec, Pooler, SequenceClassifier
from glassformer.models import bert
from glassformer.models._config import MAX_ROWS, Values, token_id
from glassformer.models._family import CLASSIFIERS, Family, architectures
from glassformer.models._network import AS_DECODER, Encoder, TextSpec

KEYS = bert.KEYS.extend(padding=token_id("pad_token_id", 1))


def text_spec(c: Values) -> TextSpec:
    """BERT's spec, with positions that begin behind the padding id; a decoder's count no hidden token."""
    offset = c.padding + 1
    rows = c.reader.integer("max_position_embeddings", minimum=offset + 1, maximum=MAX_ROWS)
    like_bert = bert.text_spec(c, TextSpec, activation="gelu")  # of the head; `hidden_act` is the blocks'
    positions = LearnedPositionsSpec(count=rows - offset, offset=offset, padding=c.padding, masked=c.causal)
    return replace(like_bert, embed=replace(like_bert.embed, positions=positions))


@KEYS.extend(**AS_DECODER).spec
def spec(c: Values) -> TextSpec:
    return text_spec(c)


class Roberta(Encoder):
    """RoBERTa: BERT with another sequence classifier."""

    def make_head(self, spec: TextSpec, task: str) -> Head | None:
        if task != "text-classification":
            return super().make_head(spec, task)
        width, dropout = spec.blocks.width, spec.classifier_dropout
        return SequenceClassifier(
            width, spec.labels, pooler=Pooler(width, dropout=dropout), dropout=dropout, problem=spec.problem
        )


NAMES = bert.NAMES.extend(
    """
    [head]
    head.transform              lm_head.dense
    head.norm                   lm_head.layer_norm
    head.decoder.weight         lm_head.decoder.weight   =
    head.decoder.bias           lm_head.bias
    [text-classification]
    head.pooler.dense           classifier.dense
    head.classifier             classifier.out_proj
    """,
    prefix="roberta",
    ignored=("embeddings.position_ids", "lm_head.decoder.bias"),
)

FAMILY = Family(
    model_type="roberta",
    distinction="positions begin behind the padding id; one token type",
    architectures=architectures("Roberta", f"Model ForMaskedLM {CLASSIFIERS} ForCausalLM"),
    requires={"text-generation": {"is_decoder": True}},
    spec=spec,
    build=Roberta,
    names=NAMES,
    tiny=KEYS.tiny("roberta", max_position_embeddings=41, pad_token_id=0),
)
