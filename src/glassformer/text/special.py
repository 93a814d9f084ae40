"""What a folder's small files say about its tokenizer: roles of special tokens, sides, segments, length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tokenizers import AddedToken

from glassformer.errors import DataError
from glassformer.text.files import read_optional_json_object

Value = TypeVar("Value")
Default = TypeVar("Default")

SPEECH = frozenset(
    "wav2vec2ctc wav2vec2 wav2vec2conformer wav2vec2bert hubert wavlm unispeech unispeechsat data2vecaudio".split()
)
"""Families that hear, and answer in characters."""

ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")

BERT_ROLES = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
GPT_ROLES = {"unk": "<unk>"}
GPT2_ROLES = {"bos": "<|endoftext|>", "eos": "<|endoftext|>", "unk": "<|endoftext|>"}
LLAMA_ROLES = {"bos": "<s>", "eos": "</s>", "unk": "<unk>"}
ROBERTA_ROLES = {**LLAMA_ROLES, "sep": "</s>", "pad": "<pad>", "cls": "<s>", "mask": "<mask>"}
ALBERT_ROLES = {**BERT_ROLES, "bos": "[CLS]", "eos": "[SEP]", "unk": "<unk>", "pad": "<pad>"}
BIGBIRD_ROLES = {**BERT_ROLES, "bos": "<s>", "eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
T5_ROLES = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
PEGASUS_ROLES = {**T5_ROLES, "mask": "<mask_2>"}
CLIP_ROLES = {**GPT2_ROLES, "bos": "<|startoftext|>", "pad": "<|endoftext|>"}
SPEECH_ROLES = {**LLAMA_ROLES, "pad": "<pad>"}

CONVENTIONS = {
    **dict.fromkeys("bert convbert distilbert electra layoutlm lxmert mobilebert".split(), BERT_ROLES),
    "tapas": {**BERT_ROLES, "empty": "[EMPTY]"},
    **dict.fromkeys(("gpt2", "whisper"), GPT2_ROLES),
    **dict.fromkeys("llama mistral mixtral phi3".split(), LLAMA_ROLES),
    **dict.fromkeys("bart data2vectext led longformer mbart roberta xlmroberta".split(), ROBERTA_ROLES),
    **dict.fromkeys("t5 mt5 longt5 marian".split(), T5_ROLES),
    **dict.fromkeys(("clip", "clipseg"), CLIP_ROLES),
    **dict.fromkeys(SPEECH, SPEECH_ROLES),
    "albert": ALBERT_ROLES,
    "bigbird": BIGBIRD_ROLES,
    "openaigpt": GPT_ROLES,
    "pegasus": PEGASUS_ROLES,
}
"""What a family calls its special tokens where no file does."""

MASK_TAKES_SPACE = frozenset("bart data2vectext led longformer roberta".split())
"""Families whose mask token swallows the space before it: their words begin with their space, masked or not."""

SEGMENTED = frozenset(
    "albert bert convbert deberta debertav2 electra fnet funnel layoutlm lxmert mobilebert rembert xlnet".split()
)
"""Kinds whose models tell two texts apart by `token_type_ids`."""

LEFT_PADDED = frozenset("codellama cohere gemma llama xlnet".split())
"""Tokenizer classes that pad on the left where no file says so."""

NO_LIMIT = 10**9
"""A `model_max_length` from here on (1e30 is usual) means that none was set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `tokenizer_config.json`, `special_tokens_map.json` and `config.json` say, checked.

    Fields:
        roles: role -> token, as the files name them ("cls" -> "[CLS]").
        named: every special token that the files name, in the order in which missing ones get ids.
        kind: the tokenizer class in short ("BertTokenizerFast" -> "bert"), or "" for none or a general one.
        model_type: of the model the tokenizer belongs to, or "".
        segments: whether calls answer with `token_type_ids`.
        model_max_length: the longest input in tokens, or None where no sensible one is set.
        config: `tokenizer_config.json` as read, carried along to `save`.
    """

    roles: Mapping[str, str] = field(default_factory=dict)
    named: tuple[AddedToken, ...] = ()
    kind: str = ""
    model_type: str = ""
    segments: bool = False
    padding_side: str = "right"
    truncation_side: str = "right"
    model_max_length: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """Whose way of reading vocabulary files counts: that of the class the files name, else of the model."""
        return self.kind or as_bert(short(self.model_type))


def read_settings(folder: Path, model_type: str | None) -> Settings:
    """Read the settings of a folder; absent files leave the defaults.

    Whether there are segments is decided by the first of these that is there: `model_input_names` in
    `tokenizer_config.json`, the model type (given, or in `config.json`), the tokenizer class.

    Raises: DataError: a file is damaged or holds a value of the wrong kind.
    """
    path = folder / "tokenizer_config.json"
    config = read_optional_json_object(path)
    special = read_optional_json_object(folder / "special_tokens_map.json")
    if model_type is None:
        found = read_optional_json_object(folder / "config.json").get("model_type")
        model_type = found if isinstance(found, str) else ""
    tokenizer_class = option(config, "tokenizer_class", str, "", path)
    kind = as_bert(short(tokenizer_class.removesuffix("Fast").removesuffix("Tokenizer")))
    if kind in ("pretrained", "tokenizersbackend"):
        kind = ""

    roles: dict[str, str] = {}
    named: dict[str, AddedToken] = {}
    for token in _listed_tokens(config, special, path):
        named.setdefault(token.content, token)
    for role in ROLES:
        value = next(
            (source[f"{role}_token"] for source in (config, special) if source.get(f"{role}_token")), None
        )
        if value is not None:
            token = _added_token(value, f"{role}_token", path)
            roles[role] = token.content
            named.setdefault(token.content, token)
    return Settings(
        roles=roles,
        named=tuple(named.values()),
        kind=kind,
        model_type=model_type,
        segments=_has_segments(config, kind, model_type, path),
        padding_side=_side(config, "padding_side", "left" if kind in LEFT_PADDED else "right", path),
        truncation_side=_side(config, "truncation_side", "right", path),
        model_max_length=_length(config, path),
        config=config,
    )


def complete_roles(settings: Settings, vocabulary: Mapping[str, int]) -> dict[str, str]:
    """The roles that the files name, filled up by the convention of the tokenizer class.

    Where no file names any role, the convention of the model's family counts, or else the first of which all
    tokens are in the vocabulary. A conventional token that the vocabulary lacks is never made up.
    """
    convention = CONVENTIONS.get(settings.kind if settings.roles else settings.family, {})
    if not settings.roles and convention.get("unk") not in vocabulary:
        candidates = (BERT_ROLES, GPT2_ROLES, LLAMA_ROLES)
        convention = next((roles for roles in candidates if all(t in vocabulary for t in roles.values())), {})
    conventional = {role: token for role, token in convention.items() if token in vocabulary}
    return {**conventional, **settings.roles}


def option(
    config: Mapping[str, Any], key: str, kind: type[Value], default: Default, path: Path
) -> Value | Default:
    """The value of one key of a configuration file; null counts as absent.

    Raises: DataError: the value is of another type than `kind`.
    """
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise DataError(f"{path}: {key} must be {kind.__name__}, got {value!r:.60}")
    return value


def _listed_tokens(config: Mapping[str, Any], special: Mapping[str, Any], path: Path) -> list[AddedToken]:
    """Special tokens without a role: by id in `added_tokens_decoder`, then the lists of additional ones."""
    by_id = option(config, "added_tokens_decoder", dict, {}, path)
    try:
        ordered = [by_id[key] for key in sorted(by_id, key=int)]
    except ValueError as error:
        raise DataError(f"{path}: the keys of added_tokens_decoder must be ids: {error}") from error
    tokens = [_added_token(value, "added_tokens_decoder", path) for value in ordered]
    for source in (config, special):
        for key in ("additional_special_tokens", "extra_special_tokens"):
            values = source.get(key) or []
            if isinstance(values, dict):
                values = list(values.values())
            if not isinstance(values, list):
                raise DataError(f"{path}: {key} must be a list, got {values!r:.60}")
            tokens += [_added_token(value, key, path) for value in values]
    return tokens


def _added_token(value: object, key: str, path: Path) -> AddedToken:
    """A special token written as a string or as {"content": ..., "lstrip": ...}."""
    flags: dict[str, bool] = {}
    content = value
    if isinstance(value, dict):
        content = value.get("content")
        flags = {
            name: bool(value[name])
            for name in ("lstrip", "rstrip", "single_word", "normalized")
            if name in value
        }
    if not isinstance(content, str) or not content:
        raise DataError(
            f'{path} or special_tokens_map.json: {key} must be text or {{"content": text}}, got {value!r:.60}'
        )
    special = bool(value.get("special", True)) if isinstance(value, dict) else True
    return AddedToken(content, special=special, **{"normalized": False, **flags})


def _has_segments(config: Mapping[str, Any], kind: str, model_type: str, path: Path) -> bool:
    names = option(config, "model_input_names", list, [], path)
    if names:
        return "token_type_ids" in names
    return (short(model_type) or kind) in SEGMENTED


def _side(config: Mapping[str, Any], key: str, default: str, path: Path) -> str:
    side = option(config, key, str, default, path)
    if side not in ("left", "right"):
        raise DataError(f"{path}: {key} must be 'left' or 'right', got {side!r:.60}")
    return side


def _length(config: Mapping[str, Any], path: Path) -> int | None:
    length = config.get("model_max_length")
    if length is None:
        return None
    if isinstance(length, bool) or not isinstance(length, (int, float)) or not length > 0:
        raise DataError(f"{path}: model_max_length must be a positive number of tokens, got {length!r:.60}")
    return int(length) if length < NO_LIMIT else None


def as_bert(family: str) -> str:
    """DPR's encoders are BERTs, and so are their tokenizers."""
    return "bert" if family in ("dpr", "dprcontextencoder", "dprquestionencoder") else family


def short(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()
