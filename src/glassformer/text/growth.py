"""Bounds on what a tokenizer makes of a text, checked before the engine runs: a small file can ask for terabytes.

    {"type": "Replace", "pattern": {"String": "o"}, "content": "oooooooo"}, three times over        1 character → 512

The engine does what the file says, and where memory ends it ends the process. So the steps of a file are read first,
and each counts by the most that it can make of a character. Published tokenizers stay below 100, of rare characters.
"""

from __future__ import annotations

import base64
import binascii
import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tokenizers

from glassformer.errors import DataError

MAX_GROWTH = 256
"""How many characters normaliser and pre-tokenizer together, or the decoder, may make of one."""

MAX_ADDED_TOKENS, MAX_COPIES = 1_000, 2
"""How many special tokens the post-processor may put around a text, and how often it may repeat the text."""

MAX_AFFIX_CHARS, MAX_WORD_CHARS = 64, 1_000
"""Lengths that a model may name: of what it puts before or after each piece, and of words (taken in time cubed)."""


def check_growth(parts: Mapping[str, Any], source: str) -> None:
    """Refuse a tokenizer that makes far more of a text than any that was published.

    Args:
        parts: of a `tokenizer.json`: "normalizer", "pre_tokenizer", "post_processor", "decoder", "model".
        source: the file, for the message.

    Raises: DataError: which step of it.
    """
    for names in (("normalizer", "pre_tokenizer"), ("decoder",)):
        growth = _growth([step for name in names for step in _steps(parts.get(name))])
        if growth > MAX_GROWTH:
            raise DataError(
                f"{source}: its {' and '.join(names)} can make {growth:.3g} characters of one; more than {MAX_GROWTH} "
                "is refused (published tokenizers stay below 100)"
            )
    added = copies = 0
    for step in _steps(parts.get("post_processor")):
        counts = [_template_counts(step, name) for name in ("single", "pair")]
        added, copies = added + max(count for count, _ in counts), max(copies, *(count for _, count in counts))
    if added > MAX_ADDED_TOKENS or copies > MAX_COPIES:
        raise DataError(
            f"{source}: its post_processor puts {added} special tokens around each text and repeats it {copies} times; "
            f"at most {MAX_ADDED_TOKENS} and {MAX_COPIES} are allowed"
        )
    model = parts.get("model")
    for key, most in (("continuing_subword_prefix", MAX_AFFIX_CHARS), ("end_of_word_suffix", MAX_AFFIX_CHARS)):
        value = model.get(key) if isinstance(model, Mapping) else None
        if isinstance(value, str) and len(value) > most:
            raise DataError(f"{source}: its {key} has {len(value)} characters; at most {most} are allowed")
    longest = model.get("max_input_chars_per_word") if isinstance(model, Mapping) else None
    if isinstance(longest, int) and longest > MAX_WORD_CHARS:
        raise DataError(f"{source}: its max_input_chars_per_word is {longest}; at most {MAX_WORD_CHARS} is allowed")


def check_engine_growth(engine: tokenizers.Tokenizer, source: str) -> None:
    """`check_growth` for an engine built of vocabulary files, which may bring a normalisation along (SentencePiece)."""
    if engine.normalizer is not None:
        check_growth({"normalizer": json.loads(engine.normalizer.__getstate__())}, source)


def _steps(part: Any) -> Iterator[Mapping[str, Any]]:
    """The steps of a part, which may be sequences of sequences. What is malformed is left to the engine to refuse."""
    if not isinstance(part, Mapping):
        return
    if part.get("type") != "Sequence":
        yield part
        return
    for name in ("normalizers", "pretokenizers", "processors", "decoders"):
        inner = part.get(name)
        for step in inner if isinstance(inner, list) else ():
            yield from _steps(step)


def _growth(steps: Sequence[Mapping[str, Any]]) -> float:
    """The most characters that the steps make of one: growth multiplies where a step reads what an earlier one wrote.

    The Unicode forms and changes of case count with the texts that other steps put in.
    """
    most, of_any, of = 1.0, 1.0, dict[str, float]()  # by later steps: of a character; any, and a certain one
    for step in reversed(steps):
        if step.get("type") == "Replace":
            pattern, factor = _pattern(step), _replace_growth(step)
            after = max(of_any, *(of.get(char, 1.0) for char in _variants(step.get("content"))), 1.0)
        elif rule := _GROWTH.get(str(step.get("type"))):
            pattern, factor, after = "", rule(step), most
        else:
            continue
        growth = max(1.0, factor) * after
        most = max(most, growth)
        of |= {char: max(growth, of.get(char, 1.0)) for char in pattern}
        of_any = of_any if pattern else max(of_any, growth)
    return most


def _pattern(step: Mapping[str, Any]) -> str:
    """The text that is replaced; "" where it is a regular expression, which may match anything."""
    pattern = step.get("pattern")
    text = pattern.get("String") if isinstance(pattern, Mapping) else None
    return text if isinstance(text, str) else ""


def _replace_growth(step: Mapping[str, Any]) -> float:
    length, pattern = _expanded_length(step.get("content")), _pattern(step)
    return length / len(pattern) if pattern else 1 + length  # a regular expression may match between characters


def _variants(text: Any) -> set[str]:
    """The characters of a text, and those that a change of case or of Unicode form makes of them."""
    forms = (text, unicodedata.normalize("NFKD", text), unicodedata.normalize("NFKC", text)) if text else ()
    return {char for form in forms for case in (form, form.lower(), form.upper()) for char in case}


def _expanded_length(text: Any) -> int:
    """The length of a text in the Unicode form in which it is longest: U+FDFA becomes 18 characters."""
    return len(unicodedata.normalize("NFKD", text)) if isinstance(text, str) else 0


def _charsmap_growth(step: Mapping[str, Any]) -> float:
    """The longest text in a SentencePiece table of replacements: size of the trie, trie, texts that end with NUL."""
    table = step.get("precompiled_charsmap")
    try:
        data = base64.b64decode(table) if isinstance(table, str) else b""
    except (binascii.Error, ValueError):
        return 1
    texts = data[4 + int.from_bytes(data[:4], "little") :]
    return max((len(text.decode("utf-8", "replace")) for text in texts.split(b"\0")), default=1)


# Steps that read any character, and may write any.
_GROWTH: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "Prepend": lambda step: 1 + _expanded_length(step.get("prepend")),  # before each stretch between added tokens
    "Precompiled": _charsmap_growth,
    "ByteLevel": lambda step: 2,  # a character for each byte
    "Metaspace": lambda step: 2,  # a mark before each word
}


def _template_counts(step: Mapping[str, Any], name: str) -> tuple[int, int]:
    """How many special tokens a template adds, and how often it has the first text, or the second."""
    pieces, special = step.get(name), step.get("special_tokens")
    added, texts = 0, {"A": 0, "B": 0}
    for piece in pieces if isinstance(pieces, list) else ():
        if not isinstance(piece, Mapping):
            continue
        for kind, value in piece.items():
            key = value.get("id") if isinstance(value, Mapping) else None
            if not isinstance(key, str):
                continue
            if kind == "Sequence" and key in texts:
                texts[key] += 1
            elif isinstance(special, Mapping) and isinstance(special.get(key), Mapping):
                ids = special[key].get("ids")
                added += len(ids) if isinstance(ids, list) else 0
    return added, max(texts.values())
