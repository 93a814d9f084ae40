"""N-gram models of files, from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.errors import ConfigError, DataError
from glassformer.ngram.corpus import perplexity_of_files, prune_file, train_on_files
from glassformer.ngram.options import NgramOptions, PruneOptions, WordOptions
from glassformer.ngram.store import load_ngram
from glassformer.ngram.words import speech_words


def test_train_measure_and_prune(tmp_path: Path) -> None:
    text, counted = tmp_path / "a.txt", []
    text.write_text("The cat sat.\nThe dog sat.\n" * 20)
    options = NgramOptions(output=tmp_path / "m.arpa", order=2, for_speech=True)
    saved = train_on_files([text], options, counted.append)
    assert saved.ngrams[1] == 7 and saved.bytes == (tmp_path / "m.arpa").stat().st_size and sum(counted) > 0
    measured = perplexity_of_files(tmp_path / "m.arpa", [text], WordOptions(for_speech=True))
    assert measured.unknown == 0 and measured.perplexity < 3
    assert perplexity_of_files(tmp_path / "m.arpa", [text], WordOptions(lower=True)).unknown == 40  # "sat."
    smaller = prune_file(tmp_path / "m.arpa", PruneOptions(output=tmp_path / "s.ngram", threshold=0.5))
    assert smaller.ngrams[2] < saved.ngrams[2] and load_ngram(tmp_path / "s.ngram").order == 2
    with pytest.raises(DataError, match="is the model itself"):
        prune_file(tmp_path / "m.arpa", PruneOptions(output=tmp_path / "m.arpa"))
    with pytest.raises(ConfigError, match=r"threshold is 1\.0; it must be a number from 0"):
        PruneOptions(output=tmp_path / "x.arpa", threshold=1.0)


def test_words_as_speech_recognition_looks_them_up() -> None:
    assert speech_words("“It’s 7.9, isn't IT?” … semi-dry") == ["it’s", "7", "9", "isn't", "it", "semi", "dry"]
