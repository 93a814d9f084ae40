"""DPR: dense passage retrieval, with two BERT encoders, one for questions and one for passages, and a reader.

    question ─ BERT ─ first token ─┐
                                   ├─ dot product: how well the passage answers the question
    passage ── BERT ─ first token ─┘

    [CLS] question [SEP] title [SEP] passage ─ BERT ─┬─ start and end of the answer, at each token
                                                     └─ first token ─ relevance of the passage

A folder holds one of the three; its architecture tells which.
Source: Karpukhin et al. 2020, sections 3.1 and 6.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor, nn

from glassformer.core import Flow, Head, Output, first_token
from glassformer.models import bert
from glassformer.models._config import Values
from glassformer.models._family import Family
from glassformer.models._network import Sizes, TextModel, TextSpec

READER = "passage-reading"
TASK_PREFIXES = {
    "passage-encoding": "ctx_encoder.bert_model",
    "question-encoding": "question_encoder.bert_model",
    READER: "span_predictor.encoder.bert_model",
}


KEYS = bert.KEYS.extend(fixed={"projection_dim": 0})  # no published model projects its vectors


@KEYS.spec
def spec(c: Values) -> TextSpec:
    return bert.text_spec(c, TextSpec)


@dataclass(frozen=True, slots=True)
class PassageOutput(Output):
    """Output of an encoder of questions or passages: the vector of each text."""

    OWN: ClassVar[frozenset[str]] = Output.OWN | {"last_hidden_state"}


class FirstTokenHead(Head):
    """Pooling: the hidden state of a text's first token is its embedding."""

    FIELDS = ("pooler_output",)

    def forward(self, x: Tensor, flow: Flow) -> Output:
        return PassageOutput(pooler_output=first_token(x, flow))


class ReaderHead(Head):
    """Extractive question answering over passages: a start and an end logit a token, a relevance logit a passage."""

    FIELDS = ("start_logits", "end_logits", "relevance_logits")

    def __init__(self, width: int) -> None:
        super().__init__()
        self.span = nn.Linear(width, 2)
        self.relevance = nn.Linear(width, 1)

    def forward(self, x: Tensor, flow: Flow) -> Output:
        span, relevance = self.span(x), self.relevance(first_token(x, flow))
        return Output(start_logits=span[..., 0], end_logits=span[..., 1], relevance_logits=relevance[..., 0])


class Dpr(TextModel):
    """One encoder of DPR: BERT without a pooler."""

    POOLING = "cls"

    def make_head(self, spec: TextSpec, task: str) -> Head:
        return FirstTokenHead()


class DprReader(TextModel):
    """The reader of DPR. Question, title and passage are one segment, so it takes no token types."""

    READS = ("input_ids",)

    def sizes_of(self, spec: TextSpec) -> Sizes:
        return replace(super().sizes_of(spec), token_types=0)

    def make_head(self, spec: TextSpec, task: str) -> Head:
        return ReaderHead(spec.blocks.width)


NAMES = bert.NAMES.extend(
    """
    head.dense                      -
    head.pooler.dense               -
    head.next_sentence.pooler.dense -
    [passage-reading]
    head.span                       span_predictor.qa_outputs
    head.relevance                  span_predictor.qa_classifier
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
    architectures={
        "DPRContextEncoder": "passage-encoding",
        "DPRQuestionEncoder": "question-encoding",
        "DPRReader": READER,
    },
    spec=spec,
    build=lambda spec, task: (DprReader if task == READER else Dpr)(spec, task),
    names=NAMES,
    distinction="two encoders trained together: a question's embedding is near those of passages that answer it",
    tiny=KEYS.tiny("dpr"),
)
