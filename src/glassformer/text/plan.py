"""Everything of a tokenizer but its pieces: the steps before and behind them, special tokens and their places.

fresh("wordpiece", "bert")   what a family's tokenizers have
anew(folder)                 what a given one has
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from glassformer.errors import ConfigError, UnsupportedError, nearest
from glassformer.text.build import build_engine
from glassformer.text.byte_pairs import TRIMMED
from glassformer.text.sentencepiece import MARKER
from glassformer.text.special import CONVENTIONS, MASK_TAKES_SPACE, SEGMENTED, Settings, read_settings, short

KINDS = {"byte-bpe": "gpt2", "wordpiece": "bert", "unigram": "xlmroberta"}
"""What can be learned, and whose special tokens it gets where nobody asks for others."""

ORDERS = {
    **dict.fromkeys(("bert", "convbert", "distilbert", "electra", "mobilebert"), "pad unk cls sep mask"),
    **dict.fromkeys(("bart", "longformer", "roberta", "xlmroberta"), "bos pad eos unk mask"),
    **dict.fromkeys(("t5", "mt5", "longt5"), "pad eos unk"),
    **dict.fromkeys(("llama", "mistral"), "unk bos eos"),
    "gpt2": "eos",
    "marian": "eos unk pad",
    "pegasus": "pad eos mask unk",
}
"""The special tokens of a family in the order of their ids, as its published models have them at the beginning."""

SENTINELS = {**dict.fromkeys(("t5", "mt5", "longt5"), 100)}
"""How many <extra_id_…> stand behind the pieces, for stretches cut out of a text; they come on top of the size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything of a tokenizer but its pieces.

    engine: its steps · tokens: special and other whole ones, in the order of their ids · settings: for the folder
    family: whose frame it gets; None = the engine has one · behind: tokens with ids behind the pieces
    """

    engine: tokenizers.Tokenizer
    tokens: tuple[AddedToken, ...]
    settings: Settings
    family: str | None = None
    behind: tuple[str, ...] = ()

    @property
    def written(self) -> dict[str, Any]:
        """The engine as its file has it."""
        found: dict[str, Any] = json.loads(self.engine.to_str())
        return found


def fresh(kind: str, family: str | None, lower: bool) -> Plan:
    if kind not in KINDS:
        raise ConfigError(f"kind is {kind!r}; it is one of {', '.join(KINDS)}{nearest(kind, KINDS)}")
    family = KINDS[kind] if family is None else short(family)
    if family not in ORDERS:
        raise ConfigError(
            f"family is {family!r}; whose special tokens are known: {', '.join(ORDERS)}{nearest(family, ORDERS)}"
        )
    order, roles = ORDERS[family].split(), CONVENTIONS[family]
    if kind != "byte-bpe" and "unk" not in order:
        raise ConfigError(
            f"{kind} needs a token for what is unknown, which {family!r} has not; take byte-bpe"
        )
    tokens = tuple(
        AddedToken(
            roles[role], special=True, normalized=False, lstrip=role == "mask" and family in MASK_TAKES_SPACE
        )
        for role in order
    )
    settings = Settings(roles=dict(roles), segments=family in SEGMENTED and kind == "wordpiece")
    behind = tuple(f"<extra_id_{i}>" for i in reversed(range(SENTINELS.get(family, 0))))
    engine = PARTS[kind](roles, lower, family)
    return Plan(engine=engine, tokens=tokens, settings=settings, family=family, behind=behind)


def _byte_bpe(roles: Any, lower: bool, family: str) -> tokenizers.Tokenizer:
    engine = tokenizers.Tokenizer(models.BPE())
    if lower:
        engine.normalizer = normalizers.Lowercase()
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    engine.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=family in TRIMMED)
    return engine


def _wordpiece(roles: Any, lower: bool, family: str) -> tokenizers.Tokenizer:
    engine = tokenizers.Tokenizer(models.WordPiece(unk_token=roles["unk"]))
    engine.normalizer = normalizers.BertNormalizer(lowercase=lower)
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece(prefix="##")
    return engine


def _unigram(roles: Any, lower: bool, family: str) -> tokenizers.Tokenizer:
    engine = tokenizers.Tokenizer(models.Unigram())
    steps = [normalizers.NFKC(), *([normalizers.Lowercase()] if lower else [])]
    engine.normalizer = normalizers.Sequence([*steps, normalizers.Replace(Regex(r"\s+"), " ")])
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(MARKER, "always")]
    )
    engine.decoder = decoders.Metaspace(MARKER, "always")
    return engine


PARTS = {"byte-bpe": _byte_bpe, "wordpiece": _wordpiece, "unigram": _unigram}


def anew(folder: Path) -> Plan:
    settings = read_settings(folder, None)
    engine = build_engine(folder, settings)
    if not isinstance(engine.model, (models.BPE, models.WordPiece, models.Unigram)):
        raise UnsupportedError(
            f"{folder}: its vocabulary is of the kind {type(engine.model).__name__}, which is not learned from texts"
        )
    # The files' own list of ids is that of the old vocabulary.
    config = {key: value for key, value in settings.config.items() if key != "added_tokens_decoder"}
    whole = sorted(engine.get_added_tokens_decoder().items())
    return Plan(
        engine=engine, tokens=tuple(token for _, token in whole), settings=replace(settings, config=config)
    )
