"""From the files of a folder to an engine. `tokenizer.json`, the engine's own file, has everything in it; else:

vocab.txt                     word_piece.py     BERT and its kin
vocab.json + merges.txt       byte_pairs.py     GPT-2, RoBERTa, BART, Whisper, CLIP, the first GPT
vocab.json                    characters.py     wav2vec 2.0 and its kin
spiece.model and other names  sentencepiece.py  T5, PEGASUS, XLM-R, mBART, Llama, BigBird, ALBERT
source.spm + vocab.json       sentencepiece.py  Marian; target.spm in place of source.spm for what it writes

The same names mean something else in each family, so the family picks the reader, never the name alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import tokenizers
from tokenizers import AddedToken

from glassformer.errors import DataError, GlassformerError, UnsupportedError
from glassformer.text import byte_pairs, characters, sentencepiece, word_piece
from glassformer.text.engine import check_ids, guarded
from glassformer.text.files import read_bytes, read_optional_json_object
from glassformer.text.frame import frame
from glassformer.text.special import MASK_TAKES_SPACE, Settings, complete_roles


@dataclass(frozen=True, slots=True)
class Reader:
    """One way of reading vocabulary files.

    Fields:
        files: any one of them is what it begins from.
        families: whose files it reads.
        build: the engine of one of these files.
        assumed: the family of a folder that names none, or "" where the files alone do not say enough.
    """

    files: tuple[str, ...]
    families: frozenset[str]
    build: Callable[[Path, Settings], tokenizers.Tokenizer]
    assumed: str = ""


READERS = (
    Reader(word_piece.FILES, word_piece.FAMILIES, word_piece.build, assumed="bert"),
    Reader(byte_pairs.FILES, byte_pairs.FAMILIES, byte_pairs.build, assumed="gpt2"),
    Reader(characters.FILES, characters.FAMILIES, characters.build),
    Reader(sentencepiece.FILES, sentencepiece.FAMILIES, sentencepiece.build),
)

TOKENIZER_FILES = ("tokenizer.json", *dict.fromkeys(name for reader in READERS for name in reader.files))
"""Any of them makes a tokenizer's folder."""

TARGET_FILE = "target.spm"
"""The pieces of what a Marian model writes, beside those of what it reads."""


def build_engine(folder: Path, settings: Settings) -> tokenizers.Tokenizer:
    """The engine that a folder describes, without padding or truncation, its special tokens in place.

    Padding and truncation that a `tokenizer.json` may store are somebody's last call, not part of the
    tokenizer, and are dropped.

    Raises:
        DataError: no tokenizer file, or a damaged one (which file, and what is wrong with it).
        UnsupportedError: a kind of tokenizer that cannot be built from these files.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; give the folder that holds the tokenizer's files")
    if (folder / "tokenizer.json").exists():
        engine = _from_tokenizer_json(folder / "tokenizer.json")
        _add_special_tokens(engine, settings)
        return engine
    reader, path = _reader(folder, settings)
    settings = settings if settings.family else replace(settings, kind=reader.assumed)
    return _completed(reader.build(path, settings), folder, settings)


def build_target_engine(folder: Path, settings: Settings) -> tokenizers.Tokenizer | None:
    """The engine of what a model writes, where that has pieces of its own: Marian's, with the ids of `vocab.json`.

    Raises: as `build_engine`.
    """
    path = folder / TARGET_FILE
    if settings.family != "marian" or not path.exists():
        return None
    return _completed(sentencepiece.build(path, settings), folder, settings)


def _completed(engine: tokenizers.Tokenizer, folder: Path, settings: Settings) -> tokenizers.Tokenizer:
    """An engine with the tokens that other files list, and the special ones that stand around a text."""
    _add_listed_tokens(engine, folder / "added_tokens.json")
    _add_special_tokens(engine, settings)
    frame(engine, settings, folder)
    return engine


def _from_tokenizer_json(path: Path) -> tokenizers.Tokenizer:
    content = read_bytes(path)
    engine = guarded(f"{path} is not a usable tokenizer", tokenizers.Tokenizer.from_buffer, content)
    engine.no_padding()
    engine.no_truncation()
    check_ids(guarded(f"{path} is not a usable tokenizer", engine.get_vocab, True), str(path))
    return engine


def _reader(folder: Path, settings: Settings) -> tuple[Reader, Path]:
    """The first reader of this family whose file is there, and that file.

    The class that the files name decides, else the family of the model.
    """
    found = [
        (reader, folder / name) for reader in READERS for name in reader.files if (folder / name).exists()
    ]
    for reader, path in found:
        if (settings.family or reader.assumed) in reader.families:
            return reader, path
    raise _unreadable(folder, found[0][1], settings) if found else _nothing_found(folder)


def _unreadable(folder: Path, path: Path, settings: Settings) -> GlassformerError:
    remedy = "put its tokenizer.json beside it (the library that made it writes one on saving)"
    if not settings.family:
        return UnsupportedError(
            f"{path} does not say which ids its pieces have, and {folder} names no family of models; "
            "put the config.json beside it, or a tokenizer.json"
        )
    named = settings.config.get("tokenizer_class")
    whose = f"of class {named!r}" if settings.kind else f"of a {settings.model_type!r} model"
    return UnsupportedError(f"a tokenizer {whose} cannot be built from {path} alone; {remedy}")


def _nothing_found(folder: Path) -> GlassformerError:
    return DataError(
        f"{folder} holds no tokenizer: no tokenizer.json, no vocab.txt, no vocab.json with merges.txt, "
        f"no {', '.join(sentencepiece.FILES)}"
    )


def _add_special_tokens(engine: tokenizers.Tokenizer, settings: Settings) -> None:
    """Make the engine find the special tokens in text, as whole tokens; missing ones get the next ids.

    Already known ones keep their own flags, such as swallowing the space before `<mask>`.
    """
    known = {token.content for token in engine.get_added_tokens_decoder().values()}
    roles = complete_roles(settings, engine.get_vocab(True))
    conventional = (
        AddedToken(
            token,
            special=True,
            normalized=False,
            lstrip=role == "mask" and settings.family in MASK_TAKES_SPACE,
        )
        for role, token in roles.items()
    )
    missing: dict[str, AddedToken] = {}
    for token in (*settings.named, *conventional):
        if token.content not in known:
            missing.setdefault(token.content, token)
    guarded("the special tokens cannot be added", engine.add_tokens, list(missing.values()))


def _add_listed_tokens(engine: tokenizers.Tokenizer, path: Path) -> None:
    """Add the tokens of `added_tokens.json`, an older list beside vocabulary files: token -> id."""
    listed = read_optional_json_object(path)
    if not listed:
        return
    check_ids({**engine.get_vocab(True), **listed}, str(path))
    ordered = sorted(listed, key=listed.__getitem__)
    tokens = [AddedToken(token, normalized=False) for token in ordered]
    guarded(f"{path}: its tokens cannot be added", engine.add_tokens, tokens)
    for token in ordered:
        if engine.token_to_id(token) != listed[token]:
            raise DataError(
                f"{path}: {token!r} has the id {listed[token]}, but the vocabulary file gives it "
                f"{engine.token_to_id(token)}; the two files do not belong together"
            )
