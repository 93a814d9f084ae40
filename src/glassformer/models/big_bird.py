"""BigBird: BERT with block-sparse attention: tokens attend to a few blocks of a long text.

    ids + positions + token types ─ norm ─ [ block-sparse attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Zaheer et al. 2020. The rest is BERT's.
Differs: the reference library keeps full attention for good once it has met a short text; here each text is treated
by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.classification_heads import SequenceClassifier, SpanClassifier
from glassformer.core.embeddings import Embedding
from glassformer.core.feed_forward import make_feed_forward
from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.heads import Head, Labels, Pooler
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
from glassformer.models._config import MAX_ROWS, ConfigReader
from glassformer.models._family import Family
from glassformer.models._network import Network, TextSpec, require_ids
from glassformer.weights.names import Rule, WeightNames

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

QUESTION_PENALTY = 1e6
"""Subtracted from the logits of tokens where no answer may begin or end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BigBirdSpec(TextSpec):
    """BERT's spec, and more. separator: id of the token that ends a question"""

    separator: int


def spec(reader: ConfigReader) -> BigBirdSpec:
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
        separator=reader.integer("sep_token_id", default=66, minimum=0, maximum=MAX_ROWS),
    )


def _attention(reader: ConfigReader, full: AttentionSpec, layers: int) -> list[AttentionSpec]:
    """The attention spec of each layer."""
    block = reader.integer("block_size", default=64)
    random = reader.integer("num_random_blocks", default=3, minimum=0)
    longest = reader.integer("max_position_embeddings", maximum=MAX_ROWS)
    reader.fixed("attention_type", "block_sparse", "original_full")
    if reader.get("attention_type", default="block_sparse") == "original_full":
        return [full] * layers
    return [
        BlockSparseAttentionSpec(
            width=full.width,
            heads=full.heads,
            bias=full.bias,
            dropout=full.dropout,
            block=block,
            random=random,
            seed=layer,
            longest=longest,
        )
        for layer in range(layers)
    ]


class DropoutFirstEmbedding(Embedding):
    """An embedding with dropout before the norm instead of after it."""

    def norm_and_dropout(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        normed: Tensor = self.norm(self.dropout(x))
        return normed


class FeedForwardSpanClassifier(SpanClassifier):
    """Span classifier (question answering) after one more feed-forward layer.

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
    """BigBird: BERT with another embedding and other heads."""

    def __init__(self, spec: BigBirdSpec, task: str) -> None:
        Network.__init__(self)
        self.embed = DropoutFirstEmbedding(spec.embed)
        self.blocks = Stack(spec.blocks)
        self.head = self.make_head(spec, task)
        self.name_nodes()

    def make_head(self, spec: TextSpec, task: str) -> Head:
        width, dropout, norm = spec.blocks.width, spec.classifier_dropout, spec.embed.norm
        block = spec.blocks.blocks[0]
        assert norm is not None and isinstance(block.feed_forward, FeedForwardSpec)  # spec() sets them
        if task == "text-classification":
            pooler = Pooler(width, spec.activation, dropout)
            return SequenceClassifier(
                width, spec.labels, pooler=pooler, dropout=dropout, problem=spec.problem
            )
        if task == "question-answering":
            return FeedForwardSpanClassifier(block.feed_forward, norm, spec.embed.dropout)
        return super().make_head(spec, task)


class BigBirdQuestionAnswering(BigBird):
    """BigBird for extractive question answering; the question is all up to the first separator.

    An answer lies behind the question, or at the first token, which means that there is none. Where no
    `token_type_ids` are given, the question has type 0 and what follows it type 1.
    """

    head: FeedForwardSpanClassifier

    def __init__(self, spec: BigBirdSpec, task: str) -> None:
        super().__init__(spec, task)
        self.separator = spec.separator

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        if batch.token_type_ids is None and self.token_types:
            first, question = self._question(require_ids(batch), flow)
            batch = replace(batch, token_type_ids=(~(first | question)).long())
        return super().states(batch, flow)

    def forward(self, batch: Batch, flow: Flow) -> Output:
        x = self.tap(flow, "final", self.states(batch, flow))
        output: Output = self.head(x, flow)
        _, question = self._question(require_ids(batch), flow)
        assert output.start_logits is not None and output.end_logits is not None  # the head sets both
        start, end = (
            logits - QUESTION_PENALTY * question for logits in (output.start_logits, output.end_logits)
        )
        return self.tap_output(replace(output, start_logits=start, end_logits=end), x, flow)

    def loss_sums(
        self, batch: Batch, flow: Flow, labels: Labels, *, smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        return self.head.output_loss_sums(
            self.head.one_text_per_row(self(batch, flow), flow), labels, smoothing=smoothing
        )

    def _question(
        self, ids: Int[Tensor, "B T"], flow: Flow
    ) -> tuple[Bool[Tensor, "B T"], Bool[Tensor, "B T"]]:
        """Masks of the first token of each text, and of the other tokens of its question."""
        visible = (
            torch.ones_like(ids, dtype=torch.bool) if flow.keep is None else flow.keep[:, -1].expand_as(ids)
        )
        lengths = [ids.shape[1]] if flow.packing is None else list(flow.packing.lengths)
        firsts, questions = [], []
        for text, shown in zip(ids.split(lengths, dim=1), visible.split(lengths, dim=1), strict=True):
            first = shown & (shown.cumsum(-1) == 1)
            ends = text == self.separator
            in_question = ends.any(-1, keepdim=True) & (ends.cumsum(-1) - ends.long() == 0)
            firsts.append(first)
            questions.append(in_question & ~first)
        return torch.cat(firsts, dim=1), torch.cat(questions, dim=1)


def build(spec: BigBirdSpec, task: str) -> BigBird:
    """The network of a task."""
    return BigBirdQuestionAnswering(spec, task) if task == "question-answering" else BigBird(spec, task)


def names(spec: TextSpec, task: str) -> WeightNames:
    """Weight names: BERT's, but for poolers and classifiers. Every task's files have a pooler."""
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
    distinction="block-sparse attention: global, sliding and random blocks instead of all pairs",
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
