"""Tokenizer settings of a model folder: special tokens by role, padding and truncation sides, token types, length."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tokenizers import AddedToken

from glassformer.errors import DataError
from glassformer.files import check_links, is_number, read_json_object, read_text
from glassformer.files.atomic import write_text

Value = TypeVar("Value")
Default = TypeVar("Default")

ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")

TOKEN_TYPE_FAMILIES = frozenset(
    "albert bert convbert deberta debertav2 electra fnet funnel layoutlm lxmert mobilebert rembert xlnet".split()
)
"""Families whose models take `token_type_ids`, which tell two texts apart."""

LEFT_PADDED_CLASSES = frozenset("codellama cohere gemma llama xlnet".split())
"""Tokenizer classes that pad on the left where no file says so."""

TEMPLATE_FILE, TEMPLATES_FOLDER = "chat_template.jinja", "additional_chat_templates"

NO_LIMIT = 10**9
"""A `model_max_length` of at least this (1e30 is usual) means that none was set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerSettings:
    """The settings in `tokenizer_config.json`, `special_tokens_map.json` and `config.json`, validated.

    Fields:
        roles: role -> special token, as the files name them ("cls" -> "[CLS]").
        special_tokens: every special token that the files name, in the order in which missing ones get ids.
        kind: the tokenizer class in short ("BertTokenizerFast" -> "bert"), or "" for none or a general one.
        model_type: of the model the tokenizer belongs to, or "".
        token_types: whether calls return `token_type_ids`.
        separate_target: whether source and target have a vocabulary each, as some Marian models.
        model_max_length: the longest input in tokens, or None where none is set.
        config: `tokenizer_config.json` as read, written again by `save`.
    """

    roles: Mapping[str, str] = field(default_factory=dict)
    special_tokens: tuple[AddedToken, ...] = ()
    kind: str = ""
    model_type: str = ""
    token_types: bool = False
    separate_target: bool = False
    padding_side: str = "right"
    truncation_side: str = "right"
    model_max_length: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """The family that decides how vocabulary files are read: of the tokenizer class, else of the model."""
        return self.kind or bert_alias(normalized_name(self.model_type))


def read_settings(folder: Path, model_type: str | None) -> TokenizerSettings:
    """Read the settings of a folder; absent files leave the defaults.

    Whether there are token types is decided by the first of these that is there: `model_input_names` in
    `tokenizer_config.json`, the model type (given, or in `config.json`), the tokenizer class.

    Raises: DataError: a file is damaged, holds a value of the wrong kind, or is a link out of the folder.
    """
    check_links(folder, DataError)
    path = folder / "tokenizer_config.json"
    config = read_json_object(path, DataError, strict=False, optional=True)
    special = read_json_object(folder / "special_tokens_map.json", DataError, strict=False, optional=True)
    if model_type is None:
        value = read_json_object(folder / "config.json", DataError, strict=False, optional=True).get("model_type")
        model_type = value if isinstance(value, str) else ""
    tokenizer_class = option(config, "tokenizer_class", str, "", path)
    kind = bert_alias(normalized_name(tokenizer_class.removesuffix("Fast").removesuffix("Tokenizer")))
    if kind in ("pretrained", "tokenizersbackend"):
        kind = ""

    roles: dict[str, str] = {}
    tokens: dict[str, AddedToken] = {}
    for token in _unassigned_special_tokens(config, special, path):
        tokens.setdefault(token.content, token)
    for role in ROLES:
        value = next((source[f"{role}_token"] for source in (config, special) if source.get(f"{role}_token")), None)
        if value is not None:
            token = _added_token(value, f"{role}_token", path)
            roles[role] = token.content
            tokens.setdefault(token.content, token)
    return TokenizerSettings(
        roles=roles,
        special_tokens=tuple(tokens.values()),
        kind=kind,
        model_type=model_type,
        token_types=_uses_token_types(config, kind, model_type, path),
        separate_target=config.get("separate_vocabs") is True,
        padding_side=_read_side(config, "padding_side", "left" if kind in LEFT_PADDED_CLASSES else "right", path),
        truncation_side=_read_side(config, "truncation_side", "right", path),
        model_max_length=_read_max_length(config, path),
        config=config,
    )


def option(config: Mapping[str, Any], key: str, kind: type[Value], default: Default, path: Path) -> Value | Default:
    """The value of one key of a configuration file; null counts as absent.

    Raises: DataError: the value is of another type than `kind`.
    """
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise DataError(f"{path}: {key} must be {kind.__name__}, got {value!r:.60}")
    return value


def _unassigned_special_tokens(config: Mapping[str, Any], special: Mapping[str, Any], path: Path) -> list[AddedToken]:
    """Special tokens without a role: by id in `added_tokens_decoder`, then the lists of additional ones."""
    by_id = option(config, "added_tokens_decoder", dict, {}, path)
    try:
        ordered = [by_id[key] for key in sorted(by_id, key=int)]
    except ValueError as error:
        raise DataError(f"{path}: the keys of added_tokens_decoder must be token ids: {error}") from error
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
        flags = {name: bool(value[name]) for name in ("lstrip", "rstrip", "single_word", "normalized") if name in value}
    if not isinstance(content, str) or not content:
        raise DataError(
            f'{path} or special_tokens_map.json: {key} must be text or {{"content": text}}, got {value!r:.60}'
        )
    special = bool(value.get("special", True)) if isinstance(value, dict) else True
    return AddedToken(content, special=special, **{"normalized": False, **flags})


def _uses_token_types(config: Mapping[str, Any], kind: str, model_type: str, path: Path) -> bool:
    names = option(config, "model_input_names", list, [], path)
    if names:
        return "token_type_ids" in names
    return (normalized_name(model_type) or kind) in TOKEN_TYPE_FAMILIES


def _read_side(config: Mapping[str, Any], key: str, default: str, path: Path) -> str:
    side = option(config, key, str, default, path)
    if side not in ("left", "right"):
        raise DataError(f"{path}: {key} must be 'left' or 'right', got {side!r:.60}")
    return side


def _read_max_length(config: Mapping[str, Any], path: Path) -> int | None:
    length = config.get("model_max_length")
    if length is None:
        return None
    if length != math.inf and not (is_number(length) and length > 0):  # files of Python may write Infinity
        raise DataError(f"{path}: model_max_length must be a positive number of tokens, got {length!r:.60}")
    return int(length) if length < NO_LIMIT else None


def bert_alias(family: str) -> str:
    """The family under its own name; DPR's encoders and its reader are BERTs, and so are their tokenizers."""
    return "bert" if family in ("dpr", "dprcontextencoder", "dprquestionencoder", "dprreader") else family


def normalized_name(name: str) -> str:
    """A family's name as it is compared: "xlm-roberta" -> "xlmroberta"."""
    return name.replace("-", "").replace("_", "").lower()


SPEECH_FAMILIES = frozenset(
    "wav2vec2ctc wav2vec2 wav2vec2conformer wav2vec2bert hubert wavlm unispeech unispeechsat data2vecaudio".split()
)
"""Speech recognisers: their tokenizers have a vocabulary of characters for CTC."""

BERT_ROLES = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
GPT_ROLES = {"unk": "<unk>"}
GPT2_ROLES = {"bos": "<|endoftext|>", "eos": "<|endoftext|>", "unk": "<|endoftext|>"}
GPT_NEOX_ROLES = {**GPT2_ROLES, "pad": "<|padding|>"}
LLAMA_ROLES = {"bos": "<s>", "eos": "</s>", "unk": "<unk>"}
GEMMA_ROLES = {"bos": "<bos>", "eos": "<eos>", "unk": "<unk>", "pad": "<pad>"}
ROBERTA_ROLES = {**LLAMA_ROLES, "sep": "</s>", "pad": "<pad>", "cls": "<s>", "mask": "<mask>"}
ALBERT_ROLES = {**BERT_ROLES, "bos": "[CLS]", "eos": "[SEP]", "unk": "<unk>", "pad": "<pad>"}
DEBERTA_ROLES = {**BERT_ROLES, "bos": "[CLS]", "eos": "[SEP]"}
BIGBIRD_ROLES = {**BERT_ROLES, "bos": "<s>", "eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
T5_ROLES = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
PEGASUS_ROLES = {**T5_ROLES, "mask": "<mask_2>"}
CLIP_ROLES = {**GPT2_ROLES, "bos": "<|startoftext|>", "pad": "<|endoftext|>"}
XLNET_ROLES = {**ROBERTA_ROLES, "sep": "<sep>", "cls": "<cls>"}
SPEECH_ROLES = {**LLAMA_ROLES, "pad": "<pad>"}

DEFAULT_SPECIAL_TOKENS = {
    **dict.fromkeys("bert convbert distilbert electra layoutlm lxmert mobilebert".split(), BERT_ROLES),
    "tapas": {**BERT_ROLES, "empty": "[EMPTY]"},
    **dict.fromkeys(("gpt2", "whisper"), GPT2_ROLES),
    **dict.fromkeys("llama mistral mixtral phi3".split(), LLAMA_ROLES),
    **dict.fromkeys(
        "bart camembert data2vectext led longformer mbart mbart50 roberta xlmroberta".split(), ROBERTA_ROLES
    ),
    **dict.fromkeys("gemma gemma2 gemma3text".split(), GEMMA_ROLES),
    **dict.fromkeys("t5 mt5 longt5 marian".split(), T5_ROLES),
    **dict.fromkeys(("clip", "clipseg"), CLIP_ROLES),
    **dict.fromkeys(SPEECH_FAMILIES, SPEECH_ROLES),
    "albert": ALBERT_ROLES,
    **dict.fromkeys(("deberta", "debertav2"), DEBERTA_ROLES),
    "bigbird": BIGBIRD_ROLES,
    "gptneox": GPT_NEOX_ROLES,
    "openaigpt": GPT_ROLES,
    "pegasus": PEGASUS_ROLES,
    "xlnet": XLNET_ROLES,
}
"""Family → role → special token, for folders whose files name none."""

MASK_TAKES_SPACE = frozenset("bart deberta data2vectext led longformer roberta".split())
"""Families whose mask token includes the space before it, as their words do (`lstrip=True`)."""


def complete_roles(settings: TokenizerSettings, vocabulary: Mapping[str, int]) -> dict[str, str]:
    """Special tokens by role: those that the files name, and the defaults of the tokenizer class for the others.

    Where no file names any, the defaults of the model's family count, else the first ones (BERT, GPT-2, Llama) whose
    tokens are all in the vocabulary. A default token that the vocabulary lacks is never added.
    """
    defaults = DEFAULT_SPECIAL_TOKENS.get(settings.kind if settings.roles else settings.family, {})
    if not settings.roles and defaults.get("unk") not in vocabulary:
        candidates = (BERT_ROLES, GPT2_ROLES, LLAMA_ROLES)
        defaults = next((roles for roles in candidates if all(t in vocabulary for t in roles.values())), {})
    known_defaults = {role: token for role, token in defaults.items() if token in vocabulary}
    return {**known_defaults, **settings.roles}


@dataclass(frozen=True, slots=True)
class ChatTemplates:
    """The chat templates of a folder: name → source; most folders have one, "default".

    in_files: they come from files of their own, not from tokenizer_config.json, which is copied as it is anyway.
    """

    sources: Mapping[str, str] = field(default_factory=dict)
    in_files: bool = False

    @classmethod
    def read(cls, folder: Path, config: Mapping[str, Any]) -> ChatTemplates:
        """Read the templates from `.jinja` files, or else from the key "chat_template" of tokenizer_config.json.

        Raises: DataError: a template is not text.
        """
        paths = {"default": folder / TEMPLATE_FILE} if (folder / TEMPLATE_FILE).exists() else {}
        paths |= {path.stem: path for path in sorted((folder / TEMPLATES_FOLDER).glob("*.jinja"))}
        if paths:
            return cls({name: read_text(path, DataError) for name, path in paths.items()}, in_files=True)
        value = config.get("chat_template")
        if isinstance(value, str):
            return cls({"default": value})
        templates = value if isinstance(value, list) else [] if value is None else [value]
        try:
            sources = {template["name"]: template["template"] for template in templates}
        except (TypeError, KeyError):
            sources = {"": None}
        if not all(isinstance(text, str) for pair in sources.items() for text in pair):
            raise DataError(
                f"{folder / 'tokenizer_config.json'}: chat_template must be text, or a list of "
                f'{{"name": text, "template": text}}, got {value!r:.60}'
            )
        return cls(sources)

    def choose(self, name_or_source: str | None, *, tools: bool) -> str:
        """The source of a template, given by name or as source; None: the one for tools, or the default.

        Raises: DataError: there is none.
        """
        if name_or_source is not None:
            return self.sources.get(name_or_source, name_or_source)
        if tools and "tool_use" in self.sources:
            return self.sources["tool_use"]
        if "default" in self.sources:
            return self.sources["default"]
        if self.sources:
            raise DataError(
                f"the tokenizer has the chat templates {', '.join(self.sources)}, and none of them is the default; "
                "name one: chat_template=…"
            )
        raise DataError(
            "this tokenizer has no chat template, so its model was probably not trained on conversations; write the "
            "prompt as one text, or give a template: chat_template=…"
        )

    def in_config(self) -> str | list[dict[str, str]]:
        """As tokenizer_config.json holds them: the source of a single one, or a list with their names."""
        if list(self.sources) == ["default"]:
            return self.sources["default"]
        return [{"name": name, "template": source} for name, source in self.sources.items()]

    def save(self, folder: Path) -> None:
        """Write the template files, and delete those of an earlier model."""
        sources = dict(self.sources) if self.in_files else {}
        texts = {folder / TEMPLATE_FILE: sources.pop("default")} if "default" in sources else {}
        texts |= {folder / TEMPLATES_FOLDER / f"{name}.jinja": text for name, text in sources.items()}
        for path in (folder / TEMPLATE_FILE, *(folder / TEMPLATES_FOLDER).glob("*.jinja")):
            if path not in texts:
                path.unlink(missing_ok=True)
        for path, text in texts.items():
            path.parent.mkdir(exist_ok=True)
            write_text(path, text)
