"""DPR: dense passage retrieval, with two BERT encoders, one for questions and one for passages.

    question ─ BERT ─ first token ─┐
                                   ├─ dot product: how well the passage answers the question
    passage ── BERT ─ first token ─┘

A folder holds one of the two; its architecture tells which.
Source: Karpukhin et al. 2020, section 3.1.
"""

from __future__ import annotations

from torch import Tensor

from glassformer.core import Flow, Head, Output, first_token
from glassformer.models import bert
from glassformer.models._family import Family
from glassformer.models._keys import Values
from glassformer.models._network import TextSpec
from glassformer.models._text import TextModel

TASK_PREFIXES = {
    "passage-encoding": "ctx_encoder.bert_model",
    "question-encoding": "question_encoder.bert_model",
}


KEYS = bert.KEYS.extend(fixed={"projection_dim": 0})  # no published model projects its vectors


@KEYS.spec
def spec(c: Values) -> TextSpec:
    """config.json → spec."""
    return bert.text_spec(c, TextSpec)


class FirstTokenHead(Head):
    """Pooling: the hidden state of a text's first token is its embedding."""

    FIELDS = ("pooler_output",)

    def forward(self, x: Tensor, flow: Flow) -> Output:
        return Output(pooler_output=first_token(x, flow))


class Dpr(TextModel):
    """One encoder of DPR: BERT without a pooler."""

    POOLING = "cls"

    def make_head(self, spec: TextSpec, task: str) -> Head:
        return FirstTokenHead()


NAMES = bert.NAMES.extend(
    """
    head.dense                      -
    head.pooler.dense               -
    head.next_sentence.pooler.dense -
    """,
    ignored=(
        *bert.NAMES.ignored,
        "pooler.dense.weight",
        "pooler.dense.bias",
    ),  # old files hold an unused pooler
    prefixes=TASK_PREFIXES,
)

FAMILY = Family(
    model_type="dpr",
    architectures={"DPRContextEncoder": "passage-encoding", "DPRQuestionEncoder": "question-encoding"},
    spec=spec,
    build=Dpr,
    names=NAMES,
    distinction="two encoders trained together: a question's embedding is near those of passages that answer it",
    tiny=KEYS.tiny("dpr"),
)
