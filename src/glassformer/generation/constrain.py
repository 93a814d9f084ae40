"""Constrained decoding (guided generation): text that matches a regex or a JSON schema, or is one of given texts.

    regex [0-9]+ years
    text          may follow
    ""            3  12  0 …            tokens whose text begins a match
    "12"          4  ▁years  ▁ye …      or continues with one
    "12 years"    </s>                  the end, exactly where the text is a match

The package llguidance computes which tokens may follow; this module gives it the vocabulary, and makes its matchers a
logit filter.

Source: Willard and Louf 2023; over the bytes of tokens: Koo et al. 2024.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import ConfigError, import_optional
from glassformer.files import safe_repr
from glassformer.generation.filters import PrefixStates
from glassformer.text.token_bytes import token_bytes
from glassformer.text.tokenizer import Tokenizer
from glassformer.weights.report import printable

if TYPE_CHECKING:
    from glassformer.generation.options import GenerationOptions

AS_DUMPS = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}
"""JSON format of `json.dumps`: if any white space were allowed, a model could generate white space without end."""

ESCAPED = set(r".^$*+?()[]{}|\/&~-#")
"""Characters with a meaning in regular expressions."""


@dataclass(frozen=True)
class Grammar:
    """Grammar of the allowed texts: a name for messages, and a rule in llguidance's Lark syntax."""

    name: str
    rule: str

    @property
    def text(self) -> str:
        """The grammar for llguidance."""
        # no_forcing: where only one text can follow, the model still chooses between its tokenizations.
        return f'%llguidance {{"no_forcing": true}}\nstart: {self.rule}'


def grammar_of(options: GenerationOptions) -> Grammar | None:
    """The grammar that the options ask for."""
    if options.regex is not None:
        return regex(options.regex)
    if options.json_schema is not None:
        return json_schema(options.json_schema)
    return None if options.choices is None else choices(options.choices)


def regex(pattern: str) -> Grammar:
    """Grammar of texts that fully match a regular expression.

    The syntax is Rust's, which mostly equals Python's. It has no look-around and no backreferences, but set operations
    in character classes: `[a-z&&b]`, `[[:alpha:]]`.
    """
    return _expression(f"regex {safe_repr(pattern)}", pattern)


def choices(texts: Sequence[str]) -> Grammar:
    """Grammar of a choice between texts."""
    escaped = ("".join("\\" + char if char in ESCAPED else char for char in text) for text in texts)
    return _expression(f"choices {safe_repr(list(texts))}", "|".join(escaped))


def json_schema(schema: Mapping[str, Any] | str) -> Grammar:
    """Grammar of JSON texts that a schema allows, formatted as by `json.dumps`, properties in the schema's order.

    Raises: ConfigError: the schema is not a JSON object.
    """
    try:
        parsed = json.loads(schema) if isinstance(schema, str) else dict(schema)
        if not isinstance(parsed, dict):
            raise ConfigError(f"json_schema is {safe_repr(parsed)}; a schema is an object such as {{'type': 'number'}}")
        _check_numbers(parsed)
        text = json.dumps({"x-guidance": AS_DUMPS, **parsed})
    except ConfigError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"json_schema is invalid JSON: {error}") from None
    return Grammar("json_schema", f"%json {text}")


def _check_numbers(schema: Any) -> None:
    """Raises: ConfigError: a number that no 64-bit float holds, which the grammar would silently round."""
    if isinstance(schema, (Mapping, list, tuple)):
        for value in schema.values() if isinstance(schema, Mapping) else schema:
            _check_numbers(value)
    if isinstance(schema, float) and not math.isfinite(schema):
        raise ConfigError(f"json_schema holds {schema}, which is no JSON number")
    if isinstance(schema, int) and (abs(schema) > 2**1023 or int(float(schema)) != schema):
        raise ConfigError(
            f"json_schema holds {safe_repr(schema)}, which a 64-bit float does not hold exactly; whole numbers up to "
            "2**53 are exact"
        )


def _expression(name: str, pattern: str) -> Grammar:
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:  # it would escape the slash that ends the rule
        raise ConfigError(f"{name} cannot be used: it ends with a backslash, which escapes nothing")
    try:
        return Grammar(name, f"/{_guidance().regex_to_lark(pattern, '')}/")
    except UnicodeEncodeError as error:
        raise ConfigError(f"{name} is invalid Unicode: {error.reason}") from None


NO_EXTENSION = "NoExtension"
"""Beginning of llguidance's message where no token can follow, which is not an error here."""


class Constraint:
    """Logit filter that allows only tokens after which the text of a row is, or can become, a match.

    The text is the decoded new tokens without special tokens. An end token is allowed exactly where the text is a
    match, and is the only allowed token where no longer match begins with it. A row that ends for another reason is
    the beginning of a match.

    Sampling follows the model's distribution, renormalised at each step over the allowed tokens. That is not its
    distribution over matches: a token is as likely as before, however unlikely all allowed texts after it are.

    Args:
        vocabulary: number of logits; the tokenizer may have fewer tokens.
        prompt_length: number of prompt columns
        stop_ids: tokens that end a row.
    Raises: ConfigError: the grammar is invalid, too large, or matches no text of these tokens; no stop token.
        UnsupportedError: the tokenizer's tokens have no text of their own.
    """

    def __init__(
        self,
        grammar: Grammar,
        tokenizer: Tokenizer,
        *,
        vocabulary: int,
        prompt_length: int,
        stop_ids: Sequence[int],
    ) -> None:
        if not stop_ids:
            raise ConfigError(f"{grammar.name} needs an end token, and the model's files name none; give eos_token_id")
        guidance = _guidance()
        self._grammar = grammar
        self._table = _token_table(tokenizer, vocabulary)
        self._stop_ids = torch.tensor(sorted(set(stop_ids)))
        self._finished = _MatchState(None, allowed=torch.ones(vocabulary, dtype=torch.bool))
        self._dead = _MatchState(None, allowed=torch.zeros(vocabulary, dtype=torch.bool))
        limits = guidance.LLParserLimits(verbose_errors=False)
        matcher = guidance.LLMatcher(self._table.engine, grammar.text, log_level=0, limits=limits)
        if matcher.is_error():
            raise self._error(matcher)
        start = _MatchState(matcher)
        if not bool(self._allowed(start).any()):
            raise ConfigError(f"no text that {grammar.name} allows can begin with a token of this model; change it")
        self._states = PrefixStates(start, self._advance, prompt_length=prompt_length)

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        allowed = torch.stack([self._allowed(state) for state in self._states(ids)])
        return logits.masked_fill(~allowed.to(logits.device), -torch.inf)

    def _advance(self, state: _MatchState, token: int) -> _MatchState:
        """The state after one more token."""
        table = self._table
        if state.matcher is None:
            return state
        if token in self._stop_ids:
            return self._finished
        if not table.has_text[token]:
            return state
        entry = token if state.started else int(table.first_entry[token])
        if entry < 0:
            return _MatchState(state.matcher, started=True)
        matcher = state.matcher.deep_copy()
        # A dead beam is given any token; nothing may follow it either.
        return _MatchState(matcher, started=True) if matcher.consume_token(entry) else self._dead

    def _allowed(self, state: _MatchState) -> Tensor:
        """Mask of the allowed next tokens. [V] bool"""
        if state.allowed is None:
            state.allowed = self._compute(state)
        return state.allowed

    def _compute(self, state: _MatchState) -> Tensor:
        table, matcher = self._table, state.matcher
        complete = matcher.is_accepting()
        bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8), bitorder="little")
        if matcher.is_error() and not matcher.get_error().startswith(NO_EXTENSION):
            raise self._error(matcher)
        entries = torch.from_numpy(bits).bool()
        entries[-1] = False  # our own end token, which is allowed below
        allowed = entries[: len(table.has_text)]
        if not state.started:
            # A first token without text, such as a space that decoders omit, may come before any allowed token.
            empty = table.has_text if complete or bool(allowed.any()) else torch.zeros_like(allowed)
            allowed = torch.where(table.first_entry >= 0, entries[table.first_entry], empty)
        return allowed.index_fill(0, self._stop_ids, complete)

    def _error(self, matcher: Any) -> ConfigError:
        """llguidance's message, in one line."""
        lines = matcher.get_error().splitlines()
        message = next((line for line in lines if line.startswith("error: ")), lines[0])
        return ConfigError(f"{self._grammar.name} cannot be used: {printable(message.split(': ', 1)[-1])}")


class _MatchState:
    """Matcher state of all rows with the same text.

    matcher: None once the row has ended or cannot match
    started: whether it has any text
    allowed: mask of the allowed next tokens, computed when first needed. [V] bool
    """

    def __init__(self, matcher: Any, *, started: bool = False, allowed: Tensor | None = None) -> None:
        self.matcher = matcher
        self.started = started
        self.allowed = allowed


@dataclass(frozen=True, eq=False)
class _TokenTable:
    """Vocabulary for llguidance: the bytes of all tokens, then those of tokens that differ at the beginning of a text.

    engine: llguidance's tokenizer
    first_entry: entry of a token at the beginning of a text, -1 if it has no text there. [V]
    has_text: tokens that add to a text. [V] bool
    """

    engine: Any
    first_entry: Tensor
    has_text: Tensor


@lru_cache(maxsize=4)
def _token_table(tokenizer: Tokenizer, vocabulary: int) -> _TokenTable:
    first, later = token_bytes(tokenizer, vocabulary)
    entries, first_entry = list(later), list(range(vocabulary))
    for token, (at_start, inside) in enumerate(zip(first, later, strict=True)):
        if at_start != inside:
            first_entry[token] = len(entries) if at_start else -1
            entries += [at_start] if at_start else []
    adapter = _TokenizerAdapter([*entries, b"<end>"])  # its own end token; `Constraint` handles the model's
    guidance = _guidance()
    engine = guidance.LLTokenizer(guidance.TokenizerWrapper(adapter))
    return _TokenTable(engine, torch.tensor(first_entry), torch.tensor([bool(text) for text in later]))


class _TokenizerAdapter:
    """The tokenizer interface that llguidance expects."""

    def __init__(self, tokens: list[bytes]) -> None:
        self.tokens = tokens
        self.eos_token_id = len(tokens) - 1
        self.bos_token_id = None
        self.special_token_ids = [self.eos_token_id]

    def __call__(self, text: bytes) -> list[int]:
        raise AssertionError("llguidance tokenizes only forced text, and the grammar forces none")


def _guidance() -> Any:
    """Raises: MissingExtraError: it is not installed."""
    return import_optional("llguidance", "llguidance", "constrain", "a regex, a JSON schema or choices")
