"""What every recipe is made of: a config reader, a spec, a network, a table of names, and the record that joins them.

config.json ──Reader──> spec ──build──> network ──Names──> weights
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer.core import init
from glassformer.core.embeddings import Embedding
from glassformer.core.flow import Batch, Flow, Memory, Node, Output
from glassformer.core.heads import Head, Labels, Problem
from glassformer.core.sight import Sight, self_attention, stream_of
from glassformer.core.specs import EmbeddingSpec, NormSpec, StackSpec
from glassformer.core.stack import Stack
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import shown
from glassformer.weights.names import Names

IGNORED_KEYS = frozenset(
    """_attn_implementation _attn_implementation_autoset _commit_hash _name_or_path architectures auto_map
    bad_words_ids begin_suppress_tokens bos_token_id chunk_size_feed_forward cross_attention_hidden_size
    custom_pipelines decoder_start_token_id diversity_penalty do_sample dtype early_stopping
    encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty finetuning_task
    forced_bos_token_id forced_eos_token_id gradient_checkpointing id2label initializer_range
    keys_to_ignore_at_inference label2id language length_penalty max_length min_length model_type
    no_repeat_ngram_size num_beam_groups num_beams num_labels num_return_sequences output_attentions
    output_hidden_states output_past output_scores pad_token_id prefix pretraining_tp problem_type
    remove_invalid_values repetition_penalty return_dict return_dict_in_generate sep_token_id
    suppress_tokens task_specific_params temperature tf_legacy_loss tokenizer_class top_k top_p torch_dtype
    torchscript transformers_version typical_p use_bfloat16 use_cache""".split()
)
"""Keys that describe how a model was made or is used to generate, never what it computes."""

KNOWN_FEATURES = frozenset(
    """add_cross_attention alibi attention_multiplier attention_type attn_logit_softcapping
    embedding_multiplier embedding_size final_logit_softcapping first_k_dense_replace is_decoder
    is_encoder_decoder kv_lora_rank layer_types logit_scale logits_scaling moe_intermediate_size
    n_routed_experts num_experts num_experts_per_tok num_local_experts parallel_attn partial_rotary_factor
    position_embedding_type pruned_heads q_lora_rank qk_layernorm quantization_config
    relative_attention_num_buckets residual_multiplier rope_parameters rope_scaling rotary_pct
    sliding_window tie_encoder_decoder use_qk_norm use_sliding_window""".split()
)
"""Keys that change what a model computes: where a recipe does not read one and it is not off, it is refused."""

MOST_LAYERS = 512
"""No published model has more; each costs time before the first tensor is read."""
MOST_WIDTH = 1_000_000
"""No published model is wider; up to here the product of three sizes can be counted in 64 bits."""
MOST_ROWS = 100_000_000
"""The same for the rows of a table: a vocabulary, positions, labels."""

_MISSING: Any = object()


class Reader:
    """Reads a `config.json`, and accounts for every key of it.

        reader.integer("hidden_size", "n_embd")          the first spelling that is there; from 1 up
        reader.fixed("position_embedding_type", "absolute")        any other value is refused
        reader.inside("rope_parameters", "rope_scaling")    a reader of an object within
        reader.leftovers()                                  keys that nobody read

    Raises: ConfigError: a key is missing, or its value is of the wrong kind.
        UnsupportedError: a value names a feature that is not supported.
    """

    def __init__(self, config: Mapping[str, Any], place: str = "") -> None:
        self.config = config
        self.place = f"config.json: {place}"
        self.used: set[str] = set()
        self.within: list[Reader] = []

    def get(self, *keys: str, default: Any = _MISSING) -> Any:
        """The value of the first of these spellings that is there; null says no more than nothing."""
        self.used.update(keys)
        for key in keys:
            if self.config.get(key) is not None:
                return self.config[key]
        if default is _MISSING:
            raise ConfigError(
                f"{self.place}has no {' or '.join(map(repr, keys))}, which a {self.family!r} model needs"
            )
        return default

    @property
    def family(self) -> str:
        return str(self.config.get("model_type"))

    def integer(self, *keys: str, default: Any = _MISSING, least: int = 1, most: int = MOST_WIDTH) -> int:
        """A size: bounded, so that no product of sizes is more than can be counted."""
        value = self.get(*keys, default=default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._wrong(keys, value, f"a whole number from {least} to {most}")
        return value

    def number(self, *keys: str, default: Any = _MISSING) -> float:
        """A quantity; none of a config can be negative."""
        value = self.get(*keys, default=default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e300:
            raise self._wrong(keys, value, "a number from 0 up")
        return float(value)

    def probability(self, *keys: str, default: Any = _MISSING) -> float:
        """How often something is dropped."""
        value = self.number(*keys, default=default)
        if value >= 1:
            raise self._wrong(keys, value, "a number from 0 up to, but not including, 1")
        return value

    def flag(self, *keys: str, default: Any = _MISSING) -> bool:
        value = self.get(*keys, default=default)
        if not isinstance(value, bool):
            raise self._wrong(keys, value, "true or false")
        return value

    def text(self, *keys: str, default: Any = _MISSING) -> str:
        value = self.get(*keys, default=default)
        if not isinstance(value, str) or len(value) > 100:
            raise self._wrong(keys, value, "a string of at most 100 characters")
        return value

    def _wrong(self, keys: tuple[str, ...], value: object, allowed: str) -> ConfigError:
        named = next((key for key in keys if key in self.config), keys[0])
        return ConfigError(f"{self.place}{named} is {shown(value)}; it must be {allowed}")

    def fixed(self, key: str, *allowed: Any) -> None:
        """Read a key of which only these values are supported; absent is fine."""
        value = self.get(key, default=allowed[0])
        if value not in allowed:
            raise UnsupportedError(
                f"{self.place}{key} = {shown(value)} is not supported for a {self.family!r} model; "
                f"supported: {', '.join(map(repr, allowed))}"
            )

    def inside(self, *keys: str) -> Reader:
        """A reader of an object within this one, empty where there is none; its leftovers count among these."""
        value = self.get(*keys, default={})
        if not isinstance(value, Mapping):
            raise self._wrong(keys, value, "an object or null")
        name = next((key for key in keys if self.config.get(key) is not None), keys[0])
        self.within.append(Reader({"model_type": self.family, **value}, f"{name}: "))
        return self.within[-1]

    def labels(self) -> int:
        """How many labels a classifying head has."""
        named = self.config.get("id2label")
        if isinstance(named, Mapping) and named:
            return len(named)
        return self.integer("num_labels", default=2, most=MOST_ROWS)

    def problem(self) -> Problem | None:
        """Which kind of labels a classifying head has; None = as the labels given say."""
        problems: dict[str | None, Problem | None] = {
            None: None,
            "single_label_classification": "single",
            "multi_label_classification": "multi",
            "regression": "regression",
        }
        value = self.config.get("problem_type")
        if not (value is None or isinstance(value, str)) or value not in problems:
            raise UnsupportedError(
                f"{self.place}problem_type = {shown(value)} is not supported; "
                f"supported: {', '.join(map(repr, problems))}"
            )
        return problems[value]

    def leftovers(self) -> list[str]:
        """Warnings for keys that nobody read; a key that changes the mathematics is an error."""
        left = {k: v for k, v in self.config.items() if k not in self.used and k not in IGNORED_KEYS}
        for key, value in left.items():
            if key in KNOWN_FEATURES and value not in (None, False, 0, [], {}):
                raise UnsupportedError(
                    f"{self.place}{key} = {shown(value)} changes what a {self.family!r} model computes "
                    "and is not supported"
                )
        unknown = {k: v for k, v in left.items() if k not in KNOWN_FEATURES}
        within = [warning for reader in self.within for warning in reader.leftovers()]
        return [f"{self.place}{shown(k)[1:-1]} = {shown(v)} is not read" for k, v in unknown.items()] + within


@dataclass(frozen=True, kw_only=True, slots=True)
class TextSpec:
    """One stack over one text: what encoders and decoders have in common."""

    embed: EmbeddingSpec
    blocks: StackSpec
    final_norm: NormSpec | None = None
    tied: bool = True  # the language-model head is the embedding table
    head_bias: bool = False  # it has a bias
    labels: int = 2
    problem: Problem | None = None
    classifier_dropout: float = 0.0
    activation: str = "gelu"
    init_std: float = 0.02


class Network(Node):
    """The root of a recipe: it turns a batch into final states, and hands them to its head, if it has one.

    READS: the fields of a `Batch` that it knows; the part that takes one in checks its shape
    POOLING: how its states become one vector a text, where the folder does not say
    Taps: final [B T D] · the fields of the head, such as logits
    """

    READS: ClassVar[tuple[str, ...]] = ("input_ids", "token_type_ids")
    POOLING: ClassVar[str] = "mean"

    head: Head | None

    @property
    def width(self) -> int:
        """D, of the final states."""
        return self.embedding.spec.width

    @property
    def max_tokens(self) -> int | None:
        """How many positions the model has for text; None where they have no end, or it reads none."""
        found = self._embedding()
        return None if found is None or found.spec.positions is None else found.spec.positions.count

    @property
    def vocabulary(self) -> int:
        """How many token ids it knows; 0 where it reads and writes no text."""
        found = self._embedding()
        return 0 if found is None else found.spec.vocabulary

    @property
    def segments(self) -> int | tuple[int, ...]:
        """How many kinds of `token_type_ids` it knows, of each column where there are several; 0: it reads none."""
        found = self._embedding()
        return 0 if found is None else found.spec.segments

    @property
    def embedding(self) -> Embedding:
        """The part that takes input ids.

        Raises: UnsupportedError: there is none.
        """
        found = self._embedding()
        if found is None:
            raise UnsupportedError(f"this model reads {' and '.join(self.READS)}, no text")
        return found

    def _embedding(self) -> Embedding | None:
        return next((node for _, node in self.named_nodes() if isinstance(node, Embedding)), None)

    def sides(self) -> dict[str, Stack]:
        """The stacks of blocks, by what runs through them: text, image, sound; source and target."""
        stacks = [node for _, node in self.named_nodes() if isinstance(node, Stack)]
        return {"text": stacks[0]} if stacks else {}

    def streams(self) -> dict[str, tuple[str, ...]]:
        """Side → the taps of its residual stream: before each block, and after the last."""
        return {side: stream_of(stack) for side, stack in self.sides().items()}

    def sights(self) -> dict[str, Sight]:
        """The attention that there is to look at, by name."""
        sides = self.sides()
        return {"self" if len(sides) == 1 else side: self_attention(sides[side], side) for side in sides}

    def places(self, batch: Batch) -> dict[str, list[str]]:
        """What to call the tokens of each side that is not text: a patch by row and column, a frame by its time."""
        return {}

    def own_taps(self) -> tuple[str, ...]:
        return ("final", *(self.head.FIELDS if self.head is not None else ()))

    def memory(self, batch: Batch, flow: Flow) -> Memory | None:
        """What an encoder makes of the batch for a decoder to attend to; None where there is no encoder."""
        return None

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        """The final states of a batch, without the head; everything that can be looked at runs. [B, T, D]"""
        raise NotImplementedError(f"{type(self).__name__} does not say how it turns a batch into states")

    def forward(self, batch: Batch, flow: Flow) -> Output:
        x = self.tap(flow, "final", self.states(batch, flow))
        return self.read(x, flow)

    def learn(self, batch: Batch, flow: Flow, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        """Σ of the losses of the labels that count, by loss: for training, which needs no output. See `Head.learn`.

        Raises: ConfigError: there is no head, or it has no loss. DataError: labels that do not fit.
        """
        x = self.tap(flow, "final", self.states(batch, flow))
        return self.judging_head().learn(x, flow, labels, smoothing=smoothing)

    def learn_from_output(
        self, batch: Batch, flow: Flow, labels: Labels, *, smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        """`learn` of a recipe whose `forward` does more than hand the final states to the head."""
        return self.judging_head().sums(self(batch, flow), labels, smoothing=smoothing)

    def judging_head(self) -> Head:
        """The head, of a network that has one.

        Raises: ConfigError: it has none.
        """
        if self.head is None:
            raise ConfigError(
                "labels need a head, and this model has none; load it with a task that has labels"
            )
        return self.head

    def read(self, x: Tensor, flow: Flow) -> Output:
        """What the head reads off final states. [B, T, D] → Output"""
        if self.head is None:
            return Output(last_hidden_state=x, cache=flow.cache)
        return self.shown(self.head(x, flow), x, flow)

    def shown(self, output: Output, x: Tensor, flow: Flow) -> Output:
        """What the head has read, its fields tapped, beside the states that it has read."""
        assert self.head is not None
        tapped: dict[str, Any] = {name: self.tap(flow, name, output[name]) for name in self.head.FIELDS}
        return replace(output, last_hidden_state=x, cache=flow.cache, **tapped)


def reads_ids(batch: Batch) -> Tensor:
    """The batch's `input_ids`, which every text family needs. [B, T]"""
    return needed(batch.input_ids, "input_ids [B, T]")


def needed(x: Tensor | None, what: str) -> Tensor:
    """A field of the batch that the model cannot do without; `what` names it with its shape."""
    if x is None:
        raise ConfigError(f"this model reads {what}; got none")
    return x


TASK_ALIASES = {
    "answer": "question-answering",
    "classify": "text-classification",
    "embed": "feature-extraction",
    "features": "feature-extraction",
    "fill": "fill-mask",
    "generate": "text-generation",
    "ner": "token-classification",
    "sentiment-analysis": "text-classification",
    "summarise": "summarization",
    "tag": "token-classification",
    "translate": "translation",
}
"""Short verbs for the Hugging Face pipeline names."""


class _NothingDrawn(TorchFunctionMode):
    """Skips the initialisation that torch's modules do by themselves.

    On the meta device it has no effect, but its random numbers would import torch's compiler, which takes seconds.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


@dataclass(frozen=True, kw_only=True)
class Family:
    """Everything the loader has to know about a family.

    architectures: the class names in `config.json` → task (the Hugging Face pipeline names)
    spec: config → spec · build: spec, task → network · names: spec, task → table
    tiny: a config small enough for tests · initialise: how a network, or a head that is new, starts
    opens: which files it reads beside text: "picture" or "sound"
    oddity: what it does that no other family does, in a few words for the table of families
    former: class names that were given up, and stand in old configs → those of today
    """

    model_type: str
    architectures: Mapping[str, str]
    spec: Callable[[Reader], Any]
    build: Callable[[Any, str], Network]
    names: Callable[[Any, str], Names]
    tiny: Mapping[str, Any] = field(default_factory=dict)
    opens: Literal["picture", "sound"] | None = None
    oddity: str = ""
    former: Mapping[str, str] = field(default_factory=dict)
    initialise: Callable[[nn.Module, Any], None] = lambda network, spec: init.normal(network, spec.init_std)

    def blank(self, spec: Any, task: str) -> Network:
        """The network without numbers, on the meta device: nothing is allocated, nothing drawn at random."""
        with torch.device("meta"), _NothingDrawn():
            return self.build(spec, task)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that this family has heads for."""
        return tuple(dict.fromkeys(self.architectures.values()))

    def task(self, name: str) -> str:
        """The full name of a task, by its alias too.

        Raises: UnsupportedError: the family has no head for it.
        """
        task = TASK_ALIASES.get(name, name) if isinstance(name, str) else None
        if task is None or task not in self.tasks:
            raise UnsupportedError(
                f"a {self.model_type!r} model has no head for {shown(name)}; it has: {', '.join(self.tasks)}"
            )
        return task

    def architecture(self, task: str) -> str:
        """The class name that the reference library gives to this family with this head."""
        return next(name for name, its_task in self.architectures.items() if its_task == task)
