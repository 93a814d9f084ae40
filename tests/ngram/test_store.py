"""Compact files of n-gram models: the same numbers back, mapped; damaged files are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from glassformer.errors import GlassformerError
from glassformer.ngram.kneser_ney import train_ngram
from glassformer.ngram.store import load_ngram, save_ngram
from tests.ngram.test_kneser_ney import TEXTS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_ngram(train_ngram(TEXTS, 3), tmp_path / "m.ngram")
    return tmp_path / "m.ngram"


def test_the_same_numbers(path: Path) -> None:
    model, again = train_ngram(TEXTS, 3), load_ngram(path)
    assert again.words == model.words
    for a, b in zip(model.tables, again.tables, strict=True):
        for field in ("keys", "log_probs", "backoffs", "suffixes"):
            assert np.array_equal(getattr(a, field), getattr(b, field))
    save_ngram(again, path.with_suffix(".arpa"))
    assert load_ngram(path.with_suffix(".arpa")).score(TEXTS[0]) == pytest.approx(model.score(TEXTS[0]), abs=1e-5)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("keys.2", lambda x: x[::-1]),
        ("keys.2", lambda x: x + (10**6 << 32)),
        ("keys.2", lambda x: x - 2**40),
        ("keys.3", lambda x: np.append(x[:-1], x[-1] + 10**6)),
        ("keys.1", lambda x: x + 1),
        ("suffixes.2", lambda x: x + 10**6),
        ("suffixes.3", lambda x: x - 10**6),
        ("log_probs.1", lambda x: x * np.nan),
        ("log_probs.3", lambda x: x + 9e3),
        ("backoffs.2", lambda x: x[:-1]),
        ("log_probs.2", lambda x: x.astype(np.float64)),
        ("words", lambda x: x[:-20]),
        ("words", lambda x: x * 0 + 255),
        ("words", lambda x: x[5:]),
        ("keys.2", None),
    ],
)
def test_a_damaged_file_is_refused(name: str, change: object, path: Path) -> None:
    tensors = load_file(path)
    if change is None:
        del tensors[name]
    else:
        tensors[name] = np.ascontiguousarray(change(tensors[name]))  # type: ignore[operator]
    save_file(tensors, path)
    with pytest.raises(GlassformerError, match=r"m\.ngram"):
        load_ngram(path)


def test_arpa_text_by_another_name(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text("\\data\\\nngram 1=1\n")
    with pytest.raises(GlassformerError, match=r"ARPA text has a name that ends in \.arpa"):
        load_ngram(tmp_path / "m.txt")


def test_a_cut_file_is_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(GlassformerError, match="cut short"):
        load_ngram(path)
