"""T5's networks, and their initial weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.core import init
from glassformer.core.attention import Attention
from glassformer.core.classification_heads import TokenClassifier
from glassformer.core.cross_attention import CrossAttention
from glassformer.core.embeddings import Embedding
from glassformer.core.flow import Batch, Flow
from glassformer.core.heads import Head
from glassformer.core.position_bias import BucketedBias
from glassformer.models._network import Network, Sizes, require_tokens
from glassformer.models._seq2seq import EncoderDecoderSpec, Seq2SeqLMHead, make_stream
from glassformer.models.bart.network import Bart


class T5(Bart):
    """T5; without decoder_input_ids, the decoder reads the source again, for classification and spans.

    Differs: BART's body alone does so too; T5's needs decoder_input_ids, as in the reference library.
    """

    def __init__(self, spec: EncoderDecoderSpec, task: str) -> None:
        super().__init__(spec, task)
        self.repeats_source = task in ("text-classification", "question-answering")
        self.source_as_labels = False

    def make_head(self, spec: EncoderDecoderSpec, task: str) -> Head | None:
        if task != "translation":
            return super().make_head(spec, task)
        width, vocabulary = spec.decoder.blocks.width, spec.decoder.embed.vocabulary
        # Rows of a tied table are initialised about √D long (Raffel et al. 2020, released code).
        return self.tie(
            Seq2SeqLMHead(width, vocabulary, logit_scale=width**-0.5 if spec.tied_head else 1.0), spec.tied_head
        )


class T5Encoder(Network):
    """T5's encoder alone, with or without a token classifier."""

    def __init__(self, spec: EncoderDecoderSpec, task: str) -> None:
        super().__init__(Sizes.of_text(spec.encoder.embed))
        self.encoder = make_stream(spec.encoder)
        classifies = task == "token-classification"
        self.head = TokenClassifier(self.width, spec.labels, spec.classifier_dropout) if classifies else None
        self.name_nodes()

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        x: Tensor = self.encoder(require_tokens(batch), flow)
        return x

    def finish(self, x: Tensor, flow: Flow) -> Tensor:
        return self.encoder.finish(x)


def build(spec: EncoderDecoderSpec, task: str) -> Network:
    """The network of a task: the encoder alone for tasks that need no decoder."""
    encoder_only = task in ("sentence-similarity", "token-classification")
    return T5Encoder(spec, task) if encoder_only else T5(spec, task)


@torch.no_grad()
def initialise(network: nn.Module, spec: EncoderDecoderSpec) -> None:
    """Initialise: embeddings with deviation 1, matrices with 1/√inputs; W_q smaller by 1/√E, as scores are not scaled.

    Source: Raffel et al. 2020, released code.
    """
    init.normal(network)
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=spec.init_std * module.in_features**-0.5)
    for module in network.modules():
        if isinstance(module, Attention):
            module.qkv.weight[: module.spec.heads * module.spec.E] *= module.spec.E**-0.5
        elif isinstance(module, CrossAttention):
            module.q.weight *= module.spec.E**-0.5
        elif isinstance(module, BucketedBias):
            nn.init.normal_(module.table.weight, std=spec.init_std * spec.encoder.blocks.width**-0.5)
        elif isinstance(module, Embedding):  # after the linear layers: one of them may share its weight
            nn.init.normal_(module.tokens.weight, std=spec.init_std)
