"""SentencePiece vocabularies: `spiece.model`, `sentencepiece.bpe.model`, `tokenizer.model`, `source.spm`.

    "Fruit flies"  ->  ▁Fruit▁flies  ->  ▁Fr uit ▁f lies         the marker ▁ stands for the space
    ▁Fr uit ▁f lies  ->  "Fruit flies"                           joined, and the marker replaced: nothing is lost

The file names the pieces and says how likely each is (Unigram takes the likeliest way to cut a word) or how
early it was made (byte-pair encoding). Which *id* a piece has is each family's own: the models were trained in
libraries that put special tokens before, between and after.

Sources: Kudo and Richardson 2018; Kudo 2018, section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

from glassformer.errors import DataError, UnsupportedError
from glassformer.text.engine import check_ids, check_one_id_each, guarded
from glassformer.text.files import read_json_object
from glassformer.text.piece_file import (
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    Piece,
    PieceFile,
    read_piece_file,
)
from glassformer.text.special import CONVENTIONS, Settings, option

FILES = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "source.spm")

MARKER = "▁"

LONGEST_PIECE = 256
"""In characters; every way of cutting a piece in two is tried."""

MOST_SENTINELS = 10_000
"""A settings file asks for a hundred; these many would be a mistake, or an attack."""

MBART_LANGUAGES = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP "
    "nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"
).split()

FOREIGN = -1e6
"""The score, a character, of what only the target language uses: worse than any cut into the source's own pieces."""


def build(path: Path, settings: Settings) -> tokenizers.Tokenizer:
    """The engine of a SentencePiece file, with its family's ids, without a frame around the text."""
    file = read_piece_file(path)
    family = settings.family
    roles = {**CONVENTIONS[family], **settings.roles}
    pieces = LAYOUTS[family](path, file.pieces, roles, settings)
    ids = {piece.text: number for number, piece in enumerate(pieces)}
    if len(ids) != len(pieces):
        twice = next(piece.text for number, piece in enumerate(pieces) if ids[piece.text] != number)
        raise DataError(
            f"{path} holds {twice!r}, which a {family!r} tokenizer adds itself; check that the file is of this family"
        )
    unknown = [number for number, piece in enumerate(pieces) if piece.kind == UNKNOWN]
    if len(unknown) != 1:
        raise DataError(
            f"{path} has {len(unknown)} pieces for what is unknown; there must be one; check the file"
        )
    engine = tokenizers.Tokenizer(_model(path, file, pieces, unknown[0]))
    (_whole_text if family in WHOLE_TEXT else _words)(engine, path, file, settings)
    engine.add_tokens(
        [
            AddedToken(piece.text, special=piece.kind == CONTROL, normalized=False)
            for piece in pieces
            if piece.kind in (CONTROL, USER_DEFINED) and piece.text not in roles.values()
        ]
    )
    return engine


# ── from pieces to a model ───────────────────────────────────────────────────────────────────────────────


def _model(path: Path, file: PieceFile, pieces: Sequence[Piece], unknown: int) -> models.Model:
    doing = f"{path} is not usable"
    if file.algorithm == "unigram":
        scored = [(piece.text, piece.score) for piece in pieces]
        return guarded(doing, models.Unigram, scored, unknown, file.byte_fallback)
    return guarded(
        doing,
        models.BPE,
        vocab={piece.text: number for number, piece in enumerate(pieces)},
        merges=_merges(path, pieces),
        unk_token=pieces[unknown].text,
        fuse_unk=True,
        byte_fallback=file.byte_fallback,
    )


def _merges(path: Path, pieces: Sequence[Piece]) -> list[tuple[str, str]]:
    """The file names merged pieces, not merges: every cut of a piece into two others is one, best score first."""
    plain = [piece for piece in pieces if piece.kind == NORMAL and piece.score > FOREIGN]
    known = {piece.text for piece in plain}
    longest = max((piece.text for piece in plain), key=len, default="")
    if len(longest) > LONGEST_PIECE:
        raise DataError(
            f"{path}: the piece {longest[:40]!r}… has {len(longest)} characters, more than {LONGEST_PIECE}; "
            "check the file"
        )
    return [
        (piece.text[:cut], piece.text[cut:])
        for piece in sorted(plain, key=lambda piece: -piece.score)
        for cut in range(1, len(piece.text))
        if piece.text[:cut] in known and piece.text[cut:] in known
    ]


# ── from text to what the model cuts, and back ───────────────────────────────────────────────────────────


def _words(engine: tokenizers.Tokenizer, path: Path, file: PieceFile, settings: Settings) -> None:
    """Normalise -> split at spaces, in most families at any white space -> a marker before each word."""
    prefix = "always" if _has_prefix(path, settings) else "never"
    steps = [*_folded(path, settings), *_mapped(path, file)]
    if steps:
        engine.normalizer = normalizers.Sequence(steps)
    at_spaces = settings.family in ONLY_SPACES
    split = pre_tokenizers.Split(" ", "removed") if at_spaces else pre_tokenizers.WhitespaceSplit()
    engine.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.Metaspace(MARKER, prefix)])
    spaced = decoders.Metaspace(MARKER, prefix)
    engine.decoder = decoders.Sequence([decoders.ByteFallback(), spaced]) if file.byte_fallback else spaced


def _whole_text(engine: tokenizers.Tokenizer, path: Path, file: PieceFile, settings: Settings) -> None:
    """A marker before the text and for each space, of which none is dropped: pieces may hold several.

    `"legacy": false` in the settings puts the marker only before the very first stretch of text, and not where
    that begins with a space; else each stretch between special tokens gets one.
    """
    prefix = _has_prefix(path, settings)
    config_path = path.with_name("tokenizer_config.json")
    steps = _mapped(path, file)
    if option(settings.config, "legacy", bool, True, config_path):
        begun = [normalizers.Prepend(MARKER)] if prefix else []
        steps = [*steps, *begun, normalizers.Replace(" ", MARKER)]
    else:
        engine.pre_tokenizer = pre_tokenizers.Metaspace(MARKER, "first" if prefix else "never", split=False)
    if steps:
        engine.normalizer = normalizers.Sequence(steps)
    back = [decoders.Replace(MARKER, " "), decoders.ByteFallback(), decoders.Fuse()]
    engine.decoder = decoders.Sequence([*back, decoders.Strip(" ", 1, 0)] if prefix else back)


def _has_prefix(path: Path, settings: Settings) -> bool:
    return option(settings.config, "add_prefix_space", bool, True, path.with_name("tokenizer_config.json"))


def _mapped(path: Path, file: PieceFile) -> list[normalizers.Normalizer]:
    """The file's own map of characters, mostly Unicode's compatibility forms: ﬁ to fi, ① to 1."""
    if not file.character_map:
        return []
    doing = f"{path}: its map of characters is damaged"
    step = guarded(doing, normalizers.Precompiled, file.character_map)
    guarded(doing, step.normalize_str, "a ﬁ ①")  # the engine believes a map until it is used
    return [step]


def _folded(path: Path, settings: Settings) -> list[normalizers.Normalizer]:
    """What ALBERT does first: plain quotes, no accents, no capitals."""
    if settings.family != "albert":
        return []
    config, config_path = settings.config, path.with_name("tokenizer_config.json")
    steps: list[normalizers.Normalizer] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not option(config, "keep_accents", bool, False, config_path):
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if option(config, "do_lower_case", bool, True, config_path):
        steps.append(normalizers.Lowercase())
    return steps


# ── which id a piece has ─────────────────────────────────────────────────────────────────────────────────

Layout = Callable[[Path, Sequence[Piece], dict[str, str], Settings], list[Piece]]


def _as_filed(path: Path, pieces: Sequence[Piece], roles: dict[str, str], settings: Settings) -> list[Piece]:
    """ALBERT, BigBird, Llama: the place in the file is the id."""
    return list(pieces)


def _with_sentinels(
    path: Path, pieces: Sequence[Piece], roles: dict[str, str], settings: Settings
) -> list[Piece]:
    """T5: after the pieces <extra_id_99> … <extra_id_0>, which stand for stretches cut out of a text."""
    config_path = path.with_name("tokenizer_config.json")
    count = option(settings.config, "extra_ids", int, 100, config_path)
    if not 0 <= count <= MOST_SENTINELS:
        raise DataError(f"{config_path}: extra_ids must be from 0 to {MOST_SENTINELS:,}, got {count}")
    return [*pieces, *(Piece(f"<extra_id_{i}>", kind=CONTROL) for i in reversed(range(count)))]


def _reordered(path: Path, pieces: Sequence[Piece], roles: dict[str, str], settings: Settings) -> list[Piece]:
    """XLM-R: <s> <pad> </s> <unk> instead of the file's <unk> <s> </s>, then its pieces, one id on; <mask> last."""
    _dropped(path, pieces, 3)
    begin = [Piece(roles[role], kind=CONTROL) for role in ("bos", "pad", "eos")]
    return [
        *begin,
        Piece(roles["unk"], kind=UNKNOWN),
        *pieces[3:],
        Piece(roles["mask"], kind=CONTROL),
    ]


def _with_languages(
    path: Path, pieces: Sequence[Piece], roles: dict[str, str], settings: Settings
) -> list[Piece]:
    """mBART: as XLM-R, and before <mask> the codes of its 25 languages."""
    *most, mask = _reordered(path, pieces, roles, settings)
    return [*most, *(Piece(code, kind=CONTROL) for code in MBART_LANGUAGES), mask]


def _after_masks(
    path: Path, pieces: Sequence[Piece], roles: dict[str, str], settings: Settings
) -> list[Piece]:
    """PEGASUS: <pad> </s> <mask_1> <mask_2> <unk_2> … <unk_102>, then the file's pieces from <unk>, 103 ids on.

    BigBird's PEGASUS says `"offset": 0`: the place in the file is the id.
    """
    config_path = path.with_name("tokenizer_config.json")
    offset = option(settings.config, "offset", int, 103, config_path)
    if offset == 0:
        return list(pieces)
    if not 2 <= offset <= MOST_SENTINELS:
        raise DataError(f"{config_path}: offset must be 0 or from 2 to {MOST_SENTINELS:,}, got {offset}")
    _dropped(path, pieces, 2)
    sentences = option(settings.config, "mask_token_sent", str, "<mask_1>", config_path)
    begin = [roles["pad"], roles["eos"], sentences, roles["mask"]]
    unused = [Piece(f"<unk_{i}>", -100.0, CONTROL) for i in range(2, offset)]
    return [*(Piece(token, kind=CONTROL) for token in begin), *unused, *pieces[2:]]


def _numbered_apart(
    path: Path, pieces: Sequence[Piece], roles: dict[str, str], settings: Settings
) -> list[Piece]:
    """Marian: `vocab.json` numbers the pieces of both languages; only the source's own are to be cut.

    The pieces of the target language have ids too, and a score so low that a text is cut into them only where
    the source language has nothing for a character. A piece that the file does not number is cut further, where
    the reference answers with the unknown token.
    """
    config_path = path.with_name("tokenizer_config.json")
    if option(settings.config, "separate_vocabs", bool, False, config_path):
        raise UnsupportedError(
            f"{config_path} says separate_vocabs: ids that mean one piece in the source and another in the target are "
            "not done; use a model whose two languages share vocab.json"
        )
    vocabulary_path = path.with_name("vocab.json")
    vocabulary = read_json_object(vocabulary_path)
    check_ids(vocabulary, str(vocabulary_path))
    check_one_id_each(vocabulary, str(vocabulary_path))
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

    def numbered(token: str) -> Piece:
        if token == roles["unk"]:
            return Piece(token, FOREIGN * len(token), UNKNOWN)
        if token in roles.values():
            return Piece(token, FOREIGN * len(token), CONTROL)
        if token.startswith(">>") and token.endswith("<<"):  # the language to translate to
            return Piece(token, FOREIGN * len(token), USER_DEFINED)
        return Piece(token, scores.get(token, FOREIGN * len(token)))

    return [numbered(token) for token in sorted(vocabulary, key=vocabulary.__getitem__)]


def _dropped(path: Path, pieces: Sequence[Piece], count: int) -> None:
    """Make sure that the pieces left out are special ones: then the file is one that the layout was made for."""
    if any(piece.kind not in (CONTROL, UNKNOWN) for piece in pieces[:count]):
        names = " ".join(piece.text for piece in pieces[:count])
        raise DataError(
            f"{path} begins with {names!r:.80} where {count} special tokens must be; check the file"
        )


LAYOUTS: dict[str, Layout] = {
    "albert": _as_filed,
    "bigbird": _as_filed,
    "llama": _as_filed,
    "mistral": _as_filed,
    "mixtral": _as_filed,
    "phi3": _as_filed,
    "t5": _with_sentinels,
    "mt5": _with_sentinels,
    "longt5": _with_sentinels,
    "xlmroberta": _reordered,
    "mbart": _with_languages,
    "pegasus": _after_masks,
    "marian": _numbered_apart,
}
FAMILIES = frozenset(LAYOUTS)
ONLY_SPACES = frozenset(("bigbird", "marian", "pegasus"))
WHOLE_TEXT = frozenset("llama mistral mixtral phi3".split())
