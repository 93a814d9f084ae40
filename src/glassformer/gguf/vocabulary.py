"""The tokenizer of a GGUF file, as a tokenizer.json.

    tokenizer.ggml.model   gpt2   byte-level BPE: tokens and merges; `pre` names how texts are split before
                           llama  SentencePiece BPE: tokens with scores, and bytes for unknown characters

Sources: Sennrich et al. 2016; Kudo and Richardson 2018.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from glassformer.errors import DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.files.atomic import disk_errors, write_json, write_text
from glassformer.gguf.header import GGUFHeader
from glassformer.text.sentencepiece import merges_from_pieces
from glassformer.text.sentencepiece_model import CONTROL, UNKNOWN, USER_DEFINED, VocabularyPiece

ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
WORDS = ENDING + r"|[^\r\n\p{L}\p{N}]?\p{L}+|"
DIGIT = r"\p{N}"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


@dataclass(frozen=True)
class Split:
    """How a text is split before the merges.

    Args:
        pattern: what is split off first; None: nothing
        like_gpt2: what remains is split as GPT-2 splits
        whole_words: a word that is a token is that token, whatever the merges make of it
    """

    pattern: str | None = None
    like_gpt2: bool = True
    whole_words: bool = False

    @property
    def step(self) -> pre_tokenizers.PreTokenizer:
        """The step of `tokenizers` that does it, and writes bytes as characters."""
        whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=self.like_gpt2)
        if self.pattern is None:
            return whole
        return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(self.pattern), behavior="isolated"), whole])


def _cased_words(digits: str, ending: str = "") -> Split:
    """Words also begin at a capital after a small letter, as in camelCase."""
    before = r"[^\r\n\p{L}\p{N}]?"
    words = f"{before}{UPPER}*{LOWER}+{ending}|{before}{UPPER}+{LOWER}*{ending}|"
    return Split(words + digits + REST.replace(r"+[\r\n]*", r"+[\r\n/]*", 1), like_gpt2=False)


_LLAMA_3 = Split(WORDS + DIGIT + "{1,3}" + REST, like_gpt2=False, whole_words=True)
SPLITS: dict[str, Split] = {
    **dict.fromkeys(("gpt-2", "olmo", "mpt", "jais", "phi-2", "trillion"), Split()),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"), _LLAMA_3),
    **dict.fromkeys(("dbrx", "smaug-bpe"), replace(_LLAMA_3, whole_words=False)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2", "megrez"), Split(WORDS + DIGIT + REST, like_gpt2=False)),
    **dict.fromkeys(("gpt-4o", "llama4"), _cased_words(DIGIT + "{1,3}", ENDING + "?")),
    "tekken": replace(_cased_words(DIGIT), whole_words=True),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"), Split(DIGIT)),
}
"""`tokenizer.ggml.pre` → how a text is split."""


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
    with disk_errors(folder / "tokenizer.json", DataError):
        write_text(folder / "tokenizer.json", engine.to_str())
        write_json(folder / "tokenizer_config.json", settings)


def _byte_level(header: GGUFHeader, ids: dict[str, int], kinds: list[int]) -> Tokenizer:
    if "tokenizer.ggml.pre" not in header.metadata:
        warnings.warn(
            f"{header.path}: does not say how texts are split (tokenizer.ggml.pre), so they are split as GPT-2's; "
            "where that is wrong the model reads and writes worse: convert it again, by a recent convert_hf_to_gguf.py",
            stacklevel=2,
        )
    split = header.get("tokenizer.ggml.pre", str, "gpt-2")
    if split not in SPLITS:
        raise UnsupportedError(
            f"{header.path}: texts are split as {safe_repr(split)} says; supported: {', '.join(SPLITS)}"
        )
    merges = [tuple(line.split(" ")) for line in header.get("tokenizer.ggml.merges", list)]
    if not all(len(merge) == 2 and {*merge, "".join(merge)} <= ids.keys() for merge in merges):
        raise DataError(f"{header.path}: tokenizer.ggml.merges joins what is no pair of tokens")
    engine = Tokenizer(models.BPE(ids, merges, ignore_merges=SPLITS[split].whole_words))
    engine.pre_tokenizer = SPLITS[split].step
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
