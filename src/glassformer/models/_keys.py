"""Config keys as data: which key of a `config.json` holds which field of a spec, and its default.

    KEYS = Keys(
        width="hidden_size",                                     required
        eps=("layer_norm_eps", 1e-12),                           the reference library's default
        layers="n_layer num_hidden_layers",                      the first of these spellings that is present
        classifier_dropout=("classifier_dropout", "=dropout"),   the default is another field, listed before
        hidden=("n_inner", lambda c: 4 * c.width),               or computed from them
        use_bias=flag("use_bias", True),                         a field of this family alone, with its kind
        **constants(causal=True, token_types=0),                 in no config
        fixed={"is_decoder": False},                             any other value is an error
        unused="n_ctx summary_type",                             known, and without effect on what is computed
    )

    @KEYS.spec
    def spec(c: Values) -> TextSpec:
        norm = LayerNormSpec(**c("width eps"))

The kind of a common field, and its bound, belong to its name: `FIELDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from glassformer.models._config import MAX_LAYERS, MAX_ROWS, REQUIRED, ConfigReader

Spec = TypeVar("Spec")


@dataclass(frozen=True)
class Key:
    """A config key: how its value is read.

    kind: the method of `ConfigReader`
    spellings: the first that is present counts
    bounds: of that method
    default: of an absent key: a value, "=field", or a function of the fields before it
    """

    kind: str
    spellings: tuple[str, ...]
    default: Any = REQUIRED
    bounds: Mapping[str, int] | None = None

    def read(self, reader: ConfigReader, before: Values) -> Any:
        """The value. Raises: ConfigError: it is missing, of the wrong type or out of range."""
        default = self.default
        if isinstance(default, str) and default.startswith("="):
            default = getattr(before, default[1:])
        elif callable(default):
            default = default(before)
        if self.kind == "constant":
            return default
        absent = reader.get(*self.spellings, default=None) is None
        if absent and default is None and self.kind not in ("nullable_integer", "padding_id"):
            return None
        return getattr(reader, self.kind)(*self.spellings, default=default, **self.bounds or {})


def key(kind: str, **bounds: int) -> Callable[..., Key]:
    """A constructor of keys of one kind: `size("block_size", 64)`."""

    def make(spellings: str, default: Any = REQUIRED, **narrower: int) -> Key:
        return Key(kind, tuple(spellings.split()), default, {**bounds, **narrower})

    return make


def constant(value: Any) -> Key:
    """A field that no config holds: a value, or a function of the fields before it."""
    return Key("constant", (), value)


def constants(**values: Any) -> dict[str, Any]:
    """Several of them: `**constants(token_types=0, causal=False)`."""
    return {field: constant(value) for field, value in values.items()}


size = key("integer")
nullable_size = key("nullable_integer")
sizes = key("integers")
size_or_zero = key("integer", minimum=0)
rows = key("integer", maximum=MAX_ROWS)
rows_or_zero = key("integer", minimum=0, maximum=MAX_ROWS)
layer_count = key("integer", maximum=MAX_LAYERS)
token_id = rows_or_zero
number = key("number")
multiplier = key("multiplier")
multipliers = key("multipliers")
nullable_multiplier = key("nullable_multiplier")
probability = key("probability")
flag = key("flag")
text = key("text")

FIELDS: Mapping[str, Callable[..., Key]] = {
    **dict.fromkeys(("width", "heads", "kv_heads", "head_width", "hidden", "window"), size),
    **dict.fromkeys(("encoder_heads", "decoder_heads", "encoder_hidden", "decoder_hidden"), size),
    **dict.fromkeys(("layers", "encoder_layers", "decoder_layers"), layer_count),
    **dict.fromkeys(("vocabulary", "max_tokens"), rows),
    "token_types": rows_or_zero,
    "padding": key("padding_id"),
    **dict.fromkeys(("eps", "init_std", "theta"), number),
    **dict.fromkeys(("logit_cap", "logit_scale"), multiplier),
    **dict.fromkeys(("tied", "bias"), flag),
    "activation": text,
}
"""Field → kind. Every field that ends in `dropout` is a probability."""

TINY: Mapping[str, Any] = {
    **{"vocabulary": 99, "width": 32, "layers": 3, "heads": 4, "hidden": 48, "max_tokens": 40},
    **{"encoder_layers": 3, "encoder_heads": 4, "encoder_hidden": 48},
    **{"decoder_layers": 2, "decoder_heads": 4, "decoder_hidden": 48},
    **{"dropout": 0.0, "attention_dropout": 0.0},
}
"""The sizes of a network small enough for tests, by field."""


class Values:
    """The values of a config, by field; `c("width eps")` is a mapping of some of them, for a spec's constructor."""

    labels: int
    """Number of labels of a classification head."""

    def __init__(self, reader: ConfigReader) -> None:
        self.reader = reader

    def __getattr__(self, field: str) -> Any:
        if field in ("labels", "problem"):
            return getattr(self.reader, field)()
        raise AttributeError(f"this family's Keys have no field {field!r}")

    def __call__(self, fields: str) -> dict[str, Any]:
        return {field: getattr(self, field) for field in fields.split()}


class Keys:
    """The config keys of a family; see the module's first lines.

    Args:
        fixed: key → the supported value, or a tuple of them
        unused: keys that change nothing
        keys: field → spellings, (spellings, default), or a `Key`
    """

    def __init__(
        self, *, fixed: Mapping[str, Any] | None = None, unused: str = "", **keys: str | tuple[Any, Any] | Key
    ) -> None:
        self.fixed = dict(fixed or {})
        self.unused = unused
        self.keys = {field: _key(field, entry) for field, entry in keys.items()}

    def extend(self, *, fixed: Mapping[str, Any] | None = None, unused: str = "", **keys: Any) -> Keys:
        """The keys of a sibling family: these, with others added or in their place."""
        return Keys(fixed={**self.fixed, **(fixed or {})}, unused=f"{self.unused} {unused}", **{**self.keys, **keys})

    def read(self, reader: ConfigReader) -> Values:
        """Read a config.

        Raises: ConfigError: a key is missing, or its value invalid. UnsupportedError: a fixed key has another value.
        """
        for name, allowed in self.fixed.items():
            reader.fixed(name, *allowed if isinstance(allowed, tuple) else (allowed,))
        reader.used.update(self.unused.split())
        values = Values(reader)
        for field, entry in self.keys.items():
            setattr(values, field, entry.read(reader, values))
        return values

    def spec(self, make: Callable[[Values], Spec]) -> Callable[[ConfigReader], Spec]:
        """A recipe's function from values to a spec → one from a config to a spec."""

        @wraps(make)
        def read(reader: ConfigReader) -> Spec:
            return make(self.read(reader))

        read.keys = self  # type: ignore[attr-defined] # for the names that other families give to the same
        return read

    def tiny(self, model_type: str, **config: Any) -> dict[str, Any]:
        """A config small enough for tests: `TINY` spelled so, `config` added or in its place."""
        sizes = {
            entry.spellings[0]: TINY[field]
            for field, entry in self.keys.items()
            if field in TINY and entry.spellings and not set(entry.spellings) & set(config)
        }
        return {"model_type": model_type, **sizes, **config}


def _key(field: str, entry: str | tuple[Any, Any] | Key) -> Key:
    if isinstance(entry, Key):
        return entry
    make = probability if field.endswith("dropout") else FIELDS[field]
    return make(entry) if isinstance(entry, str) else make(*entry)
