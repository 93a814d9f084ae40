"""Tokenizer files of foreign checkpoints: those that lie next to them, or made from a list of byte-pair tokens.

Two kinds of lists name tokens in the order in which they were merged, and not their merges:

    *.tiktoken                         of OpenAI: the bytes of a token in base64, and its rank
    vocabulary.json, vocabulary.txt    of CTranslate2: a token after another, bytes as letters
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import copyfile

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from glassformer.errors import DataError
from glassformer.files import check_link, open_regular_file, read_bytes, read_lines, safe_repr
from glassformer.files.atomic import write_json

READY = ("tokenizer.json", "vocab.json")
FILES = (*READY, "tokenizer_config.json", "merges.txt", "special_tokens_map.json", "added_tokens.json")
LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
MAX_TOKENS, MAX_LETTERS = 300_000, 256
"""Above the largest vocabularies in use, of some 260,000 tokens, and their longest token, of 128 spaces."""


def copy_tokenizer(source: Path, folder: Path) -> bool:
    """Copy the tokenizer files of a folder, with settings where it has none.

    Returns: whether they make a tokenizer.
    Raises: DataError: unsafe links.
    """
    for name in FILES:
        if (source / name).is_file():
            check_link(source, source / name, DataError)
            stream, _ = open_regular_file(source / name, DataError)
            stream.close()
            copyfile(source / name, folder / name)
    complete = any((folder / name).is_file() for name in READY)
    if complete and not (folder / "tokenizer_config.json").exists():
        write_settings(folder, "<|endoftext|>")
    return complete


def read_tiktoken(path: Path) -> list[str]:
    """The tokens of a `.tiktoken` file by rank, with bytes as letters. Raises: DataError: it is no such file."""
    letters = byte_letters()
    tokens = []
    for number, line in enumerate(filter(None, read_lines(path, DataError))):
        word, _, rank = line.partition(" ")
        try:
            # OpenAI's multilingual vocabulary ends with a token of no bytes.
            content = b"" if word == "=" else base64.b64decode(word, validate=True)
            tokens.append("".join(letters[byte] for byte in content))
        except ValueError:
            rank = ""
        if rank.strip() != str(number):
            raise DataError(
                f"{path}: line {number + 1} is {safe_repr(line)}; it must be a token in base64 and the rank {number}"
            )
    return tokens


def read_token_list(folder: Path) -> list[str]:
    """The tokens of CTranslate2's `vocabulary.json` or `.txt`; [] where there is none. Raises: DataError: damaged."""
    if (path := folder / "vocabulary.json").is_file():
        content = read_bytes(path, DataError)
        try:
            tokens = json.loads(content)
        except (ValueError, RecursionError) as problem:
            raise DataError(f"{path}: is no JSON list of tokens: {problem}") from None
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise DataError(f"{path}: must be a list of tokens")
        return tokens
    path = folder / "vocabulary.txt"
    return read_lines(path, DataError) if path.is_file() else []


def write_byte_level(tokens: Sequence[str], added: Mapping[int, str], folder: Path, where: Path) -> None:
    """Write the tokenizer.json of byte-level byte-pair encoding.

    Args:
        tokens: by id, in the order of their merges, bytes as letters
        added: special tokens by id, after them
    Raises: DataError: tokens that no merges make.
    """
    if len(tokens) > MAX_TOKENS or len(set(tokens)) < len(tokens) or not set(LETTERS) <= set(tokens):
        raise DataError(f"{where}: must list each token once, the 256 bytes among them, at most {MAX_TOKENS} in all")
    ids = {token: number for number, token in enumerate(tokens)}
    engine = Tokenizer(models.BPE(vocab=ids, merges=merges_of(tokens, where)))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    if sorted(added) != list(range(len(tokens), len(tokens) + len(added))):
        raise DataError(
            f"{where}: has {len(tokens)} tokens, but the model's special tokens begin at {min(added, default=0)}; "
            "the vocabulary belongs to another model"
        )
    engine.add_special_tokens([AddedToken(added[number], special=True, normalized=False) for number in sorted(added)])
    (folder / "tokenizer.json").write_text(engine.to_str(), encoding="utf-8")


def merges_of(tokens: Sequence[str], where: Path) -> list[tuple[str, str]]:
    """The merges that make each token of the tokens before it. Raises: DataError: one that they do not make.

    A token of more than one letter is encoded by the tokens before it; the last two parts are its merge.
    """
    ranks: dict[str, int] = {}
    merges = []
    for rank, token in enumerate(tokens):
        if len(token) > MAX_LETTERS:
            raise DataError(f"{where}: token {rank} has {len(token)} letters; at most {MAX_LETTERS} are read")
        parts = list(token)
        while len(parts) > 2:
            known = [(ranks[pair], i) for i in range(len(parts) - 1) if (pair := parts[i] + parts[i + 1]) in ranks]
            if not known:
                break
            _, i = min(known)
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        if len(parts) == 2:
            merges.append((parts[0], parts[1]))
        elif len(parts) > 2:
            raise DataError(f"{where}: token {rank}, {safe_repr(token)}, is not made of two tokens before it")
        ranks[token] = rank
    return merges


def byte_letters() -> list[str]:
    """The letter of each byte, as byte-level vocabularies write it."""
    plain = [byte for byte in range(256) if 33 <= byte <= 126 or 161 <= byte <= 172 or 174 <= byte <= 255]
    others = [byte for byte in range(256) if byte not in set(plain)]
    letters = {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    return [letters[byte] for byte in range(256)]


def write_settings(folder: Path, end: str) -> None:
    """Write tokenizer_config.json, with the token that ends and pads texts."""
    roles = dict.fromkeys(("bos_token", "eos_token", "pad_token", "unk_token"), end)
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "WhisperTokenizer", **roles}, DataError)
