"""RoBERTa: BERT with optimised pre-training, positions that begin behind the padding id, and other heads.

    ids + positions ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

    row of the position table    0 … padding id     unused
                                 padding id + 1     the first token

Source: Liu et al. 2019. The rest is BERT's.
Differs: the reference library gives a visible padding token no position of its own; here only hidden tokens have none.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.core.classification_heads import SequenceClassifier
from glassformer.core.heads import Head, Pooler
from glassformer.core.specs import LearnedPositionsSpec
from glassformer.models import bert
from glassformer.models._config import MAX_ROWS, ConfigReader
from glassformer.models._family import Family
from glassformer.models._network import TextSpec
from glassformer.weights.names import Rule, Tied, WeightNames


def spec(reader: ConfigReader) -> TextSpec:
    """config.json → spec."""
    like_bert = bert.spec(reader)
    offset = reader.integer("pad_token_id", default=1, minimum=0, maximum=MAX_ROWS) + 1
    rows = reader.integer("max_position_embeddings", minimum=offset + 1, maximum=MAX_ROWS)
    positions = LearnedPositionsSpec(count=rows - offset, offset=offset)
    return replace(
        like_bert,
        embed=replace(like_bert.embed, positions=positions),
        activation="gelu",  # of the masked language-model head; `hidden_act` is the blocks'
    )


class Roberta(bert.Bert):
    """RoBERTa: BERT with another sequence classifier."""

    def make_head(self, spec: TextSpec, task: str) -> Head:
        if task != "text-classification":
            return super().make_head(spec, task)
        width, dropout = spec.blocks.width, spec.classifier_dropout
        return SequenceClassifier(
            width, spec.labels, pooler=Pooler(width, dropout=dropout), dropout=dropout, problem=spec.problem
        )


def names(spec: TextSpec, task: str) -> WeightNames:
    """Weight names: BERT's in the body, others in the heads."""
    classifier = {"text-classification": "classifier.out_proj", "question-answering": "qa_outputs"}
    head: dict[str, str | Rule] = {
        "head.transform": "lm_head.dense",
        "head.norm": "lm_head.layer_norm",
        "head.decoder.weight": Tied("lm_head.decoder.weight"),
        "head.decoder.bias": "lm_head.bias",
        "head.pooler.dense": "classifier.dense",
        "head.classifier": classifier.get(task, "classifier"),
    }
    return replace(
        bert.names(spec, task),
        prefix="roberta",
        head=head,
        ignored=("embeddings.position_ids", "lm_head.decoder.bias"),
    )


FAMILY = Family(
    model_type="roberta",
    distinction="positions begin behind the padding id; one token type",
    architectures={
        "RobertaModel": "feature-extraction",
        "RobertaForMaskedLM": "fill-mask",
        "RobertaForSequenceClassification": "text-classification",
        "RobertaForTokenClassification": "token-classification",
        "RobertaForQuestionAnswering": "question-answering",
    },
    spec=spec,
    build=Roberta,
    names=names,
    tiny={**bert.FAMILY.tiny, "model_type": "roberta", "max_position_embeddings": 41, "pad_token_id": 0},
)
