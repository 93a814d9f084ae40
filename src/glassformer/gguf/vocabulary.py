"""The tokenizer of a GGUF file, as a tokenizer.json.

    tokenizer.ggml.model   gpt2   byte-level BPE: tokens and merges; `pre` names how texts are split before
                           llama  SentencePiece BPE: tokens with scores, and bytes for unknown characters

Sources: Sennrich et al. 2016; Kudo and Richardson 2018.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from glassformer.errors import DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.files.atomic import write_json
from glassformer.gguf.header import GGUFHeader
from glassformer.text.sentencepiece import merges_from_pieces
from glassformer.text.sentencepiece_model import CONTROL, UNKNOWN, USER_DEFINED, VocabularyPiece

WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS: dict[str, str | None] = {
    "gpt-2": None,
    "llama-bpe": WORDS + r"\p{N}{1,3}" + REST,
    "llama3": WORDS + r"\p{N}{1,3}" + REST,
    "qwen2": WORDS + r"\p{N}" + REST,
}
"""`tokenizer.ggml.pre` → how a text is split; None: as GPT-2's is."""
WHOLE_WORDS = ("llama-bpe", "llama3")
"""Of these, a word that is a token is that token, whatever the merges make of it."""


def write_tokenizer(header: GGUFHeader, folder: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json.

    Raises: UnsupportedError: another kind of tokenizer. ConfigError, DataError: what is wrong with it.
    """
    kind = header.get("tokenizer.ggml.model", str)
    tokens = header.get("tokenizer.ggml.tokens", list)
    if len(set(tokens)) < len(tokens) or not all(isinstance(token, str) for token in tokens):
        raise DataError(f"{header.path}: tokenizer.ggml.tokens holds a token twice, or what is no text")
    ids = {token: number for number, token in enumerate(tokens)}
    kinds = header.get("tokenizer.ggml.token_type", list, [1] * len(tokens))
    if len(kinds) != len(tokens):
        raise DataError(f"{header.path}: tokenizer.ggml.token_type has {len(kinds)} entries for {len(tokens)} tokens")
    try:
        engine = {"gpt2": _byte_level, "llama": _sentencepiece}[kind](header, ids, kinds)
    except KeyError:
        raise UnsupportedError(
            f"{header.path}: the tokenizer is {safe_repr(kind)}; read from GGUF files: gpt2 and llama"
        ) from None
    special = [
        AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, kinds, strict=True) if k == CONTROL
    ]
    own = [AddedToken(t, normalized=False) for t, k in zip(tokens, kinds, strict=True) if k == USER_DEFINED]
    engine.add_special_tokens(special)
    engine.add_tokens(own)
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    for role, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        number = header.metadata.get(f"tokenizer.ggml.{key}_token_id")
        if isinstance(number, int) and 0 <= number < len(tokens):
            settings[f"{role}_token"] = tokens[number]
    ends = [
        [token]
        if (token := settings.get(f"{role}_token")) and header.get(f"tokenizer.ggml.add_{role}_token", bool, default)
        else []
        for role, default in (("bos", kind == "llama"), ("eos", False))
    ]
    if any(ends):
        first, last = ends
        second = [f"{token}:1" for token in last]
        engine.post_processor = processors.TemplateProcessing(
            single=[*first, "$A", *last],
            pair=[*first, "$A", *last, *first, "$B:1", *second],
            special_tokens=[(token, ids[token]) for token in {*first, *last}],
        )
    if isinstance(template := header.metadata.get("tokenizer.chat_template"), str):
        settings["chat_template"] = template
    engine.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", settings)


def _byte_level(header: GGUFHeader, ids: dict[str, int], kinds: list[int]) -> Tokenizer:
    split = header.get("tokenizer.ggml.pre", str, "gpt-2")
    if split not in SPLITS:
        raise UnsupportedError(
            f"{header.path}: texts are split as {safe_repr(split)} says; supported: {', '.join(SPLITS)}"
        )
    merges = [tuple(line.split(" ")) for line in header.get("tokenizer.ggml.merges", list)]
    if not all(len(merge) == 2 and {*merge, "".join(merge)} <= ids.keys() for merge in merges):
        raise DataError(f"{header.path}: tokenizer.ggml.merges joins what is no pair of tokens")
    engine = Tokenizer(models.BPE(ids, merges, ignore_merges=split in WHOLE_WORDS))
    pattern = SPLITS[split]
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    engine.pre_tokenizer = (
        whole
        if pattern is None
        else pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), behavior="isolated"), whole])
    )
    engine.decoder = decoders.ByteLevel()
    return engine


def _sentencepiece(header: GGUFHeader, ids: dict[str, int], kinds: list[int]) -> Tokenizer:
    scores = header.get("tokenizer.ggml.scores", list)
    if len(scores) != len(ids):
        raise DataError(f"{header.path}: tokenizer.ggml.scores has {len(scores)} entries for {len(ids)} tokens")
    tokens = zip(ids, scores, kinds, strict=True)
    merges = merges_from_pieces(header.path, [VocabularyPiece(*token) for token in tokens])
    unknown = next((token for token, i in ids.items() if kinds[i] == UNKNOWN), None)
    engine = Tokenizer(models.BPE(ids, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    prefixed = header.get("tokenizer.ggml.add_space_prefix", bool, True)
    steps: list[Any] = [normalizers.Prepend("▁")] if prefixed else []
    engine.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
    shown: list[Any] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    engine.decoder = decoders.Sequence([*shown, decoders.Strip(" ", 1, 0)] if prefixed else shown)
    return engine
