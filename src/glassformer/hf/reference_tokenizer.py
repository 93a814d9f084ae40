"""ReferenceTokenizer: a tokenizer under the names of the reference library.

    tokenizer.pad(rows, return_tensors="pt")      tokenizer.batch_decode(ids)      tokenizer.save_pretrained(folder)

It wraps a `Tokenizer`, which has every name that is not here. A name without a counterpart says what to write instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, normalizers

from glassformer.errors import ConfigError, DataError, UnknownOptionError, UnsupportedError, warn_caller
from glassformer.files import as_path, read_json_object, safe_repr
from glassformer.hf.configs import options_of
from glassformer.hub.push import push_saved
from glassformer.load_options import FINDING
from glassformer.models import FAMILIES
from glassformer.text.encoding import Encoding, check_choice, check_int, padded_length, to_array
from glassformer.text.settings import ROLES, TEMPLATE_FILE
from glassformer.text.tables.encode import TableTokenizer
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.train import train_tokenizer

INSTEAD = {
    "build_inputs_with_special_tokens": "tokenizer(text, text_pair) puts the special tokens around its texts",
    "create_token_type_ids_from_sequences": "tokenizer(text, text_pair)['token_type_ids']",
    "prepare_for_model": "tokenizer(text, …) from the text itself",
    "truncate_sequences": "tokenizer(text, truncation=True, max_length=…)",
    "as_target_tokenizer": "tokenizer(text_target=…)",
    "save_vocabulary": "tokenizer.save_pretrained(folder)",
    "set_truncation_and_padding": "tokenizer(text, truncation=…, padding=…)",
    "clean_up_tokenization": "tokenizer.decode(ids, clean_up_tokenization_spaces=True)",
    "vocab_file": "tokenizer.save_pretrained(folder)",
    "parse_response": "the answer's text as it is: templates of answers are not read",
}
"""Names of the reference library without a counterpart → what to write."""

NO_TEMPLATE_VARIABLES = {
    "sanitize_control_tokens": "encode the messages' texts yourself, with special_tokens_as_text=True",
    "tokenizer_kwargs": "give padding, truncation, max_length and return_tensors themselves",
}
"""Options of the reference's `apply_chat_template` that must not be taken for variables of the template."""


READS_TABLES = frozenset({"tapas"})
"""Families whose tokenizer is called with a table."""

OF_A_CALL = frozenset(
    "return_tensors max_length truncation padding return_attention_mask return_token_type_ids".split()
)
"""Options of a call, which change nothing where a tokenizer is read."""


def _source(tokenizer: Any) -> str:
    """The code of the language of texts; a new one counts for later calls.

    Raises: AttributeError: the tokenizer has no languages. ConfigError, where it is set: or not this one.
    """
    return _language_of(tokenizer.inner)


def _set_source(tokenizer: Any, code: str) -> None:
    inner = tokenizer.inner
    inner.vocabulary = inner.in_language(code).vocabulary
    inner.settings = replace(inner.settings, config={**inner.settings.config, "src_lang": code})


def _target(tokenizer: Any) -> str | None:
    """The code of the language of `text_target`; None = that of texts.

    Raises: AttributeError: the tokenizer has no languages. ConfigError, where it is set: or not this one.
    """
    _language_of(tokenizer.inner)
    code: str | None = tokenizer.inner.settings.config.get("tgt_lang")
    return code


def _set_target(tokenizer: Any, code: str | None) -> None:
    inner = tokenizer.inner
    if code is not None:
        inner.in_language(code)  # checks it
    inner.settings = replace(inner.settings, config={**inner.settings.config, "tgt_lang": code})


src_lang, tgt_lang = property(_source, _set_source), property(_target, _set_target)
"""The languages of a tokenizer whose special tokens around a text name one, as mBART's do.

    src_lang = "en_XX", mBART-50     en_XX A </s>
    tgt_lang = "de_DE"               labels: de_DE B </s>
"""


def with_target_language(inner: Tokenizer) -> Tokenizer:
    """The tokenizer, whose `text_target` is in the language that its config names for it."""
    code = inner.settings.config.get("tgt_lang")
    if code is None:
        return inner
    writing = copy(inner)
    writing._target = inner.in_language(code)
    return writing


def _language_of(tokenizer: Tokenizer) -> str:
    roles = {tokenizer.vocabulary.id_of(role) for role in tokenizer.vocabulary.roles}
    languages = {i for ids in tokenizer.prefix_and_suffix for i in ids} - roles
    if len(languages) != 1:
        raise AttributeError("src_lang")
    code: str = tokenizer.convert_ids_to_tokens(languages.pop())
    return code


class ReferenceTokenizer:
    """A tokenizer with the methods and attributes that code for the reference library calls.

    inner: the tokenizer; what is set here, such as `pad_token`, is set there
    """

    inner: Tokenizer
    name_or_path = ""
    pad_token_type_id = 0
    backend = "tokenizers"
    is_fast = True
    src_lang, tgt_lang = src_lang, tgt_lang

    def __init__(self, inner: Tokenizer) -> None:
        object.__setattr__(self, "inner", inner)

    def __getattr__(self, name: str) -> Any:
        if name == "inner" or (name.startswith("__") and name.endswith("__")):  # of an object that is being unpickled
            raise AttributeError(name)
        try:
            return getattr(self.inner, name)
        except AttributeError:
            hint = f"; write {INSTEAD[name]}" if name in INSTEAD else ""
            raise AttributeError(f"a Tokenizer has no {name!r}{hint}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name) and hasattr(self.inner, name):
            setattr(self.inner, name, value)
        else:
            object.__setattr__(self, name, value)

    def __copy__(self) -> ReferenceTokenizer:
        other = type(self)(copy(self.inner))
        other.__dict__.update({name: value for name, value in self.__dict__.items() if name != "inner"})
        return other

    def __len__(self) -> int:
        return len(self.inner)

    def __repr__(self) -> str:
        settings = ("name_or_path", "vocab_size", "model_max_length", "padding_side", "truncation_side")
        named = ", ".join(f"{name}={getattr(self, name)!r}" for name in (*settings, "special_tokens_map"))
        return f"{type(self).__name__}({named})"

    # ── texts and ids ────────────────────────────────────────────────────────────────────────────────────

    def __call__(self, *texts: Any, **options: Any) -> Encoding:
        """Encode texts: see `Tokenizer`; the old keywords `pad_to_max_length` and `verbose` too."""
        return with_target_language(self.inner)(*texts, **_without_old(options))

    def encode_plus(self, text: Any, text_pair: Any = None, **options: Any) -> Encoding:
        """The same as calling the tokenizer."""
        return self(text, text_pair, **options)

    def batch_encode_plus(self, texts: Any, **options: Any) -> Encoding:
        """The same as calling the tokenizer; (text, second text) makes a pair."""
        return self(texts, **options)

    def encode(self, text: Any, text_pair: Any = None, add_special_tokens: bool = True, **options: Any) -> Any:
        """As of every tokenizer, with the old keywords of a call."""
        return self.inner.encode(text, text_pair, add_special_tokens, **_without_old(options))

    def batch_decode(
        self, sequences: Any, skip_special_tokens: bool = False, clean_up_tokenization_spaces: bool | None = None
    ) -> list[str]:
        """The text of each of many rows of ids."""
        options = {"clean_up_tokenization_spaces": clean_up_tokenization_spaces}
        if not hasattr(sequences, "__iter__"):
            raise DataError(f"batch_decode takes rows of ids, got {type(sequences).__name__}")
        return [self.inner.decode(ids, skip_special_tokens, **options) for ids in sequences]

    def convert_ids_to_tokens(self, ids: Any, skip_special_tokens: bool = False) -> Any:
        """As of every tokenizer; None for an id that is no token, as models with more rows than tokens give it."""
        listed, inner = ids.tolist() if hasattr(ids, "tolist") else ids, self.inner
        if isinstance(listed, int):
            return inner.engine.id_to_token(listed) if listed >= inner.vocab_size else inner.convert_ids_to_tokens(ids)
        if not isinstance(listed, (list, tuple)) or all(isinstance(x, int) and x < len(inner) for x in listed):
            return inner.convert_ids_to_tokens(ids, skip_special_tokens)
        return [self.convert_ids_to_tokens(int(x), skip_special_tokens) for x in listed]

    def pad(
        self,
        encoded_inputs: Any,
        padding: bool | str = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_attention_mask: bool | None = None,
        return_tensors: str | None = None,
    ) -> Encoding:
        """Pad rows that were encoded before: of `input_ids`, `attention_mask`, `token_type_ids`, `special_tokens_mask`.

        Args:
            encoded_inputs: an `Encoding`, a mapping of lists, or a list of mappings, as a data loader has them; other
                keys are left as they are.
            padding, max_length, padding_side, return_tensors: as in a call; of tensors or arrays come such again.
            pad_to_multiple_of: the length becomes a multiple of it.
            return_attention_mask: False leaves it out.

        Raises: DataError: rows without `input_ids`. ConfigError: an unknown option.
        """
        for option, value, known in (
            ("padding", padding, (True, False, "longest", "max_length", "do_not_pad")),
            ("padding_side", padding_side, (None, "left", "right")),
            ("return_tensors", return_tensors, (None, "np", "pt")),
        ):
            check_choice(option, value, known)
        for option, number in (("max_length", max_length), ("pad_to_multiple_of", pad_to_multiple_of)):
            if number is not None:
                check_int(option, number, 1)
        columns, single = _columns_of(encoded_inputs)
        return_tensors = return_tensors or _kind_of(encoded_inputs)
        rows = columns["input_ids"]
        if return_attention_mask is False:
            columns.pop("attention_mask", None)
        else:
            columns.setdefault("attention_mask", [[1] * len(row) for row in rows])
        length = max(map(len, rows), default=0)
        if padding == "max_length":
            length = max_length or self.inner.model_max_length or length
        length = padded_length(length, pad_to_multiple_of)
        if padding not in (False, "do_not_pad"):
            fill = {"attention_mask": 0, "token_type_ids": 0, "special_tokens_mask": 1}
            if any(len(row) < length for row in rows):
                fill["input_ids"] = self.inner.padding_id
            left = (padding_side or self.inner.padding_side) == "left"
            for name in fill.keys() & columns.keys():
                columns[name] = [_padded(row, length, fill[name], left) for row in columns[name]]
        if return_tensors is not None:
            columns = {name: to_array(values, return_tensors, name) for name, values in columns.items()}
        elif single:
            columns = {name: values[0] for name, values in columns.items()}
        return Encoding(columns, (), [])

    def get_special_tokens_mask(
        self, token_ids_0: Sequence[int], token_ids_1: Any = None, already_has_special_tokens: bool = False
    ) -> list[int]:
        """1 for each id of a special token, else 0. Raises: UnsupportedError: ids without special tokens."""
        if not already_has_special_tokens or token_ids_1 is not None:
            raise UnsupportedError(
                "get_special_tokens_mask(…) takes already_has_special_tokens=True, and one list of ids; of texts write "
                "tokenizer(text, return_special_tokens_mask=True)"
            )
        special = {*self.all_special_ids}
        return [int(number in special) for number in token_ids_0]

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """How many special tokens a call puts around a text, or a pair."""
        return self.inner.engine.num_special_tokens_to_add(pair)

    @property
    def max_len_single_sentence(self) -> int | None:
        """How many tokens of one text fit between its special tokens; None = any number."""
        return self._room(pair=False)

    @property
    def max_len_sentences_pair(self) -> int | None:
        """How many tokens of a pair of texts fit between their special tokens; None = any number."""
        return self._room(pair=True)

    def _room(self, *, pair: bool) -> int | None:
        limit = self.inner.model_max_length
        return None if limit is None else limit - self.num_special_tokens_to_add(pair)

    def apply_chat_template(self, conversation: Any, *args: Any, **options: Any) -> Any:
        """As of every tokenizer. Raises: UnsupportedError: an option that must not become a template's variable."""
        for name in options:
            if name in NO_TEMPLATE_VARIABLES:
                raise UnsupportedError(f"apply_chat_template does not take {name!r}; {NO_TEMPLATE_VARIABLES[name]}")
        return self.inner.apply_chat_template(conversation, *args, **options)

    # ── the vocabulary ───────────────────────────────────────────────────────────────────────────────────

    @property
    def backend_tokenizer(self) -> tokenizers.Tokenizer:
        """`engine`"""
        return self.inner.engine

    _tokenizer = backend_tokenizer

    @property
    def vocab(self) -> dict[str, int]:
        """`get_vocab()`"""
        return self.inner.get_vocab()

    @property
    def added_tokens_decoder(self) -> dict[int, AddedToken]:
        """Id → token, of those added after training."""
        return self.inner.engine.get_added_tokens_decoder()

    def get_added_vocab(self) -> dict[str, int]:
        """Token → id, of those added after training."""
        return {token.content: number for number, token in sorted(self.added_tokens_decoder.items())}

    @property
    def added_tokens_encoder(self) -> dict[str, int]:
        """`get_added_vocab()`"""
        return self.get_added_vocab()

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """The special token of each role: {"cls_token": "[CLS]", …}."""
        return {f"{role}_token": token for role, token in self.inner.special_tokens.items()}

    @property
    def all_special_tokens(self) -> list[str]:
        """All special tokens, those with a role first."""
        others: list[str] = self.inner.convert_ids_to_tokens(sorted(self.inner.special_ids))
        return list(dict.fromkeys([*self.inner.special_tokens.values(), *others]))

    @property
    def all_special_ids(self) -> list[int]:
        ids: list[int] = self.inner.convert_tokens_to_ids(self.all_special_tokens)
        return ids

    @property
    def additional_special_tokens(self) -> list[str]:
        """The special tokens without a role."""
        with_role = {*self.inner.special_tokens.values()}
        return [token for token in self.all_special_tokens if token not in with_role]

    extra_special_tokens = additional_special_tokens

    def add_special_tokens(
        self,
        special_tokens_dict: Mapping[str, Any],
        replace_additional_special_tokens: bool = False,
        replace_extra_special_tokens: bool = False,
    ) -> int:
        """As of every tokenizer. Raises: UnsupportedError: those of before are to be replaced."""
        if replace_additional_special_tokens or replace_extra_special_tokens:
            raise UnsupportedError("special tokens stay special; make a tokenizer without them, or leave replace_… out")
        return self.inner.add_special_tokens(special_tokens_dict)

    def train_new_from_iterator(
        self,
        text_iterator: Iterable[Any],
        vocab_size: int,
        length: int | None = None,
        new_special_tokens: Sequence[str] | None = None,
        **options: Any,
    ) -> ReferenceTokenizer:
        """A tokenizer of the same kind, pipeline and special tokens, with a vocabulary trained on other texts.

        It has fewer tokens than `vocab_size` where the texts make no more.
        Args:
            text_iterator: texts, or lists of texts
            length: not needed
            new_special_tokens: more of them
            options: `min_frequency`, of pairs that are merged: 1 unless given, as in the reference library
        Raises: ConfigError: an option that training does not take; a vocabulary smaller than the alphabet.
        """
        # A byte-level vocabulary holds every byte from the start.
        if unknown := set(options) - {"initial_alphabet", "show_progress", "min_frequency"}:
            raise UnknownOptionError(f"train_new_from_iterator(…) takes no {', '.join(map(repr, sorted(unknown)))}")
        texts = [text for item in text_iterator for text in ([item] if isinstance(item, str) else item)]
        counted = type(self.inner.engine.model).__name__ in ("BPE", "WordPiece")
        least = (options.get("min_frequency") or 1) if counted else options.get("min_frequency")
        special = tuple(new_special_tokens or ())
        return ReferenceTokenizer(
            train_tokenizer(texts, like=self.inner, size=vocab_size, special=special, at_most=True, min_frequency=least)
        )

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, **keywords: Any) -> Any:
        """Read a tokenizer; keywords that a tokenizer has as attributes, such as `padding_side`, are set.

        Raises: DataError, ConfigError: no such folder, no tokenizer in it, or no such attribute.
        """
        for name in ("use_fast", "tokenizer_type", "legacy", "from_slow", "clean_up_tokenization_spaces", "config"):
            keywords.pop(name, None)
        if of_a_call := OF_A_CALL & keywords.keys():
            names = ", ".join(f"{name}=" for name in sorted(of_a_call))
            warn_caller(f"{names} changes nothing here; give it in a call: tokenizer(text, {names}…)")
        keywords = {name: value for name, value in keywords.items() if name not in of_a_call}
        finding = {name: keywords.pop(name) for name in (*FINDING, "trust_remote_code") if name in keywords}
        folder = _tokenizer_folder(name_or_folder, keywords.pop("revision", None), finding)
        config = folder / "config.json"
        kind = read_json_object(config, ConfigError).get("model_type") if config.is_file() else None
        tokenizer = cls(Tokenizer.from_folder(folder, model_type=kind if kind in FAMILIES else None))
        set_attributes(tokenizer, {"name_or_path": str(name_or_folder), **keywords})
        return TableTokenizer(tokenizer) if kind in READS_TABLES else tokenizer

    def save_pretrained(self, folder: Path | str, **options: Any) -> tuple[str, ...]:
        """Write the tokenizer's files, as `save` does; `save_jinja_files` is its `template_files`.

        Returns: their paths.
        Raises: UnsupportedError: `filename_prefix`, `push_to_hub`. UnknownOptionError: another.
        """
        for name, value in options.items():
            if name not in ("legacy_format", "save_jinja_files", "filename_prefix", "push_to_hub"):
                raise UnknownOptionError(f"save_pretrained(…) of a tokenizer takes no {name!r}")
            if value and name in ("filename_prefix", "push_to_hub"):
                instead = "rename the files" if name == "filename_prefix" else "tokenizer.push_to_hub(NAME) afterwards"
                raise UnsupportedError(f"save_pretrained(…) of a tokenizer takes no {name}: {instead}")
        folder = as_path(folder, "folder")
        self.inner.save(folder, template_files=options.get("save_jinja_files"))
        names = ("tokenizer_config.json", TEMPLATE_FILE, "tokenizer.json")
        return tuple(str(path) for name in names if (path := folder / name).is_file())

    def push_to_hub(self, name: str, **options: Any) -> str:
        """Upload the tokenizer to the Hub; options of `hub.push.push_folder`. Returns: the address of the commit."""
        return push_saved(self.inner.save, name, **options)

    @property
    def init_kwargs(self) -> dict[str, Any]:
        """The settings in its files: special tokens, the length, the sides."""
        own = ("model_max_length", "padding_side", "truncation_side", "chat_template", "name_or_path")
        return {**self.special_tokens_map, **{name: getattr(self, name) for name in own}}


def as_reference_tokenizer(tokenizer: Any) -> ReferenceTokenizer:
    """A `Tokenizer` with the names of this module, which shares what is set; anything else is left as it is."""
    return ReferenceTokenizer(tokenizer) if isinstance(tokenizer, Tokenizer) else tokenizer


def plain_tokenizer(tokenizer: Any) -> Any:
    """The `Tokenizer` inside of one with the names of the reference library; others as they are."""
    return tokenizer.inner if isinstance(tokenizer, ReferenceTokenizer) else tokenizer


def set_attributes(tokenizer: ReferenceTokenizer, values: Mapping[str, Any]) -> ReferenceTokenizer:
    """The tokenizer with these attributes, such as `padding_side`. Raises: ConfigError: it has no such attribute."""
    for name, value in values.items():
        if name in SETTERS:
            SETTERS[name](tokenizer, bool(value))
            continue
        if name.removesuffix("_token") in ROLES and isinstance(value, (str, tokenizers.AddedToken)):
            tokenizer.add_special_tokens({name: value})  # where it is new, too; then the model's tables are resized
            continue
        if not hasattr(tokenizer, name):
            raise UnknownOptionError(f"a tokenizer takes no {safe_repr(name)}, and has no such attribute")
        setattr(tokenizer, name, value)
    return tokenizer


def _set_lower_case(tokenizer: ReferenceTokenizer, value: bool) -> None:
    """Lower case or not, of a normaliser that has this option, as BERT's; others stay as the files say, with a note."""
    normalizer = tokenizer.engine.normalizer
    if isinstance(normalizer, normalizers.BertNormalizer):
        normalizer.lowercase = value
        tokenizer.engine.normalizer = normalizer
    else:
        warn_caller("do_lower_case changes nothing: this tokenizer's normaliser has no such option")


def _set_prefix_space(tokenizer: ReferenceTokenizer, value: bool) -> None:
    """A space before each text, or not, of a byte-level tokenizer; others stay as the files say, with a note."""
    byte_level = False

    def changed(part: Any) -> Any:
        nonlocal byte_level
        if isinstance(part, list):
            return [changed(each) for each in part]
        if not isinstance(part, dict):
            return part
        own = part.get("type") == "ByteLevel"
        byte_level |= own
        return {name: changed(x) for name, x in part.items()} | ({"add_prefix_space": value} if own else {})

    stated = json.loads(tokenizer.engine.to_str())
    other = tokenizers.Tokenizer.from_str(json.dumps({**stated, "pre_tokenizer": changed(stated["pre_tokenizer"])}))
    if byte_level:
        tokenizer.engine.pre_tokenizer = other.pre_tokenizer
    else:
        warn_caller("add_prefix_space changes nothing: this tokenizer is not of bytes")


SETTERS = {"do_lower_case": _set_lower_case, "add_prefix_space": _set_prefix_space}
"""Keywords that are no attributes of a tokenizer, but parts of its engine."""


def _tokenizer_folder(name_or_folder: str | Path, revision: str | None, finding: Mapping[str, Any]) -> Path:
    """A folder with a tokenizer, which needs no config.json."""
    if isinstance(name_or_folder, (str, Path)) and name_or_folder and not finding.get("subfolder"):
        folder = Path(name_or_folder)
        if folder.is_dir():
            return folder
    return options_of(dict(finding)).find_folder(name_or_folder, revision, allow_pickle=False)


def _without_old(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a call, without old keywords: what they mean is set, and `verbose` means nothing."""
    if "verbose" in options or "pad_to_max_length" in options:
        options.pop("verbose", None)
        if options.pop("pad_to_max_length", False):
            options["padding"] = "longest" if options.get("max_length") is None else "max_length"
    return options


def _columns_of(encoded: Any) -> tuple[dict[str, list[Any]], bool]:
    """The rows of each input by name, as lists; and whether it was a single row. Raises: DataError: no input_ids."""
    if isinstance(encoded, (list, tuple)) and encoded and all(isinstance(row, Mapping) for row in encoded):
        encoded = {name: [row[name] for row in encoded] for name in encoded[0]}
    if not isinstance(encoded, Mapping) or "input_ids" not in encoded:
        given = list(encoded)[:9] if isinstance(encoded, Mapping) else type(encoded).__name__
        raise DataError(f"rows to pad have 'input_ids', a list for each; got {given!r:.80}")
    columns = {name: _listed(values) for name, values in encoded.items()}
    single = bool(columns["input_ids"]) and not isinstance(columns["input_ids"][0], list)
    return ({name: [values] for name, values in columns.items()} if single else columns), single


def _kind_of(encoded: Any) -> str | None:
    """Whether rows are tensors (pt) or arrays (np); None: lists."""
    value = encoded["input_ids"] if isinstance(encoded, Mapping) else encoded[0]["input_ids"]
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    # By name, since this package works without torch.
    return {"Tensor": "pt", "ndarray": "np"}.get(type(value).__name__)


def _listed(values: Any) -> Any:
    """Lists of lists, of arrays, tensors and lists of them."""
    if hasattr(values, "tolist"):
        return values.tolist()
    return [_listed(value) for value in values] if isinstance(values, (list, tuple)) else values


def _padded(row: list[int], length: int, fill: int, left: bool) -> list[int]:
    more = [fill] * (length - len(row))
    return [*more, *row] if left else [*row, *more]
