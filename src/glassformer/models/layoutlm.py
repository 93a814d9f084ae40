"""LayoutLM: BERT that also knows where on its page each word stands.

    ids + positions + segments + places ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

    a word's box, in thousandths of the page      (x₀, y₀) ┌──────┐
                                                           │ word │ h      places = X[x₀] + X[x₁] + Y[y₀] + Y[y₁]
                                                           └──────┘ (x₁, y₁)        + W[x₁ - x₀] + H[y₁ - y₀]
                                                              w

Source: Xu et al. 2020, "LayoutLM", section 2.2; width and height are in the released code.
Differs: the paper can add a picture of each word to the final states; the published weights have none.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.flow import Batch, Flow
from glassformer.errors import DataError
from glassformer.models import bert
from glassformer.models._family import MOST_ROWS, Family, Reader, TextSpec, reads_ids
from glassformer.weights.names import Names

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, kw_only=True, slots=True)
class PageSpec(TextSpec):
    """steps: how many a page has, across and down."""

    steps: int


def spec(reader: Reader) -> PageSpec:
    """config.json → spec."""
    like_bert = bert.spec(reader)
    as_bert = {field.name: getattr(like_bert, field.name) for field in fields(like_bert)}
    return PageSpec(
        **as_bert | {"classifier_dropout": like_bert.embed.dropout},
        steps=reader.integer("max_2d_position_embeddings", default=1024, most=MOST_ROWS),
    )


class Page(nn.Module):
    """A vector for where a word stands on its page, and how large it is there.

    Args:
        boxes: left, top, right, bottom. [B, T, 4]
    Returns: [B, T, D]
    Raises: DataError: they are no boxes, or lie beyond the page.
    """

    def __init__(self, steps: int, width: int) -> None:
        super().__init__()
        self.steps = steps
        self.x = nn.Embedding(steps, width)
        self.y = nn.Embedding(steps, width)
        self.h = nn.Embedding(steps, width)
        self.w = nn.Embedding(steps, width)

    def forward(self, boxes: Int[Tensor, "B T 4"]) -> Float[Tensor, "B T D"]:
        left, top, right, bottom = boxes.unbind(dim=-1)
        corners: Tensor = self.x(left) + self.y(top) + self.x(right) + self.y(bottom)
        size: Tensor = self.h(bottom - top) + self.w(right - left)
        return corners + size

    def check(self, boxes: Tensor, ids: Tensor) -> None:
        """Boxes of these tokens [B, T], each within the page and the right way round."""
        if boxes.shape != (*ids.shape, 4) or boxes.dtype not in (torch.int64, torch.int32):
            raise DataError(
                f"bbox is {str(boxes.dtype).removeprefix('torch.')} of shape {list(boxes.shape)}; it must be whole "
                f"numbers of shape {[*ids.shape, 4]}: left, top, right, bottom of each token's word"
            )
        least, most = map(int, boxes.aminmax())
        if least < 0 or most >= self.steps:
            raise DataError(
                f"bbox holds numbers from {least} to {most}; allowed: 0 to {self.steps - 1} (config.json: "
                "max_2d_position_embeddings); give thousandths of the page: 1000 * x // page_width"
            )
        turned = (boxes[..., :2] > boxes[..., 2:]).any(dim=-1)
        if bool(turned.any()):
            raise DataError(
                f"bbox holds {boxes[turned][0].tolist()}, which ends before it begins; "
                "a box is left, top, right, bottom"
            )


class LayoutLM(bert.Bert):
    """BERT whose embedding adds the places of words; without boxes, all stand in the first corner.

    Raises: DataError: boxes that are none.
    """

    READS = (*bert.Bert.READS, "bbox")

    def __init__(self, spec: PageSpec, task: str) -> None:
        super().__init__(spec, task)
        self.page = Page(spec.steps, spec.blocks.width)
        self.name_nodes()

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        ids = reads_ids(batch)
        boxes = ids.new_zeros(*ids.shape, 4)
        if batch.bbox is not None:
            self.page.check(batch.bbox, ids)
            boxes = batch.bbox
        x: Tensor = self.embed(ids, flow, batch.token_type_ids, self.page(boxes))
        x = self.blocks(x, flow)
        return x


def names(spec: PageSpec, task: str) -> Names:
    """Their tensor names: BERT's, and four tables more."""
    like_bert = bert.names(spec, task)
    tables = {f"page.{axis}": f"embeddings.{axis}_position_embeddings" for axis in "xyhw"}
    pools = task in ("feature-extraction", "text-classification")
    pooler = ("pooler.dense.weight", "pooler.dense.bias")  # saved with every head, read or not
    return replace(
        like_bert,
        prefix="layoutlm",
        body={**like_bert.body, **tables},
        ignored=like_bert.ignored if pools else (*like_bert.ignored, *pooler),
    )


FAMILY = Family(
    model_type="layoutlm",
    oddity="adds where each word stands on its page: four corners, height and width",
    architectures={
        "LayoutLMModel": "feature-extraction",
        "LayoutLMForMaskedLM": "fill-mask",
        "LayoutLMForSequenceClassification": "text-classification",
        "LayoutLMForTokenClassification": "token-classification",
        "LayoutLMForQuestionAnswering": "question-answering",
    },
    spec=spec,
    build=LayoutLM,
    names=names,
    tiny={**bert.FAMILY.tiny, "model_type": "layoutlm", "max_2d_position_embeddings": 64},
)
