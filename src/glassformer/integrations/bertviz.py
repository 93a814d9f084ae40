"""bertviz: its three calls by name, with its own arguments, on models of any family.

    from glassformer.integrations.bertviz import head_view, model_view, show

    show(model, "bert", tokenizer, "time flies", "fruit flies", display_mode="light", layer=0, head=8)
    head_view(model, ["time flies", "fruit flies"], layer=4, heads=[8])        the page of the explorer
    head_view(output.attentions, tokens, sentence_b_start=6)                   pictures of the attention that you have
    model_view(encoder_attention=…, decoder_attention=…, cross_attention=…, encoder_tokens=…, decoder_tokens=…)

Of a model each is the page, with queries and keys: in a notebook in its cell, elsewhere as `Model.look` opens it. Of
attention weights alone it is pictures and their numbers. bertviz itself is not needed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from torch import Tensor

from glassformer.errors import ConfigError, DataError
from glassformer.files import counted, is_int, safe_repr
from glassformer.model import Model
from glassformer.reports.attention_picture import heads as heads_picture
from glassformer.reports.attention_picture import lines
from glassformer.reports.drawing import Drawing
from glassformer.reports.heat_map import HeatMap
from glassformer.reports.page import element
from glassformer.reports.picture import image, picture_page
from glassformer.reports.report import InNotebook
from glassformer.reports.table import Table

if TYPE_CHECKING:
    from glassformer.explorer import Look

MAX_LINES = 128
"""Tokens of a picture of lines."""
Action = Literal["view", "return"]


def show(
    model: Model,
    model_type: str | None = None,
    tokenizer: Any = None,
    sentence_a: str = "",
    sentence_b: str | None = None,
    display_mode: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    html_action: Action = "view",
    **options: Any,
) -> Look | Html:
    """The neuron view of bertviz: q, k, their product and its softmax, of one head.

    Args:
        model_type, tokenizer: as bertviz has them; the model knows both
        sentence_a, sentence_b: one text or two
        display_mode: "light" or "dark"; None = the notebook's
        layer, head: the initial ones, from 0
        html_action: "return" = the page as a text, `.data`
        options: as `Model.look`
    """
    texts = [sentence_a] if not sentence_b else [sentence_a, sentence_b]
    start = {"view": "neuron", "layer": layer, "heads": head, "theme": display_mode}
    return _page(model, texts, html_action, {**start, **options})


def head_view(
    attention: Model | Sequence[Tensor] | None = None,
    tokens: str | Sequence[str] | None = None,
    sentence_b_start: int | None = None,
    prettify_tokens: bool = True,
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    encoder_attention: Sequence[Tensor] | None = None,
    decoder_attention: Sequence[Tensor] | None = None,
    cross_attention: Sequence[Tensor] | None = None,
    encoder_tokens: Sequence[str] | None = None,
    decoder_tokens: Sequence[str] | None = None,
    include_layers: Sequence[int] | None = None,
    html_action: Action = "view",
    **options: Any,
) -> Look | Html | AttentionPictures:
    """The head view of bertviz: lines between the tokens of one text or two, of some heads.

    Args:
        attention: a model, or the attention of each layer, [1, H, T, T], as `output.attentions`
        tokens: of a model the texts, one or two; of attention the names of its tokens
        sentence_b_start: the first token of the second text: each text is shown with itself and with the other too
        prettify_tokens: without the signs for spaces that pieces of words have, such as Ġ
        layer, heads: the initial ones, from 0; None = layer 0, all heads
        encoder_attention, decoder_attention: of an encoder-decoder, [1, H, S, S] and [1, H, T, T] a layer
        cross_attention: [1, H, T, S] a layer
        encoder_tokens, decoder_tokens: names of its tokens
        include_layers: layers among which `layer` is; None = all
        html_action: "return" = only `.data`, the text of a page
        options: of a model as `Model.look`, such as pair=(0, 1): from the first text to the second
    Raises: DataError: no attention, other numbers of tokens, no such layer or head. ConfigError: arguments that do not
        go together.
    """
    maps = (attention, encoder_attention, decoder_attention, cross_attention)
    if isinstance(attention, Model) or all(each is None for each in maps):
        others = {"sentence_b_start": sentence_b_start, "include_layers": include_layers}
        _check_page(others)
        return _page(attention, tokens, html_action, {"view": "head", "layer": layer, "heads": heads, **options})
    _check_pictures(options, html_action)
    parts = _parts(*maps, tokens, encoder_tokens, decoder_tokens, sentence_b_start, prettify_tokens)
    first = min(include_layers, default=0) if include_layers and layer is None else layer or 0
    if include_layers and first not in include_layers:
        raise DataError(f"layer {first} is not among include_layers: {', '.join(map(str, include_layers))}")
    shown = [part.of([first], heads) for part in parts]
    return AttentionPictures(shown, [_lines(part) for part in shown])


def model_view(
    attention: Model | Sequence[Tensor] | None = None,
    tokens: str | Sequence[str] | None = None,
    sentence_b_start: int | None = None,
    prettify_tokens: bool = True,
    display_mode: str | None = None,
    encoder_attention: Sequence[Tensor] | None = None,
    decoder_attention: Sequence[Tensor] | None = None,
    cross_attention: Sequence[Tensor] | None = None,
    encoder_tokens: Sequence[str] | None = None,
    decoder_tokens: Sequence[str] | None = None,
    include_layers: Sequence[int] | None = None,
    include_heads: Sequence[int] | None = None,
    html_action: Action = "view",
    **options: Any,
) -> Look | Html | AttentionPictures:
    """The model view of bertviz: every head of every layer as a thumbnail.

    Args:
        display_mode: "light" or "dark"; None = of a model the notebook's, else light
        include_layers, include_heads: which of them, from 0; None = all
        the others: as `head_view`
    Raises: as `head_view`.
    """
    maps = (attention, encoder_attention, decoder_attention, cross_attention)
    if isinstance(attention, Model) or all(each is None for each in maps):
        others = {
            "sentence_b_start": sentence_b_start,
            "include_layers": include_layers,
            "include_heads": include_heads,
        }
        _check_page(others)
        return _page(attention, tokens, html_action, {"view": "model", "theme": display_mode, **options})
    _check_pictures(options, html_action)
    if display_mode not in (None, "light", "dark"):
        raise ConfigError(f"display_mode is {safe_repr(display_mode)}; allowed: light, dark")
    parts = _parts(*maps, tokens, encoder_tokens, decoder_tokens, sentence_b_start, prettify_tokens)
    shown = [part.of(include_layers, include_heads) for part in parts]
    dark = display_mode == "dark"
    return AttentionPictures(
        shown, [heads_picture(part.weights(), (part.layers, part.heads), dark=dark) for part in shown]
    )


@dataclass(frozen=True)
class Html(InNotebook):
    """A page as a text: `file.write(html.data)`."""

    data: str

    def notebook_html(self) -> str:
        """The page in a frame."""
        from glassformer.explorer.standalone_page import notebook_frame

        return notebook_frame(self.data)


@dataclass(frozen=True, eq=False)
class SideAttention:
    """The attention of one side: of a text to itself, or of a text to another.

    name: of the side; empty = there is only one
    attention: of each layer. [H, T, S]
    rows, columns: names of the tokens
    layers, heads: numbers of those that are shown
    """

    name: str
    attention: Sequence[Tensor]
    rows: Sequence[str]
    columns: Sequence[str]
    layers: Sequence[int] = ()
    heads: Sequence[int] = ()

    def of(self, layers: Sequence[int] | None, heads: Sequence[int] | None) -> SideAttention:
        """With these layers and heads; None = all. Raises: DataError: there is no such one."""
        chosen = {}
        for name, numbers, count in (
            ("layer", layers, len(self.attention)),
            ("head", heads, min(map(len, self.attention))),
        ):
            chosen[name] = list(numbers) if numbers is not None and len(numbers) else list(range(count))
            for number in chosen[name]:
                if not is_int(number) or not 0 <= number < count:
                    whose = f"the attention has layers 0 to {count - 1}"
                    whose = whose if name == "layer" else f"a layer has heads 0 to {count - 1}"
                    raise DataError(f"there is no {name} {safe_repr(number)}; {whose}")
        return replace(self, layers=chosen["layer"], heads=chosen["head"])

    def weights(self) -> list[list[Any]]:
        """Of each layer the weights of each head, as arrays [T, S]."""
        chosen = ([self.attention[layer][head] for head in self.heads] for layer in self.layers)
        return [[each.detach().float().cpu().numpy() for each in layer] for layer in chosen]

    def tables(self) -> Iterator[Table]:
        """A table for each head of the first layer."""
        layer = self.layers[0]
        for head, weights in zip(self.heads, self.weights()[0], strict=True):
            caption = " · ".join(filter(None, [self.name, f"layer {layer} head {head}"]))
            yield from (replace(x, caption=caption) for x in HeatMap(weights, self.rows, self.columns).tables())


@dataclass(frozen=True, eq=False, repr=False)
class AttentionPictures(InNotebook):
    """Attention weights as pictures, and the numbers of a single layer folded below.

    parts: what is shown
    pictures: of each part
    """

    parts: Sequence[SideAttention]
    pictures: Sequence[Drawing]

    def tables(self) -> list[Table]:
        """A table for each head of the first layer that is shown."""
        return [table for part in self.parts for table in part.tables()]

    @property
    def data(self) -> str:
        """The page of a file."""
        return picture_page("Attention", self.notebook_html())

    def notebook_html(self) -> str:
        """The pictures, each with its numbers."""
        shown = ""
        for part, picture in zip(self.parts, self.pictures, strict=True):
            layers, heads = (", ".join(map(str, numbers)) for numbers in (part.layers, part.heads))
            if part.name:
                shown += element("h4", escape(part.name))
            shown += image(picture.svg(), f"attention {part.name or 'from token to token'}, layers {layers}")
            if len(part.layers) == 1:
                summary = element("summary", f"layer {layers}, heads {heads}, as numbers")
                shown += element("details", summary + "".join(table.html() for table in part.tables()))
        return shown

    def __repr__(self) -> str:
        part = self.parts[0]
        layers = f"layer{'s' * (len(part.layers) > 1)} {', '.join(map(str, part.layers))}"
        size = f"{len(part.rows)} × {len(part.columns)} tokens"
        return f"AttentionPictures({layers}, {counted(len(part.heads), 'head')}, {size})"


def _lines(part: SideAttention) -> Drawing:
    """Raises: DataError: too many tokens for lines."""
    if max(len(part.rows), len(part.columns)) > MAX_LINES:
        raise DataError(
            f"there are {max(len(part.rows), len(part.columns))} tokens; a picture of lines has at most {MAX_LINES}: "
            "call model_view, or head_view(model, text), whose page shows any number"
        )
    weights = part.weights()[0]
    return lines(part.rows, part.columns, {f"head {n}": x.tolist() for n, x in zip(part.heads, weights, strict=True)})


def _parts(
    attention: Any,
    encoder: Any,
    decoder: Any,
    cross: Any,
    tokens: Any,
    encoder_tokens: Any,
    decoder_tokens: Any,
    second: int | None,
    pretty: bool,
) -> list[SideAttention]:
    """What there is to show, checked. Raises: DataError, ConfigError."""
    given = {
        "encoder_attention": encoder,
        "decoder_attention": decoder,
        "cross_attention": cross,
        "encoder_tokens": encoder_tokens,
        "decoder_tokens": decoder_tokens,
    }
    if attention is not None:
        if named := [name for name, value in given.items() if value is not None]:
            raise ConfigError(
                f"attention is of one stack; {' and '.join(named)} are of an encoder-decoder: give either"
            )
        part = _part("", "attention", attention, ("tokens", tokens), ("tokens", tokens), pretty)
        return [part] if second is None else [part, *_pairs(part, second)]
    if second is not None:
        raise ConfigError(
            "sentence_b_start divides the tokens of attention=; an encoder-decoder has two texts by itself"
        )
    source, target = ("encoder_tokens", encoder_tokens), ("decoder_tokens", decoder_tokens)
    sides = (
        ("encoder", "encoder_attention", encoder, source, source),
        ("decoder", "decoder_attention", decoder, target, target),
        ("cross: decoder to encoder", "cross_attention", cross, target, source),
    )
    return [_part(*side, pretty) for side in sides if side[2] is not None]


def _part(
    name: str, argument: str, attention: Any, rows: tuple[str, Any], columns: tuple[str, Any], pretty: bool
) -> SideAttention:
    """Raises: DataError: no attention weights, or other numbers of tokens."""
    layers = list(attention) if isinstance(attention, (list, tuple)) else []
    if not layers or not all(isinstance(x, Tensor) and x.ndim == 4 and len(x) == 1 for x in layers):
        raise DataError(
            f"{argument} is {safe_repr(attention)[:80]}; it must be a tensor [1, H, T, S] for each layer, as "
            "output.attentions of model(…, output_attentions=True)"
        )
    for axis, (which, names) in ((2, rows), (3, columns)):
        if names is None or isinstance(names, str):
            raise DataError(f"{which} is {safe_repr(names)}; {argument} needs the list of its tokens")
        if len(names) != layers[0].shape[axis]:
            raise DataError(f"there are {len(names)} {which}, and {argument} is over {layers[0].shape[axis]}")
    left, right = ([_pretty(token) if pretty else token for token in names] for _, names in (rows, columns))
    return SideAttention(name, [layer[0] for layer in layers], left, right)


def _pairs(part: SideAttention, second: int) -> Iterator[SideAttention]:
    """Each of two texts with itself and with the other. Raises: DataError: no such token."""
    if not is_int(second) or not 0 < second < len(part.rows):
        raise DataError(f"sentence_b_start is {safe_repr(second)}; it must be a token from 1 to {len(part.rows) - 1}")
    texts = {"A": slice(0, second), "B": slice(second, None)}
    for a, b in ("AA", "BB", "AB", "BA"):
        rows, columns = texts[a], texts[b]
        weights = [layer[:, rows, columns] for layer in part.attention]
        yield replace(
            part, name=f"text {a} → text {b}", attention=weights, rows=part.rows[rows], columns=part.columns[columns]
        )


def _pretty(token: str) -> str:
    return token.replace("Ġ", " ").replace("▁", " ").replace("</w>", "")


def _page(model: Any, texts: Any, action: str, start: dict[str, Any]) -> Look | Html:
    """The page of a model. Raises: DataError: no loaded model. ConfigError: no such action."""
    if not isinstance(model, Model):
        raise DataError(
            f"the model is {safe_repr(model)[:80]}; give a loaded model, glassformer.load(…); head_view and model_view "
            "also take the attention of each layer, a tuple of tensors [1, H, T, S]"
        )
    _check_action(action)
    if action == "view":
        return model.look(texts, **start)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        model.look(texts, **start, html=page)
        return Html(page.read_text("utf-8"))


def _check_page(others: dict[str, Any]) -> None:
    """Raises: ConfigError: an argument of attention weights, with a model."""
    if given := [name for name, value in others.items() if value is not None]:
        raise ConfigError(
            f"the page of a model knows its texts, and has all layers and heads; {' and '.join(given)} go with "
            "attention weights: head_view(output.attentions, tokens)"
        )


def _check_pictures(options: dict[str, Any], action: str) -> None:
    """Raises: ConfigError: an option of the page, with attention weights; no such action."""
    _check_action(action)
    if options:
        raise ConfigError(
            f"pictures of attention weights take no {', '.join(options)}: these are options of a model's page"
        )


def _check_action(action: str) -> None:
    if action not in get_args(Action):
        raise ConfigError(f"html_action is {safe_repr(action)}; allowed: {', '.join(get_args(Action))}")
