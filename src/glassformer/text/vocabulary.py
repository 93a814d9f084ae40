"""Vocabulary of a tokenizer: tokens ↔ ids, special tokens by role, and how it grows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import tokenizers
from tokenizers import AddedToken

from glassformer.errors import ConfigError, DataError
from glassformer.text.engine import as_ids, as_text, guarded, prefix_and_suffix, sharing_copy
from glassformer.text.settings import TokenizerSettings, complete_roles


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens of an engine. It never changes: a token more makes another vocabulary, so running calls keep theirs.

    roles: role → special token: {"cls": "[CLS]", …}
    special_ids: the ids of all special tokens
    prefix_and_suffix: the ids of the special tokens before and after a single text
    last_plausible_id: the largest id that a model of it may give: its tables may have rows that are never used
    """

    engine: tokenizers.Tokenizer
    roles: Mapping[str, str]
    special_ids: frozenset[int]
    prefix_and_suffix: tuple[list[int], list[int]]
    last_plausible_id: int

    @classmethod
    def of(cls, engine: tokenizers.Tokenizer, settings: TokenizerSettings) -> Vocabulary:
        """The vocabulary of an engine; roles that the settings do not name are guessed.

        Raises: DataError: a post-processor that does not work.
        """
        tokens = engine.get_vocab(True)
        roles = complete_roles(settings, tokens)
        unknown = getattr(engine.model, "unk_token", None)
        if unknown in tokens:  # no file may say what the model itself gives for what it does not know
            roles.setdefault("unk", unknown)
        around = guarded("the tokenizer's post-processor does not work", prefix_and_suffix, engine)
        return cls(engine, roles, _special_ids(engine), around, _last_plausible_id(tokens))

    def __len__(self) -> int:
        """The number of tokens, added ones included."""
        return self.engine.get_vocab_size(True)

    def token_of(self, role: str) -> str | None:
        """The special token of a role ("cls"), or None."""
        return self.roles.get(role)

    def id_of(self, role: str) -> int | None:
        """The id of the special token of a role, or None."""
        token = self.roles.get(role)
        return None if token is None else self.engine.token_to_id(token)

    @property
    def padding_id(self) -> int:
        """The id of the pad token, or without one, of the end-of-sequence token. Raises: ConfigError: neither."""
        number = self.id_of("pad")
        number = self.id_of("eos") if number is None else number
        if number is None:
            raise ConfigError("this tokenizer has neither a pad nor an eos token, so it cannot pad; encode one by one")
        return number

    def tokens(self, ids: Iterable[Any]) -> list[str]:
        """The token of each id. Raises: DataError: no ids, or one that the vocabulary does not have."""
        tokens = []
        for number in as_ids(ids):
            token = self.engine.id_to_token(number)
            if token is None:
                raise DataError(f"id {number} is not in the vocabulary of {len(self)} tokens")
            tokens.append(token)
        return tokens

    def id(self, token: Any) -> int:
        """The id of a token, or of the unknown token. Raises: DataError: no text; there is no unknown token either."""
        number = guarded("the token cannot be looked up", self.engine.token_to_id, as_text(token))
        number = self.id_of("unk") if number is None else number
        if number is None:
            raise DataError(f"{token!r} is not in the vocabulary, and there is no unknown token")
        return number

    def with_role(self, role: str, token: Any) -> Vocabulary:
        """The same with one of its tokens as the special token of a role; None: there is none.

        Raises: ConfigError: the vocabulary does not have it.
        """
        content = getattr(token, "content", token)
        if content is None:
            return replace(self, roles={name: value for name, value in self.roles.items() if name != role})
        number = self.engine.token_to_id(content) if isinstance(content, str) else None
        if number is None:
            raise ConfigError(
                f"{role}_token is {content!r:.60}, which is not in the vocabulary; add it first: "
                f"tokenizer.add_special_tokens({{'{role}_token': …}}), then "
                "model.resize_token_embeddings(len(tokenizer))"
            )
        return replace(self, roles={**self.roles, role: content}, special_ids=self.special_ids | {number})

    def with_tokens(self, new: Any, *, special: bool) -> tuple[Vocabulary, int]:
        """The same with more tokens: a text, an `AddedToken`, or several; and how many of them are new.

        Raises: ConfigError: something else, or an empty text.
        """
        tokens = list(new) if isinstance(new, Iterable) and not isinstance(new, str) else [new]
        for token in tokens:
            if not isinstance(token, (str, AddedToken)) or not getattr(token, "content", token):
                raise ConfigError(f"a new token is {token!r:.60}; it must be a text that is not empty")
        engine = sharing_copy(self.engine)
        add = engine.add_special_tokens if special else engine.add_tokens
        added: int = guarded("the tokens cannot be added", add, tokens)
        special_ids, last = self.special_ids | _special_ids(engine), _last_plausible_id(engine.get_vocab(True))
        return replace(self, engine=engine, special_ids=special_ids, last_plausible_id=last), added


class RoleToken:
    """Attributes such as `cls_token`: the special token of one role, or None (also on the class)."""

    def __init__(self, role: str) -> None:
        self.role = role

    def __get__(self, tokenizer: Any, owner: type) -> str | None:
        return None if tokenizer is None else tokenizer.vocabulary.token_of(self.role)

    def __set__(self, tokenizer: Any, token: Any) -> None:
        tokenizer.vocabulary = tokenizer.vocabulary.with_role(self.role, token)


class RoleId:
    """Attributes such as `cls_token_id`: the id of the special token of one role, or None."""

    def __init__(self, role: str) -> None:
        self.role = role

    def __get__(self, tokenizer: Any, owner: type) -> int | None:
        return None if tokenizer is None else tokenizer.vocabulary.id_of(self.role)

    def __set__(self, tokenizer: Any, number: int | None) -> None:
        token = None if number is None else tokenizer.vocabulary.tokens([number])[0]
        tokenizer.vocabulary = tokenizer.vocabulary.with_role(self.role, token)


def _special_ids(engine: tokenizers.Tokenizer) -> frozenset[int]:
    return frozenset(number for number, token in engine.get_added_tokens_decoder().items() if token.special)


def _last_plausible_id(tokens: Mapping[str, int]) -> int:
    largest = max(tokens.values(), default=0)
    return largest + max(16_384, largest // 4)
