"""LayoutLM: BERT with 2-D position embeddings of the bounding box of each word.

    ids + positions + token types + layout ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

    a word's box, in thousandths of the page      (x₀, y₀) ┌──────┐
                                                           │ word │ h      layout = X[x₀] + X[x₁] + Y[y₀] + Y[y₁]
                                                           └──────┘ (x₁, y₁)        + W[x₁ - x₀] + H[y₁ - y₀]
                                                              w

Source: Xu et al. 2020, "LayoutLM", section 2.2; width and height are in the released code.
Differs: the paper can add an image of each word to the final states; the published weights have none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core import Batch, Flow
from glassformer.core.checks import any_true
from glassformer.errors import DataError
from glassformer.models import bert
from glassformer.models._config import Values, probability, rows
from glassformer.models._family import CLASSIFIERS, Family, architectures
from glassformer.models._network import Encoder, TextSpec, require_ids
from glassformer.weights.names import WeightNames

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutLMSpec(TextSpec):
    """BERT's spec, and more.

    coordinates: number of steps of a page, across and down
    """

    coordinates: int


KEYS = bert.KEYS.extend(
    classifier_dropout=probability("hidden_dropout_prob", 0.1),
    coordinates=rows("max_2d_position_embeddings", 1024),
    unused="classifier_dropout",
)


@KEYS.spec
def spec(c: Values) -> LayoutLMSpec:
    return bert.text_spec(c, LayoutLMSpec, coordinates=c.coordinates)


class PageLayout(nn.Module):
    """2-D position embedding: position and size of a word's bounding box on its page.

    Args:
        boxes: left, top, right, bottom. [B, T, 4]
    Returns: [B, T, D]
    Raises: DataError: they are no boxes, or lie beyond the page.
    """

    def __init__(self, coordinates: int, width: int) -> None:
        super().__init__()
        self.coordinates = coordinates
        self.x = nn.Embedding(coordinates, width)
        self.y = nn.Embedding(coordinates, width)
        self.h = nn.Embedding(coordinates, width)
        self.w = nn.Embedding(coordinates, width)

    def forward(self, boxes: Int[Tensor, "B T 4"]) -> Float[Tensor, "B T D"]:
        left, top, right, bottom = boxes.unbind(dim=-1)
        corners: Tensor = self.x(left) + self.y(top) + self.x(right) + self.y(bottom)
        size: Tensor = self.h(bottom - top) + self.w(right - left)
        return corners + size

    def check(self, boxes: Tensor, ids: Tensor) -> None:
        """Check the boxes of these tokens [B, T].

        Raises: DataError: wrong shape or dtype, beyond the page, or ends before it begins.
        """
        if boxes.shape != (*ids.shape, 4) or boxes.dtype not in (torch.int64, torch.int32):
            raise DataError(
                f"bbox is {str(boxes.dtype).removeprefix('torch.')} of shape {list(boxes.shape)}; it must be whole "
                f"numbers of shape {[*ids.shape, 4]}: left, top, right, bottom of each token's word"
            )
        if any_true((boxes < 0) | (boxes >= self.coordinates)):
            smallest, largest = map(int, boxes.aminmax())
            raise DataError(
                f"bbox holds numbers from {smallest} to {largest}; allowed: 0 to {self.coordinates - 1} (config.json: "
                "max_2d_position_embeddings); give thousandths of the page: 1000 * x // page_width"
            )
        inverted = (boxes[..., :2] > boxes[..., 2:]).any(dim=-1)
        if any_true(inverted):
            raise DataError(
                f"bbox holds {boxes[inverted][0].tolist()}, which ends before it begins; "
                "a box is left, top, right, bottom"
            )


class LayoutLM(Encoder):
    """LayoutLM: BERT whose embedding adds those of bounding boxes; without boxes, all are 0.

    Raises: DataError: invalid boxes.
    """

    READS = (*Encoder.READS, "bbox")

    def __init__(self, spec: LayoutLMSpec, task: str) -> None:
        super().__init__(spec, task)
        self.page = PageLayout(spec.coordinates, spec.blocks.width)
        self.name_nodes()

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        ids = require_ids(batch)
        boxes = ids.new_zeros(*ids.shape, 4)
        if batch.bbox is not None:
            self.page.check(batch.bbox, ids)
            boxes = batch.bbox
        x: Tensor = self.embed(ids, flow, batch.token_type_ids, self.page(boxes))
        x = self.blocks(x, flow)
        return x


NAMES = bert.NAMES.extend(
    """
    page.x    embeddings.x_position_embeddings
    page.y    embeddings.y_position_embeddings
    page.h    embeddings.h_position_embeddings
    page.w    embeddings.w_position_embeddings
    """,
    prefix="layoutlm",
)


def names(spec: LayoutLMSpec, task: str) -> WeightNames:
    """Weight names; every file has a pooler, whether its head reads it or not."""
    pools = task in ("feature-extraction", "text-classification")
    pooler = () if pools else ("pooler.dense.weight", "pooler.dense.bias")
    return replace(NAMES, unread=pooler)(spec, task)


FAMILY = Family(
    model_type="layoutlm",
    distinction="2-D position embeddings of each word's bounding box: corners, height and width",
    architectures=architectures("LayoutLM", f"Model ForMaskedLM {CLASSIFIERS}"),
    spec=spec,
    build=LayoutLM,
    names=names,
    tiny=KEYS.tiny("layoutlm", max_2d_position_embeddings=64),
)
