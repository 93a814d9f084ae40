"""SentencePiece tokenizers (Unigram, BPE), from `spiece.model`, `tokenizer.model`, `source.spm` and the like.

    "Fruit flies"  ->  ▁Fruit▁flies  ->  ▁Fr uit ▁f lies         the marker ▁ stands for the space
    ▁Fr uit ▁f lies  ->  "Fruit flies"                           joined, and the marker replaced: lossless

The file lists the pieces with a score each: a log-probability (Unigram takes the most probable segmentation of a word)
or the order of merges (BPE). The *id* of a piece depends on the family: the models were trained with libraries that
put special tokens before, between and after the pieces.

Sources: Kudo and Richardson 2018; Kudo 2018, section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

from glassformer.errors import DataError
from glassformer.files import read_json_object
from glassformer.text.engine import check_ids, check_unique_ids, guarded
from glassformer.text.sentencepiece_model import (
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    SentencePieceModel,
    VocabularyPiece,
    read_sentencepiece_model,
)
from glassformer.text.settings import DEFAULT_SPECIAL_TOKENS, TokenizerSettings, option

FILES = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "source.spm", "spm.model")

SPACE_MARKER = "▁"

MAX_PIECE_LENGTH = 256
"""In characters; every way of splitting a piece in two is tried, so the time grows with the length."""

MAX_EXTRA_TOKENS = 10_000
"""Published settings files ask for a hundred; this many would be a mistake, or an attack."""

MBART_LANGUAGES = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP "
    "nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"
).split()
MBART50_LANGUAGES = (
    "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE "
    "ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
).split()
"""Those that mBART-50 has after mBART's."""

TARGET_ONLY_SCORE = -1e6
"""The score, per character, of pieces of the target language alone: worse than any segmentation of source pieces."""


def build(path: Path, settings: TokenizerSettings) -> tokenizers.Tokenizer:
    """Build the engine of a SentencePiece file, with its family's ids, without a post-processor."""
    file = read_sentencepiece_model(path)
    family = settings.family
    roles = {**DEFAULT_SPECIAL_TOKENS[family], **settings.roles}
    pieces = LAYOUTS[family](path, file.pieces, roles, settings)
    ids = {piece.text: number for number, piece in enumerate(pieces)}
    if len(ids) != len(pieces):
        duplicate = next(piece.text for number, piece in enumerate(pieces) if ids[piece.text] != number)
        raise DataError(
            f"{path} holds {duplicate!r}, which a {family!r} tokenizer adds itself; check that the file is of this "
            "family"
        )
    unknown = [number for number, piece in enumerate(pieces) if piece.kind == UNKNOWN]
    if len(unknown) != 1:
        raise DataError(f"{path} has {len(unknown)} unknown tokens; there must be one; check the file")
    engine = tokenizers.Tokenizer(_model(path, file, pieces, unknown[0]))
    (_set_text_pipeline if family in UNSPLIT_TEXT else _set_word_pipeline)(engine, path, file, settings)
    engine.add_tokens(
        [
            AddedToken(piece.text, special=piece.kind == CONTROL, normalized=False)
            for piece in pieces
            if piece.kind in (CONTROL, USER_DEFINED) and piece.text not in roles.values()
        ]
    )
    return engine


# ── from pieces to a model ───────────────────────────────────────────────────────────────────────────────


def _model(path: Path, file: SentencePieceModel, pieces: Sequence[VocabularyPiece], unknown: int) -> models.Model:
    doing = f"{path} is not usable"
    if file.algorithm == "unigram":
        scored = [(piece.text, piece.score) for piece in pieces]
        return guarded(doing, models.Unigram, scored, unknown, file.byte_fallback)
    return guarded(
        doing,
        models.BPE,
        vocab={piece.text: number for number, piece in enumerate(pieces)},
        merges=merges_from_pieces(path, pieces),
        unk_token=pieces[unknown].text,
        fuse_unk=True,
        byte_fallback=file.byte_fallback,
    )


def merges_from_pieces(path: Path, pieces: Sequence[VocabularyPiece]) -> list[tuple[str, str]]:
    """BPE merges, which the file does not list: every split of a piece into two others, best score first."""
    ordinary = [piece for piece in pieces if piece.kind == NORMAL and piece.score > TARGET_ONLY_SCORE]
    known = {piece.text for piece in ordinary}
    longest = max((piece.text for piece in ordinary), key=len, default="")
    if len(longest) > MAX_PIECE_LENGTH:
        raise DataError(
            f"{path}: the piece {longest[:40]!r}… has {len(longest)} characters, more than {MAX_PIECE_LENGTH}; "
            "check the file"
        )
    return [
        (piece.text[:split], piece.text[split:])
        for piece in sorted(ordinary, key=lambda piece: -piece.score)
        for split in range(1, len(piece.text))
        if piece.text[:split] in known and piece.text[split:] in known
    ]


# ── normaliser, pre-tokenizer, decoder ───────────────────────────────────────────────────────────────────


def _set_word_pipeline(
    engine: tokenizers.Tokenizer, path: Path, file: SentencePieceModel, settings: TokenizerSettings
) -> None:
    """Word pipeline: normalise -> split at spaces, in most families at any white space -> a marker before each word."""
    prefix = "always" if _has_prefix(path, settings) else "never"
    steps = [
        *_albert_normalizers(path, settings),
        *([normalizers.Lowercase()] if _deberta_option("do_lower_case", path, settings) else []),
        *_character_map(path, file),
    ]
    if steps:
        engine.normalizer = normalizers.Sequence(steps)
    at_spaces = settings.family in SPLITS_AT_SPACES_ONLY
    split = pre_tokenizers.Split(" ", "removed") if at_spaces else pre_tokenizers.WhitespaceSplit()
    by_mark = _deberta_option("split_by_punct", path, settings)
    marks = [pre_tokenizers.Punctuation("isolated")] if by_mark else []
    marker = pre_tokenizers.Metaspace(SPACE_MARKER, prefix)
    engine.pre_tokenizer = pre_tokenizers.Sequence([split, *marks, marker])
    spaced = decoders.Metaspace(SPACE_MARKER, prefix)
    engine.decoder = decoders.Sequence([decoders.ByteFallback(), spaced]) if file.byte_fallback else spaced


def _set_text_pipeline(
    engine: tokenizers.Tokenizer, path: Path, file: SentencePieceModel, settings: TokenizerSettings
) -> None:
    """Unsplit pipeline: a marker before the text and for each space; none is dropped, as pieces may hold several.

    `"legacy": false` in the settings puts the marker only before the very first stretch of text, and not where
    that begins with a space; else each stretch between special tokens gets one.
    """
    prefix = _has_prefix(path, settings)
    config_path = path.with_name("tokenizer_config.json")
    steps = _character_map(path, file)
    if option(settings.config, "legacy", bool, True, config_path):
        prepend = [normalizers.Prepend(SPACE_MARKER)] if prefix else []
        steps = [*steps, *prepend, normalizers.Replace(" ", SPACE_MARKER)]
    else:
        engine.pre_tokenizer = pre_tokenizers.Metaspace(SPACE_MARKER, "first" if prefix else "never", split=False)
    if steps:
        engine.normalizer = normalizers.Sequence(steps)
    decoding = [decoders.Replace(SPACE_MARKER, " "), decoders.ByteFallback(), decoders.Fuse()]
    engine.decoder = decoders.Sequence([*decoding, decoders.Strip(" ", 1, 0)] if prefix else decoding)


def _has_prefix(path: Path, settings: TokenizerSettings) -> bool:
    default = settings.family not in GEMMA
    return option(settings.config, "add_prefix_space", bool, default, path.with_name("tokenizer_config.json"))


def _character_map(path: Path, file: SentencePieceModel) -> list[normalizers.Normalizer]:
    """The file's character normalisation, mostly Unicode's compatibility forms (NFKC): ﬁ to fi, ① to 1."""
    if not file.character_map:
        return []
    doing = f"{path}: its map of characters is damaged"
    step = guarded(doing, normalizers.Precompiled, file.character_map)
    guarded(doing, step.normalize_str, "a ﬁ ①")  # the engine does not check a map before its first use
    return [step]


def _albert_normalizers(path: Path, settings: TokenizerSettings) -> list[normalizers.Normalizer]:
    """ALBERT's and XLNet's normalisation: plain quotes, no accents; ALBERT's lower case."""
    if settings.family not in ("albert", "xlnet"):
        return []
    albert = settings.family == "albert"
    config, config_path = settings.config, path.with_name("tokenizer_config.json")
    steps: list[normalizers.Normalizer] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not (option(config, "keep_accents", bool, False, config_path) and albert):  # the reference's XLNet never does
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if option(config, "do_lower_case", bool, albert, config_path):
        steps.append(normalizers.Lowercase())
    return steps


def _deberta_option(name: str, path: Path, settings: TokenizerSettings) -> bool:
    """DeBERTa v2's options: `do_lower_case`, and `split_by_punct`, each mark a word of its own."""
    config_path = path.with_name("tokenizer_config.json")
    return settings.family == "debertav2" and option(settings.config, name, bool, False, config_path)


# ── ids of pieces, by family ─────────────────────────────────────────────────────────────────────────────

PieceLayout = Callable[[Path, Sequence[VocabularyPiece], dict[str, str], TokenizerSettings], list[VocabularyPiece]]


def _file_order(
    path: Path, pieces: Sequence[VocabularyPiece], roles: dict[str, str], settings: TokenizerSettings
) -> list[VocabularyPiece]:
    """ALBERT, BigBird, Gemma, Llama, XLNet: the position in the file is the id."""
    return list(pieces)


def _deberta_order(
    path: Path, pieces: Sequence[VocabularyPiece], roles: dict[str, str], settings: TokenizerSettings
) -> list[VocabularyPiece]:
    """DeBERTa v2 and v3: the position in the file is the id; after the pieces [MASK], where the file has none."""
    mask = roles["mask"]
    known = any(piece.text == mask for piece in pieces)
    return [*pieces, *([] if known else [VocabularyPiece(mask, kind=CONTROL)])]


def _t5_order(
    path: Path, pieces: Sequence[VocabularyPiece], roles: dict[str, str], settings: TokenizerSettings
) -> list[VocabularyPiece]:
    """T5: after the pieces the sentinel tokens <extra_id_99> … <extra_id_0>, which stand for masked spans."""
    config_path = path.with_name("tokenizer_config.json")
    count = option(settings.config, "extra_ids", int, 100, config_path)
    if not 0 <= count <= MAX_EXTRA_TOKENS:
        raise DataError(f"{config_path}: extra_ids must be from 0 to {MAX_EXTRA_TOKENS:,}, got {count}")
    return [*pieces, *(VocabularyPiece(f"<extra_id_{i}>", kind=CONTROL) for i in reversed(range(count)))]


def _xlmr_order(
    path: Path, pieces: Sequence[VocabularyPiece], roles: dict[str, str], settings: TokenizerSettings
) -> list[VocabularyPiece]:
    """XLM-R: <s> <pad> </s> <unk> for the file's <unk> <s> </s>, then its pieces with ids one higher; <mask> last."""
    _check_dropped(path, pieces, 3)
    begin = [VocabularyPiece(roles[role], kind=CONTROL) for role in ("bos", "pad", "eos")]
    return [
        *begin,
        VocabularyPiece(roles["unk"], kind=UNKNOWN),
        *pieces[3:],
        VocabularyPiece(roles["mask"], kind=CONTROL),
    ]


def _mbart_order(
    path: Path, pieces: Sequence[VocabularyPiece], roles: dict[str, str], settings: TokenizerSettings
) -> list[VocabularyPiece]:
    """mBART: as XLM-R, and before <mask> the codes of its languages: 25, or 52 of mBART-50."""
    *ordered, mask = _xlmr_order(path, pieces, roles, settings)
    codes = MBART_LANGUAGES + (MBART50_LANGUAGES if settings.family == "mbart50" else [])
    return [*ordered, *(VocabularyPiece(code, kind=CONTROL) for code in codes), mask]


def _camembert_order(
    path: Path, pieces: Sequence[VocabularyPiece], roles: dict[str, str], settings: TokenizerSettings
) -> list[VocabularyPiece]:
    """CamemBERT: <s>NOTUSED <pad> </s>NOTUSED <unk> <unk>NOTUSED for the file's <unk>, then its pieces; <mask> last."""
    _check_dropped(path, pieces, 1)
    return [
        VocabularyPiece("<s>NOTUSED", kind=CONTROL),
        VocabularyPiece(roles["pad"], kind=CONTROL),
        VocabularyPiece("</s>NOTUSED", kind=CONTROL),
        VocabularyPiece(roles["unk"], kind=UNKNOWN),
        VocabularyPiece("<unk>NOTUSED", -100.0, CONTROL),
        *pieces[1:],
        VocabularyPiece(roles["mask"], kind=CONTROL),
    ]


def _pegasus_order(
    path: Path, pieces: Sequence[VocabularyPiece], roles: dict[str, str], settings: TokenizerSettings
) -> list[VocabularyPiece]:
    """PEGASUS: <pad> </s> <mask_1> <mask_2> <unk_2> … <unk_102>, then the file's pieces from <unk>, with ids 103 up.

    BigBird's PEGASUS says `"offset": 0`: the position in the file is the id.
    """
    config_path = path.with_name("tokenizer_config.json")
    offset = option(settings.config, "offset", int, 103, config_path)
    if offset == 0:
        return list(pieces)
    if not 2 <= offset <= MAX_EXTRA_TOKENS:
        raise DataError(f"{config_path}: offset must be 0 or from 2 to {MAX_EXTRA_TOKENS:,}, got {offset}")
    _check_dropped(path, pieces, 2)
    sentences = option(settings.config, "mask_token_sent", str, "<mask_1>", config_path)
    begin = [roles["pad"], roles["eos"], sentences, roles["mask"]]
    unused = [VocabularyPiece(f"<unk_{i}>", -100.0, CONTROL) for i in range(2, offset)]
    return [*(VocabularyPiece(token, kind=CONTROL) for token in begin), *unused, *pieces[2:]]


def _marian_order(
    path: Path, pieces: Sequence[VocabularyPiece], roles: dict[str, str], settings: TokenizerSettings
) -> list[VocabularyPiece]:
    """Marian: `vocab.json` holds the ids of both languages; texts are segmented into pieces of the source language.

    With `"separate_vocabs": true` in the settings, it holds those of the source alone, and `target_vocab.json` the
    target's.

    The pieces of the target language get a score so low that a text is segmented into them only where the source
    language has nothing for a character. A piece without an id is split further, where the reference library gives
    the unknown token.
    """
    config_path = path.with_name("tokenizer_config.json")
    separate = option(settings.config, "separate_vocabs", bool, False, config_path)
    vocabulary_path = path.with_name("target_vocab.json" if separate and path.name == "target.spm" else "vocab.json")
    vocabulary = read_json_object(vocabulary_path, DataError, strict=False)
    check_ids(vocabulary, str(vocabulary_path))
    check_unique_ids(vocabulary, str(vocabulary_path))
    if max(vocabulary.values()) != len(vocabulary) - 1:
        raise DataError(
            f"{vocabulary_path} has {len(vocabulary)} tokens and ids up to {max(vocabulary.values())}; "
            "there must be no gaps; check the file"
        )
    for role in ("unk", "eos"):
        if roles[role] not in vocabulary:
            raise DataError(f"{vocabulary_path} lacks {roles[role]!r}; check the file")
    scores = {piece.text: piece.score for piece in pieces if piece.kind == NORMAL}
    if not scores.keys() & vocabulary.keys():
        raise DataError(f"{vocabulary_path} holds no piece of {path.name}; they do not belong together")

    def numbered(token: str) -> VocabularyPiece:
        if token == roles["unk"]:
            return VocabularyPiece(token, TARGET_ONLY_SCORE * len(token), UNKNOWN)
        if token in roles.values():
            return VocabularyPiece(token, TARGET_ONLY_SCORE * len(token), CONTROL)
        if token.startswith(">>") and token.endswith("<<"):  # the code of a target language
            return VocabularyPiece(token, TARGET_ONLY_SCORE * len(token), USER_DEFINED)
        return VocabularyPiece(token, scores.get(token, TARGET_ONLY_SCORE * len(token)))

    return [numbered(token) for token in sorted(vocabulary, key=vocabulary.__getitem__)]


def _check_dropped(path: Path, pieces: Sequence[VocabularyPiece], count: int) -> None:
    """Check that the pieces left out are special tokens; else the file is not of this family."""
    if any(piece.kind not in (CONTROL, UNKNOWN) for piece in pieces[:count]):
        names = " ".join(piece.text for piece in pieces[:count])
        raise DataError(f"{path} begins with {names!r:.80} where {count} special tokens must be; check the file")


LAYOUTS: dict[str, PieceLayout] = {
    "albert": _file_order,
    "bigbird": _file_order,
    "camembert": _camembert_order,
    "debertav2": _deberta_order,
    "gemma": _file_order,
    "gemma2": _file_order,
    "gemma3text": _file_order,
    "llama": _file_order,
    "mistral": _file_order,
    "mixtral": _file_order,
    "phi3": _file_order,
    "t5": _t5_order,
    "mt5": _t5_order,
    "longt5": _t5_order,
    "xlmroberta": _xlmr_order,
    "mbart": _mbart_order,
    "mbart50": _mbart_order,
    "pegasus": _pegasus_order,
    "marian": _marian_order,
    "xlnet": _file_order,
}
FAMILIES = frozenset(LAYOUTS)
SPLITS_AT_SPACES_ONLY = frozenset(("bigbird", "debertav2", "marian", "mbart50", "pegasus"))
GEMMA = frozenset("gemma gemma2 gemma3text".split())
UNSPLIT_TEXT = frozenset("llama mistral mixtral phi3".split()) | GEMMA
