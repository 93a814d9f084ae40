"""`glassformer predict`: texts in, answers out, on the screen or line by line in a file that a stop does not ruin."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glassformer import ConfigError, DataError, UnsupportedError, pipeline
from glassformer.cli.predict import predict
from tests.cli.test_app import run
from tests.e2e.tiny_models import make_folder, word_tokenizer

WORDS = "[PAD] [CLS] [SEP] [UNK] time flies like an arrow fruit a banana . [MASK]".split()
GAP = "time [MASK] like an arrow"


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = make_folder(tmp_path_factory.mktemp("bert") / "bert", "bert", task="fill-mask")
    word_tokenizer(words=WORDS).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"pad_token": "[PAD]", "mask_token": "[MASK]"}')
    return str(folder)


@pytest.fixture(scope="module")
def stories(shared: Path) -> str:
    return str(shared / "models" / "stories260k")


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_one_text(bert: str, capsys: Any) -> None:
    words = ["flies", "like", "banana"]
    predict(bert, [GAP], task="fill-mask", top_k=2, target=words)
    best, second = capsys.readouterr().out.splitlines()
    expected = pipeline("fill-mask", bert, top_k=2, targets=words)(GAP)
    assert best.split()[:2] == [f"{expected[0].score:.2%}", expected[0].token_str]
    assert second.endswith(expected[1].sequence)
    predict(bert, ["[MASK] flies like [MASK]"], task="fill", target=["time", "banana"])
    assert len(capsys.readouterr().out.split("\n\n")) == 3


def test_several_texts_a_line_each(bert: str, capsys: Any) -> None:
    predict(bert, [GAP, "[MASK] flies"], task="fill-mask")
    fill = pipeline("fill-mask", bert)
    assert capsys.readouterr().out.splitlines() == fill.texts([GAP, "[MASK] flies"])
    predict(bert, [GAP, "[MASK] flies"], task="fill-mask", json=True)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["text"] for row in rows] == [GAP, "[MASK] flies"]
    assert rows[0]["results"] == [dict(result) for result in fill(GAP)]


def test_a_precision(bert: str, capsys: Any) -> None:
    predict(bert, [GAP], task="fill-mask", json=True, precision="bf16")
    answered = json.loads(capsys.readouterr().out)["results"]
    fill = pipeline("fill-mask", bert)
    fill.model.prepare("bf16")
    assert [dict(one) for one in fill(GAP)] == answered
    with pytest.raises(ConfigError, match="precision is 'fp61'"):
        predict(bert, [GAP], task="fill-mask", precision="fp61")


def test_writing(stories: str, capsys: Any) -> None:
    predict(stories, ["Once upon a time"], task="text-generation", max_new_tokens=9)
    write = pipeline("text-generation", stories)
    assert capsys.readouterr().out == write("Once upon a time", max_new_tokens=9)[0].text + "\n"
    given = ["do_sample=true", "seed=1", "top_p=0.9", 'stop_strings=["."]', "prefix=One day"]
    predict(stories, [" she"], task="generate", set=given, max_new_tokens=9)
    asked = {"do_sample": True, "seed": 1, "top_p": 0.9, "stop_strings": ["."], "prefix": "One day"}
    assert capsys.readouterr().out == write(" she", max_new_tokens=9, **asked)[0].text + "\n"


@pytest.mark.parametrize(
    ("name", "content", "column"),
    [
        ("texts.txt", f"{GAP}\r\n[MASK] flies\n", "text"),
        ("texts.jsonl", json.dumps({"text": GAP}) + '\n\n"[MASK] flies"\n', "text"),
        ("texts.jsonl", json.dumps({"x": GAP}) + '\n{"x": "[MASK] flies"}', "x"),
        ("texts.csv", f'id,said\n1,"{GAP}"\n2,[MASK] flies\n', "said"),
        ("texts.json", json.dumps([{"text": GAP}, {"text": "[MASK] flies"}]), "text"),
        ("texts.csv", f"\ufefftext\r\n{GAP}\r\n[MASK] flies\r\n", "text"),
    ],
)
def test_files(bert: str, tmp_path: Path, name: str, content: str, column: str) -> None:
    (tmp_path / name).write_bytes(content.encode())
    predict(bert, task="fill-mask", input=tmp_path / name, output=tmp_path / "out.jsonl", column=column)
    rows = lines_of(tmp_path / "out.jsonl")
    assert [row["text"] for row in rows] == [GAP, "[MASK] flies"]
    fill = pipeline("fill-mask", bert)
    assert rows[1]["results"] == [dict(result) for result in fill([GAP, "[MASK] flies"])[1]]


def test_standard_input(bert: str, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(f"{GAP}\n[MASK] flies\n".encode())))
    predict(bert, ["-"], task="fill-mask")
    assert len(capsys.readouterr().out.splitlines()) == 2
    for content, said in (
        (b"", "standard input is empty"),
        (b"a\n\xff", "standard input: line 2 is not UTF-8"),
    ):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        with pytest.raises(DataError, match=said):
            predict(bert, ["-"], task="fill-mask")


def test_what_is_there_is_not_overwritten(bert: str, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    asked = {"task": "fill-mask", "output": out, "batch_size": 1}
    predict(bert, [GAP], **asked)
    kept = out.read_bytes()
    with pytest.raises(
        DataError, match="is there already; --resume goes on where it ends, --overwrite replaces it"
    ):
        predict(bert, [GAP], **asked)
    assert out.read_bytes() == kept
    predict(bert, [GAP, "[MASK] flies"], resume=True, **asked)
    assert out.read_bytes().startswith(kept) and len(lines_of(out)) == 2
    whole = out.read_bytes()
    predict(bert, [GAP, "[MASK] flies"], resume=True, **asked)  # all is done
    assert out.read_bytes() == whole
    out.write_bytes(whole[:-9])  # stopped in the middle of a line
    predict(bert, [GAP, "[MASK] flies"], resume=True, **asked)
    assert out.read_bytes() == whole
    with pytest.raises(DataError, match="holds answers to other texts"):
        predict(bert, ["[MASK] flies"], resume=True, **asked)
    predict(bert, ["[MASK] flies"], overwrite=True, **asked)
    assert len(lines_of(out)) == 1
    out.write_text("no answers\n")
    with pytest.raises(DataError, match="is no file of answers"):
        predict(bert, [GAP], resume=True, **asked)


def test_a_bad_text_loses_nothing_before_it(bert: str, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with pytest.raises(DataError, match="text 2: the text 'flies' has no gap"):
        predict(bert, [GAP, "[MASK] flies", "flies", GAP], task="fill-mask", output=out, batch_size=1)
    assert [row["text"] for row in lines_of(out)] == [GAP, "[MASK] flies"]


def test_a_killed_run_keeps_its_lines(stories: str, tmp_path: Path) -> None:
    out, texts = tmp_path / "out.jsonl", tmp_path / "texts.txt"
    texts.write_text("".join(f"Once upon a time {i}\n" for i in range(5_000)))
    asked = [
        "predict",
        "-t",
        "text-generation",
        stories,
        "-i",
        str(texts),
        "-o",
        str(out),
        "-n",
        "4",
        "--batch-size",
        "1",
    ]
    running = subprocess.Popen(
        [sys.executable, "-m", "glassformer", *asked], env=os.environ, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 120
    while not (out.exists() and out.read_bytes().count(b"\n") > 2):
        assert time.monotonic() < deadline and running.poll() is None
        time.sleep(0.05)
    running.send_signal(signal.SIGKILL)
    running.wait()
    done = lines_of(out) if out.read_bytes().endswith(b"\n") else lines_of(out)[:-1]
    assert 2 < len(done) < 5_000 and done[2]["text"] == "Once upon a time 2"


def test_in_a_process_of_its_own(bert: str, tmp_path: Path) -> None:
    done = run("predict", "--task", "fill-mask", bert, GAP, "--json")
    assert (done.returncode, done.stderr) == (0, "") and json.loads(done.stdout)["text"] == GAP
    gpt2 = make_folder(tmp_path / "gpt2", "gpt2")
    done = run("predict", "-t", "fill-mask", str(gpt2), GAP)
    assert done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) == 1
    assert "a decoder reads from left to right" in done.stderr
    done = run("predict", "--help")
    for word in ("Examples", "--task", "--resume", "--target", "--column", "summaries.jsonl"):
        assert word in done.stdout


@pytest.mark.parametrize(
    ("texts", "asked", "kind", "said"),
    [
        ([GAP], {"task": ""}, ConfigError, "--task is missing"),
        ([GAP], {"task": "juggling"}, UnsupportedError, "no pipeline for the task 'juggling'"),
        ([], {}, DataError, "give texts on the command line, or --input FILE, or -"),
        ([GAP], {"input": Path("x")}, DataError, "give texts on the command line"),
        ([], {"input": Path("nowhere.txt")}, DataError, "nowhere.txt: cannot be read"),
        ([GAP], {"set": ["a"]}, ConfigError, "must be name=value"),
        ([GAP], {"set": ["num_beams=4"]}, ConfigError, "takes no 'num_beams'"),
        ([GAP], {"output": Path("nowhere/out")}, DataError, "name a file in a folder that exists"),
        ([GAP], {"output": Path("x"), "resume": True, "overwrite": True}, ConfigError, "give one of them"),
    ],
)
def test_bad_requests(
    bert: str, texts: list[str], asked: dict[str, Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        predict(bert, texts, **{"task": "fill-mask", **asked})


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", "{", "line 1 is no JSON"),
        ("a.jsonl", '{"a": 1}', "line 1: no column 'text'; there are: 'a'; say --column"),
        ("a.jsonl", "\n5", "line 2 holds 5"),
        ("a.csv", "a,b\n1,2\n", "line 2: no column 'text'; there are: 'a', 'b'"),
        ("a.csv", "", "holds no row"),
        ("a.csv", "a,text\n1\n", "line 2 has 1 fields"),
        ("a.csv", 'text\n"a\n', "line 2 cannot be read as a row"),
        ("a.json", '[{"text": 5}]', "line 1 holds 5"),
        ("a.txt", "", "is empty"),
    ],
)
def test_bad_files(bert: str, tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=said):
        predict(bert, task="fill-mask", input=tmp_path / name)
