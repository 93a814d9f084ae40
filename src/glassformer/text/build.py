"""From the files of a folder to an engine, in this order of preference:

tokenizer.json            the engine's own file, everything in it
vocab.txt                 WordPiece, as BERT
vocab.json + merges.txt   byte-level BPE, as GPT-2
"""

from __future__ import annotations

from pathlib import Path

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from glassformer.errors import DataError, UnsupportedError
from glassformer.text.engine import check_ids, guarded
from glassformer.text.files import read_bytes, read_json_object, read_lines, read_optional_json_object
from glassformer.text.special import BERT_ROLES, Settings, complete_roles, option, short

WORDPIECE_KINDS = frozenset(("", "bert", "convbert", "distilbert", "electra", "lxmert", "mobilebert"))
BYTE_LEVEL_KINDS = frozenset(("", "gpt2"))


TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json")  # any of them makes a tokenizer's folder


def build_engine(folder: Path, settings: Settings) -> tokenizers.Tokenizer:
    """The engine that a folder describes, without padding or truncation, its special tokens in place.

    Padding and truncation that a `tokenizer.json` may store are somebody's last call, not part of the
    tokenizer, and are dropped.

    Raises:
        DataError: no tokenizer file, or a damaged one (which file, and what is wrong with it).
        UnsupportedError: a kind of tokenizer that cannot be built from these files.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; give the folder that holds the tokenizer's files")
    if (folder / "tokenizer.json").exists():
        engine = _from_tokenizer_json(folder / "tokenizer.json")
    elif (folder / "vocab.txt").exists():
        engine = _wordpiece(folder, settings)
        _add_listed_tokens(engine, folder / "added_tokens.json")
    elif (folder / "vocab.json").exists():
        engine = _byte_level(folder, settings)
        _add_listed_tokens(engine, folder / "added_tokens.json")
    else:
        raise _nothing_found(folder)
    _add_special_tokens(engine, settings)
    return engine


def _from_tokenizer_json(path: Path) -> tokenizers.Tokenizer:
    content = read_bytes(path)
    engine = guarded(f"{path} is not a usable tokenizer", tokenizers.Tokenizer.from_buffer, content)
    engine.no_padding()
    engine.no_truncation()
    check_ids(guarded(f"{path} is not a usable tokenizer", engine.get_vocab, True), str(path))
    return engine


def _wordpiece(folder: Path, settings: Settings) -> tokenizers.Tokenizer:
    """BERT: clean, lower-case, strip accents -> split at space and punctuation -> longest pieces first.

    Source: Devlin et al. 2019, section 3; the vocabulary is one token a line, the id is the line number.
    """
    _require_kind(settings, WORDPIECE_KINDS, folder / "vocab.txt")
    path, config_path = folder / "vocab.txt", folder / "tokenizer_config.json"
    vocabulary = {token: number for number, token in enumerate(read_lines(path))}
    check_ids(vocabulary, str(path))
    roles = {**BERT_ROLES, **settings.roles}
    for role in ("unk", "cls", "sep"):
        if roles[role] not in vocabulary:
            raise DataError(f"{path} lacks {roles[role]!r}, which every WordPiece text needs; check the file")
    config = settings.config
    model = models.WordPiece(vocabulary, unk_token=roles["unk"])
    engine = tokenizers.Tokenizer(model)
    engine.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=option(config, "tokenize_chinese_chars", bool, True, config_path),
        strip_accents=option(config, "strip_accents", bool, None, config_path),  # None: as lower-casing
        lowercase=option(config, "do_lower_case", bool, True, config_path),
    )
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece(prefix="##")
    cls, sep = roles["cls"], roles["sep"]
    engine.post_processor = processors.TemplateProcessing(
        single=[cls, "$A", sep],
        pair=[cls, "$A", sep, "$B:1", f"{sep}:1"],
        special_tokens=[(cls, vocabulary[cls]), (sep, vocabulary[sep])],
    )
    return engine


def _byte_level(folder: Path, settings: Settings) -> tokenizers.Tokenizer:
    """GPT-2: split into words with their leading space -> UTF-8 bytes as 256 letters -> merges in order.

    Source: Radford et al. 2019, section 2.2.
    """
    path, merges_path = folder / "vocab.json", folder / "merges.txt"
    config_path = folder / "tokenizer_config.json"
    _require_kind(settings, BYTE_LEVEL_KINDS, path)
    if not merges_path.exists():
        raise DataError(f"{merges_path} is missing; byte-level BPE needs it beside vocab.json")
    vocabulary = read_json_object(path)
    check_ids(vocabulary, str(path))
    model = guarded(
        f"{path} and merges.txt do not fit each other",
        models.BPE,
        vocab=vocabulary,
        merges=_merges(merges_path),
    )
    prefix = option(settings.config, "add_prefix_space", bool, False, config_path)
    engine = tokenizers.Tokenizer(model)
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    engine.decoder = decoders.ByteLevel()
    engine.post_processor = processors.ByteLevel(trim_offsets=False)
    if option(settings.config, "add_bos_token", bool, False, config_path):
        bos = complete_roles(settings, vocabulary).get("bos")
        if bos not in vocabulary:
            raise DataError(f"{config_path} asks for a bos token, but {path} holds none ({bos!r})")
        engine.post_processor = processors.TemplateProcessing(
            single=[bos, "$A"], pair=[bos, "$A", f"{bos}:1", "$B:1"], special_tokens=[(bos, vocabulary[bos])]
        )
    return engine


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


def _add_special_tokens(engine: tokenizers.Tokenizer, settings: Settings) -> None:
    """Make the engine find the special tokens in text, as whole tokens; missing ones get the next ids.

    Already known ones keep their own flags, such as swallowing the space before `<mask>`.
    """
    known = {token.content for token in engine.get_added_tokens_decoder().values()}
    vocabulary = engine.get_vocab(True)
    roles = complete_roles(settings, vocabulary)
    conventional = (AddedToken(token, special=True, normalized=False) for token in roles.values())
    for token in (*settings.named, *conventional):
        if token.content not in known:
            known.add(token.content)
            add = engine.add_special_tokens if token.special else engine.add_tokens
            guarded(f"the special token {token.content!r} cannot be added", add, [token])


def _add_listed_tokens(engine: tokenizers.Tokenizer, path: Path) -> None:
    """Add the tokens of `added_tokens.json`, an older list beside vocabulary files: token -> id."""
    listed = read_optional_json_object(path)
    if not listed:
        return
    check_ids({**engine.get_vocab(True), **listed}, str(path))
    for token, number in sorted(listed.items(), key=lambda item: item[1]):
        guarded(
            f"{path}: {token!r} cannot be added", engine.add_tokens, [AddedToken(token, normalized=False)]
        )
        if engine.token_to_id(token) != number:
            raise DataError(
                f"{path}: {token!r} has the id {number}, but the vocabulary file gives it {engine.token_to_id(token)}; "
                "the two files do not belong together"
            )


def _require_kind(settings: Settings, kinds: frozenset[str], path: Path) -> None:
    """The class that the files name decides, else the family of the model: other families spell the same files too."""
    if (settings.kind or short(settings.model_type)) not in kinds:
        named = settings.config.get("tokenizer_class")
        whose = f"of class {named!r}" if settings.kind else f"of a {settings.model_type!r} model"
        raise UnsupportedError(
            f"a tokenizer {whose} cannot be built from {path} alone; "
            "put its tokenizer.json beside it (the library that made it writes one on saving)"
        )


def _nothing_found(folder: Path) -> DataError | UnsupportedError:
    pieces = [
        name
        for name in ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model")
        if (folder / name).exists()
    ]
    if pieces:
        return UnsupportedError(
            f"{folder / pieces[0]} is a SentencePiece file, which is not read; "
            "put a tokenizer.json beside it (the library that made it writes one on saving)"
        )
    return DataError(
        f"{folder} holds no tokenizer: no tokenizer.json, no vocab.txt, no vocab.json with merges.txt"
    )
