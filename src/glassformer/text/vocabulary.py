"""Vocabulary of a tokenizer: tokens and ids, special tokens by role, sizes and limits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import tokenizers

from glassformer.errors import ConfigError, DataError
from glassformer.text.build import SAVED_TARGET_FILE, build_target_engine
from glassformer.text.engine import as_ids, as_text, guarded, prefix_and_suffix
from glassformer.text.settings import TokenizerSettings, complete_roles


class _Token:
    """Attributes such as `cls_token`: the special token of one role, or None (also on the class)."""

    def __init__(self, role: str) -> None:
        self.role = role

    def __get__(self, vocabulary: TokenizerVocabulary | None, owner: type[TokenizerVocabulary]) -> str | None:
        return None if vocabulary is None else vocabulary.token_of(self.role)


class _TokenId:
    """Attributes such as `cls_token_id`: the id of the special token of one role, or None."""

    def __init__(self, role: str) -> None:
        self.role = role

    def __get__(self, vocabulary: TokenizerVocabulary | None, owner: type[TokenizerVocabulary]) -> int | None:
        return None if vocabulary is None else vocabulary.id_of(self.role)


class TokenizerVocabulary:
    """The part of a tokenizer that texts are not needed for: tokens ↔ ids, special tokens, sizes, sides.

    It never changes after loading.
    """

    def __init__(self, engine: tokenizers.Tokenizer, settings: TokenizerSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._target: Self | None = None
        self._needs_target = settings.separate_target
        self._roles = complete_roles(settings, engine.get_vocab(True))
        self._special_ids = frozenset(
            number for number, token in engine.get_added_tokens_decoder().items() if token.special
        )
        self._prefix_and_suffix = guarded("the tokenizer's post-processor does not work", prefix_and_suffix, engine)

    def __len__(self) -> int:
        """The number of tokens, added ones included."""
        return self._engine.get_vocab_size(True)

    @property
    def vocab_size(self) -> int:
        """The number of tokens without those added after training."""
        return self._engine.get_vocab_size(False)

    @property
    def largest_id(self) -> int:
        """The largest token id; a model's embedding table must have a row for it."""
        return max(self._engine.get_vocab(True).values())

    @property
    def model_max_length(self) -> int | None:
        """The longest input in tokens, special ones included, where the folder names one."""
        return self._settings.model_max_length

    @property
    def padding_side(self) -> str:
        """ "right" or "left"."""
        return self._settings.padding_side

    @property
    def truncation_side(self) -> str:
        """ "right" or "left": where texts that are too long are cut."""
        return self._settings.truncation_side

    def with_target(self, folder: Path) -> Self:
        """This tokenizer with the target's of the same folder, where that has one of its own."""
        engine = build_target_engine(folder, self._settings) if self._needs_target else None
        self._target = None if engine is None else type(self)(engine, self._settings)
        return self

    def save_engine(self, folder: Path) -> None:
        """Write `tokenizer.json`, and `target_tokenizer.json` where there is one. Raises: OSError."""
        engines = {"tokenizer.json": self._engine}
        if self._target is not None:
            engines[SAVED_TARGET_FILE] = self._target.engine
        for name, engine in engines.items():
            (folder / name).write_text(engine.to_str(pretty=True), encoding="utf-8")

    @property
    def model_input_names(self) -> list[str]:
        """The keys that a call returns."""
        return ["input_ids", *(["token_type_ids"] if self._settings.token_types else []), "attention_mask"]

    @property
    def prefix_and_suffix(self) -> tuple[list[int], list[int]]:
        """The ids of the special tokens before and after a single text."""
        return self._prefix_and_suffix

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids of all special tokens."""
        return self._special_ids

    @property
    def special_tokens(self) -> Mapping[str, str]:
        """Role to token: {"cls": "[CLS]", ...}."""
        return dict(self._roles)

    @property
    def engine(self) -> tokenizers.Tokenizer:
        """The engine inside, read-only: changing it would change every later call."""
        return self._engine

    @property
    def padding_id(self) -> int:
        """The padding id: that of the pad token, or without one, of the end-of-sequence token.

        Raises: ConfigError: the tokenizer has neither.
        """
        number = self.pad_token_id if self.pad_token_id is not None else self.eos_token_id
        if number is None:
            raise ConfigError("this tokenizer has neither a pad nor an eos token, so it cannot pad; encode one by one")
        return number

    def token_of(self, role: str) -> str | None:
        """The special token of a role ("cls"), or None."""
        return self._roles.get(role)

    def id_of(self, role: str) -> int | None:
        """The id of the special token of a role, or None."""
        token = self._roles.get(role)
        return None if token is None else self._engine.token_to_id(token)

    bos_token, bos_token_id = _Token("bos"), _TokenId("bos")
    eos_token, eos_token_id = _Token("eos"), _TokenId("eos")
    unk_token, unk_token_id = _Token("unk"), _TokenId("unk")
    sep_token, sep_token_id = _Token("sep"), _TokenId("sep")
    pad_token, pad_token_id = _Token("pad"), _TokenId("pad")
    cls_token, cls_token_id = _Token("cls"), _TokenId("cls")
    mask_token, mask_token_id = _Token("mask"), _TokenId("mask")

    def __repr__(self) -> str:
        kind = type(self._engine.model).__name__
        return f"Tokenizer({kind}, {len(self)} tokens, special: {' '.join(dict.fromkeys(self._roles.values()))})"

    def convert_ids_to_tokens(self, ids: Any) -> Any:
        """The vocabulary entry of one id, or of each of many.

        Raises: DataError: an id that the vocabulary does not have.
        """
        single = isinstance(ids, int)
        tokens = []
        for number in as_ids([ids] if single else ids):
            token = self._engine.id_to_token(number)
            if token is None:
                raise DataError(f"id {number} is not in the vocabulary of {len(self)} tokens")
            tokens.append(token)
        return tokens[0] if single else tokens

    def convert_tokens_to_ids(self, tokens: Any) -> Any:
        """The id of one vocabulary entry, or of each of many; unknown ones give the unknown token's id.

        Raises: DataError: an unknown entry, and the tokenizer has no unknown token.
        """
        if isinstance(tokens, str):
            number = guarded("the token cannot be looked up", self._engine.token_to_id, tokens)
            number = self.unk_token_id if number is None else number
            if number is None:
                raise DataError(f"{tokens!r} is not in the vocabulary, and there is no unknown token")
            return number
        return [self.convert_tokens_to_ids(as_text(token)) for token in tokens]
