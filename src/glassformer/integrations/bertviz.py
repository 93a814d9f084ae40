"""bertviz: its three calls by name, on models of any family, as the page of the explorer.

    from glassformer.integrations.bertviz import head_view, model_view, show

    show(model, "bert", tokenizer, "time flies", "fruit flies", display_mode="light", layer=0, head=8)
    head_view(model, ["time flies", "fruit flies"], layer=4, heads=[8])
    model_view(model, "time flies")

In a notebook each shows the page in its cell; elsewhere it opens it, as `Model.look`. bertviz itself is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from glassformer.errors import DataError
from glassformer.files import safe_repr
from glassformer.model import Model
from glassformer.reports.heat_map import HeatMap
from glassformer.reports.report import Display
from glassformer.reports.table import Table

if TYPE_CHECKING:
    from glassformer.explorer import Look


def show(
    model: Model,
    model_type: str | None = None,
    tokenizer: Any = None,
    sentence_a: str = "",
    sentence_b: str | None = None,
    *,
    display_mode: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    **options: Any,
) -> Look:
    """The neuron view of bertviz: q, k, their product and its softmax, of one head.

    Args:
        model_type, tokenizer: as bertviz has them; the model knows both
        sentence_a, sentence_b: one text or two
        display_mode: "light" or "dark"; None = the notebook's
        layer, head: the initial ones, from 0
        options: as `Model.look`
    """
    texts = [sentence_a] if sentence_b is None else [sentence_a, sentence_b]
    return _checked(model).look(texts, view="neuron", layer=layer, heads=head, theme=display_mode, **options)


def head_view(
    model: Model | Sequence[Tensor],
    texts: str | Sequence[str],
    *,
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    **options: Any,
) -> Look | AttentionMaps:
    """The head view of bertviz: lines between the tokens of one text or two, of some heads.

    Args:
        model: or the attention of each layer, [1, H, T, S], as `output.attentions`; `texts` are its tokens then, and
            the heads are shown as tables, since without queries and keys nothing can be computed
        options: as `Model.look`, such as pair=(0, 1): from the first text to the second
    """
    if not isinstance(model, (list, tuple)):
        return _checked(model).look(texts, view="head", layer=layer, heads=heads, **options)
    if options:
        raise DataError(f"the tables of attention tensors take layer and heads, not {', '.join(options)}")
    maps = AttentionMaps(model, list(texts), layer or 0, heads)
    maps.tables()
    return maps


def model_view(model: Model, texts: str | Sequence[str], **options: Any) -> Look:
    """The model view of bertviz: every head of every layer as a thumbnail.

    Args:
        options: as `Model.look`
    """
    return _checked(model).look(texts, view="model", **options)


@dataclass(frozen=True, eq=False)
class AttentionMaps(Display):
    """Heads of a layer as heat maps, from attention tensors alone.

    attention: of each layer. [1, H, T, T]
    tokens: names of rows and columns
    heads: None = all
    """

    attention: Sequence[Tensor]
    tokens: Sequence[str]
    layer: int
    heads: Sequence[int] | None

    def tables(self) -> list[Table]:
        """A table a head. Raises: DataError: no such layer or head, or other numbers of tokens."""
        if not 0 <= self.layer < len(self.attention):
            raise DataError(f"there is no layer {self.layer}; the attention has layers 0 to {len(self.attention) - 1}")
        (maps, *_) = self.attention[self.layer]
        for head in self.heads or ():
            if not 0 <= head < len(maps):
                raise DataError(f"there is no head {head}; the layer has heads 0 to {len(maps) - 1}")
        return [
            replace(table, caption=f"layer {self.layer} head {head}")
            for head in self.heads or range(len(maps))
            for table in HeatMap(maps[head], self.tokens, self.tokens).tables()
        ]

    def __repr__(self) -> str:
        return f"AttentionMaps(layer {self.layer}, {len(self.tokens)} tokens)"


def _checked(model: Any) -> Model:
    """Raises: DataError: no loaded model."""
    if not isinstance(model, Model):
        raise DataError(
            f"the model is {safe_repr(model)[:80]}; give a loaded model, glassformer.load(…); head_view also takes the "
            "attention of each layer, a tuple of tensors [1, H, T, S]"
        )
    return model
