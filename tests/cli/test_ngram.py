"""`glassformer ngram`: train, measure, prune."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer.cli.app import app
from glassformer.errors import ConfigError, DataError, GlassformerError
from glassformer.ngram.store import load_ngram
from tests.ngram.test_kneser_ney import TEXTS


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("t.txt").write_text("".join(" ".join(text) + "\n" for text in TEXTS))
    Path("t.csv").write_text("said\n" + "".join(" ".join(text).upper() + "\n" for text in TEXTS if text))


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["ngram", *arguments])
    if isinstance(done.exception, GlassformerError):
        raise done.exception
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def test_train_measure_and_prune() -> None:
    run("train", "t.txt", "--order", "3", "--output", "m.arpa")
    report = json.loads(
        run("train", "t.csv", "--column", "text=said", "--lower", "--json", "--order", "3", "-o", "m.ngram")
    )
    assert report["ngrams"]["1"] == 13 and report["bytes"] == Path("m.ngram").stat().st_size
    assert load_ngram("m.ngram").score(["the", "cat"]) == pytest.approx(load_ngram("m.arpa").score(["the", "cat"]))
    measured = json.loads(run("perplexity", "m.arpa", "t.csv", "--column", "text=said", "--json"))
    assert measured["unknown"] == measured["words"] - measured["texts"]  # upper case
    assert json.loads(run("perplexity", "m.arpa", "t.txt", "--json"))["perplexity"] < 4
    assert re.search(r"perplexity +of known words +words +unknown +texts", run("perplexity", "m.ngram", "t.txt"))
    pruned = json.loads(run("prune", "m.arpa", "--threshold", "0.01", "--output", "s.ngram", "--json"))
    assert pruned["ngrams"]["3"] < report["ngrams"]["3"]
    with pytest.raises(DataError, match=r"is the model itself; give another --output$"):
        run("prune", "m.arpa", "--output", "m.arpa")
    with pytest.raises(DataError, match=r"must end in \.arpa"):
        run("train", "t.txt", "--output", "m.txt")


def test_texts_that_are_not_utf_8() -> None:
    Path("l.txt").write_text("schön und gut\n", encoding="latin-1")
    with pytest.raises(DataError, match=r"or give its encoding: --encoding cp1252$"):
        run("train", "l.txt", "--output", "l.arpa")
    run("train", "l.txt", "--output", "l.arpa", "--encoding", "latin-1")
    assert "schön" in load_ngram("l.arpa").words


def test_tokens_of_a_model(minilm: Path) -> None:
    run("train", "t.txt", "--tokenizer", str(minilm), "--output", "m.ngram", "--min-count", "2", "--max-words", "9")
    assert len(load_ngram("m.ngram").words) == 12


def test_words_for_speech(minilm: Path) -> None:
    Path("p.txt").write_text("“The cat,” it said: semi-dry!\n…\n")
    run("train", "p.txt", "--for-speech", "--order", "1", "--output", "m.ngram")
    assert {"the", "cat", "it", "said", "semi", "dry"} <= set(load_ngram("m.ngram").words)
    with pytest.raises(ConfigError, match="give one of the two"):
        run("train", "p.txt", "--for-speech", "--tokenizer", str(minilm), "--output", "m.ngram")
    with pytest.raises(ConfigError, match="--for-speech makes words, and --tokenizer tokens"):
        run("perplexity", "m.ngram", "p.txt", "--for-speech", "--tokenizer", str(minilm))
    with pytest.raises(ConfigError, match="--column is 'body'; it must be text"):
        run("train", "t.csv", "--column", "body=said", "--output", "m.ngram")
    with pytest.raises(ConfigError, match="--order is 0; it must be a whole number from 1 to 20"):
        run("train", "p.txt", "--order", "0", "--output", "m.ngram")
