"""Read a `config.json`: config keys as data, each value validated, and every key accounted for.

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

The kind of a common field, and its bound, belong to its name: `FIELDS`. A `ConfigReader` reads the values.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from glassformer.core import Problem
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import counted, is_int, is_number, safe_repr

IGNORED_KEYS = frozenset(
    """_attn_implementation _attn_implementation_autoset _commit_hash _name_or_path architectures auto_map
    bad_words_ids begin_suppress_tokens bos_token_id chunk_size_feed_forward cross_attention_hidden_size
    custom_pipelines decoder_start_token_id diversity_penalty do_sample dtype early_stopping
    encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty finetuning_task
    forced_bos_token_id forced_eos_token_id gradient_checkpointing id2label initializer_range
    keys_to_ignore_at_inference label2id language length_penalty max_length min_length model_type
    no_repeat_ngram_size num_beam_groups num_beams num_labels num_return_sequences output_attentions
    output_hidden_states output_past output_scores pad_token_id prefix pretraining_tp problem_type quantization_config
    remove_invalid_values repetition_penalty return_dict return_dict_in_generate sep_token_id
    suppress_tokens task_specific_params temperature tf_legacy_loss tokenizer_class top_k top_p torch_dtype
    torchscript transformers_version typical_p use_bfloat16 use_cache""".split()
)
"""Config keys about training, generation or how weights are stored: they never change what a recipe builds."""

KNOWN_FEATURES = frozenset(
    """add_cross_attention alibi attention_multiplier attention_type attn_logit_softcapping
    embedding_multiplier embedding_size final_logit_softcapping first_k_dense_replace is_decoder
    is_encoder_decoder kv_lora_rank layer_types logit_scale logits_scaling moe_intermediate_size
    n_routed_experts num_experts num_experts_per_tok num_local_experts parallel_attn partial_rotary_factor
    position_embedding_type pruned_heads q_lora_rank qk_layernorm
    relative_attention_num_buckets residual_multiplier rope_parameters rope_scaling rotary_pct
    sliding_window tie_encoder_decoder use_qk_norm use_sliding_window""".split()
)
"""Config keys that change what a network computes: one that no recipe reads is an error, unless it is off."""

MAX_LAYERS = 512
"""Limit on layers. No published model has more; each costs time before the first tensor is read."""
MAX_WIDTH = 1_000_000
"""Limit on widths. No published model is wider; up to here the product of three sizes fits in 64 bits."""
MAX_NAMED_KEYS = 50
"""Warnings of unknown keys of a config, one for each; more are counted."""
MAX_LIST = 32
"""Limit on a list of sizes. No published model has more than 7 convolutions."""
MAX_ROWS = 100_000_000
"""Limit on the rows of a table: a vocabulary, positions, labels."""

REQUIRED: Any = object()
Spec = TypeVar("Spec")


class ConfigReader:
    """Read and validate a `config.json`, and track which of its keys were used.

        reader.integer("hidden_size", "n_embd")                the first spelling that is present; from 1 up
        reader.fixed("position_embedding_type", "absolute")    any other value is an error
        reader.section("rope_parameters", "rope_scaling")      a reader of a nested object
        reader.unused_key_warnings()                           keys that no recipe has read

    Attributes:
        location: prefix of every message
        used: the keys that were read
    Raises: ConfigError: a key is missing, or its value is of the wrong type or out of range.
        UnsupportedError: a value names a feature that is not supported.
    """

    def __init__(self, config: Mapping[str, Any], location: str = "") -> None:
        self.config = config
        self.location = f"config.json: {location}"
        self.used: set[str] = set()
        self._sections: list[ConfigReader] = []

    def get(self, *keys: str, default: Any = REQUIRED) -> Any:
        """The value of the first of these keys that is present; null counts as absent."""
        self.used.update(keys)
        for key in keys:
            if self.config.get(key) is not None:
                return self.config[key]
        if default is REQUIRED:
            raise ConfigError(
                f"{self.location}has no {' or '.join(map(repr, keys))}, which a {self.family!r} model needs"
            )
        return default

    @property
    def family(self) -> str:
        return str(self.config.get("model_type"))

    def integer(self, *keys: str, default: Any = REQUIRED, minimum: int = 1, maximum: int = MAX_WIDTH) -> int:
        """A bounded whole number, such as a width: no product of sizes overflows."""
        value = self.get(*keys, default=default)
        if not is_int(value, minimum, maximum + 1):
            raise self._invalid(keys, value, f"a whole number from {minimum} to {maximum}")
        return value

    def integers(self, *keys: str, default: Any = REQUIRED) -> tuple[int, ...]:
        """A short list of bounded whole numbers, such as a width for each of several convolutions."""
        values = self.get(*keys, default=default)
        fits = isinstance(values, (list, tuple)) and 1 <= len(values) <= MAX_LIST
        if not fits or not all(type(value) is int and 1 <= value <= MAX_WIDTH for value in values):
            allowed = f"a list of 1 to {MAX_LIST} whole numbers, each from 1 to {MAX_WIDTH}"
            raise self._invalid(keys, values, allowed)
        return tuple(values)

    def multipliers(self, *keys: str, default: Any = REQUIRED) -> tuple[float, ...]:
        """A short list of numbers above 0, such as the bandwidths of a codec."""
        values = self.get(*keys, default=default)
        fits = isinstance(values, (list, tuple)) and 1 <= len(values) <= MAX_LIST
        if not fits or not all(type(value) in (int, float) and 1e-30 < value < 1e30 for value in values):
            raise self._invalid(keys, values, f"a list of 1 to {MAX_LIST} numbers above 0")
        return tuple(map(float, values))

    def nullable_integer(self, key: str, *, default: int | None, maximum: int = MAX_WIDTH) -> int | None:
        """A bounded whole number where null is a value of its own, None, and an absent key means `default`."""
        value = self.config.get(key, default)
        self.used.add(key)
        return None if value is None else self.integer(key, default=default, maximum=maximum)

    def padding_id(self, *keys: str, default: int | None) -> int | None:
        """The id of padding, `default` where no key is there; None: null, or a number below 0, as in old configs."""
        self.used.update(keys)
        key = next((key for key in keys if key in self.config), keys[0])
        value = self.config.get(key, default)
        if value is None or (type(value) is int and value < 0):
            return None
        return self.integer(key, default=default, minimum=0, maximum=MAX_ROWS)

    def number(self, *keys: str, default: Any = REQUIRED) -> float:
        """A finite number from 0 up."""
        value = self.get(*keys, default=default)
        if not is_number(value, 0, 1e300):  # integers above have no float
            raise self._invalid(keys, value, "a number from 0 up")
        return float(value)

    def multiplier(self, *keys: str, default: Any = REQUIRED) -> float:
        """A number above 0, of which the inverse is finite too."""
        value = self.number(*keys, default=default)
        if not 1e-30 < value < 1e30:
            raise self._invalid(keys, value, "a number above 0")
        return value

    def nullable_multiplier(self, key: str, *, default: float | None) -> float | None:
        """A multiplier where null is a value of its own, None, and an absent key means `default`."""
        value = self.config.get(key, default)
        self.used.add(key)
        return None if value is None else self.multiplier(key, default=default)

    def probability(self, *keys: str, default: Any = REQUIRED) -> float:
        """A dropout probability: a number in [0, 1)."""
        value = self.number(*keys, default=default)
        if value >= 1:
            raise self._invalid(keys, value, "a number from 0 up to, but not including, 1")
        return value

    def flag(self, *keys: str, default: Any = REQUIRED) -> bool:
        value = self.get(*keys, default=default)
        if not isinstance(value, bool):
            raise self._invalid(keys, value, "true or false")
        return value

    def text(self, *keys: str, default: Any = REQUIRED) -> str:
        """A string of at most 100 characters."""
        value = self.get(*keys, default=default)
        if not isinstance(value, str) or len(value) > 100:
            raise self._invalid(keys, value, "a string of at most 100 characters")
        return value

    def _invalid(self, keys: tuple[str, ...], value: object, allowed: str) -> ConfigError:
        present = next((key for key in keys if key in self.config), keys[0])
        return ConfigError(f"{self.location}{present} is {safe_repr(value)}; it must be {allowed}")

    def fixed(self, key: str, *allowed: Any) -> None:
        """Check that a key is absent or has one of the supported values.

        Raises: UnsupportedError: it has another value.
        """
        value = self.get(key, default=allowed[0])
        if value not in allowed:
            raise UnsupportedError(
                f"{self.location}{key} = {safe_repr(value)} is not supported for a {self.family!r} model; "
                f"supported: {', '.join(map(repr, allowed))}"
            )

    def section(self, *keys: str) -> ConfigReader:
        """A reader of a nested object, empty where there is none; its unused keys count among this reader's."""
        value = self.get(*keys, default={})
        if not isinstance(value, Mapping):
            raise self._invalid(keys, value, "an object or null")
        name = next((key for key in keys if self.config.get(key) is not None), keys[0])
        self._sections.append(ConfigReader({"model_type": self.family, **value}, f"{name}: "))
        return self._sections[-1]

    def layer_types(self, layers: int) -> list[str] | None:
        """The kind of each layer: "full_attention" or "sliding_attention"; None where the config has no `layer_types`.

        Raises: ConfigError: no list with one for each layer. UnsupportedError: another kind.
        """
        kinds = self.get("layer_types", default=None)
        if kinds is None:
            return None
        if not isinstance(kinds, list) or len(kinds) != layers:
            raise ConfigError(
                f"{self.location}layer_types is {safe_repr(kinds)}; it must be a list with a kind for "
                f"each of {layers} layers"
            )
        for kind in kinds:
            if kind not in ("full_attention", "sliding_attention"):
                raise UnsupportedError(
                    f"{self.location}layer_types has {safe_repr(kind)}, which is not supported for a {self.family!r} "
                    "model; supported: full_attention, sliding_attention"
                )
        return list(kinds)

    def labels(self) -> int:
        """The number of labels of a classification head."""
        names = self.config.get("id2label")
        if isinstance(names, Mapping) and names:
            return len(names)
        return self.integer("num_labels", default=2, maximum=MAX_ROWS)

    def problem(self) -> Problem | None:
        """The problem type of a classification head: single-label, multi-label or regression.

        None = by the dtype and shape of the labels.
        """
        problems: dict[str | None, Problem | None] = {
            None: None,
            "single_label_classification": "single",
            "multi_label_classification": "multi",
            "regression": "regression",
        }
        value = self.config.get("problem_type")
        if not (value is None or isinstance(value, str)) or value not in problems:
            raise UnsupportedError(
                f"{self.location}problem_type = {safe_repr(value)} is not supported; "
                f"supported: {', '.join(map(repr, problems))}"
            )
        return problems[value]

    def unused_key_warnings(self, given: Container[str] = ()) -> list[str]:
        """A warning for each config key that no recipe has read.

        Args:
            given: keys that a caller has set, not the file; among them a misspelt one is an error.
        Raises: UnsupportedError: such a key changes what the network computes. ConfigError: a caller's is misspelt.
        """
        unused = {k: v for k, v in self.config.items() if k not in self.used and k not in IGNORED_KEYS}
        for key, value in unused.items():
            if key in KNOWN_FEATURES and value not in (None, False, 0, [], {}):
                raise UnsupportedError(
                    f"{self.location}{key} = {safe_repr(value)} changes what a {self.family!r} model computes "
                    "and is not supported"
                )
        unknown = {k: v for k, v in unused.items() if k not in KNOWN_FEATURES}
        # A file may hold a million of them; those of a caller come first, as a misspelt one is an error.
        named = sorted(unknown, key=lambda key: key not in given)[:MAX_NAMED_KEYS]
        absent = sorted(self.used - self.config.keys())
        meant = {k: self._meant(k, absent, k in given) for k in named}
        for key in named:
            if key in given and meant[key]:
                raise ConfigError(f"{self.location}{safe_repr(key)} is no key of a {self.family!r} model{meant[key]}")
        shown = [f"{self.location}{safe_repr(k)[1:-1]} = {safe_repr(unknown[k])} is not read{meant[k]}" for k in named]
        if more := len(unknown) - len(named):
            shown.append(f"{self.location}{counted(more, 'more key')} {'is' if more == 1 else 'are'} not read")
        return shown + [warning for section in self._sections for warning in section.unused_key_warnings()]

    def _meant(self, key: str, absent: Sequence[str], given: bool) -> str:
        """The key that a misspelt one stands for: one that is read, is not there, and differs in a letter or two.

        Args:
            absent: keys that are read and are not there
            given: by a caller, over a file that may well have the right one; it differs in a letter then
        """
        matches = get_close_matches(key, absent, n=1, cutoff=0.85) if len(key) < 100 else []
        if given and not matches and len(key) < 100:
            matches = get_close_matches(key, sorted(self.used), n=1, cutoff=0.95)
        return f"; is {matches[0]!r} meant?" if matches else ""


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
            spec = make(self.read(reader))
            if not reader.get("pruned_heads", default=None):
                return spec
            from glassformer.models.pruned_heads import pruned_heads, without_heads  # imported late: few models need it

            return without_heads(spec, pruned_heads(reader.config), reader.family)

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
