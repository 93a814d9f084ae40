"""`glassformer compare`: a table, JSON, a page, and one line for every mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from glassformer import GlassformerError
from glassformer.cli.compare import compare
from glassformer.tasks.seq2seq.baselines import Lead
from tests.cli.conftest import Command
from tests.e2e.tiny_models import make_folder
from tests.evaluation.made import make_run

pytest.importorskip("rouge_score", reason="needs rouge-score: pip install 'glassformer[evaluate]'")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    lines = [f"Cat {i} ran. It was wet. It slept. All \x1b[31mwell.,Cat {i} slept." for i in range(9)]
    path.write_text("\n".join(["article,highlights", *lines]), encoding="utf-8")
    return path


def test_as_a_command(rows: Path, tmp_path: Path, command: Command) -> None:
    folder = make_folder(tmp_path / "tiny", "bart")
    page = tmp_path / "page.html"
    done = command(
        "compare", "--data", str(rows), "lead-3", str(folder), "--limit", "5", "-n", "4", "--html", str(page)
    )
    assert done.returncode == 0, done.stderr
    for word in (
        "summarization of 5 rows",
        "ROUGE-Lsum",
        "lead-3",
        "tiny",
        "difference",
        "seconds",
        "reference  Cat 0",
        "●",
    ):
        assert word in done.stdout
    assert "\x1b" not in done.stdout and "\\x1b[31m" in done.stdout
    assert done.stderr == ""
    assert "<title>Summarization: lead-3, tiny</title>" in page.read_text("utf-8")


def test_json(rows: Path, capsys: Any) -> None:
    compare(["lead-3", "lead-1"], data=rows, json=True, examples=1)
    report = json.loads(capsys.readouterr().out)
    assert report["rows"] == 9 and not report["interrupted"]
    assert report["systems"][1]["differences"]["ROUGE-1 f"]["high"] is not None
    assert report["examples"][0]["outputs"]["lead-1"] == "Cat 0 ran."


def test_other_columns_and_translation(tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("sacrebleu", reason="needs sacrebleu: pip install 'glassformer[evaluate]'")
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"en": "time flies", "de": ["die Zeit", "Zeit"]}\n')
    folder = make_folder(tmp_path / "marian", "marian")
    compare([str(folder)], data=path, columns=["source=en", "target=de"], task="translation", max_new_tokens=4)
    out = capsys.readouterr().out
    assert "BLEU" in out and "chrF" in out and "nrefs:2" in out


def test_ctrl_c_shows_what_was_judged(rows: Path, monkeypatch: Any, capsys: Any) -> None:
    calls = 0

    def write(self: Lead, texts: list[str]) -> list[str]:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return ["x"] * len(texts)

    monkeypatch.setattr(Lead, "__call__", write)
    with pytest.raises(typer.Exit) as ended:
        compare(["lead-3"], data=rows, batch=2)
    assert ended.value.exit_code == 130
    shown = capsys.readouterr()
    assert "summarization of 4 rows, those evaluated before Ctrl-C" in shown.out
    assert shown.err == "interrupted: 4 of 9 rows were evaluated\n"


def test_warnings_are_notes(rows: Path, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"article": "кот", "highlights": "кот"}\n' * 3)
    compare(["lead-1"], data=path)
    assert capsys.readouterr().err.count("note: a reference has no word that ROUGE reads") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["source=articel"]}, "line 2: no column 'articel'; nearest: 'article'"),
        ({"task": "chess"}, "task is 'chess'; allowed: classify, .*summarise"),
        ({"html": "."}, "is a folder; name a file in it"),
        ({"html": "no/page.html"}, r"no such folder to save page\.html in"),
        ({"language": "xx"}, "language 'xx'"),
        ({"systems": ["lead-3", "lead-3"]}, "two systems are called 'lead-3'"),
        ({"columns": ["sauce=a"]}, "there is no column for 'sauce'.*; there is one for: source, target"),
        ({"batch": 0}, "--batch is 0; it must be a whole number from 1"),
    ],
)
def test_errors_come_before_any_work(rows: Path, options: dict[str, Any], message: str) -> None:
    arguments = {"systems": ["lead-3"], **options}
    if "html" in arguments:
        arguments["html"] = rows.parent / arguments["html"]
    with pytest.raises(GlassformerError, match=message):
        compare(data=rows, **arguments)


def test_options_of_texts_need_test_data() -> None:
    with pytest.raises(GlassformerError, match=r"^--column and --limit: of systems that .* is missing: --data FILE$"):
        compare(["runs/a"], columns=["source=a"], limit=3)


def test_options_of_predictions_need_something_that_predicts(tmp_path: Path) -> None:
    make_run(tmp_path / "a", [True, False])
    with pytest.raises(GlassformerError, match=r"^--batch and --examples: of systems that .* is missing: --data FILE$"):
        compare([str(tmp_path / "a")], batch=3, examples=1)


def test_a_published_data_set_is_read_by_its_name(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "samsum").mkdir()
    for split in ("test", "val"):
        row = {"id": "1", "dialogue": f"{split}: hi. B: bye.", "summary": "Hi."}
        (tmp_path / "samsum" / f"{split}.json").write_text(json.dumps([row]))
    compare(["lead-1"], data=tmp_path / "samsum", kind="samsum", part="test", json=True)
    report = json.loads(capsys.readouterr().out)
    assert (report["rows"], report["examples"][0]["outputs"]) == (1, {"lead-1": "test: hi."})
    with pytest.raises(GlassformerError, match=r"^--kind: of systems that .* is missing: --data FILE$"):
        compare(["runs/a"], kind="samsum")


def test_a_mistake_is_one_line(rows: Path, command: Command) -> None:
    done = command("compare", "--data", str(rows), "lead-3", "--column", "target=summary")
    assert (done.returncode, done.stdout) == (2, "")
    missing = (
        "line 2: no column 'summary'; there are: 'article', 'highlights'; say which one it is: --column target=NAME"
    )
    assert done.stderr == f"error: {rows}: {missing}\n"
