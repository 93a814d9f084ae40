"""Image GPT: a decoder that writes pictures pixel by pixel; its words are colours.

    [start] colours, row by row ─ GPT-2, with norms that do not centre ─ the next colour

A picture is a text of as many words as it has pixels, in a vocabulary of 512 colours and the start token. So all that
works for texts works here, and under the same names: `generate(ids)` completes a picture.
Source: Chen et al. 2020, "Generative pretraining from pixels", sections 2 and 3.
Differs: a classifier reads the mean of what is visible, in the reference library of padding too; pictures have none.
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt

from glassformer.core.flow import Batch
from glassformer.core.heads import Classifier, Head, LanguageModel
from glassformer.core.specs import BlockSpec, FeedForwardSpec, RMSNormSpec, StackSpec
from glassformer.core.stack import Stack
from glassformer.models import gpt2
from glassformer.models._decoder import Decoder
from glassformer.models._family import Family, Reader, TextSpec, reads_ids
from glassformer.weights.names import Names


def spec(reader: Reader) -> TextSpec:
    """config.json → spec."""
    reader.fixed(
        "tie_word_embeddings", False
    )  # the head has a row less than the table: nothing predicts a start
    like_gpt2 = gpt2.spec(reader)
    activation = reader.text("activation_function", default="quick_gelu")
    assert like_gpt2.final_norm is not None  # GPT-2 has one
    norm = RMSNormSpec(width=like_gpt2.blocks.width, eps=like_gpt2.final_norm.eps)

    def as_here(block: object) -> BlockSpec:
        assert isinstance(block, BlockSpec) and isinstance(block.feed_forward, FeedForwardSpec)
        return replace(block, before=norm, feed_forward=replace(block.feed_forward, activation=activation))

    blocks = StackSpec(blocks=tuple(as_here(block) for block in like_gpt2.blocks.blocks))
    return replace(like_gpt2, blocks=blocks, final_norm=norm, tied=False)


class ImageGpt(Decoder):
    """A decoder of colours."""

    def __init__(self, spec: TextSpec, task: str) -> None:
        super().__init__(spec, "feature-extraction")
        self.head = self._head(spec, task)
        self.name_nodes()

    def _head(self, spec: TextSpec, task: str) -> Head | None:
        width = spec.blocks.width
        if task == "text-generation":
            return LanguageModel(
                width, spec.embed.vocabulary - 1
            )  # the last id, the start token, is never next
        if task == "image-classification":
            return Classifier(width, spec.labels, reads="mean", bias=False, problem=spec.problem)
        return None

    def sides(self) -> dict[str, Stack]:
        return {"image": self.blocks}

    def places(self, batch: Batch) -> dict[str, list[str]]:
        ids = reads_ids(batch)[0].tolist()
        edge = isqrt(self.max_tokens or len(ids))  # the longest text is a square
        started = ids[:1] == [self.vocabulary - 1]
        pixels = [f"r{number // edge} c{number % edge}" for number in range(len(ids) - started)]
        return {"image": [*(["[start]"] if started else []), *pixels]}


def names(spec: TextSpec, task: str) -> Names:
    """Their tensor names: GPT-2's, but for the heads."""
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
    opens="picture",
    oddity="GPT-2 whose words are colours: a picture is written pixel by pixel",
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
