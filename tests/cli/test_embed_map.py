"""`embed-map`: a polysemy study with one command: tables, files, page; and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.e2e.tiny_models import make_folder
from tests.explorer.reader import Reader

TEXTS = ["time flies like an arrow", "fruit flies like a banana", "time flies . time flies ."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("bert"), "bert", num_hidden_layers=2)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    rows = [f"{text},{sense}" for text, sense in zip(TEXTS, "abb", strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["title,sense", *rows]))
    return tmp_path / "texts.txt"


def test_a_study_on_a_screen(command: Command, folder: Path, texts: Path) -> None:
    """Every occurrence by sentence and token, all pairs, layers, results in words."""
    done = command("embed-map", folder, texts, "--word", "flies")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "“flies”: 4 occurrences in 3 of 3 texts · layers: sum"
    assert [line.split()[1] for line in lines[3:7]] == ["0:2", "1:2", "2:2", "2:5"]
    table = lines.index("cosine similarity of all pairs of rows")
    assert [line.split()[0] for line in lines[table + 2 : table + 6]] == ["0", "1", "2", "3"]
    assert all(line.split()[1 + i] == "1.0" for i, line in enumerate(lines[table + 2 : table + 6]))
    assert "Static embeddings: cosine 1 for all pairs" in done.stdout


def test_a_study_as_json_files_and_page(command: Command, folder: Path, texts: Path, tmp_path: Path) -> None:
    rows, columns = tmp_path / "rows.csv", ("-c", "text=title", "-c", "label=sense")
    outputs = ("--output", tmp_path / "out", "--html", tmp_path / "page.html", "--json", "--layers", "1")
    done = command("embed-map", folder, rows, *columns, "-w", "flies", *outputs)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [each["label"] for each in report["occurrences"]] == ["a", "b", "b", "b"]
    assert len(report["cosine"]["cosine"]) == 4 and report["senses"]["purity"] >= report["senses"]["majority"] == 0.75
    assert (tmp_path / "out/metadata.tsv").read_text().splitlines()[1].split("\t")[:4] == ["0", "2", "flies", "a"]
    reader = Reader((tmp_path / "page.html").read_text())
    assert reader.json("embedding")["classes"]["label"]["names"] == ["b", "a"]
    assert reader.session()["start"] == "v=1&view=embedding&em=pca"
    assert str(tmp_path) not in json.dumps(reader.json("embedding"))  # no folder of this machine


def test_a_table_of_another_format(command: Command, folder: Path, texts: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.data").write_text("\n".join(f"{text};{sense}" for text, sense in zip(TEXTS, "abb", strict=True)))
    format = ("--kind", "csv", "--delimiter", ";", "--names", "title,sense", "-c", "text=title")
    for labels in ((), ("-c", "label=sense")):
        done = command("embed-map", folder, tmp_path / "rows.data", *format, *labels, "-w", "flies", "--json")
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert [each["label"] for each in report["occurrences"]] == (list("abbb") if labels else [None] * 4)


def test_whole_texts_and_two_corpora(command: Command, folder: Path, texts: Path, tmp_path: Path) -> None:
    done = command("embed-map", folder, texts, "--sentences", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["word"] is None
    (tmp_path / "late.txt").write_text("\n".join(TEXTS[1:]))
    done = command(
        "embed-map", folder, texts, "--against", tmp_path / "late.txt", "--word", "flies", "--control", "time", "--json"
    )
    report = json.loads(done.stdout)
    assert report["corpora"] == ["texts", "late"] and [each["counts"] for each in report["words"]] == [[4, 3], [3, 2]]
    assert [each["control"] for each in report["words"]] == [False, True]


def test_once_and_identical(command: Command, folder: Path, tmp_path: Path) -> None:
    """One point, and points that are all the same: a map, and a sentence instead of an error."""
    once = command("embed-map", folder, "time flies", "--word", "flies", "--html", tmp_path / "one.html")
    assert once.returncode == 0 and "It occurs once, so there is no pair to compare" in once.stdout
    (tmp_path / "same.txt").write_text("time flies\n" * 5)
    same = command("embed-map", folder, tmp_path / "same.txt", "--word", "flies")
    assert same.returncode == 0 and " 1.0  1.0" in same.stdout
    refused = command(
        "embed-map", folder, tmp_path / "same.txt", "--word", "flies", "--method", "tsne", "--html", tmp_path / "x.html"
    )
    assert refused.returncode == 2 and "nothing to place them by" in refused.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--word", "zebra"], "'zebra' does not occur in 3 texts"),
        (["--word", "flies", "--layers", "9"], "layers is 9; the levels are 0 (embeddings) to 2"),
        (["--word", "flies", "--layers", "most"], "allowed: sum, last, concat, mean, or the number of a level"),
        (["--word", "flies", "--pooling", "max"], "pooling is 'max'; allowed: word, first, mean"),
        (["--word", "flies", "--cluster", "dbscan"], "allowed: kmeans, agglomerative"),
        (["--word", "flies", "--method", "isomap"], "allowed: pca, tsne, umap"),
        (["--word", "flies", "--control", "time"], "--control goes with --against; give both"),
        (["--word", "flies", "--html", "page.txt"], ".html"),
        (["--word", "flies", "--limit-gb", "0.001", "--serve", "--html", "a.html"], "give one"),
        (["--word", "flies", "-c", "label=sense"], "sense"),
        (["--word", "flies", "--senses", "1"], "--senses is 1; it must be a whole number from 2 up"),
        (["--word", "flies", "--perplexity", "0"], "--perplexity is 0.0; it must be a number from 1 to 1,000"),
        (["--word", "flies", "-c", "sense=a"], "--column is 'sense'; it must be text or label"),
        (["--word", "flies", "--token-type", "7"], "--token-type is 7; this model has token types: 2"),
    ],
)
def test_what_is_refused(command: Command, folder: Path, texts: Path, options: list[str], message: str) -> None:
    done = command("embed-map", folder, texts, *options)
    assert done.returncode == 2 and message in " ".join(done.stderr.split()) and "Traceback" not in done.stderr


def test_a_text_of_a_megabyte(command: Command, folder: Path, tmp_path: Path) -> None:
    """One line; the word is near its end, and only the tokens about it are read."""
    (tmp_path / "long.txt").write_text("time like an arrow . " * 50_000 + "fruit flies")
    done = command("embed-map", folder, tmp_path / "long.txt", "--word", "flies", "--json")
    assert done.returncode == 0, done.stderr
    (occurrence,) = json.loads(done.stdout)["occurrences"]
    assert occurrence["position"] == 250_002 and len(occurrence["text"]) < 200
