"""AutoTokenizer: the tokenizer of a model folder, under the names of the reference library."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tokenizers
from tokenizers import normalizers

from glassformer.errors import ConfigError, DataError, GlassformerError, UnknownOptionError
from glassformer.files import read_bytes, read_json_object, read_text, safe_repr
from glassformer.files.atomic import write_json, write_text
from glassformer.hf.configs import options_of
from glassformer.hub.push import push_folder
from glassformer.load_options import FINDING
from glassformer.models import FAMILIES
from glassformer.text.build import TOKENIZER_FILES
from glassformer.text.settings import ROLES as TOKEN_ROLES
from glassformer.text.tables.encode import TableTokenizer
from glassformer.text.tokenizer import Tokenizer

READS_TABLES = frozenset({"tapas"})
"""Families whose tokenizer is called with a table."""


class PaddingStrategy(StrEnum):
    """Values of `padding`."""

    LONGEST = "longest"
    MAX_LENGTH = "max_length"
    DO_NOT_PAD = "do_not_pad"


class TruncationStrategy(StrEnum):
    """Values of `truncation`."""

    ONLY_FIRST = "only_first"
    ONLY_SECOND = "only_second"
    LONGEST_FIRST = "longest_first"
    DO_NOT_TRUNCATE = "do_not_truncate"


class TensorType(StrEnum):
    """Values of `return_tensors`."""

    PYTORCH = "pt"
    NUMPY = "np"


OF_A_CALL = frozenset(
    "return_tensors max_length truncation padding return_attention_mask return_token_type_ids".split()
)
"""Options of a call, which change nothing where a tokenizer is read."""


class ReferenceTokenizer(Tokenizer):
    """A tokenizer that can be uploaded by itself."""

    @classmethod
    def from_pretrained(cls, folder: str | Path, **options: Any) -> Any:
        """As of `AutoTokenizer`: `type(tokenizer).from_pretrained(folder, model_max_length=43)`."""
        return AutoTokenizer.from_pretrained(folder, **options)

    def push_to_hub(self, name: str, **options: Any) -> str:
        """Upload the tokenizer to the Hub; options of `hub.push.push_folder`. Returns: the address of the commit."""
        with TemporaryDirectory() as folder:
            self.save(folder)
            return push_folder(Path(folder), name, **options)

    def convert_ids_to_tokens(self, ids: Any, skip_special_tokens: bool = False) -> Any:
        """As of every tokenizer; None for an id that is no token, as models with more rows than tokens give it."""
        listed = ids.tolist() if hasattr(ids, "tolist") else ids
        if isinstance(listed, int):
            return self.engine.id_to_token(listed) if listed >= self.vocab_size else super().convert_ids_to_tokens(ids)
        if not isinstance(listed, (list, tuple)) or all(isinstance(x, int) and x < len(self) for x in listed):
            return super().convert_ids_to_tokens(ids, skip_special_tokens)
        return [self.convert_ids_to_tokens(int(x), skip_special_tokens) for x in listed]

    def __repr__(self) -> str:
        settings = ("name_or_path", "vocab_size", "model_max_length", "padding_side", "truncation_side")
        named = ", ".join(f"{name}={getattr(self, name)!r}" for name in (*settings, "special_tokens_map"))
        return f"{type(self).__name__}({named})"

    def train_new_from_iterator(self, *args: Any, **options: Any) -> ReferenceTokenizer:
        return as_reference_tokenizer(super().train_new_from_iterator(*args, **options))


def as_reference_tokenizer(tokenizer: Tokenizer) -> ReferenceTokenizer:
    """The same tokenizer, with the names of this module."""
    tokenizer.__class__ = ReferenceTokenizer
    return tokenizer  # type: ignore[return-value] # since the line before


class AutoTokenizer:
    """The tokenizer of a model folder, or of a model of the Hub."""

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, **keywords: Any) -> Any:
        """Read a tokenizer; keywords that a `Tokenizer` has as attributes, such as `padding_side`, are set.

        Raises: DataError, ConfigError: no such folder, no tokenizer in it, or no such attribute.
        """
        for name in ("use_fast", "tokenizer_type", "legacy", "from_slow", "clean_up_tokenization_spaces", "config"):
            keywords.pop(name, None)
        if of_a_call := OF_A_CALL & keywords.keys():
            names = ", ".join(f"{name}=" for name in sorted(of_a_call))
            warnings.warn(f"{names} changes nothing here; give it in a call: tokenizer(text, {names}…)", stacklevel=2)
        keywords = {name: value for name, value in keywords.items() if name not in of_a_call}
        finding = {name: keywords.pop(name) for name in (*FINDING, "trust_remote_code") if name in keywords}
        folder = _tokenizer_folder(name_or_folder, keywords.pop("revision", None), finding)
        config = folder / "config.json"
        kind = read_json_object(config, ConfigError).get("model_type") if config.is_file() else None
        tokenizer = Tokenizer.from_folder(folder, model_type=kind if kind in FAMILIES else None)
        set_attributes(tokenizer, {"name_or_path": str(name_or_folder), **keywords})
        return TableTokenizer(tokenizer) if kind in READS_TABLES else as_reference_tokenizer(tokenizer)


def set_attributes(tokenizer: Tokenizer, values: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer with these attributes, such as `padding_side`. Raises: ConfigError: it has no such attribute."""
    for name, value in values.items():
        if name in SETTERS:
            SETTERS[name](tokenizer, bool(value))
            continue
        if name.removesuffix("_token") in TOKEN_ROLES and isinstance(value, (str, tokenizers.AddedToken)):
            tokenizer.add_special_tokens({name: value})  # where it is new, too; then the model's tables are resized
            continue
        if not hasattr(tokenizer, name):
            raise UnknownOptionError(f"a tokenizer takes no {safe_repr(name)}, and has no such attribute")
        setattr(tokenizer, name, value)
    return tokenizer


def _set_lower_case(tokenizer: Tokenizer, value: bool) -> None:
    """Lower case or not, of a normaliser that has this option, as BERT's; others stay as the files say, with a note."""
    normalizer = tokenizer.engine.normalizer
    if isinstance(normalizer, normalizers.BertNormalizer):
        normalizer.lowercase = value
        tokenizer.engine.normalizer = normalizer
    else:
        warnings.warn("do_lower_case changes nothing: this tokenizer's normaliser has no such option", stacklevel=4)


def _set_prefix_space(tokenizer: Tokenizer, value: bool) -> None:
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
        warnings.warn("add_prefix_space changes nothing: this tokenizer is not of bytes", stacklevel=4)


SETTERS = {"do_lower_case": _set_lower_case, "add_prefix_space": _set_prefix_space}
"""Keywords that are no attributes of a tokenizer, but parts of its engine."""


def _tokenizer_folder(name_or_folder: str | Path, revision: str | None, finding: Mapping[str, Any]) -> Path:
    """A folder with a tokenizer, which needs no config.json."""
    if isinstance(name_or_folder, (str, Path)) and not finding.get("subfolder"):
        folder = Path(name_or_folder)
        if folder.is_dir():
            return folder
    return options_of(dict(finding)).find_folder(name_or_folder, revision, allow_pickle=False)


ROLES = {
    "BertTokenizer": "[CLS] [SEP] [PAD] [UNK] [MASK]",
    "DistilBertTokenizer": "[CLS] [SEP] [PAD] [UNK] [MASK]",
    "ElectraTokenizer": "[CLS] [SEP] [PAD] [UNK] [MASK]",
    "RobertaTokenizer": "<s> </s> <pad> <unk> <mask>",
    "XLMRobertaTokenizer": "<s> </s> <pad> <unk> <mask>",
    "CamembertTokenizer": "<s> </s> <pad> <unk> <mask>",
    "BartTokenizer": "<s> </s> <pad> <unk> <mask>",
}
"""Classes of tokenizers → their special tokens, where none are given: cls, sep, pad, unk, mask."""


def new_tokenizer(
    cls: type,
    vocab: Any = None,
    merges: Any = None,
    *,
    tokenizer_file: Any = None,
    tokenizer_object: Any = None,
    **attributes: Any,
) -> ReferenceTokenizer:
    """A tokenizer of files, of a vocabulary, or of an engine of the tokenizers library.

    Args:
        vocab: the vocabulary file of the class's family, or its tokens and their ids (`vocab_file=` too)
        merges: of byte-pair encoding: the file, or pairs (`merges_file=` too)
        tokenizer_file: a `tokenizer.json`
    Raises: ConfigError: none of them, or several. DataError: no such file, or a damaged one.
    """
    vocab = attributes.pop("vocab_file", vocab)
    merges = attributes.pop("merges_file", merges)
    if isinstance(merges, bool):  # the second argument of tokenizers without merges
        attributes["do_lower_case"], merges = merges, None
    tokenizer_file = tokenizer_file or None
    vocab = None if tokenizer_file is not None or tokenizer_object is not None else vocab
    if sum(x is not None for x in (vocab, tokenizer_file, tokenizer_object)) != 1:
        raise ConfigError(
            f"{cls.__name__}(…) makes a tokenizer of a vocabulary file (with merges_file= where there is one), of "
            "tokenizer_file= or of tokenizer_object=; give one of them"
        )
    if vocab is not None:
        return _of_vocabulary(cls.__name__, vocab, merges, attributes)
    engine = tokenizers.Tokenizer.from_str(
        read_text(Path(tokenizer_file), DataError) if tokenizer_object is None else tokenizer_object.to_str()
    )
    engine.no_padding()
    engine.no_truncation()
    usual = ROLES.get(cls.__name__.removesuffix("Fast"), "").split()
    roles = ("cls_token", "sep_token", "pad_token", "unk_token", "mask_token")
    own = {role: token for role, token in zip(roles, usual, strict=False) if engine.token_to_id(token) is not None}
    attributes = own | attributes
    tokens = [value for role, value in attributes.items() if role.endswith("_token") and value is not None]
    engine.add_special_tokens([token for token in tokens if engine.token_to_id(str(token)) is None])
    return as_reference_tokenizer(set_attributes(Tokenizer(engine), attributes))


OF_FILES = frozenset("do_lower_case strip_accents tokenize_chinese_chars add_prefix_space".split())
"""Options of a class that decide how its vocabulary files are read."""


def _of_vocabulary(name: str, vocab: Any, merges: Any, attributes: dict[str, Any]) -> ReferenceTokenizer:
    """A tokenizer of the vocabulary files of a class's family, read as those of a folder."""
    read = {key: attributes.pop(key) for key in OF_FILES & attributes.keys()}
    roles = {key: str(x) for key, x in attributes.items() if key.removesuffix("_token") in TOKEN_ROLES and x}
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        given = {str(folder): f"{name}(…)"}
        write_json(folder / "tokenizer_config.json", {"tokenizer_class": name, **read, **roles})
        for part, value in {"vocab": vocab, "merges": merges}.items():
            if isinstance(value, (str, Path)):
                copy = folder / (_file_name(Path(value)) if part == "vocab" else "merges.txt")
                copy.write_bytes(read_bytes(Path(value), DataError))
                given = {str(copy): str(value), **given}
        if isinstance(vocab, Mapping):
            _write_vocabulary(folder, name, vocab, merges is not None)
        elif not isinstance(vocab, (str, Path)):
            raise ConfigError(f"{name}: the vocabulary is {safe_repr(vocab)}; give a file, or a dict of tokens and ids")
        if isinstance(merges, (list, tuple)):
            write_text(folder / "merges.txt", "".join(f"{' '.join(pair)}\n" for pair in merges))
        try:
            tokenizer = Tokenizer.from_folder(folder)
        except GlassformerError as problem:  # in terms of what the caller gave
            message = str(problem)
            for made, path in given.items():
                message = message.replace(made, path)
            raise type(problem)(message) from None
    others = {key: value for key, value in attributes.items() if value is not None}
    return as_reference_tokenizer(set_attributes(tokenizer, others))


def _write_vocabulary(folder: Path, name: str, vocab: Mapping[str, int], with_merges: bool) -> None:
    """A dictionary of tokens and ids as the vocabulary file of WordPiece, or of byte-pair encoding."""
    if sorted(vocab.values(), key=str) != sorted(range(len(vocab)), key=str):
        raise ConfigError(f"{name}: the ids of a vocabulary must be 0, 1, … {len(vocab) - 1}, each once")
    if with_merges:
        write_json(folder / "vocab.json", dict(vocab))
    else:
        write_text(folder / "vocab.txt", "".join(f"{token}\n" for token in sorted(vocab, key=vocab.__getitem__)))


def _file_name(path: Path) -> str:
    """The name that a folder has for a vocabulary file, which may be called otherwise."""
    if path.name in TOKENIZER_FILES:
        return path.name
    return {".txt": "vocab.txt", ".json": "vocab.json"}.get(path.suffix, "spiece.model")
