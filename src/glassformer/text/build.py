"""Build a tokenizer engine from a model folder: from `tokenizer.json`, which holds everything, or vocabulary files:

vocab.txt                     build_wordpiece   BERT and its kin
vocab.json + merges.txt       bpe.py            GPT-2, GPT-NeoX, RoBERTa, BART, DeBERTa v1, Whisper, CLIP, the first GPT
vocab.json                    characters.py     wav2vec 2.0 and its kin
spiece.model and other names  sentencepiece.py  T5, PEGASUS, XLM-R, CamemBERT, mBART, Llama, Gemma, BigBird, ALBERT,
                                                XLNet, DeBERTa v2 and v3
source.spm + vocab.json       sentencepiece.py  Marian; target.spm in place of source.spm for the target language

The same file name means something else in each family, so the family picks the reader, never the name alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from glassformer.errors import DataError, GlassformerError, UnsupportedError
from glassformer.files import parse_json_object, read_bytes, read_json_object, read_lines
from glassformer.text import bpe, characters, sentencepiece
from glassformer.text.engine import check_ids, guarded
from glassformer.text.growth import check_engine_growth, check_growth
from glassformer.text.settings import (
    BERT_ROLES,
    DEFAULT_SPECIAL_TOKENS,
    MASK_TAKES_SPACE,
    TokenizerSettings,
    complete_roles,
    option,
)


@dataclass(frozen=True, slots=True)
class TokenizerReader:
    """A reader of one kind of vocabulary file.

    Fields:
        files: the file names it can start from, any one of them.
        families: the families whose files it reads.
        build: makes the engine from one of these files.
        assumed: the family of a folder that names none, or "" where the files alone do not say enough.
    """

    files: tuple[str, ...]
    families: frozenset[str]
    build: Callable[[Path, TokenizerSettings], tokenizers.Tokenizer]
    assumed: str = ""


def build_wordpiece(path: Path, settings: TokenizerSettings) -> tokenizers.Tokenizer:
    """A WordPiece engine from `vocab.txt`, one token a line: the id is the line number.

        "Unaffable!"  ->  unaffable · !  ->  un ##aff ##able · !

    Clean, lower-case, strip accents -> split at space and punctuation -> longest match first.
    Source: Devlin et al. 2019, section 3.
    """
    vocabulary = {token: number for number, token in enumerate(read_lines(path, DataError))}
    check_ids(vocabulary, str(path))
    roles = {**BERT_ROLES, **settings.roles}
    for role in ("unk", "cls", "sep"):
        if roles[role] not in vocabulary:
            raise DataError(f"{path} lacks {roles[role]!r}, which every WordPiece text needs; check the file")
    config, config_path = settings.config, path.with_name("tokenizer_config.json")
    return wordpiece_pipeline(
        models.WordPiece(vocabulary, unk_token=roles["unk"]),
        handle_chinese_chars=option(config, "tokenize_chinese_chars", bool, True, config_path),
        strip_accents=option(config, "strip_accents", bool, None, config_path),  # None: as lower-casing
        lowercase=option(config, "do_lower_case", bool, True, config_path),
    )


def wordpiece_pipeline(model: models.WordPiece | models.WordLevel, **normalisation: Any) -> tokenizers.Tokenizer:
    """An engine of WordPiece, or of whole words: BERT's normaliser with these options, pre-tokenizer and decoder."""
    engine = tokenizers.Tokenizer(model)
    engine.normalizer = normalizers.BertNormalizer(**normalisation)
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece(prefix="##")
    return engine


WORDPIECE_FAMILIES = frozenset("bert bigbird convbert distilbert electra layoutlm lxmert mobilebert tapas".split())

READERS = (
    TokenizerReader(("vocab.txt",), WORDPIECE_FAMILIES, build_wordpiece, assumed="bert"),
    TokenizerReader(bpe.FILES, bpe.FAMILIES, bpe.build, assumed="gpt2"),
    TokenizerReader(characters.FILES, characters.FAMILIES, characters.build),
    TokenizerReader(sentencepiece.FILES, sentencepiece.FAMILIES, sentencepiece.build),
)

TOKENIZER_FILES = ("tokenizer.json", *dict.fromkeys(name for reader in READERS for name in reader.files))
"""A folder with any of these files holds a tokenizer."""

PICKLED_BPE = "bpe_encoder.bin"
"""The vocabulary of DeBERTa v1 in its first release."""

TARGET_FILE, SAVED_TARGET_FILE = "target.spm", "target_tokenizer.json"
"""The SentencePiece model of a Marian model's target language; its tokenizer, as `Tokenizer.save` writes it."""


def build_engine(folder: Path, settings: TokenizerSettings) -> tokenizers.Tokenizer:
    """Build the engine that a folder describes, with its special tokens, without padding or truncation.

    Padding and truncation that a `tokenizer.json` may store are left from an earlier call, not part of the
    tokenizer, and are dropped.

    Raises:
        DataError: no tokenizer file, or a damaged one (which file, and what is wrong with it).
        UnsupportedError: a kind of tokenizer that cannot be built from these files.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; give the folder that holds the tokenizer's files")
    if (folder / "tokenizer.json").exists():
        engine = _from_tokenizer_json(folder / "tokenizer.json")
        add_special_tokens(engine, settings)
        return engine
    reader, path = _find_reader(folder, settings)
    settings = settings if settings.family else replace(settings, kind=reader.assumed)
    return _with_special_tokens(reader.build(path, settings), folder, settings)


def build_target_engine(folder: Path, settings: TokenizerSettings) -> tokenizers.Tokenizer | None:
    """Build the engine of the target language, where it has a vocabulary file of its own: Marian's `target.spm`.

    Raises: as `build_engine`.
    """
    path, saved = folder / TARGET_FILE, folder / SAVED_TARGET_FILE
    if settings.family != "marian" or not (path.exists() or saved.exists()):
        return None
    if saved.exists():
        engine = _from_tokenizer_json(saved)
        add_special_tokens(engine, settings)
        return engine
    return _with_special_tokens(sentencepiece.build(path, settings), folder, settings)


def _with_special_tokens(
    engine: tokenizers.Tokenizer, folder: Path, settings: TokenizerSettings
) -> tokenizers.Tokenizer:
    """The engine with its added and special tokens, and the family's post-processor."""
    check_engine_growth(engine, str(folder))
    _add_listed_tokens(engine, folder / "added_tokens.json")
    add_special_tokens(engine, settings)
    add_post_processor(engine, settings, folder)
    return engine


def _from_tokenizer_json(path: Path) -> tokenizers.Tokenizer:
    content = read_bytes(path, DataError)
    try:
        parts = parse_json_object(content, "it", DataError, strict=False)
    except DataError as error:
        raise DataError(f"{path} is not a usable tokenizer: {error}") from error
    check_growth(parts, str(path))
    engine = guarded(f"{path} is not a usable tokenizer", tokenizers.Tokenizer.from_buffer, content)
    engine.no_padding()
    engine.no_truncation()
    check_ids(guarded(f"{path} is not a usable tokenizer", engine.get_vocab, True), str(path))
    return engine


def _find_reader(folder: Path, settings: TokenizerSettings) -> tuple[TokenizerReader, Path]:
    """The first reader for this family whose file is there, and that file.

    The tokenizer class that the files name decides, else the family of the model.
    """
    candidates = [(reader, folder / name) for reader in READERS for name in reader.files if (folder / name).exists()]
    for reader, path in candidates:
        if (settings.family or reader.assumed) in reader.families:
            return reader, path
    if (folder / PICKLED_BPE).exists():
        raise UnsupportedError(
            f"{folder / PICKLED_BPE} is a pickle, which can run any code, and is not read; put the tokenizer's "
            "vocab.json and merges.txt next to it, or its tokenizer.json (which the library that made it saves)"
        )
    if candidates:
        raise _unreadable_error(folder, candidates[0][1], settings)
    raise DataError(
        f"{folder} holds no tokenizer: no tokenizer.json, no vocab.txt, no vocab.json with merges.txt, "
        f"no {', '.join(sentencepiece.FILES)}"
    )


def _unreadable_error(folder: Path, path: Path, settings: TokenizerSettings) -> GlassformerError:
    remedy = "put its tokenizer.json next to it (the library that made it writes one on saving)"
    if not settings.family:
        return UnsupportedError(
            f"{path} does not say which ids its pieces have, and {folder} names no family of models; "
            "put the config.json next to it, or a tokenizer.json"
        )
    named = settings.config.get("tokenizer_class")
    whose = f"of class {named!r}" if settings.kind else f"of a {settings.model_type!r} model"
    return UnsupportedError(f"a tokenizer {whose} cannot be built from {path} alone; {remedy}")


def add_special_tokens(engine: tokenizers.Tokenizer, settings: TokenizerSettings) -> None:
    """Register the special tokens, so that they are matched in text and never split; new ones get the next ids.

    Tokens that the engine has already keep their flags, such as `lstrip` of `<mask>`.
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
    for token in (*settings.special_tokens, *conventional):
        if token.content not in known:
            missing.setdefault(token.content, token)
    guarded("the special tokens cannot be added", engine.add_tokens, list(missing.values()))


def _add_listed_tokens(engine: tokenizers.Tokenizer, path: Path) -> None:
    """Add the tokens of `added_tokens.json` (token -> id), which older folders have next to vocabulary files."""
    listed = read_json_object(path, DataError, strict=False, optional=True)
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


# ── post-processors: the special tokens around a text or a pair, as each family's model was trained ─────────
#
#    BERT      [CLS] A [SEP]        [CLS] A [SEP] B [SEP]       B and what follows have token type 1
#    RoBERTa   <s> A </s>           <s> A </s> </s> B </s>
#    T5        A </s>               A </s> B </s>
#    Llama     <s> A                <s> A <s> B
#
# A `tokenizer.json` holds its post-processor; these are for folders of vocabulary files.

BERT = ("cls A sep", "cls A sep B:1 sep:1")
ROBERTA = ("cls A sep", "cls A sep sep B sep")
CLIP = ("bos A eos", "bos A eos eos B eos")
T5 = ("A eos", "A eos B eos")
PEGASUS = ("A eos", "A B eos")

TEMPLATES = {
    **dict.fromkeys(
        "albert bert bigbird convbert deberta debertav2 distilbert electra layoutlm lxmert mobilebert tapas".split(),
        BERT,
    ),
    **dict.fromkeys("bart camembert data2vectext led longformer roberta xlmroberta".split(), ROBERTA),
    **dict.fromkeys(("clip", "clipseg"), CLIP),
    **dict.fromkeys("t5 mt5 longt5".split(), T5),
    **dict.fromkeys(("pegasus", "marian"), PEGASUS),
    "xlnet": ("A sep cls:2", "A sep B:1 sep:1 cls:2"),
}
"""Templates of one text and of a pair: roles of special tokens, A and B for the texts; `:1` marks token type 1."""

BOS_BY_DEFAULT = {
    **dict.fromkeys("gemma gemma2 gemma3text llama mistral mixtral phi3".split(), True),
    **dict.fromkeys(("gpt2", "gptneox"), False),
}
"""Whether a family's texts begin with its bos token where `add_bos_token` does not say."""


def add_post_processor(engine: tokenizers.Tokenizer, settings: TokenizerSettings, folder: Path) -> None:
    """Set the post-processor that puts the family's special tokens around each text.

    Raises: DataError: a token that belongs there is not in the vocabulary.
    """
    config, config_path = settings.config, folder / "tokenizer_config.json"
    roles = {**DEFAULT_SPECIAL_TOKENS.get(settings.family, {}), **settings.roles}
    if settings.family in TEMPLATES:
        single, pair = TEMPLATES[settings.family]
    elif settings.family in BOS_BY_DEFAULT:
        before = "bos" if option(config, "add_bos_token", bool, BOS_BY_DEFAULT[settings.family], config_path) else ""
        after = "eos" if option(config, "add_eos_token", bool, False, config_path) else ""
        single = f"{before} A {after}"
        pair = f"{single} {before and 'bos:1'} B:1 {after and 'eos:1'}"
    elif settings.family in ("mbart", "mbart50"):
        roles["language"] = option(config, "src_lang", str, "en_XX", config_path)
        before, after = ("", "language") if settings.family == "mbart" else ("language", "")
        single, pair = (f"{before} {texts} eos {after}" for texts in ("A", "A B"))
    elif settings.family == "whisper":
        prompt = _whisper_prompt(settings, config_path)
        roles |= prompt
        single, pair = f"{' '.join(prompt)} A eos", f"{' '.join(prompt)} A B:1 eos:1"
    else:
        return
    _set_template(engine, single.split(), pair.split(), roles, folder)


def _whisper_prompt(settings: TokenizerSettings, config_path: Path) -> dict[str, str]:
    """Whisper's first tokens by role: start, language and task if the settings name them, no timestamps."""
    config = settings.config
    language = option(config, "language", str, "", config_path)
    task = option(config, "task", str, "", config_path)
    names = {"start": "startoftranscript", "language": language, "task": task, "timestamps": "notimestamps"}
    if option(config, "predict_timestamps", bool, False, config_path):
        del names["timestamps"]
    return {role: f"<|{name}|>" for role, name in names.items() if name}


def _set_template(
    engine: tokenizers.Tokenizer, single: list[str], pair: list[str], roles: dict[str, str], folder: Path
) -> None:
    used = {part.partition(":")[0] for part in single + pair} - {"A", "B"}
    if not used:
        return
    for role in sorted(used):
        if role not in roles or engine.token_to_id(roles[role]) is None:
            raise DataError(
                f"{folder}: the vocabulary lacks {roles.get(role)!r}, the {role} token, which every text needs; "
                "check the vocabulary and tokenizer_config.json"
            )
    template = guarded(
        f"{folder}: its special tokens do not make a post-processor",
        processors.TemplateProcessing,
        single=_template_pieces(single, roles),
        pair=_template_pieces(pair, roles),
        special_tokens=[(roles[role], engine.token_to_id(roles[role])) for role in sorted(used)],
    )
    before = engine.post_processor  # byte-level BPE has one that trims offsets; it runs first
    engine.post_processor = processors.Sequence([before, template]) if before is not None else template


def _template_pieces(parts: list[str], roles: dict[str, str]) -> list[str]:
    """The engine's spelling of a template: "cls A sep B:1" -> "[CLS]:0", "$A:0", "[SEP]:0", "$B:1" """
    pieces = []
    for part in parts:
        role, _, token_type = part.partition(":")
        pieces.append(f"{roles.get(role, '$' + role)}:{token_type or 0}")
    return pieces
