"""Options of a model summary; requests of a logit lens, an attribution, a similarity and activation patching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from glassformer.engine.options import PromptOptions
from glassformer.errors import ConfigError
from glassformer.files.schema import Count, Doc, NonNegativeInt, Schema

Choice: TypeAlias = str | int | None
"""An output by name or number; None = the model's own."""


@dataclass(frozen=True, kw_only=True)
class SummaryOptions(Schema):
    """What a summary counts and lists."""

    tokens: Annotated[Count, Doc("Sequence length in tokens, for FLOPs and memory.")] = 128
    memory: Annotated[bool, Doc("Estimate the memory of training and inference.")] = False
    batch: Annotated[Count, Doc("Batch size, for memory.")] = 1
    names: Annotated[bool, Doc("List the weight tensors, with our names and those in the checkpoint.")] = False
    taps: Annotated[bool, Doc("List every tap, without folding repeated layers.")] = False


@dataclass(frozen=True, kw_only=True)
class LensRequest(Schema):
    """Logit lens: the prediction after each layer."""

    target: Annotated[
        Choice, Doc("Output to follow through the layers: a token, a label, or its number. Default: the model's own.")
    ] = None
    first: Annotated[NonNegativeInt, Doc("First token to read, from 0.")] = 0
    count: Annotated[Count | None, Doc("Number of tokens to read. Default: all from the first.")] = None


@dataclass(frozen=True, kw_only=True)
class AttributionRequest(Schema):
    """Attribution: which words, heads and layers made an output."""

    target: Annotated[
        Choice,
        Doc("Output to explain: a token, a label, or its number; start or end of a span. Default: the model's own."),
    ] = None
    at: Annotated[
        Choice, Doc("Token whose prediction is explained: its position, or a word. Default: the last, the gap, …")
    ] = None
    against: Annotated[Choice, Doc("Explain the target rather than this output: the difference of their logits.")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class QuantisationRequest(Schema):
    """A layer before and after quantisation."""

    layer: Annotated[
        str | None, Doc("Linear layer or embedding, as `blocks.0.ffn.up`. Default: the first linear layer.")
    ] = None
    bits: Annotated[Literal[8, 4], Doc("Bits of a level of its weights.")] = 8
    scales: Annotated[
        Literal["row", "group", "tensor"],
        Doc("Weights that share a scale: those of a row, of a group of 32 neighbours, or all."),
    ] = "row"
    symmetric: Annotated[bool, Doc("The zero point of weights is 0.")] = True
    inputs: Annotated[
        Literal["token", "tensor"],
        Doc("Inputs that share a scale: those of a token (dynamic), or all, with a zero point (static)."),
    ] = "token"


@dataclass(frozen=True, kw_only=True)
class IntegratedGradientsRequest(AttributionRequest):
    """An attribution, and the path of its integrated gradients."""

    baseline: Annotated[
        Literal["zero"] | None,
        Doc("Where integrated gradients begin: zero. Default: mask or padding tokens."),
    ] = None
    steps: Annotated[
        NonNegativeInt | None,
        Doc(
            "Number of gradients between baseline and input; 0 = heads and layers alone. Default: 16, and a more exact "
            "method where their sum misses more than 1%."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class SimilarityOptions(PromptOptions):
    """Similarity: how texts are compared, and what is shown of it."""

    words: Annotated[bool, Doc("Whole words instead of tokens.")] = False
    top: Annotated[Count, Doc("Number of pairs of tokens, or of nearest texts, to list.")] = 10
    measure: Annotated[
        Literal["cosine", "dot"] | None, Doc("Similarity to explain: cosine or dot. Default: the model's own.")
    ] = None
    html: Annotated[Path | None, Doc("Write the explorer's page of two texts to this HTML file (self-contained).")] = (
        None
    )

    def validate(self) -> None:
        if self.html and (self.measure or self.prompts()):
            raise ConfigError("html= shows the texts as the model compares them; leave measure= and the prompt out")

    def check_texts(self, count: int) -> None:
        """Raises: ConfigError: what is only of two texts, of more."""
        if count > 2 and (self.words or self.measure or self.html):
            raise ConfigError("words=, measure= and html= are about the similarity of two texts; give two texts")

    def prompts(self) -> dict[str, Any]:
        """The prompt, as a keyword of `encode` and `rank`."""
        prompts = {"prompt": self.prompt, "prompt_name": self.prompt_name}
        return {name: prompt for name, prompt in prompts.items() if prompt is not None}


@dataclass(frozen=True, kw_only=True)
class GenerationViewOptions(Schema):
    """What is shown of a generation next to its text."""

    top: Annotated[NonNegativeInt, Doc("Show the N most likely tokens at each step.")] = 0
    watch: Annotated[bool, Doc("Show each step live: the token distribution and the chosen token.")] = False


@dataclass(frozen=True, kw_only=True)
class PatchSettings(Schema):
    """How activations are replaced, and which output is measured in the prediction."""

    mode: Annotated[
        Literal["zero", "mean", "swap"] | None,
        Doc("zero, mean or swap. Default: swap with two texts, zero (switch off) with one."),
    ] = None
    direction: Annotated[
        Literal["denoising", "noising"],
        Doc("denoising: the corrupt text is patched; noising: the clean one is."),
    ] = "denoising"
    align: Annotated[
        Literal["strict", "start", "end"],
        Doc("Texts of other lengths: align positions from the start, or from the end."),
    ] = "strict"
    target: Annotated[str | None, Doc("Token or class that is measured. Default: the clean text's top prediction.")] = (
        None
    )
    against: Annotated[
        str | None, Doc("Token or class whose logit is subtracted. Default: the corrupt text's top one.")
    ] = None
    position: Annotated[
        int | None, Doc("Position where the prediction is read, from 0. Default: the last, or the gap.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class PatchTextsRequest(PatchSettings):
    """A sweep over components of a text, or a patch of some of them; see `patch_texts`."""

    sweep: Annotated[
        Literal["residual", "heads", "attention", "feed-forward"] | None,
        Doc(
            "What is patched, one after another: residual, heads, attention or feed-forward. Default: residual with "
            "two texts, heads with one."
        ),
    ] = None
    components: Annotated[
        Sequence[str],
        Doc(
            "Patch these alone, together: blocks.3.attn.z[5] is a head, blocks.3.ffn.neurons[7] a neuron, "
            "blocks.3.out@4 the residual stream at position 4; repeatable."
        ),
    ] = ()
    mean_over: Annotated[
        Sequence[str] | None,
        Doc("Mean over all positions of the texts of this file, instead of this text's."),
    ] = None
    map: Annotated[
        str | None, Doc("Attention map: encoder, decoder or cross. Default: the decoder's, or the only one.")
    ] = None
    second: Annotated[str | None, Doc("Second text of both: of a pair, or the target of an encoder-decoder.")] = None
    metric: Annotated[
        Literal["logit", "logit difference", "probability", "log-probability"] | None,
        Doc("logit, 'logit difference', probability or log-probability."),
    ] = None
    new_tokens: Annotated[NonNegativeInt, Doc("Continue the text by this many tokens, without and with the patch.")] = 0

    def validate(self) -> None:
        if self.components and self.sweep:
            raise ConfigError("sweep= patches many components one after another, components= a few together; give one")
        if self.new_tokens and not self.components:
            raise ConfigError("new_tokens= continues the text with one patch; name it with components=")
