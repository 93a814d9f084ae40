"""Image GPT: a decoder-only model that generates images pixel by pixel; its tokens are colours.

    [start] colours, row by row ─ GPT-2, with norms that do not centre ─ the next colour

An image is a sequence of as many tokens as it has pixels, in a vocabulary of 512 colours and the start token. So all
that works for texts works here, and under the same names: `generate(ids)` completes an image.
Source: Chen et al. 2020, "Generative pretraining from pixels", sections 2 and 3.
Differs: a classifier reads the mean of visible tokens, in the reference library of padding too; images have none.
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt

from glassformer.core.classification_heads import SequenceClassifier
from glassformer.core.flow import Batch
from glassformer.core.heads import Head
from glassformer.core.language_heads import CausalLMHead
from glassformer.core.specs import BlockSpec, FeedForwardSpec, RMSNormSpec, StackSpec
from glassformer.core.stack import Stack
from glassformer.models import gpt2
from glassformer.models._config import ConfigReader
from glassformer.models._decoder import Decoder
from glassformer.models._family import Family
from glassformer.models._network import TextSpec, require_ids
from glassformer.weights.names import WeightNames


def spec(reader: ConfigReader) -> TextSpec:
    """config.json → spec."""
    reader.fixed("tie_word_embeddings", False)  # the head has one row less: nothing predicts the start token
    like_gpt2 = gpt2.spec(reader)
    activation = reader.text("activation_function", default="quick_gelu")
    assert like_gpt2.final_norm is not None  # GPT-2 has one
    norm = RMSNormSpec(width=like_gpt2.blocks.width, eps=like_gpt2.final_norm.eps)

    def with_rms_norm(block: object) -> BlockSpec:
        assert isinstance(block, BlockSpec) and isinstance(block.feed_forward, FeedForwardSpec)
        return replace(block, before=norm, feed_forward=replace(block.feed_forward, activation=activation))

    blocks = StackSpec(blocks=tuple(with_rms_norm(block) for block in like_gpt2.blocks.blocks))
    return replace(like_gpt2, blocks=blocks, final_norm=norm, tied=False)


class ImageGpt(Decoder):
    """Image GPT: a decoder whose vocabulary is colours."""

    def __init__(self, spec: TextSpec, task: str) -> None:
        super().__init__(spec, "feature-extraction")
        self.head = self.make_head(spec, task)
        self.name_nodes()

    def make_head(self, spec: TextSpec, task: str) -> Head | None:
        width = spec.blocks.width
        if task == "text-generation":
            return CausalLMHead(
                width, spec.embed.vocabulary - 1
            )  # the last id, the start token, is never next
        if task == "image-classification":
            return SequenceClassifier(width, spec.labels, pooling="mean", bias=False, problem=spec.problem)
        return None

    def stacks(self) -> dict[str, Stack]:
        return {"image": self.blocks}

    def token_labels(self, batch: Batch) -> dict[str, list[str]]:
        ids = require_ids(batch)[0].tolist()
        edge = isqrt(self.max_tokens or len(ids))  # the longest sequence is a square image
        has_start = ids[:1] == [self.vocabulary - 1]
        pixels = [f"r{number // edge} c{number % edge}" for number in range(len(ids) - has_start)]
        return {"image": [*(["[start]"] if has_start else []), *pixels]}


def names(spec: TextSpec, task: str) -> WeightNames:
    """Weight names: GPT-2's, but for the heads."""
    return replace(gpt2.names(spec, task), head={"head.decoder": "lm_head", "head.classifier": "score"})


FAMILY = Family(
    model_type="imagegpt",
    architectures={
        "ImageGPTModel": "feature-extraction",
        "ImageGPTForCausalImageModeling": "text-generation",
        "ImageGPTForImageClassification": "image-classification",
    },
    spec=spec,
    build=ImageGpt,
    names=names,
    initialise=gpt2.initialise,
    modality="picture",
    distinction="GPT-2 over colours: images generated pixel by pixel",
    tiny={
        "model_type": "imagegpt",
        "vocab_size": 99,
        "n_embd": 32,
        "n_layer": 3,
        "n_head": 4,
        "n_positions": 40,
        "n_inner": 48,
        "activation_function": "quick_gelu",
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
    },
)
