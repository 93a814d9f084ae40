"""Constrained decoding: what is said matches a regular expression or a JSON schema, or is one of some texts.

    regex [0-9]+ years
    said          may follow
    ""            3  12  0 …            tokens whose text begins a match
    "12"          4  ▁years  ▁ye …      or goes on with one
    "12 years"    </s>                  the end, exactly where the text is a match

What a text may go on with is found by the package llguidance; here a vocabulary becomes what it reads, and its matchers
a filter.

Source: Willard and Louf 2023; over the bytes of tokens: Koo et al. 2024.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import ConfigError, MissingExtraError
from glassformer.files import shown
from glassformer.generation.said import Said
from glassformer.text.token_bytes import token_bytes
from glassformer.text.tokenizer import Tokenizer
from glassformer.weights.report import clear

AS_DUMPS = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}
"""JSON as `json.dumps` writes it: were any white space allowed, a model could write white space for ever."""

ESCAPED = set(r".^$*+?()[]{}|\/&~-#")
"""What means something in a regular expression."""


@dataclass(frozen=True)
class Grammar:
    """Which texts are allowed: a name for messages, and the rule, as llguidance writes rules.

    Nothing is forced: where only one text can follow, each way to say it in tokens is as free as the model finds it.
    """

    name: str
    rule: str

    @property
    def text(self) -> str:
        return f'%llguidance {{"no_forcing": true}}\nstart: {self.rule}'


def regex(pattern: str) -> Grammar:
    """Texts that match a regular expression as a whole.

    The syntax is that of Rust, which is Python's for all that is usual. It has neither look-around nor references to
    groups, and classes can do more: `[a-z&&b]`, `[[:alpha:]]`.
    """
    return _expression(f"regex {shown(pattern)}", pattern)


def choices(texts: Sequence[str]) -> Grammar:
    """One of these texts."""
    escaped = ("".join("\\" + sign if sign in ESCAPED else sign for sign in text) for text in texts)
    return _expression(f"choices {shown(list(texts))}", "|".join(escaped))


def json_schema(schema: Mapping[str, Any] | str) -> Grammar:
    """JSON texts that a schema allows, written as `json.dumps` does, properties in the order of the schema.

    Raises: ConfigError: no JSON object.
    """
    try:
        read = json.loads(schema) if isinstance(schema, str) else dict(schema)
        if not isinstance(read, dict):
            raise ConfigError(
                f"json_schema is {shown(read)}; a schema is an object such as {{'type': 'number'}}"
            )
        text = json.dumps({"x-guidance": AS_DUMPS, **read})
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"json_schema is no JSON: {error}") from None
    return Grammar("json_schema", f"%json {text}")


def _expression(name: str, pattern: str) -> Grammar:
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:  # it would escape the end that a rule sets
        raise ConfigError(f"{name} cannot be used: it ends with a backslash, which escapes nothing")
    try:
        return Grammar(name, f"/{_guidance().regex_to_lark(pattern, '')}/")
    except UnicodeEncodeError as error:
        raise ConfigError(f"{name} is no valid Unicode: {error.reason}") from None


NOTHING_MORE = "NoExtension"
"""How llguidance's message begins where no text can go on, which is nothing wrong."""


class Constraint:
    """A filter that leaves the tokens that may follow, so that the text of a row is, or can become, a match.

    The text is what `decode` gives of the new tokens, special ones left out. An end token may be said exactly where the
    text is a match, and nothing else where no longer match begins with it; without an end a row is the beginning of a
    match. A special token that is forced says nothing.

    Draws follow the model's distribution, renormalised at each step over what is allowed. That is not its distribution
    over matches: a token is taken as readily as it is likely, however unlikely all that may follow it.

    Args:
        vocabulary: how many tokens logits judge; the tokenizer may know fewer.
        begun: how many columns rows begin with · ends: the tokens that end a row.
    Raises: ConfigError: a grammar that is wrong, too large, or matches nothing that tokens can say; no end token.
        UnsupportedError: a tokenizer whose tokens have no text of their own.
    """

    def __init__(
        self, grammar: Grammar, tokenizer: Tokenizer, *, vocabulary: int, begun: int, ends: Sequence[int]
    ) -> None:
        if not ends:
            raise ConfigError(
                f"{grammar.name} says where a text may end, and the model's files name no end token; give eos_token_id"
            )
        guidance = _guidance()
        self._grammar = grammar
        self._table = _table(tokenizer, vocabulary)
        self._ends = torch.tensor(sorted(set(ends)))
        self._over = _Row(None, allowed=torch.ones(vocabulary, dtype=torch.bool))
        self._lost = _Row(None, allowed=torch.zeros(vocabulary, dtype=torch.bool))
        limits = guidance.LLParserLimits(verbose_errors=False)
        matcher = guidance.LLMatcher(self._table.engine, grammar.text, log_level=0, limits=limits)
        if matcher.is_error():
            raise self._wrong(matcher)
        start = _Row(matcher)
        if not bool(self._allowed(start).any()):
            raise ConfigError(
                f"no text that {grammar.name} allows can be begun with the tokens of this model; ask for another"
            )
        self._rows = Said(start, self._after, begun=begun)

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        allowed = torch.stack([self._allowed(row) for row in self._rows(ids)])
        return logits.masked_fill(~allowed.to(logits.device), -torch.inf)

    def _after(self, row: _Row, token: int) -> _Row:
        """A row that has said one more token."""
        table = self._table
        if row.matcher is None:
            return row
        if token in self._ends:
            return self._over
        if not table.speaks[token]:
            return row
        entry = token if row.begun else int(table.as_first[token])
        if entry < 0:
            return _Row(row.matcher, begun=True)
        matcher = row.matcher.deep_copy()
        # A beam that has no way on is given any token; nothing may follow that either.
        return _Row(matcher, begun=True) if matcher.consume_token(entry) else self._lost

    def _allowed(self, row: _Row) -> Tensor:
        """Which tokens may follow. [V] bool"""
        if row.allowed is None:
            row.allowed = self._compute(row)
        return row.allowed

    def _compute(self, row: _Row) -> Tensor:
        table, matcher = self._table, row.matcher
        complete = matcher.is_accepting()
        bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8), bitorder="little")
        if matcher.is_error() and not matcher.get_error().startswith(NOTHING_MORE):
            raise self._wrong(matcher)
        fit = torch.from_numpy(bits).bool()
        fit[-1] = False
        allowed = fit[: len(table.speaks)]
        if not row.begun:
            # What is silent as the first token, a space that is left out, may stand before whatever may follow.
            silent = table.speaks if complete or bool(allowed.any()) else torch.zeros_like(allowed)
            allowed = torch.where(table.as_first >= 0, fit[table.as_first], silent)
        return allowed.index_fill(0, self._ends, complete)

    def _wrong(self, matcher: Any) -> ConfigError:
        """What llguidance says, in one line."""
        lines = matcher.get_error().splitlines()
        told = next((line for line in lines if line.startswith("error: ")), lines[0])
        return ConfigError(f"{self._grammar.name} cannot be used: {clear(told.split(': ', 1)[-1])}")


class _Row:
    """How far rows that say the same have matched.

    matcher: None where nothing depends on it any more · begun: has it said any text?
    allowed: which tokens may follow, once that was asked for. [V] bool
    """

    def __init__(self, matcher: Any, *, begun: bool = False, allowed: Tensor | None = None) -> None:
        self.matcher = matcher
        self.begun = begun
        self.allowed = allowed


@dataclass(frozen=True, eq=False)
class _Table:
    """A vocabulary as llguidance reads it: the bytes of all tokens, and behind them of those that differ when first.

    engine: its tokenizer · as_first: where a token stands when it is the first of a text, -1 if it is silent there. [V]
    speaks: which tokens add to a text. [V] bool
    """

    engine: Any
    as_first: Tensor
    speaks: Tensor


@lru_cache(maxsize=4)
def _table(tokenizer: Tokenizer, vocabulary: int) -> _Table:
    first, later = token_bytes(tokenizer, vocabulary)
    entries, as_first = list(later), list(range(vocabulary))
    for token, (alone, behind) in enumerate(zip(first, later, strict=True)):
        if alone != behind:
            as_first[token] = len(entries) if alone else -1
            entries += [alone] if alone else []
    words = _Words([*entries, b"<end>"])  # an end of its own: which tokens end a row is said above
    guidance = _guidance()
    engine = guidance.LLTokenizer(guidance.TokenizerWrapper(words))
    return _Table(engine, torch.tensor(as_first), torch.tensor([bool(text) for text in later]))


class _Words:
    """What llguidance asks of a tokenizer."""

    def __init__(self, tokens: list[bytes]) -> None:
        self.tokens = tokens
        self.eos_token_id = len(tokens) - 1
        self.bos_token_id = None
        self.special_token_ids = [self.eos_token_id]

    def __call__(self, text: bytes) -> list[int]:
        raise AssertionError("tokens are asked for what is forced, and nothing is")


def _guidance() -> Any:
    """Raises: MissingExtraError: it is not installed."""
    try:
        import llguidance
    except ImportError:
        raise MissingExtraError("llguidance", "constrain", "a regex, a JSON schema or choices") from None
    return llguidance
