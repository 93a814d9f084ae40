"""Image GPT: a decoder-only model that generates images pixel by pixel; its tokens are colours.

    [start] colours, row by row ─ GPT-2, with norms that do not centre ─ the next colour

An image is a sequence of as many tokens as it has pixels, in a vocabulary of 512 colours and the start token. So all
that works for texts works here, and under the same names: `generate(ids)` completes an image.
Source: Chen et al. 2020, "Generative pretraining from pixels", sections 2 and 3.
Differs: a classifier reads the mean of visible tokens, in the reference library of padding too; images have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

from torch import Tensor

from glassformer.core import Batch, CausalLMHead, Head, RMSNormSpec, SequenceClassifier, Stack
from glassformer.core.heads import Labels, single_tensor
from glassformer.core.losses import shaped_labels
from glassformer.models import gpt2
from glassformer.models._config import Values, constant
from glassformer.models._family import Family, architectures
from glassformer.models._network import Decoder, TextSpec, require_ids

KEYS = gpt2.KEYS.extend(
    activation=("activation_function", "quick_gelu"),
    tied=constant(False),
    fixed={"tie_word_embeddings": False},  # the head has one row less: nothing predicts the start token
)


@KEYS.spec
def spec(c: Values) -> TextSpec:
    return gpt2.text_spec(c, RMSNormSpec(**c("width eps")))


class NextColourHead(CausalLMHead):
    """Causal language-model head whose labels may have a position more than the ids, [B, T + 1].

    As many positions as pixels are enough for a model that begins with the start token: it reads all pixels but the
    last, and predicts all. The reference library learns all but the last.
    """

    def labels_of(self, labels: Labels, shape: Sequence[int]) -> Tensor:
        given = single_tensor(labels)
        if given.dim() == 2 and given.shape[1] == shape[1] + 1:
            return shaped_labels(given[:, 1:], shape)
        return super().labels_of(given, shape)


class ImageGpt(Decoder):
    """Image GPT: a decoder whose vocabulary is colours."""

    def make_head(self, spec: TextSpec, task: str) -> Head | None:
        width = spec.blocks.width
        if task == "text-generation":
            return NextColourHead(width, spec.embed.vocabulary - 1)  # the last id, the start token, is never next
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


NAMES = gpt2.NAMES.extend(
    """
    [head]
    head.decoder       lm_head
    head.classifier    score
    """
)

FAMILY = Family(
    model_type="imagegpt",
    architectures=architectures(
        "ImageGPT",
        "Model ForCausalImageModeling ForImageClassification",
        ForCausalImageModeling="text-generation",
    ),
    spec=spec,
    build=ImageGpt,
    names=NAMES,
    initialise=gpt2.initialise,
    modality="picture",
    distinction="GPT-2 over colours: images generated pixel by pixel",
    tiny=KEYS.tiny("imagegpt", embd_pdrop=0.0, activation_function="quick_gelu"),
)
