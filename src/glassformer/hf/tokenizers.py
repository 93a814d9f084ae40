"""AutoTokenizer: the tokenizer of a model folder, under the names of the reference library."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tokenizers

from glassformer.errors import ConfigError, DataError, GlassformerError
from glassformer.files import read_bytes, read_text, safe_repr
from glassformer.files.atomic import write_json, write_text
from glassformer.hf.reference_tokenizer import ReferenceTokenizer, set_attributes
from glassformer.text.build import TOKENIZER_FILES
from glassformer.text.settings import ROLES as TOKEN_ROLES
from glassformer.text.tokenizer import Tokenizer


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


class AutoTokenizer:
    """The tokenizer of a model folder, or of a model of the Hub."""

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, **keywords: Any) -> Any:
        """Read a tokenizer; see `ReferenceTokenizer.from_pretrained`."""
        return ReferenceTokenizer.from_pretrained(name_or_folder, **keywords)


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
    return set_attributes(ReferenceTokenizer(Tokenizer(engine)), attributes)


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
    return set_attributes(ReferenceTokenizer(tokenizer), others)


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
