"""DPR: dense passage retrieval, with two BERT encoders, one for questions and one for passages.

    question ─ BERT ─ first token ─┐
                                   ├─ dot product: how well the passage answers the question
    passage ── BERT ─ first token ─┘

A folder holds one of the two; its architecture tells which.
Source: Karpukhin et al. 2020, section 3.1.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from glassformer.core.embeddings import Embedding
from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.heads import Head, first_token
from glassformer.core.stack import Stack
from glassformer.models import bert
from glassformer.models._config import ConfigReader
from glassformer.models._family import Family
from glassformer.models._network import Network, TextSpec, require_ids
from glassformer.weights.names import WeightNames

TASK_PREFIXES = {
    "passage-encoding": "ctx_encoder.bert_model",
    "question-encoding": "question_encoder.bert_model",
}


def spec(reader: ConfigReader) -> TextSpec:
    """config.json → spec; no published model projects its vectors."""
    reader.fixed("projection_dim", 0)
    return bert.spec(reader)


class FirstTokenHead(Head):
    """Pooling: the hidden state of a text's first token is its embedding."""

    FIELDS = ("pooler_output",)

    def forward(self, x: Tensor, flow: Flow) -> Output:
        return Output(pooler_output=first_token(x, flow))


class Dpr(Network):
    """One encoder of DPR: BERT without a pooler."""

    POOLING = "cls"

    def __init__(self, spec: TextSpec, task: str) -> None:
        super().__init__()
        self.embed = Embedding(spec.embed)
        self.blocks = Stack(spec.blocks)
        self.head = FirstTokenHead()
        self.name_nodes()

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        x: Tensor = self.blocks(self.embed(require_ids(batch), flow, batch.token_type_ids), flow)
        return x


def names(spec: TextSpec, task: str) -> WeightNames:
    """Weight names: BERT's, below the prefix of the encoder; old files hold an unused pooler."""
    table = bert.names(spec, "feature-extraction")
    body = {ours: theirs for ours, theirs in table.body.items() if not ours.startswith("head.")}
    ignored = (*table.ignored, "pooler.dense.weight", "pooler.dense.bias")
    return replace(table, prefix=TASK_PREFIXES[task], body=body, head={}, ignored=ignored)


FAMILY = Family(
    model_type="dpr",
    architectures={"DPRContextEncoder": "passage-encoding", "DPRQuestionEncoder": "question-encoding"},
    spec=spec,
    build=Dpr,
    names=names,
    distinction="two encoders trained together: a question's embedding is near those of passages that answer it",
    tiny={**bert.FAMILY.tiny, "model_type": "dpr"},
)
