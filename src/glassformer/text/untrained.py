"""Untrained tokenizers: pipeline (normaliser, pre-tokenizer, decoder) and special tokens, without a vocabulary.

untrained_for_family("wordpiece", "bert", lower=True)      as a family's tokenizers are
untrained_like(tokenizer)                                  as a given tokenizer is
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from glassformer.errors import ConfigError, nearest
from glassformer.text.bpe import byte_level_pipeline
from glassformer.text.build import add_special_tokens, wordpiece_pipeline
from glassformer.text.engine import sharing_copy
from glassformer.text.sentencepiece import SPACE_MARKER
from glassformer.text.settings import (
    DEFAULT_SPECIAL_TOKENS,
    MASK_TAKES_SPACE,
    TOKEN_TYPE_FAMILIES,
    ChatTemplates,
    TokenizerSettings,
    normalized_name,
)
from glassformer.text.tokenizer import Tokenizer

DEFAULT_FAMILIES = {
    "byte-bpe": "gpt2",
    "wordpiece": "bert",
    "unigram": "xlmroberta",
    "words": "bert",
    "characters": "llama",
}
"""Algorithms that can be trained, and the family whose special tokens each gets by default."""

SPECIAL_TOKEN_ORDER = {
    **dict.fromkeys(("bert", "convbert", "distilbert", "electra", "mobilebert"), "pad unk cls sep mask"),
    **dict.fromkeys(("bart", "longformer", "roberta", "xlmroberta"), "bos pad eos unk mask"),
    **dict.fromkeys(("t5", "mt5", "longt5"), "pad eos unk"),
    **dict.fromkeys(("llama", "mistral"), "unk bos eos"),
    "gpt2": "eos",
    "marian": "eos unk pad",
    "pegasus": "pad eos mask unk",
}
"""Family → roles of its special tokens in the order of their ids, which are the first, as in published models."""

SENTINEL_COUNT = {**dict.fromkeys(("t5", "mt5", "longt5"), 100)}
"""How many sentinel tokens <extra_id_…> follow the vocabulary, for masked spans; they come on top of its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UntrainedTokenizer:
    """A tokenizer without a vocabulary.

    engine: the pipeline
    added_tokens: special and other unsplit ones, in the order of their ids
    settings: for the folder
    family: whose post-processor it gets; None = the engine has one
    sentinels: tokens whose ids follow the vocabulary
    chat: the templates of conversations
    """

    engine: tokenizers.Tokenizer
    added_tokens: tuple[AddedToken, ...]
    settings: TokenizerSettings
    family: str | None = None
    sentinels: tuple[str, ...] = ()
    chat: ChatTemplates | None = None

    @property
    def engine_json(self) -> dict[str, Any]:
        """The engine as the JSON of a `tokenizer.json`."""
        value: dict[str, Any] = json.loads(self.engine.to_str())
        return value


def untrained_for_family(
    kind: str, family: str | None = None, *, lower: bool = False, strip_accents: bool = False
) -> UntrainedTokenizer:
    """The untrained tokenizer of a family; None = the default family of `kind`.

    Raises: ConfigError: an unknown kind or family, or a family without an unknown token where `kind` needs one.
    """
    if kind not in DEFAULT_FAMILIES:
        raise ConfigError(
            f"kind is {kind!r}; it is one of {', '.join(DEFAULT_FAMILIES)}{nearest(kind, DEFAULT_FAMILIES)}"
        )
    family = DEFAULT_FAMILIES[kind] if family is None else normalized_name(family)
    if family not in SPECIAL_TOKEN_ORDER:
        raise ConfigError(
            f"family is {family!r}; whose special tokens are known: {', '.join(SPECIAL_TOKEN_ORDER)}"
            f"{nearest(family, SPECIAL_TOKEN_ORDER)}"
        )
    order, roles = SPECIAL_TOKEN_ORDER[family].split(), DEFAULT_SPECIAL_TOKENS[family]
    if kind != "byte-bpe" and "unk" not in order:
        raise ConfigError(f"{kind} needs an unknown token, which {family!r} does not have; use byte-bpe")
    tokens = tuple(
        AddedToken(roles[role], special=True, normalized=False, lstrip=role == "mask" and family in MASK_TAKES_SPACE)
        for role in order
    )
    settings = TokenizerSettings(
        roles=dict(roles), token_types=family in TOKEN_TYPE_FAMILIES and kind in ("wordpiece", "words")
    )
    sentinels = tuple(f"<extra_id_{i}>" for i in reversed(range(SENTINEL_COUNT.get(family, 0))))
    engine = PIPELINES[kind](roles, lower, strip_accents, family)
    return UntrainedTokenizer(engine=engine, added_tokens=tokens, settings=settings, family=family, sentinels=sentinels)


def _byte_bpe(roles: Any, lower: bool, strip_accents: bool, family: str) -> tokenizers.Tokenizer:
    engine = byte_level_pipeline(models.BPE(), family, prefix=False)
    if steps := _letters(lower, strip_accents):
        engine.normalizer = steps[0] if len(steps) == 1 else normalizers.Sequence(steps)
    return engine


def _wordpiece(roles: Any, lower: bool, strip_accents: bool, family: str) -> tokenizers.Tokenizer:
    model = models.WordPiece(unk_token=roles["unk"])
    return wordpiece_pipeline(model, lowercase=lower, strip_accents=strip_accents)


def _unigram(roles: Any, lower: bool, strip_accents: bool, family: str) -> tokenizers.Tokenizer:
    engine = tokenizers.Tokenizer(models.Unigram())
    steps = [normalizers.NFKC(), *_letters(lower, strip_accents)]
    engine.normalizer = normalizers.Sequence([*steps, normalizers.Replace(Regex(r"\s+"), " ")])
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(SPACE_MARKER, "always")]
    )
    engine.decoder = decoders.Metaspace(SPACE_MARKER, "always")
    return engine


def _words(roles: Any, lower: bool, strip_accents: bool, family: str) -> tokenizers.Tokenizer:
    model = models.WordLevel(unk_token=roles["unk"])
    return wordpiece_pipeline(model, lowercase=lower, strip_accents=strip_accents)


def _characters(roles: Any, lower: bool, strip_accents: bool, family: str) -> tokenizers.Tokenizer:
    engine = tokenizers.Tokenizer(models.WordLevel(unk_token=roles["unk"]))
    if steps := _letters(lower, strip_accents):
        engine.normalizer = normalizers.Sequence(steps)
    engine.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")  # line feeds too, which `.` leaves out
    engine.decoder = decoders.Fuse()
    return engine


def _letters(lower: bool, strip_accents: bool) -> list[Any]:
    """Normalisation of letters: without accents, in lower case."""
    accents = [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()] if strip_accents else []
    return [*accents, *([normalizers.Lowercase()] if lower else [])]


PIPELINES = {
    "byte-bpe": _byte_bpe,
    "wordpiece": _wordpiece,
    "unigram": _unigram,
    "words": _words,
    "characters": _characters,
}


def untrained_like(tokenizer: Tokenizer) -> UntrainedTokenizer:
    """A tokenizer without its vocabulary."""
    # The list of ids in the files belongs to the old vocabulary.
    config = {key: value for key, value in tokenizer.settings.config.items() if key != "added_tokens_decoder"}
    settings = replace(tokenizer.settings, roles=tokenizer.special_tokens, config=config)
    engine = sharing_copy(tokenizer.engine)
    add_special_tokens(engine, settings)  # of an engine that was not read from a folder they may be ordinary
    added = sorted(engine.get_added_tokens_decoder().items())
    return UntrainedTokenizer(
        engine=engine,
        added_tokens=tuple(token for _, token in added),
        settings=settings,
        chat=tokenizer.chat,
    )
