"""src_lang and tgt_lang: the languages of a tokenizer whose special tokens around a text name one, as mBART's do.

src_lang = "en_XX", mBART-50     en_XX A </s>
tgt_lang = "de_DE"               labels: de_DE B </s>
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

from glassformer.text.tokenizer import Tokenizer


def _source(tokenizer: Any) -> str:
    """The code of the language of texts; a new one counts for later calls.

    Raises: AttributeError: the tokenizer has no languages. ConfigError, where it is set: or not this one.
    """
    return _language_of(tokenizer.inner)


def _set_source(tokenizer: Any, code: str) -> None:
    inner = tokenizer.inner
    inner.vocabulary = inner.in_language(code).vocabulary
    inner.settings = replace(inner.settings, config={**inner.settings.config, "src_lang": code})


def _target(tokenizer: Any) -> str | None:
    """The code of the language of `text_target`; None = that of texts.

    Raises: AttributeError: the tokenizer has no languages. ConfigError, where it is set: or not this one.
    """
    _language_of(tokenizer.inner)
    code: str | None = tokenizer.inner.settings.config.get("tgt_lang")
    return code


def _set_target(tokenizer: Any, code: str | None) -> None:
    inner = tokenizer.inner
    if code is not None:
        inner.in_language(code)  # checks it
    inner.settings = replace(inner.settings, config={**inner.settings.config, "tgt_lang": code})


src_lang, tgt_lang = property(_source, _set_source), property(_target, _set_target)
"""Attributes of a tokenizer with an `inner` one."""


def with_target_language(inner: Tokenizer) -> Tokenizer:
    """The tokenizer, whose `text_target` is in the language that its config names for it."""
    code = inner.settings.config.get("tgt_lang")
    if code is None:
        return inner
    writing = copy(inner)
    writing._target = inner.in_language(code)
    return writing


def _language_of(tokenizer: Tokenizer) -> str:
    roles = {tokenizer.vocabulary.id_of(role) for role in tokenizer.vocabulary.roles}
    languages = {i for ids in tokenizer.prefix_and_suffix for i in ids} - roles
    if len(languages) != 1:
        raise AttributeError("src_lang")
    code: str = tokenizer.convert_ids_to_tokens(languages.pop())
    return code
