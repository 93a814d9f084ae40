"""A tokenizer as metadata of a GGUF file: the inverse of `vocabulary.py`.

    byte-level BPE (GPT-2, Llama 3, Qwen)     tokens and merges; `pre` names how texts are split before
    SentencePiece BPE (Llama 2, Gemma)        tokens with scores, from the order of the merges

What a file cannot state (another normalisation, another way of splitting) would give other ids without a word. So the
metadata are read again, and both tokenizers have to agree on texts of many scripts and on the vocabulary itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.gguf.header import GGUFHeader
from glassformer.gguf.vocabulary import DIGIT, SPLITS, Split, write_tokenizer
from glassformer.text.sentencepiece import SPACE_MARKER, merges_from_pieces
from glassformer.text.sentencepiece_model import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    VocabularyPiece,
)
from glassformer.text.tokenizer import Tokenizer

PROBES = (
    "Fruit flies like a banana.",
    "  two spaces,\ta tab \n\n and lines\r\n",
    "I'll say it's 1,234.5678 (99%) — isn't IT'S?",
    "def f(x):\n    return x**2  # ok",
    "Zażółć gęślą jaźń; Straße, naïve café",
    "Γλώσσα язык लिपि ภาษา 日本語です 中文 한국어 العربية",
    "emoji 🙂👩‍👩‍👧 ½ ﬁ Ａ ①",
    "",
    " ",
)
GROUP, GROUPS = 12, 250
"""Tokens of a text that is made of the vocabulary, and such texts."""


def tokenizer_metadata(tokenizer: Tokenizer, rows: int) -> dict[str, Any]:
    """The metadata of a tokenizer; rows: of the embedding, each of which has a token.

    Raises: UnsupportedError: a kind that GGUF files of ours do not hold, or one that they would not hold exactly.
    """
    state = json.loads(tokenizer.engine.to_str())
    model = state["model"]
    unlike = [key for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix") if model.get(key)]
    if model["type"] != "BPE" or unlike:
        kind = model["type"] + (f" with {unlike[0]}" if unlike else "")
        raise UnsupportedError(f"the tokenizer is {kind}; written to GGUF files: byte-level BPE and SentencePiece BPE")
    pieces = _pieces(tokenizer, state, rows)
    own = _sentencepiece(pieces, model) if model.get("byte_fallback") else _byte_level(state)
    metadata = {
        **own,
        "tokenizer.ggml.tokens": [piece.text for piece in pieces],
        "tokenizer.ggml.token_type": [piece.kind for piece in pieces],
        **_special(tokenizer),
    }
    _check_equal(tokenizer, metadata)
    return metadata


def _pieces(tokenizer: Tokenizer, state: dict[str, Any], rows: int) -> list[VocabularyPiece]:
    vocabulary = tokenizer.get_vocab()
    texts: dict[int, str] = {number: text for text, number in vocabulary.items()}
    kinds = {token["id"]: CONTROL if token["special"] else USER_DEFINED for token in state["added_tokens"]}
    if state["model"].get("byte_fallback"):
        kinds |= {vocabulary[text]: BYTE for text in (f"<0x{i:02X}>" for i in range(256)) if text in vocabulary}
    if (unknown := vocabulary.get(state["model"].get("unk_token"))) is not None:
        kinds[unknown] = UNKNOWN
    empty = [number for number in range(rows) if number not in texts]
    texts |= {number: f"[PAD{number}]" for number in empty}
    kinds |= dict.fromkeys(empty, UNUSED)
    if max(texts) >= rows or len(set(texts.values())) < len(texts):
        raise ConfigError(
            f"the tokenizer has ids up to {max(texts)} for {rows} rows of the embedding, or a token [PAD…] where a row "
            "has no token; resize the embedding first: model.resize_token_embeddings(len(model.tokenizer))"
        )
    return [VocabularyPiece(texts[i], 0.0, kinds.get(i, NORMAL)) for i in range(rows)]


def _byte_level(state: dict[str, Any]) -> dict[str, Any]:
    model, steps = state["model"], state["pre_tokenizer"] or {}
    steps = steps.get("pretokenizers", [steps])
    level, first = steps[-1], steps[0] if len(steps) == 2 else {}
    pattern = first.get("pattern", {}).get("Regex")
    if first.get("type") == "Digits":
        pattern = DIGIT if first["individual_digits"] else None
    split = Split(pattern, level.get("use_regex", True), bool(model.get("ignore_merges")))
    named = [name for name, known in SPLITS.items() if known == split]
    fits = level.get("type") == "ByteLevel" and len(steps) == 1 + (pattern is not None)
    isolated = first.get("behavior", "Isolated") == "Isolated" and not first.get("invert")
    composed = (state["normalizer"] or {"type": "NFC"})["type"] == "NFC"  # llama.cpp takes texts to be composed
    if not (fits and isolated and composed and named) or level.get("add_prefix_space"):
        raise UnsupportedError(
            "the tokenizer is a BPE that splits or normalises texts in a way that has no name in GGUF files of ours; "
            f"written: byte-level BPE that splits as {', '.join(SPLITS)}"
        )
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    if not merges:
        raise UnsupportedError("the tokenizer is a byte-level BPE without merges: llama.cpp loads no such file")
    return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": named[0], "tokenizer.ggml.merges": merges}


def _sentencepiece(pieces: list[VocabularyPiece], model: dict[str, Any]) -> dict[str, Any]:
    merges = [tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in model["merges"]]
    ranks: dict[str, int] = {}
    for left, right in merges:
        ranks.setdefault(left + right, len(ranks))
    scores = [-float(ranks.get(piece.text, len(ranks))) if piece.kind == NORMAL else 0.0 for piece in pieces]
    scored = [VocabularyPiece(piece.text, score, piece.kind) for piece, score in zip(pieces, scores, strict=True)]
    implied = merges_from_pieces(Path("tokenizer.json"), scored)
    if set(implied) != set(merges) or [a + b for a, b in implied] != [a + b for a, b in merges]:
        raise UnsupportedError(
            "the tokenizer is a BPE with merges that scores of tokens do not imply, as GGUF files need them for "
            "tokenizers with byte fallback; those of SentencePiece models are implied"
        )
    return {"tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default", "tokenizer.ggml.scores": scores}


def _special(tokenizer: Tokenizer) -> dict[str, Any]:
    """Special tokens, where a text begins and ends, and the chat template."""
    ids = {role: tokenizer.get_vocab().get(token) for role, token in tokenizer.special_tokens.items()}
    before, after = tokenizer.prefix_and_suffix
    framed = [[], [ids.get("bos")]], [[], [ids.get("eos")]]
    if before not in framed[0] or after not in framed[1]:
        raise UnsupportedError(
            f"the tokenizer puts the tokens {before} before a text and {after} behind it; GGUF files have place for "
            "the first and last token of a text alone (bos, eos)"
        )
    metadata: dict[str, Any] = {
        f"tokenizer.ggml.{key}_token_id": ids[role]
        for role, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
        if ids.get(role) is not None
    }
    # Before texts that begin with no space SentencePiece writes one, unless the model was trained without.
    marked = tokenizer.tokenize("a")[:1]
    metadata |= {
        "tokenizer.ggml.add_bos_token": bool(before),
        "tokenizer.ggml.add_eos_token": bool(after),
        "tokenizer.ggml.add_space_prefix": bool(marked) and marked[0].startswith(SPACE_MARKER),
    }
    template = tokenizer.chat.sources.get("default")
    return metadata if template is None else metadata | {"tokenizer.chat_template": template}


def _check_equal(tokenizer: Tokenizer, metadata: dict[str, Any]) -> None:
    """Raises: UnsupportedError: the tokenizer that the metadata describe gives other ids."""
    with TemporaryDirectory(prefix="glassformer-gguf-") as name:
        write_tokenizer(GGUFHeader(Path("model.gguf"), metadata, {}), Path(name))
        again = Tokenizer.from_folder(name, model_type="")
    for text in (*PROBES, *_vocabulary_texts(tokenizer)):
        expected, ids = tokenizer(text).input_ids, again(text).input_ids
        if expected != ids:
            raise UnsupportedError(
                f"the tokenizer cannot be written to a GGUF file: it encodes {safe_repr(text[:60])} as "
                f"{expected[:12]}, and a file would give {ids[:12]}; it normalises or splits texts in another way"
            )


def _vocabulary_texts(tokenizer: Tokenizer) -> Sequence[str]:
    """Texts of tokens from all over the vocabulary."""
    ids = sorted(set(tokenizer.get_vocab().values()) - tokenizer.special_ids)
    shuffled = Random(0).choices(ids, k=GROUP * GROUPS)
    return [tokenizer.decode(shuffled[i : i + GROUP]) for i in range(0, len(shuffled), GROUP)]
