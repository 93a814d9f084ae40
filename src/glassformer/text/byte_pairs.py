"""Byte-pair encoding from `vocab.json` and `merges.txt`: the smallest pieces, merged pair by pair in the file's order.

    low lower  ->  l o w Ġ l o w e r  ->  low Ġlow e r           (bytes as letters: Ġ is the space)

Three ways to begin are in use:

    bytes         GPT-2, RoBERTa, BART, Whisper: words keep the space before them; nothing is ever unknown
    closed bytes  CLIP: lower-cased, spaces dropped, the last piece of a word ends in `</w>`
    closed words  the first GPT: BERT's words, in characters instead of bytes, ending in `</w>`

Sources: Sennrich et al. 2016, section 3.2; Radford et al. 2019, section 2.2; Radford et al. 2021, section 2.4;
Radford et al. 2018, section 4.1.
"""

from __future__ import annotations

from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors

from glassformer.errors import DataError
from glassformer.text.engine import AT_THE_ENDS, check_ids, check_one_id_each, guarded
from glassformer.text.files import read_json_object, read_lines
from glassformer.text.special import CLIP_ROLES, GPT_ROLES, Settings, option

FILES = ("vocab.json",)
BYTES = frozenset(("bart", "data2vectext", "gpt2", "led", "longformer", "roberta", "whisper"))
CLOSED_BYTES = frozenset(("clip", "clipseg"))
CLOSED_WORDS = frozenset(("openaigpt",))
FAMILIES = BYTES | CLOSED_BYTES | CLOSED_WORDS

TRIMMED = BYTES - {"gpt2", "whisper"}
"""Where the place of a piece in the text leaves out the space before it."""

END_OF_WORD = "</w>"

CLIP_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"
"""English endings, words, single digits, and runs of anything else but space."""


def build(path: Path, settings: Settings) -> tokenizers.Tokenizer:
    """The engine of a folder's `vocab.json`, without a frame around the text."""
    vocabulary = read_json_object(path)
    check_ids(vocabulary, str(path))
    check_one_id_each(vocabulary, str(path))
    merges_path = path.with_name("merges.txt")
    if not merges_path.exists():
        raise DataError(f"{merges_path} is missing; byte-pair encoding needs it beside vocab.json")
    merges = _merges(merges_path)
    if settings.family in CLOSED_BYTES:
        return _closed_bytes(path, vocabulary, merges, {**CLIP_ROLES, **settings.roles})
    if settings.family in CLOSED_WORDS:
        return _closed_words(path, vocabulary, merges, {**GPT_ROLES, **settings.roles})
    return _bytes(path, vocabulary, merges, settings)


def _bytes(
    path: Path, vocabulary: dict[str, int], merges: list[tuple[str, str]], settings: Settings
) -> tokenizers.Tokenizer:
    """Split into words with their leading space -> UTF-8 bytes as 256 letters -> merges."""
    prefix = option(settings.config, "add_prefix_space", bool, False, path.with_name("tokenizer_config.json"))
    doing = f"{path} and merges.txt do not fit each other"
    engine = tokenizers.Tokenizer(guarded(doing, models.BPE, vocab=vocabulary, merges=merges))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    engine.decoder = decoders.ByteLevel()
    engine.post_processor = processors.ByteLevel(
        add_prefix_space=prefix, trim_offsets=settings.family in TRIMMED
    )
    return engine


def _closed_bytes(
    path: Path, vocabulary: dict[str, int], merges: list[tuple[str, str]], roles: dict[str, str]
) -> tokenizers.Tokenizer:
    """Compose, one space for any, lower-case -> words without spaces -> bytes as letters -> merges up to `</w>`."""
    engine = tokenizers.Tokenizer(_closed(path, vocabulary, merges, roles["unk"]))
    engine.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    whole = "|".join(rf"<\|{name}\|>" for name in ("startoftext", "endoftext"))
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(f"{whole}|{CLIP_WORDS}"), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    engine.decoder = decoders.Sequence(
        [decoders.ByteLevel(), decoders.Replace(END_OF_WORD, " "), decoders.Replace(AT_THE_ENDS, "")]
    )
    return engine


def _closed_words(
    path: Path, vocabulary: dict[str, int], merges: list[tuple[str, str]], roles: dict[str, str]
) -> tokenizers.Tokenizer:
    """BERT's clean, lower-case words -> characters -> merges up to `</w>`."""
    engine = tokenizers.Tokenizer(_closed(path, vocabulary, merges, roles["unk"]))
    engine.normalizer = normalizers.BertNormalizer(lowercase=True)
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.BPEDecoder(suffix=END_OF_WORD)
    return engine


def _closed(
    path: Path, vocabulary: dict[str, int], merges: list[tuple[str, str]], unknown: str
) -> models.BPE:
    """Pieces at the end of a word differ from the same letters within one: `er</w>`, `er`."""
    if unknown not in vocabulary:
        raise DataError(f"{path} lacks {unknown!r}, which stands for what is unknown; check the file")
    return guarded(
        f"{path} and merges.txt do not fit each other",
        models.BPE,
        vocab=vocabulary,
        merges=merges,
        unk_token=unknown,
        end_of_word_suffix=END_OF_WORD,
    )


def _merges(path: Path) -> list[tuple[str, str]]:
    merges = []
    for number, line in enumerate(read_lines(path), start=1):
        if line.startswith("#version") or not line:
            continue
        parts = line.split(" ")
        if len(parts) != 2 or not all(parts):
            raise DataError(
                f"{path}, line {number}: a merge is two tokens with one space between, got {line!r:.60}"
            )
        merges.append((parts[0], parts[1]))
    return merges
