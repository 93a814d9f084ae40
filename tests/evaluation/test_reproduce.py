"""The book's figures next to ours: computed, read from runs, or missing with what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer import ConfigError, DataError
from glassformer.cli.evaluate import reproduce as typed
from glassformer.evaluation import reproduce as module
from glassformer.evaluation.reproduce import (
    DataFolders,
    PublishedScore,
    Reproduction,
    baseline_score,
    find_runs,
    model_size,
    published_score,
    reproduce,
    run_latency,
    run_score,
    variant_figure,
)
from glassformer.evaluation.runs import TrainedRun
from glassformer.runs.folder import read_config
from tests.evaluation.made import make_run


def places(folder: Path) -> DataFolders:
    return DataFolders(data=folder / "data", runs=folder)


def test_small_examples_are_computed_at_once(tmp_path: Path) -> None:
    pytest.importorskip("sacrebleu", reason="needs sacrebleu: pip install 'glassformer[evaluate]'")
    for chapter, count in (("6", 5), ("7", 3)):
        rows = [row for row in reproduce(chapter, data=tmp_path, runs=tmp_path).rows if row.ours is not None]
        assert len(rows) == count and all(row.within for row in rows)
    assert next(row.ours for row in reproduce("4", data=tmp_path, runs=tmp_path).rows) == 0.5


def test_every_figure_has_a_source_and_what_is_missing_says_what_to_do(tmp_path: Path) -> None:
    for chapter, entries in read_config(module.PUBLISHED).items():
        figures = [published_score(entry) for entry in entries["scores"]]
        assert all(figure.book is not None or figure.notebook is not None for figure in figures)
        found = reproduce(chapter, data=tmp_path / "data", runs=tmp_path / "runs")
        assert all((row.ours is None) != (row.missing is None) for row in found.rows)
        assert json.dumps(found.to_dict()) and str(found)
    found = reproduce("2", data=tmp_path, runs=tmp_path / "runs")
    assert "glassformer train examples/emotion.yaml" in str(found) and "glassformer data fetch emotion" in str(found)
    assert "glassformer study examples/transfer.yaml" in str(reproduce("4", data=tmp_path, runs=tmp_path))


def test_figures_of_runs_are_means_over_their_seeds(tmp_path: Path) -> None:
    for seed, right in enumerate((15, 17)):
        run = make_run(tmp_path / "emotion" / f"seed-{seed}", [i < right for i in range(20)], seed=seed)
        (run / "evaluation" / "validation").rename(run / "evaluation" / "fr")
        make_run(tmp_path / "one" / f"{seed}", [True]).rename(tmp_path / f"sized-{10 ** (1 + seed)}")
    found = run_score(places(tmp_path), "emotion", "accuracy", "fr", "make it")
    assert found.value == 0.8 and found.half == pytest.approx(12.706 * 0.05, rel=1e-3)
    with pytest.raises(DataError, match="not evaluated on it yet: make it"):
        run_score(places(tmp_path), "emotion", "accuracy", "it", "make it")
    with pytest.raises(DataError, match="has no bleu; it has accuracy"):
        run_score(places(tmp_path), "sized", "bleu")
    assert [run.folder.name for run in find_runs(places(tmp_path), "sized", "")] == ["sized-100"], "the largest"
    assert baseline_score(places(tmp_path), "sized", "frequent", "accuracy").value == 0.25
    with pytest.raises(DataError, match="without a baseline of embedding"):
        baseline_score(places(tmp_path), "sized", "embedding", "accuracy")


def test_size_is_that_on_disk_and_latency_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "small", [True], seconds=1)
    (run / "model" / "model.safetensors").write_bytes(b"0" * 2**21)
    assert model_size(places(tmp_path), "small") == pytest.approx(2, abs=0.001)

    asked = []

    class Task:
        def predict(self, rows: list[int]) -> list[int]:
            asked.append(rows)
            return rows

    class Rows(list[int]):
        def select(self, indices: list[int]) -> list[int]:
            return [self[i] for i in indices]

    monkeypatch.setattr(TrainedRun, "splits", (None, Rows([5, 6, 7])))
    monkeypatch.setattr(TrainedRun, "task_for_evaluation", lambda self: Task())
    assert run_latency(places(tmp_path), "small") < 10
    assert len(asked) == 110 and asked[:4] == [[5], [6], [7], [5]], "another row each time"
    monkeypatch.setattr(TrainedRun, "splits", (None, None))
    with pytest.raises(DataError, match="no validation rows"):
        run_latency(places(tmp_path), "small")


def test_figures_of_variants_are_those_of_the_study(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"glassformer shrink examples/chapter8\.yaml"):
        variant_figure(places(tmp_path), "chapter8", "distilled", "accuracy")
    point = {
        "levels": {"variant": "distilled"},
        "metrics": {"accuracy": {"value": 0.9}},
        "costs": {"bytes": {"value": 2**21}},
    }
    (tmp_path / "chapter8").mkdir()
    (tmp_path / "chapter8" / "study.json").write_text(json.dumps({"points": [point]}))
    found = [variant_figure(places(tmp_path), "chapter8", "distilled", name) for name in ("accuracy", "bytes")]
    assert found == [0.9, 2.0]
    with pytest.raises(DataError, match="has no variant int4 yet"):
        variant_figure(places(tmp_path), "chapter8", "int4", "accuracy")
    with pytest.raises(DataError, match="distilled has no latency; it has accuracy, bytes"):
        variant_figure(places(tmp_path), "chapter8", "distilled", "latency")


def test_what_counts_as_the_same(tmp_path: Path) -> None:
    figure = PublishedScore(
        id="x", what="F1", book=0.91, notebook=0.9226, tolerance=0.01, ours=lambda _: 0.93, why="smaller"
    )
    row = figure.reproduce(places(tmp_path))
    assert row.within and row.difference == pytest.approx(0.02), "to the book; the centre is the notebook's"
    low = PublishedScore(
        id="x", what="F1", book=0.91, notebook=0.9226, tolerance=0.01, ours=lambda _: 0.9, why="smaller"
    )
    found = Reproduction(chapter="0", title="none", rows=[low.reproduce(places(tmp_path))])
    assert "-0.010 !" in str(found) and found.notes == ["F1: smaller"]


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no scores of chapter '9'; there are those of 2, 4"):
        reproduce("9", data=tmp_path, runs=tmp_path)
    module._read_intents.cache_clear()
    (tmp_path / "clinc150").mkdir()
    (tmp_path / "clinc150" / "data.json.gz").write_bytes(b"\x1f\x8bno")
    rows = reproduce("8", data=tmp_path, runs=tmp_path).rows
    assert "data.json.gz: cannot be unpacked" in str(rows[0].missing)
    missing = " ".join(str(row.missing) for row in rows)
    assert (
        "there is no run in" in missing
        and "train it: glassformer train examples/clinc150.yaml, and evaluate" in missing
    )
    with pytest.raises(DataError, match=r"nowhere: no such folder; --data is that of the data sets, with emotion/"):
        typed("2", runs=tmp_path, data=tmp_path / "nowhere")


def test_counts_of_the_data(capsys: pytest.CaptureFixture[str], tmp_path: Path, shared: Path) -> None:
    data = shared / "data"
    rows = reproduce("2", data=data, runs=tmp_path).rows
    assert [row.ours for row in rows[:3]] == [6, 15_998, 1_998] and rows[3].within
    typed("8", runs=tmp_path, data=data, json=True)
    said = json.loads(capsys.readouterr().out)["rows"]
    assert [row["ours"] for row in said[:3]] == [150, 18_000, 200] and [row["within"] for row in said[:3]] == [
        True, False, False,
    ]  # fmt: skip
    typed("7", runs=tmp_path, data=data)
    assert "1295" in capsys.readouterr().out
