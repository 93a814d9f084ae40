"""Names of files that are no UTF-8, markup and bidi marks: a command works, or refuses before its work."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import yaml

from glassformer.cli.app import main
from glassformer.files import read_json_object, readable_path
from tests.e2e.tiny_runs import tiny_run
from tests.tasks.transcribe.tones import whisper_folder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names of bytes that are no UTF-8: Linux has them")
NAME = "r\udcff\u202e<img src=x onerror=alert(1)>"


class Folder:
    """A folder with such names in it, and commands in it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys

    def path(self, end: str) -> Path:
        return self.folder / f"{NAME}{end}"

    def run(self, *words: str | Path, code: int = 0) -> str:
        """The messages and the output of a command that ends with this code."""
        with pytest.raises(SystemExit) as done:
            main([str(word) for word in words])
        captured = self.capsys.readouterr()
        printed = captured.out + captured.err
        assert (done.value.code or 0) == code, printed
        assert not [c for c in captured.err if not c.isprintable() and c != "\n"], "control characters in messages"
        return printed


@pytest.fixture
def named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Folder:
    made = Folder(tmp_path, capsys)
    values = tiny_run(tmp_path, label="label")
    shutil.copy(tmp_path / "rows.csv", made.path(".csv"))
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(values))
    return made


def test_a_run_is_refused_before_it_is_trained(named: Folder) -> None:
    """No YAML could hold the name, and no weights be read from such a folder."""
    for option in (("--output", named.path("")), ("--data", named.path(".csv"))):
        printed = named.run("train", named.folder / "run.yaml", *option, code=2)
        assert "\\udcff" in printed and "not valid Unicode; if it names a file or a folder, rename it" in printed
    assert not named.path("").exists() and not (named.folder / "run").exists()


def test_evaluation_and_pages(named: Folder) -> None:
    run = named.folder / "run"
    named.run("train", named.folder / "run.yaml")
    named.run("evaluate", run, "--data", named.path(".csv"), "--output", named.path(""))
    other = named.folder / "other"
    shutil.copytree(run, other)
    report = read_json_object(named.path("") / "report.json")
    assert report["data"]["files"] == [readable_path(NAME + ".csv")] and "\\xff" in report["data"]["files"][0]
    for words in (
        ("errors", run, "--data", named.path(".csv"), "--html", named.path("e.html")),
        ("look", run / "model", "time flies", "--html", named.path("l.html")),
        ("compare", run, other, "--html", named.path("c.html")),
        ("curves", run, "--html", named.path("k.html")),
        ("data", "inspect", named.path(".csv"), "--html", named.path("d.html")),
        ("data", "card", named.path(".csv"), "--title", NAME, "--output", named.path(".md")),
    ):
        named.run(*words)
    for page in named.folder.glob("*.html"):
        assert "<img src=x onerror" not in page.read_text(encoding="utf-8").replace("&lt;img src=x onerror", "")
    assert "\\udcff" in named.path(".md").read_text(encoding="utf-8")
    version = ("data", "version", named.path(".csv"), "--title", "x", "--version", "1.0.0", "--output", named.path("v"))
    assert "is no UTF-8, so no list of files can name it" in named.run(*version, code=2)


def test_a_corpus_and_a_map(named: Folder, shared: Path) -> None:
    stories, index = shared / "models" / "stories260k", named.path("index")
    named.run("corpus", "index", stories, named.path(".csv"), "--output", index)
    search = ("corpus", "search", stories, index, "time flies", "--token", "time", "--layer", "5")
    assert "[time] flies" in named.run(*search)
    named.run(*search, "--html", named.path("s.html"))
    named.run("embed-map", stories, named.path(".csv"), "--word", "flies", "--html", named.path("m.html"))


def test_a_recording_is_known_again(named: Folder) -> None:
    """Two names that differ in a byte that is no UTF-8 are two recordings."""
    model, out = whisper_folder(named.folder / "model"), named.path("")
    other = Path(os.fsdecode(os.fsencode(named.path(".wav")).replace(b"\xff", b"\xfe")))
    for path in (named.path(".wav"), other):
        soundfile.write(os.fsencode(path), np.random.default_rng(0).normal(size=16_000, scale=0.1), 16_000)
    named.run("transcribe", model, named.path(".wav"), "--output", out)
    assert "finished before" in named.run("transcribe", model, named.path(".wav"), "--output", out)
    assert "finished before" not in named.run("transcribe", model, other, "--output", out)
    records = [json.loads(path.read_text()) for path in out.rglob("*.json")]
    assert len({record["recording"] for record in records}) == 2
    named.run("transcribe", model, other, "--html", named.path("t.html"))
