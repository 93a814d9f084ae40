"""Options of a lesson's step: the names that each view reads from the address of a page, and the values they may have.

check_option("patch", "p.kind", "atention")     ConfigError: p.kind is 'atention'; nearest: 'attention'; it must be …
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal, cast, get_args, get_origin

from glassformer.errors import ConfigError, nearest
from glassformer.explorer.registry import TABS
from glassformer.explorer.requests import ContextsRequest, LinesRequest, TileRequest
from glassformer.files import safe_repr
from glassformer.files.schema import Allowed, convert, field_types, one_of
from glassformer.generation.served_options import check_served, served
from glassformer.inspect.embeddings.options import ProjectionOptions
from glassformer.inspect.options import PatchTextsRequest, QuantisationRequest

ANY_VIEW = ("mix", "sort", "from", "to", "sp", "comp", "off")
"""The state of a page that every view reads, by the names in its address (`web/src/core/url-state.ts`)."""

OF_VIEW = {
    "generate": ("path", "at", "shades"),
    "sound": ("word", "aligned"),
    "patch": tuple(f"p.{x}" for x in ("kind", "mode", "direction", "align", "other", "target", "against", "cell")),
    "masks": ("c.pattern",),
    "route": ("c.stream",),
    "architecture": ("c.parameter", "c.height", "c.tiles"),
    "similarity": ("pieces", "sr", "sc"),
    "difference": ("c.other", "c.precision", "c.threshold", "c.measure", "c.head"),
    "quantisation": tuple(f"c.{x}" for x in ("bits", "scales", "zero", "inputs", "height", "error", "layer")),
    "contexts": ("by", "cl", "cn"),
    "embedding": ("em", "lv", "pt", "by", "perp", "nn"),
    **dict.fromkeys(
        ("lens", "attribution"),
        tuple(f"r.{x}" for x in ("measure", "method", "target", "at", "against", "cell", "follow", "head")),
    ),
}
"""What one view alone reads. To these, the view "generate" adds `g.` and the name of a generation option."""


def _literals(hint: Any) -> tuple[Any, ...]:
    """The values of the `Literal` within an annotation."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(value for inner in get_args(hint) for value in _literals(inner))


def _of(request: type, field: str) -> Allowed:
    """The values of a field of a request."""
    return one_of(*map(str, _literals(field_types(request)[field])))


def _written(words: str, pattern: str) -> Allowed:
    return Allowed(words, re.compile(pattern).fullmatch)


def _whole(low: int, high: int) -> Allowed:
    """A whole number, as the page reads it: digits alone."""
    words = f"a whole number from {low} to {high}"
    return Allowed(words, lambda text: bool(re.fullmatch("[0-9]{1,7}", text)) and low <= int(text) <= high)


_CELL = _written("row.column, such as 3.5", "[0-9]{1,4}[.][0-9]{1,5}")
_HEAD = "[^,]+[.][0-9]{1,4}[.][0-9]{1,4}"
_TYPES = one_of("special", "0", "1")
_FLAG = one_of("0", "1")

VALUES: dict[str, Allowed] = {
    "mix": _of(LinesRequest, "mix"),
    "sort": one_of("layer", "kind", "alike", "entropy_bits", "previous", "first", "special", "distance"),
    "from": _TYPES,
    "to": _TYPES,
    "sp": _FLAG,
    "comp": _of(TileRequest, "companding"),
    "off": _written("heads as map.layer.head, such as self.4.9,self.4.10", f"{_HEAD}(,{_HEAD})*"),
    "path": _written("numbers of tokens, such as 12.7.4", "[0-9]{1,8}([.][0-9]{1,8})*"),
    "at": _whole(1, 999_999),
    "shades": one_of("chance", "mean", "head"),
    "word": _whole(0, 999_999),
    "aligned": _whole(0, 999_999),
    "p.kind": _of(PatchTextsRequest, "sweep"),
    **{f"p.{name}": _of(PatchTextsRequest, name) for name in ("mode", "direction", "align")},
    "p.cell": _CELL,
    "c.height": one_of("linear", "log"),
    "c.tiles": one_of("means", "zeros"),
    "pieces": _FLAG,
    "sr": _whole(0, 999_999),
    "sc": _whole(0, 999_999),
    "c.threshold": one_of("1%", "0.1%", "10%"),
    "c.measure": one_of("distance", "length"),
    "c.head": _written("layer.head, such as 4.9", "[0-9]{1,4}[.][0-9]{1,4}"),
    **{f"c.{name}": _of(QuantisationRequest, name) for name in ("bits", "scales", "inputs")},
    "c.zero": one_of("symmetric", "affine"),
    "c.error": one_of("weights", "inputs"),
    "cl": _whole(0, 999_999),
    "cn": _whole(0, 999_999),
    "em": _of(ProjectionOptions, "method"),
    "lv": _whole(0, 999),
    "pt": _whole(0, 9_999_999),
    "perp": _whole(2, 100),
    "nn": _whole(2, 200),
    "r.measure": one_of("probability", "rank", "kl", "entropy"),
    "r.method": one_of("shares", "gradient"),
    "r.cell": _CELL,
    "r.head": _written("map.layer.head, such as self.4.9", _HEAD),
}
"""The values of options; those of others are a text, a token or a name of the model. A test compares the page's."""


def options_of(view: str) -> list[str]:
    """The options that a step with this view may have: the names of its state in an address."""
    generation = [f"g.{name}" for name in served()] if view == "generate" else []
    return [*ANY_VIEW, *OF_VIEW.get(view, ()), *generation]


def check_names(views: Sequence[str], names: Sequence[str]) -> None:
    """Raises: ConfigError: an option that none of the views has; those of a plug-in's view begin with `c.`."""
    known = dict.fromkeys(name for view in views for name in options_of(view))
    plugin = any(view not in TABS for view in views)
    for name in names:
        if name not in known and not (plugin and name.startswith("c.")):
            raise ConfigError(
                f"options has {safe_repr(name)}, which is no option of {' or '.join(views)}"
                f"{nearest(name, known)}; allowed: {', '.join(known)}"
            )


def check_option(views: Sequence[str], name: str, value: str) -> None:
    """Raises: ConfigError: a value that an option of these views cannot have; of a plug-in's, any is allowed."""
    if not any(name in options_of(view) for view in views):
        return
    if name.startswith("g."):
        _check_generation(name.removeprefix("g."), value)
        return
    allowed = _of(ContextsRequest, "by") if name == "by" and "embedding" not in views else VALUES.get(name)
    if allowed is not None and not allowed.test(value):
        hint = nearest(value, allowed.schema.get("enum", ()))
        raise ConfigError(f"options: {name} is {safe_repr(value)}{hint}; it must be {allowed.words}")


def _check_generation(name: str, text: str) -> None:
    """Raises: ConfigError: a generation option that is neither this text nor the JSON that the text is."""
    from glassformer.generation.options import GenerationOptions  # late, as in `served_options`

    hint, value = field_types(GenerationOptions)[name], cast("Any", text)
    with suppress(ConfigError):
        convert(hint, text, name)
        return
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
    try:
        check_served({name: convert(hint, value, f"g.{name}")})
    except ConfigError as error:
        raise ConfigError(f"options: {error}") from None
