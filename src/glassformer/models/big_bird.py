"""BigBird: a BERT whose tokens look at a few blocks of a long text instead of at all of it.

    ids + positions + segments ─ norm ─ [ block-sparse attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Zaheer et al. 2020. The recipe is BERT's but for what stands here.
Differs: the reference library keeps full attention for good once it has met a short text; here each text is judged by
itself.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.embeddings import Embedding
from glassformer.core.feed_forward import make_feed_forward
from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.heads import Classifier, Head, Labels, Pooler, Span
from glassformer.core.norms import make_norm
from glassformer.core.specs import (
    AttentionSpec,
    BlockSparseAttentionSpec,
    FeedForwardSpec,
    NormSpec,
    StackSpec,
)
from glassformer.core.stack import Stack
from glassformer.models import bert
from glassformer.models._family import MOST_ROWS, Family, Network, Reader, TextSpec, reads_ids
from glassformer.weights.names import Names, Rule

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

BARRED = 1e6
"""Taken off the numbers of tokens where no answer may lie."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BigBirdSpec(TextSpec):
    """separator: the token that ends a question."""

    separator: int


def spec(reader: Reader) -> BigBirdSpec:
    """config.json → spec."""
    like_bert = bert.spec(reader)
    block = like_bert.blocks.blocks[0]
    assert isinstance(block.feed_forward, FeedForwardSpec)  # a BERT's is
    activation = reader.text("hidden_act", default="gelu_new")
    block = replace(block, feed_forward=replace(block.feed_forward, activation=activation))
    attention = replace(block.attention, bias=reader.flag("use_bias", default=True))
    layers = [
        replace(block, attention=layer)
        for layer in _attention(reader, attention, len(like_bert.blocks.blocks))
    ]
    scale = like_bert.embed.width**0.5 if reader.flag("rescale_embeddings", default=False) else 1.0
    as_bert = {field.name: getattr(like_bert, field.name) for field in fields(like_bert)}
    return BigBirdSpec(
        **as_bert
        | {
            "embed": replace(like_bert.embed, scale=scale),
            "blocks": StackSpec(blocks=tuple(layers)),
            "activation": activation,
        },
        separator=reader.integer("sep_token_id", default=66, least=0, most=MOST_ROWS),
    )


def _attention(reader: Reader, like: AttentionSpec, layers: int) -> list[AttentionSpec]:
    """The attention of each layer."""
    block = reader.integer("block_size", default=64)
    random = reader.integer("num_random_blocks", default=3, least=0)
    longest = reader.integer("max_position_embeddings", most=MOST_ROWS)
    reader.fixed("attention_type", "block_sparse", "original_full")
    if reader.get("attention_type", default="block_sparse") == "original_full":
        return [like] * layers
    return [
        BlockSparseAttentionSpec(
            width=like.width,
            heads=like.heads,
            bias=like.bias,
            dropout=like.dropout,
            block=block,
            random=random,
            seed=layer,
            longest=longest,
        )
        for layer in range(layers)
    ]


class DroppedEmbedding(Embedding):
    """An embedding that drops numbers before the norm, not after it."""

    def finished(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        normed: Tensor = self.norm(self.dropout(x))
        return normed


class AnswerSpan(Span):
    """A span read off the states after one more feed-forward layer.

    start, end = W norm(x + dropout(ffn(dropout(x)))) + b
    """

    def __init__(self, ffn: FeedForwardSpec, norm: NormSpec, dropout: float) -> None:
        super().__init__(ffn.width)
        self.before = nn.Dropout(dropout)
        self.ffn = make_feed_forward(ffn)
        self.after = nn.Dropout(dropout)
        self.norm = make_norm(norm)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return super().forward(self.norm(x + self.after(self.ffn(self.before(x), flow))), flow)


class BigBird(bert.Bert):
    """BERT with another embedding and other heads."""

    def __init__(self, spec: BigBirdSpec, task: str) -> None:
        Network.__init__(self)
        self.embed = DroppedEmbedding(spec.embed)
        self.blocks = Stack(spec.blocks)
        self.head = self._head(spec, task)
        self.name_nodes()

    def _head(self, spec: TextSpec, task: str) -> Head:
        width, dropout, norm = spec.blocks.width, spec.classifier_dropout, spec.embed.norm
        block = spec.blocks.blocks[0]
        assert norm is not None and isinstance(block.feed_forward, FeedForwardSpec)  # spec() sets them
        if task == "text-classification":
            pooler = Pooler(width, spec.activation, dropout)
            return Classifier(width, spec.labels, pooler=pooler, dropout=dropout, problem=spec.problem)
        if task == "question-answering":
            return AnswerSpan(block.feed_forward, norm, spec.embed.dropout)
        return super()._head(spec, task)


class Answering(BigBird):
    """BigBird with a head for answers, which knows the question: all up to the first separator.

    An answer lies behind the question, or at the first token, which stands for none. Where no `token_type_ids` are
    given, the question is segment 0 and what follows it segment 1.
    """

    head: AnswerSpan

    def __init__(self, spec: BigBirdSpec, task: str) -> None:
        super().__init__(spec, task)
        self.separator = spec.separator

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        if batch.token_type_ids is None and self.segments:
            first, question = self._question(reads_ids(batch), flow)
            batch = replace(batch, token_type_ids=(~(first | question)).long())
        return super().states(batch, flow)

    def forward(self, batch: Batch, flow: Flow) -> Output:
        x = self.tap(flow, "final", self.states(batch, flow))
        output: Output = self.head(x, flow)
        _, question = self._question(reads_ids(batch), flow)
        assert output.start_logits is not None and output.end_logits is not None  # what the head makes
        start, end = (logits - BARRED * question for logits in (output.start_logits, output.end_logits))
        return self.shown(replace(output, start_logits=start, end_logits=end), x, flow)

    def learn(self, batch: Batch, flow: Flow, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        return self.head.sums(self.head.apart(self(batch, flow), flow), labels, smoothing=smoothing)

    def _question(
        self, ids: Int[Tensor, "B T"], flow: Flow
    ) -> tuple[Bool[Tensor, "B T"], Bool[Tensor, "B T"]]:
        """Which token of each text is the first, and which others are its question."""
        shown = (
            torch.ones_like(ids, dtype=torch.bool) if flow.keep is None else flow.keep[:, -1].expand_as(ids)
        )
        lengths = [ids.shape[1]] if flow.segments is None else list(flow.segments.lengths)
        firsts, questions = [], []
        for own, seen in zip(ids.split(lengths, dim=1), shown.split(lengths, dim=1), strict=True):
            first = seen & (seen.cumsum(-1) == 1)
            ends = own == self.separator
            asked = ends.any(-1, keepdim=True) & (ends.cumsum(-1) - ends.long() == 0)
            firsts.append(first)
            questions.append(asked & ~first)
        return torch.cat(firsts, dim=1), torch.cat(questions, dim=1)


def build(spec: BigBirdSpec, task: str) -> BigBird:
    """The network of a task."""
    return Answering(spec, task) if task == "question-answering" else BigBird(spec, task)


def names(spec: TextSpec, task: str) -> Names:
    """Their tensor names: BERT's, but for poolers and classifiers. Every task's files have a pooler."""
    like_bert = bert.names(spec, task)
    pooler = dict.fromkeys(("head.dense", "head.pooler.dense", "head.next_sentence.pooler.dense"), "pooler")
    head: dict[str, str | Rule] = {**like_bert.head}
    if task == "text-classification":
        head |= {"head.pooler.dense": "classifier.dense", "head.classifier": "classifier.out_proj"}
    if task == "question-answering":
        head |= {
            "head.ffn.up": "qa_classifier.intermediate.dense",
            "head.ffn.down": "qa_classifier.output.dense",
            "head.norm": "qa_classifier.output.LayerNorm",
            "head.classifier": "qa_classifier.qa_outputs",
        }
    return replace(
        like_bert,
        body={**like_bert.body, **pooler},
        head=head,
        ignored=(*like_bert.ignored, "pooler.weight", "pooler.bias"),
    )


FAMILY = Family(
    model_type="big_bird",
    oddity="long texts see global, neighbouring and random blocks instead of all pairs",
    architectures={
        "BigBirdModel": "feature-extraction",
        "BigBirdForMaskedLM": "fill-mask",
        "BigBirdForPreTraining": "pre-training",
        "BigBirdForSequenceClassification": "text-classification",
        "BigBirdForTokenClassification": "token-classification",
        "BigBirdForQuestionAnswering": "question-answering",
    },
    spec=spec,
    build=build,
    names=names,
    tiny={
        **bert.FAMILY.tiny,
        "model_type": "big_bird",
        "type_vocab_size": 2,
        "block_size": 1,
        "num_random_blocks": 1,
    },
)
