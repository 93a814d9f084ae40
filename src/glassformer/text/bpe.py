"""Byte-pair encoding (BPE) from `vocab.json` and `merges.txt`: characters or bytes, merged pairwise in file order.

    low lower  ->  l o w Ġ l o w e r  ->  low Ġlow e r           (bytes as letters: Ġ is the space)

Three variants are in use:

    byte-level    GPT-2, GPT-NeoX, RoBERTa, BART, Whisper: words keep the space before them; nothing is ever unknown
    CLIP          byte-level, lower-cased, spaces dropped, the last subword of a word ends in `</w>`
    OpenAI GPT    BERT's words, in characters instead of bytes, ending in `</w>`

Sources: Sennrich et al. 2016, section 3.2; Radford et al. 2019, section 2.2; Radford et al. 2021, section 2.4;
Radford et al. 2018, section 4.1.
"""

from __future__ import annotations

from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors

from glassformer.errors import DataError
from glassformer.files import read_json_object, read_lines
from glassformer.text.engine import OUTER_WHITESPACE, check_ids, check_unique_ids, guarded
from glassformer.text.settings import CLIP_ROLES, GPT_ROLES, TokenizerSettings, option

FILES = ("vocab.json",)
BYTE_LEVEL_FAMILIES = frozenset("bart data2vectext deberta gpt2 gptneox led longformer roberta whisper".split())
CLIP_FAMILIES = frozenset(("clip", "clipseg"))
OPENAI_GPT_FAMILIES = frozenset(("openaigpt",))
FAMILIES = BYTE_LEVEL_FAMILIES | CLIP_FAMILIES | OPENAI_GPT_FAMILIES

COMPOSED_FAMILIES = frozenset(("gptneox",))
"""Byte-level families that compose characters and their accents first (NFC)."""

TRIMS_OFFSETS = BYTE_LEVEL_FAMILIES - {"deberta", "gpt2", "gptneox", "whisper"}
"""Families whose token offsets leave out the space before a word."""

END_OF_WORD = "</w>"

CLIP_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"
"""Pre-tokenisation: English endings, words, single digits, and runs of anything else but space."""


def build(path: Path, settings: TokenizerSettings) -> tokenizers.Tokenizer:
    """Build the BPE engine of a folder's `vocab.json`, without a post-processor."""
    vocabulary = read_json_object(path, DataError, strict=False)
    check_ids(vocabulary, str(path))
    check_unique_ids(vocabulary, str(path))
    merges_path = path.with_name("merges.txt")
    if not merges_path.exists():
        raise DataError(f"{merges_path} is missing; byte-pair encoding needs it next to vocab.json")
    merges = _read_merges(merges_path)
    if settings.family in CLIP_FAMILIES:
        return _clip(path, vocabulary, merges, {**CLIP_ROLES, **settings.roles})
    if settings.family in OPENAI_GPT_FAMILIES:
        return _openai_gpt(path, vocabulary, merges, {**GPT_ROLES, **settings.roles})
    return _byte_level(path, vocabulary, merges, settings)


def _byte_level(
    path: Path, vocabulary: dict[str, int], merges: list[tuple[str, str]], settings: TokenizerSettings
) -> tokenizers.Tokenizer:
    """Byte-level BPE: split into words with their leading space -> UTF-8 bytes as 256 letters -> merges."""
    prefix = option(settings.config, "add_prefix_space", bool, False, path.with_name("tokenizer_config.json"))
    doing = f"{path} and merges.txt do not fit each other"
    model = guarded(doing, models.BPE, vocab=vocabulary, merges=merges)
    return byte_level_pipeline(model, settings.family, prefix=prefix)


def byte_level_pipeline(model: models.BPE, family: str, *, prefix: bool) -> tokenizers.Tokenizer:
    """A byte-level BPE engine; `prefix` puts a space before each text, so that its first word is as any other."""
    engine = tokenizers.Tokenizer(model)
    if family in COMPOSED_FAMILIES:
        engine.normalizer = normalizers.NFC()
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    engine.decoder = decoders.ByteLevel()
    engine.post_processor = processors.ByteLevel(add_prefix_space=prefix, trim_offsets=family in TRIMS_OFFSETS)
    return engine


def _clip(
    path: Path, vocabulary: dict[str, int], merges: list[tuple[str, str]], roles: dict[str, str]
) -> tokenizers.Tokenizer:
    """CLIP: NFC, one space for any, lower-case -> words without spaces -> bytes as letters -> merges up to `</w>`."""
    engine = tokenizers.Tokenizer(_word_final_bpe(path, vocabulary, merges, roles["unk"]))
    engine.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    special = "|".join(rf"<\|{name}\|>" for name in ("startoftext", "endoftext"))
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(f"{special}|{CLIP_PATTERN}"), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    engine.decoder = decoders.Sequence(
        [decoders.ByteLevel(), decoders.Replace(END_OF_WORD, " "), decoders.Replace(OUTER_WHITESPACE, "")]
    )
    return engine


def _openai_gpt(
    path: Path, vocabulary: dict[str, int], merges: list[tuple[str, str]], roles: dict[str, str]
) -> tokenizers.Tokenizer:
    """OpenAI GPT: BERT's clean, lower-case words -> characters -> merges up to `</w>`."""
    engine = tokenizers.Tokenizer(_word_final_bpe(path, vocabulary, merges, roles["unk"]))
    engine.normalizer = normalizers.BertNormalizer(lowercase=True)
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.BPEDecoder(suffix=END_OF_WORD)
    return engine


def _word_final_bpe(path: Path, vocabulary: dict[str, int], merges: list[tuple[str, str]], unknown: str) -> models.BPE:
    """A BPE model in which subwords at the end of a word differ from those within one: `er</w>`, `er`."""
    if unknown not in vocabulary:
        raise DataError(f"{path} lacks {unknown!r}, the unknown token; check the file")
    return guarded(
        f"{path} and merges.txt do not fit each other",
        models.BPE,
        vocab=vocabulary,
        merges=merges,
        unk_token=unknown,
        end_of_word_suffix=END_OF_WORD,
    )


def _read_merges(path: Path) -> list[tuple[str, str]]:
    merges = []
    for number, line in enumerate(read_lines(path, DataError), start=1):
        if line.startswith("#version") or not line:
            continue
        parts = line.split(" ")
        if len(parts) != 2 or not all(parts):
            raise DataError(f"{path}, line {number}: a merge is two tokens with one space between, got {line!r:.60}")
        merges.append((parts[0], parts[1]))
    return merges
