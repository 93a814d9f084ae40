"""Tokenizer folders, which the tests of `text` share with those of this package."""

from __future__ import annotations

from tests.text.conftest import bert_folder, family_copy, family_folder, gpt2_folder, words

__all__ = ["bert_folder", "family_copy", "family_folder", "gpt2_folder", "words"]
