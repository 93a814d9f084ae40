"""src_lang and tgt_lang of tokenizers of several languages, as in the reference library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers

import glassformer.hf as hf
from glassformer.errors import ConfigError, UnknownOptionError

TEXT, ANSWER = "time flies", "an arrow"
FAMILIES = {"mbart": "MBartTokenizer", "mbart50": "MBart50Tokenizer"}


@pytest.fixture(params=FAMILIES)
def folder(request: pytest.FixtureRequest, family_copy: Callable[..., Path], tmp_path: Path) -> Path:
    """A folder as the reference library writes it."""
    name = FAMILIES[request.param]
    files = family_copy(request.param, tokenizer_class=name, src_lang="en_XX")
    getattr(transformers, name).from_pretrained(files).save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def encoded(tokenizer: Any) -> tuple[Any, ...]:
    """Without tgt_lang, which a call sets in the reference library where it is None."""
    both = tokenizer(TEXT, text_target=ANSWER)
    return (
        tokenizer.src_lang,
        both["input_ids"],
        both["labels"],
        tokenizer(text_target=[ANSWER])["input_ids"],
        tokenizer(TEXT, ANSWER)["input_ids"],
    )


@pytest.mark.parametrize("keywords", [{}, {"src_lang": "fi_FI"}, {"src_lang": "fi_FI", "tgt_lang": "de_DE"}])
def test_languages_where_it_is_read(folder: Path, keywords: dict[str, str]) -> None:
    ours, reference = (each.AutoTokenizer.from_pretrained(folder, **keywords) for each in (hf, transformers))
    for each in (ours, reference):
        given = {"src_lang": each.src_lang, "tgt_lang": each.tgt_lang}
        assert given == {"src_lang": "en_XX", "tgt_lang": None} | keywords
    assert encoded(ours) == encoded(reference)


def test_languages_that_are_set_afterwards(folder: Path, tmp_path: Path) -> None:
    ours, reference = (each.AutoTokenizer.from_pretrained(folder) for each in (hf, transformers))
    before = ours(TEXT)["input_ids"]
    for each in (ours, reference):
        each.src_lang, each.tgt_lang = "ro_RO", "fr_XX"
    assert encoded(ours) == encoded(reference)
    assert ours(TEXT)["input_ids"] != before
    assert ours.inner.encode(TEXT) == ours(TEXT)["input_ids"]
    ours.save_pretrained(tmp_path / "ours")
    assert encoded(transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")) == encoded(ours)
    ours.tgt_lang = None
    assert ours(text_target=ANSWER)["input_ids"] == ours(ANSWER)["input_ids"]


def test_a_language_that_is_not_there(folder: Path, bert_folder: Path) -> None:
    ours = hf.AutoTokenizer.from_pretrained(folder)
    for name in ("src_lang", "tgt_lang"):
        with pytest.raises(ConfigError, match="this tokenizer has no token 'xx'"):
            setattr(ours, name, "xx")
    plain = hf.AutoTokenizer.from_pretrained(bert_folder)
    assert not hasattr(plain, "src_lang") and not hasattr(plain, "tgt_lang")
    with pytest.raises(ConfigError, match="has no language code"):
        plain.src_lang = "en_XX"
    with pytest.raises(UnknownOptionError, match="'src_lang'"):
        hf.AutoTokenizer.from_pretrained(bert_folder, src_lang="en_XX")
