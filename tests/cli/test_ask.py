"""`glassformer index`, `find` and `ask`: answers and places on the screen, JSON, questions line by line, and errors."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

import glassformer.retrieval.indexing as indexing
from tests.cli.conftest import Command
from tests.e2e.tiny_models import make_folder
from tests.explorer.reader import Reader
from tests.retrieval.encoders import write_documents

ANSWER = "The lighthouse was built in 1874."


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Documents, one of which is damaged, in the current folder."""
    monkeypatch.chdir(tmp_path)
    write_documents(tmp_path / "notes")
    (tmp_path / "notes/damaged.pdf").write_bytes(b"%PDF-1.4\n nothing")
    return Path("notes")


@pytest.fixture
def store(folder: Path, command: Command) -> Path:
    """A store of the documents, for search by words."""
    done = command("index", folder, "--output", "notes.store", "--model", "none")
    assert done.returncode == 0, done.stderr
    return Path("notes.store")


def plain(text: str) -> str:
    return " ".join(text.split())


def test_index_says_what_was_done_and_what_was_not_read(folder: Path, command: Command) -> None:
    done = command("index", folder, "--output", "notes.store", "--model", "none")
    assert done.returncode == 0, done.stderr
    assert "notes.store: 3 documents, 5 passages; search by words alone" in done.stdout
    assert "damaged.pdf" in done.stdout and "it is no PDF, or a damaged one" in done.stdout
    assert "files: 3 added; " in done.stdout and "embedded" not in done.stdout
    assert 'glassformer ask "your question" --store notes.store' in done.stdout
    (folder / "tower.md").unlink()
    (folder / "new.txt").write_text("Something new.")
    again = command("index", folder, "--output", "notes.store", "--json")
    report = json.loads(again.stdout)
    assert {what: count for what, count in report["changes"].items() if count} == {
        "unchanged": 2, "added": 1, "removed": 1,
    }  # fmt: skip
    assert (report["document_count"], report["model"]) == (3, None)
    status = command("index", "notes.store", "--status")
    assert "3 documents" in status.stdout and "damaged.pdf" in status.stdout and "files:" not in status.stdout
    assert [x["file"] for x in json.loads(command("index", "notes.store", "--status", "--json").stdout)["unread"]] == [
        "damaged.pdf"
    ]


def test_a_folder_without_files_or_text(tmp_path: Path, command: Command) -> None:
    (tmp_path / "empty").mkdir()
    done = command("index", tmp_path / "empty", "--output", tmp_path / "store", "--model", "none")
    assert done.returncode == 0 and "there are no files in the folder" in done.stdout and "next:" not in done.stdout
    (tmp_path / "empty/photo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    done = command("index", tmp_path / "empty", "--output", tmp_path / "store")
    assert "0 documents, 0 passages" in plain(done.stdout) and "it is a PNG image" in done.stdout
    assert "next:" not in done.stdout


def test_what_gitignore_names(folder: Path, command: Command) -> None:
    pytest.importorskip("pathspec")
    (folder / ".gitignore").write_text("*.csv\n")
    done = command("index", folder, "--output", "a", "--model", "none", "--exclude", "*.pdf", "--json")
    assert (json.loads(done.stdout)["document_count"], json.loads(done.stdout)["unread"]) == (2, [])
    done = command("index", folder, "--output", "a", "--no-gitignore", "--exclude", "*.pdf", "--json")
    assert json.loads(done.stdout)["document_count"] == 3


def test_find(store: Path, command: Command) -> None:
    done = command("find", "which ship turned?", "--store", store, "--top", 1, "--trace")
    assert done.returncode == 0, done.stderr
    heading, passages, trace, words = done.stdout.strip().split("\n\n")
    assert heading == "which ship turned?" and passages.split("\n")[1].startswith("tower.md:8 ")
    assert "The ship turned at once." in plain(passages)
    assert [line.split()[0] for line in trace.split("\n")] == ["stage", "bm25"]
    (line,) = words.split("\n")[1:]
    added = [float(x) for x in re.findall(r"(?:ship|turned) ([\d.]+)", line)]
    assert line.startswith("tower.md:8 ") and len(added) == 2
    assert float(line.split()[1]) == pytest.approx(sum(added), abs=0.0011)
    result = json.loads(command("find", "fruit", "--store", store, "--folder", "notes", "--json").stdout)
    assert all(x["ranks"]["bm25"] == n for n, x in enumerate(result["matches"], 1))
    assert {word["word"] for x in result["matches"] for word in x["words"]} == {"fruit"}
    assert result["method"] == "bm25" and {x["file"] for x in result["matches"]} == {"notes/prices.csv"}
    result = json.loads(command("find", "fruit", "--store", store, "--where", "price=4", "--json").stdout)
    assert [x["metadata"]["fruit"] for x in result["matches"]] == ["pear"]
    assert "no passage for: xyzzy" in command("find", "xyzzy", "--store", store).stdout


def test_ask(store: Path, command: Command) -> None:
    done = command("ask", "When was the lighthouse built?", "--store", store, "--trace")
    assert done.returncode == 0, done.stderr
    question, answer, place, passages, *_ = done.stdout.split("\n\n")
    assert (question, answer, place) == ("When was the lighthouse built?", ANSWER, "from tower.md:6")  # of the sentence
    assert passages.split("\n")[1].startswith("tower.md:4 ")
    assert "nearest sentence" in done.stdout
    report = json.loads(command("ask", "When was the lighthouse built?", "--store", store, "--json").stdout)
    text = Path("notes/tower.md").read_text()
    assert (report["kind"], report["answer"], text[report["start"] : report["stop"]]) == ("answer", ANSWER, ANSWER)
    assert "The documents have nothing about this." in command("ask", "xyzzy", "--store", store).stdout


def test_a_question_a_line(store: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = "When was the lighthouse built?\n\n  which fruit is red?  \n"
    monkeypatch.setattr("sys.stdin", io.StringIO(questions))
    done = command("ask", "--store", store)
    assert done.returncode == 0, done.stderr
    assert ANSWER in done.stdout and "Apples are red." in done.stdout
    assert "question>" not in done.stdout and plain(done.stdout).count("--reader MODEL") == 1
    monkeypatch.setattr("sys.stdin", io.StringIO(questions))
    lines = command("ask", "--store", store, "--json").stdout.splitlines()
    assert [json.loads(line)["question"] for line in lines] == [
        "When was the lighthouse built?", "which fruit is red?",
    ]  # fmt: skip


def test_the_prompt_of_a_terminal(store: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["which ship turned?"])
    prompts = []

    def read(prompt: str = "") -> str:
        prompts.append(prompt)
        if (line := next(typed, None)) is None:
            raise EOFError
        return line

    monkeypatch.setattr("builtins.input", read)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    done = command("ask", "--store", store)
    assert done.returncode == 0 and "The ship turned at once." in done.stdout
    assert prompts == ["question> ", "question> "]


def test_without_the_default_model_search_is_by_words(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "DEFAULT_MODEL", "no-such-organisation/encoder")
    done = command("index", folder, "--output", "notes.store", "--offline")
    assert done.returncode == 0, done.stderr
    assert "note: search is by words alone: the model no-such-organisation/encoder" in done.stderr
    assert "--model FOLDER" in done.stderr
    again = command("index", folder, "--output", "notes.store", "--offline")
    assert again.returncode == 0 and "files: 3 unchanged" in again.stdout


def test_a_reader_of_another_kind(store: Path, command: Command, minilm: Path) -> None:
    done = command("ask", "When was the lighthouse built?", "--store", store, "--reader", minilm)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert "is no reader: it neither finds answers (question-answering) nor writes" in plain(done.stderr)


def test_a_reader_that_writes(store: Path, command: Command, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stories = shared / "models/stories260k"
    asked = ("ask", "When was the lighthouse built?", "--store", store, "--reader", stories, "--answer-tokens", 80)
    done = command(*asked, "--trace", "--html", "page.html")
    assert done.returncode == 0, done.stderr
    assert "The documents do not answer this." in done.stdout
    assert {"bm25", "prompt", "write", "check"} <= {line.split()[0] for line in done.stdout.splitlines() if line}
    assert "The documents do not answer this." in Path("page.html").read_text()
    report = json.loads(command(*asked, "--json").stdout)
    assert report["answer"] == "" and report["read"] and all(x["passage"] is None for x in report["sentences"])
    report = json.loads(command(*asked, "--support", 0, "--json").stdout)  # whatever it makes up
    assert [x["passage"] for x in report["sentences"]] == [x["cited"] for x in report["sentences"]] != []
    assert "[" in report["answer"]
    monkeypatch.setattr("sys.stdin", io.StringIO("When was the lighthouse built?\nwhich fruit is red?\n"))
    done = command("ask", *asked[2:], "--json")
    assert len(done.stdout.splitlines()) == 2


def test_by_meaning(folder: Path, command: Command, minilm: Path) -> None:
    done = command("index", folder, "--output", "notes.store", "--model", minilm)
    assert done.returncode == 0, done.stderr
    assert "search by words, and meaning by" in done.stdout and "5 passages embedded" in done.stdout
    report = json.loads(command("ask", "vessel", "--store", "notes.store", "--json").stdout)
    assert report["method"] == "fusion" and report["answer"] in ("A ship saw the light.", "The ship turned at once.")
    assert (
        json.loads(command("find", "vessel", "--store", "notes.store", "--method", "bm25", "--json").stdout)["matches"]
        == []
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["index", "notes"], "--output is missing; give the folder of the store that is made: --output notes.store"),
        (["index", "none", "--output", "s"], "none: no such folder; give the folder of your documents"),
        (["index", "notes/tower.md", "--output", "s"], "notes/tower.md: not a folder"),
        (["index", "notes", "--output", "notes/tower.md"], "a file of this name is there, and a store is a folder"),
        (["index", "notes", "--output", "notes"], "the documents are in this folder; give the store one of its own"),
        (["index", "notes", "--output", "."], "the documents are in this folder"),
        (["index", "notes", "--output", "s", "--model", "no-such/model", "--offline"], "no-such/model"),
        (
            ["index", "notes", "--output", "s", "--model", "none", "--overlap", "9", "--size", "9"],
            "passages would never",
        ),
        (["index", "notes", "--status"], "notes: not a store of documents"),
        (["find", "x", "--store", "none"], "none: no such folder; `glassformer index FOLDER --output none` makes"),
        (["find", "x", "--store", "notes/tower.md"], "not a store of documents, but a file"),
        (["find", " ", "--store", "notes.store"], "the question is empty; ask something"),
        (["find", "x", "--store", "notes.store", "--method", "dense"], "this store has no vectors"),
        (["find", "x", "--store", "notes.store", "--model", "m"], "this store has no vectors"),
        (["find", "x", "--store", "notes.store", "--where", "year"], "--where takes name=value"),
        (
            ["ask", "x", "--store", "notes.store", "--top", "0"],
            "--top is 0; it must be a whole number from 1 to 1,000,000,000,000,000",
        ),
        (["evaluate", "notes.store", "--queries", "q.csv", "--top", "3"], "--top is 3, the number of passages that a"),
        (["ask", "ship", "--store", "notes.store", "--reader", "no-such-folder", "--offline"], "no-such-folder"),
    ],
)
def test_errors(store: Path, command: Command, arguments: list[str], message: str) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert message in plain(done.stderr)
    assert "Traceback" not in done.stderr
    assert not Path("s").exists()


@pytest.mark.parametrize("name", ["ask", "find"])
def test_a_page_of_the_answer(store: Path, command: Command, name: str) -> None:
    done = command(name, "When was the lighthouse built?", "--store", store, "--html", "page.html")
    assert done.returncode == 0 and "saved in page.html" in done.stdout, done.stderr
    page = Path("page.html").read_text()
    assert "When was the lighthouse built?" in page and (name == "find" or (ANSWER in page and "tower.md:4" in page))
    refused = command(name, "ship", "--store", store, "--html", "page.txt")
    assert refused.returncode == 2 and "must end in .html" in refused.stderr


def test_a_page_is_of_one_question(store: Path, command: Command) -> None:
    refused = command("ask", "--store", store, "--html", "page.html")
    assert refused.returncode == 2 and "--html is the page of one question" in refused.stderr


def test_a_filter_by_metadata_that_no_document_has_is_refused(store: Path, command: Command) -> None:
    refused = command("find", "fruit", "--store", store, "--where", "prise=4")
    assert refused.returncode == 2
    assert plain(refused.stderr) == (
        "error: --where is 'prise=4'; nearest: 'price'; no document of the store has metadata of this name; it has: "
        "fruit, price, year"
    )
    allowed = command("ask", "fruit", "--store", store, "--where", "price=400")  # of which there may be one tomorrow
    assert allowed.returncode == 0 and "The documents have nothing about this." in allowed.stdout


def test_one_word_means_one_thing_in_the_json_of_an_answer(
    store: Path, command: Command, tmp_path: Path, shared: Path
) -> None:
    """`score` is that by which a thing is ranked: that of the answer stands above those of the others."""
    folder = make_folder(tmp_path / "reader", "bert", task="question-answering")
    report = json.loads(command("ask", "fruit", "--store", store, "--reader", folder, "--json").stdout)
    assert report["others"] and report["score"] >= max(x["score"] for x in report["others"])
    assert all(x.keys() >= {"score", "span_score", "passage_score"} for x in report["others"])
    assert all(x["passage_score"] == report["matches"][x["passage"]]["score"] for x in report["others"])


def test_messages_name_options_as_they_are_typed(
    store: Path, folder: Path, command: Command, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("ask", "built?", "--store", store, "--reader", shared / "models/stories260k", "--answer-tokens", 8)
    done = command(*asked)
    assert "cut after 8 tokens; an unfinished sentence is left out: --answer-tokens N lets" in plain(done.stdout)
    for html in ([], ["--html", "page.html"], ["--json"]):
        done = command("ask", "built", "--store", store, *html)
        assert "question-answering model (--reader MODEL) finds" in plain(done.stdout)
    assert "reader=" not in done.stdout
    remarks = Reader(Path("page.html").read_text()).json("report-data")["reports"][0]["remarks"]
    assert any("(--reader MODEL) finds" in remark for remark in remarks) and "reader=" not in str(remarks)
    limited = command("index", folder, "--output", "small", "--max-bytes", 20, "--model", "none")
    assert "and the limit is 20" in plain(limited.stdout)
    assert "--max-bytes N and --seconds N raise these limits" in plain(limited.stdout)
    monkeypatch.setattr("sys.stdin", io.StringIO("where?\n"))
    done = command("ask", "--store", store, "--method", "bm25", "--late-interaction", 3)
    assert "note: --late-interaction is 3, which needs a sentence encoder" in done.stderr


def test_what_a_change_of_size_did(folder: Path, store: Path, command: Command) -> None:
    (folder / "new.txt").write_text("Something new.")
    (folder / "tower.md").unlink()
    done = command("index", folder, "--output", store, "--size", 40, "--overlap", 3)
    (line,) = re.findall(r"files: (.*); \d+\.\d s", done.stdout)
    assert set(line.split(", ")) == {"1 added", "2 made again", "1 removed"}
    assert "all passages were made again: size 40 instead of 256, overlap 3 instead of 32" in plain(done.stdout)
    report = json.loads(command("index", folder, "--output", store, "--json").stdout)
    assert {k: n for k, n in report["changes"].items() if n} == {"unchanged": 3} and report["replaced"] == ""


def test_an_empty_folder_and_another_size_remove_nothing(folder: Path, store: Path, command: Command) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    refused = command("index", folder, "--output", store, "--size", 40)
    assert refused.returncode == 2 and "the store has 3 documents of it, which stay" in plain(refused.stderr)
    assert ANSWER in command("ask", "When was the lighthouse built?", "--store", store).stdout


def test_the_nearest_name_is_of_the_same_kind(folder: Path, store: Path, command: Command, minilm: Path) -> None:
    """Where a model is missing no store is suggested, nor a model for a store."""
    Path("notes.storf").symlink_to(minilm)
    stderr = plain(command("find", "x", "--store", "notes.stor").stderr)
    assert "notes.stor: no such folder; nearest: 'notes.store'; `glassformer index" in stderr
    Path("notes.storf").rename("models.e5")
    stderr = plain(command("index", folder, "--output", "s", "--model", "./notes.stora", "--offline").stderr)
    assert "nearest" not in stderr and "notes.stora" in stderr
    stderr = plain(command("index", folder, "--output", "s", "--model", "./model.e5", "--offline").stderr)
    assert "nearest: 'models.e5'" in stderr


def test_a_store_without_the_file_that_names_its_database(folder: Path, store: Path, command: Command) -> None:
    """One database can only be that which answers; of several each command says the same."""
    (store / "store.json").unlink()
    assert ANSWER in command("ask", "When was the lighthouse built?", "--store", store).stdout
    (store / "store.json").unlink(missing_ok=True)
    done = command("index", folder, "--output", store, "--size", 40, "--overlap", 3)
    assert "3 made again" in done.stdout
    assert (store / "store.json").is_file()
    (store / "store.json").unlink()
    (store / "passages-0123456789ab.sqlite").write_bytes((next(store.glob("*.sqlite"))).read_bytes())
    for arguments in (["find", "ship", "--store", store], ["index", folder, "--output", store]):
        refused = command(*arguments)
        assert refused.returncode == 2 and "store.json: is missing, which says which of " in plain(refused.stderr)


def test_passages_of_one_file_without_lines_have_numbers(tmp_path: Path, command: Command) -> None:
    pytest.importorskip("selectolax")
    (tmp_path / "pages").mkdir()
    long = f"<p>{'The ferry is never late. ' * 40}"
    (tmp_path / "pages/ferry.html").write_text(f"<h1>Ferry</h1>{long}<h2>Fare</h2>{long}")
    (tmp_path / "pages/short.html").write_text("<p>A ferry.")
    command("index", tmp_path / "pages", "--output", tmp_path / "store", "--model", "none")
    done = command("find", "ferry", "--store", tmp_path / "store", "--html", tmp_path / "page.html")
    assert {"ferry.html, passage 1", "ferry.html, passage 2"} == set(
        re.findall(r"ferry\.html, passage \d", done.stdout)
    )
    page = (tmp_path / "page.html").read_text()
    assert "ferry.html, passage 1" in page and "ferry.html, passage 2" in page
