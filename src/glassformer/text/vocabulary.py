"""Vocabulary of a tokenizer: tokens and ids, special tokens by role, sizes and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import tokenizers
from tokenizers import AddedToken

from glassformer.errors import ConfigError, DataError, UnsupportedError, nearest
from glassformer.files import is_int
from glassformer.files.atomic import write_text
from glassformer.text.build import SAVED_TARGET_FILE, build_target_engine
from glassformer.text.engine import as_ids, as_text, guarded, prefix_and_suffix, sharing_copy
from glassformer.text.settings import NO_LIMIT, ROLES, TokenizerSettings, complete_roles


class _Token:
    """Attributes such as `cls_token`: the special token of one role, or None (also on the class)."""

    def __init__(self, role: str) -> None:
        self.role = role

    def __get__(self, vocabulary: TokenizerVocabulary | None, owner: type[TokenizerVocabulary]) -> str | None:
        return None if vocabulary is None else vocabulary.token_of(self.role)

    def __set__(self, vocabulary: TokenizerVocabulary, token: Any) -> None:
        vocabulary.set_role(self.role, token)


class _TokenId:
    """Attributes such as `cls_token_id`: the id of the special token of one role, or None."""

    def __init__(self, role: str) -> None:
        self.role = role

    def __get__(self, vocabulary: TokenizerVocabulary | None, owner: type[TokenizerVocabulary]) -> int | None:
        return None if vocabulary is None else vocabulary.id_of(self.role)

    def __set__(self, vocabulary: TokenizerVocabulary, number: int | None) -> None:
        vocabulary.set_role(self.role, None if number is None else vocabulary.convert_ids_to_tokens(number))


class TokenizerVocabulary:
    """The part of a tokenizer that texts are not needed for: tokens ↔ ids, special tokens, sizes, sides."""

    def __init__(self, engine: tokenizers.Tokenizer, settings: TokenizerSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._target: Self | None = None
        self._needs_target = settings.separate_target
        vocabulary = engine.get_vocab(True)
        self._roles = complete_roles(settings, vocabulary)
        unknown = getattr(engine.model, "unk_token", None)
        if unknown in vocabulary:  # no file may say what the model itself gives for what it does not know
            self._roles.setdefault("unk", unknown)
        self._special_ids = _special_ids(engine)
        self.last_plausible_id = _last_plausible_id(vocabulary)
        self._prefix_and_suffix = guarded("the tokenizer's post-processor does not work", prefix_and_suffix, engine)

    def __len__(self) -> int:
        """The number of tokens, added ones included."""
        return self._engine.get_vocab_size(True)

    @property
    def vocab_size(self) -> int:
        """The number of tokens without those added after training."""
        return self._engine.get_vocab_size(False)

    @property
    def cleans_up(self) -> bool:
        """Whether `decode` leaves out spaces before punctuation, as the folder says; never of BPE."""
        return self._settings.config.get("clean_up_tokenization_spaces") is True and not self.is_bpe

    @property
    def is_bpe(self) -> bool:
        """Whether its model is byte-pair encoding."""
        return type(self._engine.model).__name__ == "BPE"

    @property
    def largest_id(self) -> int:
        """The largest token id; a model's embedding table must have a row for it."""
        return max(self._engine.get_vocab(True).values())

    @property
    def model_max_length(self) -> int | None:
        """The longest input in tokens, special ones included, where the folder names one. It can be set."""
        return self._settings.model_max_length

    @model_max_length.setter
    def model_max_length(self, length: int | None) -> None:
        if length is not None and not is_int(length, 1):
            raise ConfigError(f"model_max_length is {length!r:.60}; it must be a number of tokens from 1, or None")
        self._settings = replace(self._settings, model_max_length=None if (length or 0) >= NO_LIMIT else length)

    @property
    def padding_side(self) -> str:
        """ "right" or "left". It can be set."""
        return self._settings.padding_side

    @padding_side.setter
    def padding_side(self, side: str) -> None:
        self._settings = replace(self._settings, padding_side=_side("padding_side", side))

    @property
    def truncation_side(self) -> str:
        """ "right" or "left": where texts that are too long are cut. It can be set."""
        return self._settings.truncation_side

    @truncation_side.setter
    def truncation_side(self, side: str) -> None:
        self._settings = replace(self._settings, truncation_side=_side("truncation_side", side))

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
            write_text(folder / name, engine.to_str(pretty=True))

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

    def get_vocab(self) -> dict[str, int]:
        """Token → id, added ones included."""
        return self._engine.get_vocab(True)

    @property
    def vocab(self) -> dict[str, int]:
        """`get_vocab()`"""
        return self.get_vocab()

    @property
    def added_tokens_decoder(self) -> dict[int, AddedToken]:
        """Id → token, of those added after training."""
        return self._engine.get_added_tokens_decoder()

    def get_added_vocab(self) -> dict[str, int]:
        """Token → id, of those added after training."""
        return {token.content: number for number, token in sorted(self.added_tokens_decoder.items())}

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """The special token of each role: {"cls_token": "[CLS]", …}."""
        return {f"{role}_token": token for role, token in self._roles.items()}

    @property
    def all_special_tokens(self) -> list[str]:
        """All special tokens, those with a role first."""
        others: list[str] = self.convert_ids_to_tokens(sorted(self._special_ids))
        return list(dict.fromkeys([*self._roles.values(), *others]))

    @property
    def all_special_ids(self) -> list[int]:
        ids: list[int] = self.convert_tokens_to_ids(self.all_special_tokens)
        return ids

    @property
    def additional_special_tokens(self) -> list[str]:
        """The special tokens without a role."""
        return [token for token in self.all_special_tokens if token not in self._roles.values()]

    is_fast = True

    @property
    def backend_tokenizer(self) -> tokenizers.Tokenizer:
        """`engine`"""
        return self._engine

    def token_of(self, role: str) -> str | None:
        """The special token of a role ("cls"), or None."""
        return self._roles.get(role)

    def set_role(self, role: str, token: Any) -> None:
        """Make a token of the vocabulary the special token of a role; None: there is none.

        Raises: ConfigError: the vocabulary does not have it.
        """
        content = getattr(token, "content", token)
        if content is None:
            self._roles = {name: value for name, value in self._roles.items() if name != role}
            return
        number = self._engine.token_to_id(content) if isinstance(content, str) else None
        if number is None:
            raise ConfigError(
                f"{role}_token is {content!r:.60}, which is not in the vocabulary; add it first: "
                f"tokenizer.add_special_tokens({{'{role}_token': …}}), then "
                "model.resize_token_embeddings(len(tokenizer))"
            )
        self._roles = {**self._roles, role: content}
        self._special_ids |= {number}

    def add_tokens(self, new_tokens: Any, special_tokens: bool = False) -> int:
        """Add tokens to the vocabulary, which are found in texts before they are split; then resize the model's tables:

            tokenizer.add_tokens(["<user>"])
            model.resize_token_embeddings(len(tokenizer))

        Args:
            new_tokens: a text, an `AddedToken`, or several
            special_tokens: they are left out where those are.
        Returns: how many were added.
        Raises: ConfigError: something else, or an empty text.
        """
        tokens = [new_tokens] if isinstance(new_tokens, (str, AddedToken)) else list(new_tokens)
        for token in tokens:
            if not isinstance(token, (str, AddedToken)) or not getattr(token, "content", token):
                raise ConfigError(f"a new token is {token!r:.60}; it must be a text that is not empty")
        engine = sharing_copy(self._engine)  # calls that run meanwhile keep theirs
        add = engine.add_special_tokens if special_tokens else engine.add_tokens
        added: int = guarded("the tokens cannot be added", add, tokens)
        self._engine, self._special_ids = engine, self._special_ids | _special_ids(engine)
        self.last_plausible_id = _last_plausible_id(engine.get_vocab(True))
        return added

    def add_special_tokens(
        self,
        special_tokens_dict: Mapping[str, Any],
        replace_additional_special_tokens: bool = False,
        replace_extra_special_tokens: bool = False,
    ) -> int:
        """Add special tokens by role, {"pad_token": "[PAD]"}, and others, {"additional_special_tokens": ["<user>"]}.

        Those of before stay; to replace them is not there.
        Returns: how many were new.
        Raises: ConfigError: an unknown key. UnsupportedError: they are to be replaced.
        """
        if replace_additional_special_tokens or replace_extra_special_tokens:
            raise UnsupportedError("special tokens stay special; make a tokenizer without them, or leave replace_… out")
        roles = {f"{role}_token": role for role in ROLES}
        added = 0
        for key, value in special_tokens_dict.items():
            if key not in (*roles, "additional_special_tokens", "extra_special_tokens"):
                raise ConfigError(
                    f"{key!r} names no special token{nearest(str(key), roles)}; known: {', '.join(roles)}"
                )
            added += self.add_tokens(value, special_tokens=True)
            if key in roles:
                self.set_role(roles[key], value)
        return added

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

    def convert_ids_to_tokens(self, ids: Any, skip_special_tokens: bool = False) -> Any:
        """The vocabulary entry of one id, or of each of many.

        Raises: DataError: an id that the vocabulary does not have.
        """
        single = isinstance(ids, int)
        tokens = []
        for number in as_ids([ids] if single else ids):
            if skip_special_tokens and number in self._special_ids and not single:
                continue
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


def _special_ids(engine: tokenizers.Tokenizer) -> frozenset[int]:
    return frozenset(number for number, token in engine.get_added_tokens_decoder().items() if token.special)


def _last_plausible_id(vocabulary: Mapping[str, int]) -> int:
    """The largest id that a model of this vocabulary may give: its tables may have rows that are never used."""
    largest = max(vocabulary.values(), default=0)
    return largest + max(16_384, largest // 4)


def _side(name: str, side: str) -> str:
    if side not in ("left", "right"):
        raise ConfigError(f"{name} is {side!r:.60}; it must be 'left' or 'right'")
    return side
