"""Weights of shallow fusion, chosen by word error rate on validation recordings."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import glassformer
from glassformer.cli.app import app
from glassformer.data.rows import read_rows
from glassformer.errors import DataError
from glassformer.ngram.kneser_ney import train_ngram
from glassformer.ngram.store import save_ngram
from glassformer.speech import ctc, window
from glassformer.tasks.metrics.metric import Interval
from glassformer.tasks.metrics.speech import word_errors
from glassformer.tasks.transcribe import tuning
from glassformer.tasks.transcribe.task import Transcribe
from glassformer.tasks.transcribe.tuning import FusionScore, FusionTuning, best_fusion, tune_fusion, weight_pairs
from tests.tasks.transcribe.tones import WORDS, tokens_of, write_table


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lm") / "words.arpa"
    save_ngram(train_ngram([[word] for word in WORDS], 2), path)
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("validation"), 3, seed=5)


def test_each_pair_is_the_search_of_an_evaluation(letters: Path, words: Path, table: Path) -> None:
    task = Transcribe(glassformer.load(letters, task=Transcribe.HEAD, offline=True))
    rows = read_rows(table.parent)
    scores = list(tune_fusion(task, rows, str(words), alphas=[0.0, 0.5], betas=[0.0, 3.0], beams=2))
    assert [(each.alpha, each.beta) for each in scores] == [(0, 0), (0, 3), (0.5, 0), (0.5, 3)]
    plain = task.for_evaluation(beams=2)
    predictions = list(plain.predict(rows))
    assert scores[0].wer == word_errors([x.label for x in predictions], [x.predicted for x in predictions]).wer


@pytest.mark.parametrize("recogniser", ["letters", "whisper_of_bytes"])
def test_rescoring_searches_once_and_equals_a_search_for_each_pair(
    recogniser: str,
    words: Path,
    table: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = request.getfixturevalue(recogniser)
    task = Transcribe(glassformer.load(folder, task=Transcribe.HEAD, offline=True))
    rows = read_rows(table.parent)
    alphas, betas = [0.0, 0.4, 40.0], [0.0, 3.0, 40.0]
    if recogniser == "whisper_of_bytes":
        words = tmp_path / "tokens.arpa"
        save_ngram(tokens_of(task.model, [33]), words)  # it finds texts that differ in their last letters
    anew = []
    for pair in weight_pairs(alphas, betas):
        search: dict[str, Any] = {"beams": 6, "language_model": str(words), "rescore": True}
        anew.append([x.predicted for x in task.for_evaluation(**search, alpha=pair[0], beta=pair[1]).predict(rows)])
    module, name = (ctc, "prefix_beam_search") if recogniser == "letters" else (window, "beam_search")
    search_of, searches = getattr(module, name), []
    monkeypatch.setattr(module, name, lambda *given, **named: searches.append(1) or search_of(*given, **named))
    texts: list[list[str]] = []
    kept = lambda references, found, **named: texts.append(found) or word_errors(references, found)  # noqa: E731
    monkeypatch.setattr(tuning, "word_errors", kept)
    done: list[int] = []
    options: dict[str, Any] = {"alphas": alphas, "betas": betas, "beams": 6, "rescore": True}
    scores = list(tune_fusion(task, rows, str(words), **options, progress=done.append))
    assert texts == anew and [(x.alpha, x.beta) for x in scores] == weight_pairs(alphas, betas)
    assert len(searches) <= len(rows) and sum(done) == len(rows)
    assert len(set(map(tuple, texts))) > 1  # the weights matter


def test_equal_scores_take_the_smallest_weights() -> None:
    scores = [
        FusionScore(a, b, Interval(w), Interval(0)) for a, b, w in ((0, 0, 2), (1, 0, 1), (0.5, 1, 1), (0.5, 0, 1))
    ]
    assert best_fusion(scores) is scores[3]
    assert best_fusion(scores[:1]) is scores[0]
    tuned = FusionTuning(scores, 3, rescore=True)
    values = tuned.to_dict()
    assert (values["kind"], values["alpha"], values["beta"]) == ("fusion-tuning", scores[3].alpha, scores[3].beta)
    assert f"best: --rescore --alpha {scores[3].alpha:g} --beta {scores[3].beta:g}" in str(tuned)
    assert sum("←" in line for line in str(tuned).splitlines()) == 1
    assert "no language model: none of these helps" in str(FusionTuning(scores[:1], 3, rescore=False))


def test_command(letters: Path, words: Path, table: Path, tmp_path: Path) -> None:
    common = ["ngram", "tune", str(words), "--model", str(letters), "--data", str(table.parent), "--beams", "2"]
    done = CliRunner().invoke(app, [*common, "--alpha", "0.5", "--beta", "1", "--json"])
    report = json.loads(done.stdout)
    assert [(x["alpha"], x["beta"]) for x in report["scores"]] == [(0, 0), (0.5, 1)]
    assert set(report["scores"][0]["wer"]) == {"value", "low", "high"}
    assert "best" in CliRunner().invoke(app, [*common, "--alpha", "0.5", "--beta", "1"]).output
    rescored = CliRunner().invoke(app, [*common, "--alpha", "0", "--beta", "40", "--rescore", "--json"])
    assert [x["alpha"] for x in json.loads(rescored.stdout)["scores"]] == [0, 0]
    other = tmp_path / "rows.data"
    _, *rows = csv.reader(table.open(newline=""))
    with other.open("w", newline="") as file:
        csv.writer(file, delimiter=";").writerows(rows)
    format = ["--kind", "csv", "--delimiter", ";", "--names", "file,text,speaker", "--folder", str(table.parent)]
    read = [*common[:6], str(other), *common[7:], *format, "--alpha", "0.5", "--beta", "1", "--json"]
    again = CliRunner().invoke(app, read)
    assert again.exit_code == 0, again.exception
    assert json.loads(again.stdout) == report
    (tmp_path / "cut.arpa").write_bytes(words.read_bytes()[:90])
    common[2] = str(tmp_path / "cut.arpa")
    assert isinstance(CliRunner().invoke(app, common).exception, DataError)
