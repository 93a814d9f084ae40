"""`glassformer corpus index` and `search`: what is printed, JSON, and errors that say what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.explorer.reader import Reader


@pytest.fixture
def stories(shared: Path) -> Path:
    return shared / "models" / "stories260k"


@pytest.fixture
def made(stories: Path, command: Command, tmp_path: Path) -> Path:
    (tmp_path / "corpus.txt").write_text("time flies like an arrow\n\nfruit flies like a banana\n")
    done = command(
        "corpus", "index", stories, tmp_path / "corpus.txt", "-o", tmp_path / "index", "--heads", "1.*", "--json"
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["kind"], report["rows"], report["index"]) == ("corpus-index", 2, str(tmp_path / "index"))
    assert report["settings"]["layers"] == [2, 5]
    assert report["settings"]["heads"] == [[1, head] for head in range(8)]
    assert report["bytes"] == sum(f.stat().st_size for f in (tmp_path / "index").iterdir() if f.name != "index.json")
    return tmp_path / "index"


def test_search(stories: Path, command: Command, made: Path) -> None:
    asked = ("corpus", "search", stories, made, "time flies", "--token", "flies", "-n", 3)
    done = command(*asked, "--layer", 2)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[1].split()[:2] == ["1.000", "0"]
    assert "time [f]lies like an a" in done.stdout
    assert "looks at" not in done.stdout
    told = json.loads(command(*asked, "--head", "1.3", "--json", "--verify").stdout)
    assert (told["by"], told["layer"], told["number"], told["attention"]) == ("head", 1, 3, [1, 3])
    assert len(told["matches"]) == 3
    assert sum(told["matches"][0]["attention"]) == pytest.approx(1, abs=1e-3)
    assert "looked at: " in command("corpus", "search", stories, made, "--neuron", "1.7", "--attention", "1.3").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["time", "--token", "1"], "got none of --layer, --head, --neuron; give one"),
        (["time", "--token", "1", "--layer", 2, "--head", "1.1"], "got --layer and --head of --layer"),
        (["--layer", 2], "--layer got neither a text nor --token; --layer and --head take a text and its --token"),
        (["time", "--layer", 2], "--layer got a text; --layer and --head take"),
        (["time", "--neuron", "1.1"], "--neuron got a text; --layer and --head take a text and its --token; --neuron"),
        (["time", "--token", "1", "--head", "4"], "--head: '4' is no layer.number, such as 4.9"),
        (["time", "--token", "1", "--head", "1.99"], "head 1.99 is not in this index; its heads: 1.0, 1.1"),
        (["time", "--token", "1", "--layer", 4], "layer 4 is not in this index; its layers: 2, 5"),
        (["time", "--token", "77", "--layer", 2], "there is no token 77"),
        (["time", "--token", "1", "--layer", 2, "-n", 201], "--count is 201; it must be a whole number from 1 to 200"),
        (
            ["time flies", "--token", "banana", "--layer", 2],
            "the text has no word 'banana'; it has 'time', 'flies'; or",
        ),
        (["", "--token", "banana", "--layer", 2], "the text has no word 'banana': it is empty"),
        (["--neuron", "1.9999"], "there is no neuron 9999"),
    ],
)
def test_errors_of_a_search(stories: Path, command: Command, made: Path, arguments: list[Any], message: str) -> None:
    done = command("corpus", "search", stories, made, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_errors_of_an_index(stories: Path, command: Command, tmp_path: Path) -> None:
    for arguments, message in (
        (["missing.txt"], "missing.txt"),
        ([stories / "config.json"], "config.json"),
        ([stories / "config.json", "--layers", "9"], "--layers: there is no layer 9; give one from 0 to 5"),
        ([stories / "config.json", "--max-tokens", "1"], "--max-tokens is 1; it must be a whole number from 2 up"),
        ([stories / "config.json", "--layers", "six"], "--layers is 'six'"),
        ([stories / "config.json", "--heads", "9.*"], "--heads: there is no layer 9 with heads; give one from 0 to 4"),
    ):
        done = command("corpus", "index", stories, *arguments, "-o", tmp_path / "index")
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "index").exists()


def test_an_index_of_a_table(stories: Path, command: Command, tmp_path: Path) -> None:
    table, folder = tmp_path / "rows.csv", tmp_path / "index"
    table.write_text("body,mood\ntime flies,1\nan arrow,2\n")
    done = command("corpus", "index", stories, table, "-o", folder)
    assert done.returncode == 2 and "no column 'text'" in done.stderr and "--column text=NAME" in done.stderr
    done = command("corpus", "index", stories, table, "-o", folder, "--column", "text=body")
    assert done.returncode == 0 and "2 texts" in done.stdout, done.stderr
    assert done.stdout.endswith(f"next:\n  glassformer corpus search {stories} {folder} TEXT --token WORD --layer 5\n")
    done = command("corpus", "index", stories, table, "-o", folder, "--column", "text=mood")
    assert done.returncode == 2 and "holds an index with other settings (texts)" in done.stderr


def test_the_page_as_a_file(stories: Path, command: Command, made: Path, tmp_path: Path) -> None:
    asked = ("corpus", "search", stories, made, "time flies", "--token", 2, "--html", tmp_path / "page.html")
    done = command(*asked, "--layer", 2, "--attention", "1.3")
    assert done.returncode == 0, done.stderr
    page = Reader((tmp_path / "page.html").read_text())
    (asked_for,) = (each["request"] for each in page.session()["readings"] if each["view"] == "contexts")
    assert asked_for == {"by": "layer", "layer": 2, "number": None, "token": 2, "head": [1, 3], "count": 20}
    assert page.session()["start"] == "v=1&view=contexts&l=1&h=3&q=2&by=layer&cl=2"
    done = command("corpus", "search", stories, made, "--neuron", "1.1", "--html", tmp_path / "x.html")
    assert (
        done.returncode == 2 and "--html is the explorer's page of a text; give a text and its --token" in done.stderr
    )
