"""`glassformer predict`: texts in, answers out, on the screen or line by line in a file that a stop does not ruin."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glassformer import ConfigError, DataError, UnsupportedError, pipeline
from glassformer.cli.predict import predict
from tests.cli.conftest import Command
from tests.e2e.tiny_models import make_folder, word_tokenizer
from tests.full_disk import full_disk

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
    predict("fill-mask", bert, [GAP], top_k=2, targets=words)
    heading, best, second = capsys.readouterr().out.splitlines()
    expected = pipeline("fill-mask", bert, top_k=2, targets=words)(GAP)
    assert heading.split() == ["score", "token", "token_str", "sequence"]
    assert best.split()[0] == f"{expected[0].score:.4f}" and f"  {expected[0].token_str}  " in best
    assert second.rstrip().endswith(expected[1].sequence)
    predict("fill", bert, ["[MASK] flies like [MASK]"], targets=["time", "banana"])
    assert capsys.readouterr().out.count("token_str") == 2


def test_several_texts_a_line_each(bert: str, capsys: Any) -> None:
    predict("fill-mask", bert, [GAP, "[MASK] flies"])
    fill = pipeline("fill-mask", bert)
    assert capsys.readouterr().out.splitlines() == fill.texts([GAP, "[MASK] flies"])
    predict("fill-mask", bert, [GAP, "[MASK] flies"], json=True)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["text"] for row in rows] == [GAP, "[MASK] flies"]
    assert rows[0]["results"] == [dict(result) for result in fill(GAP)]


def test_a_precision(bert: str, capsys: Any) -> None:
    predict("fill-mask", bert, [GAP], json=True, precision="bf16")
    answered = json.loads(capsys.readouterr().out)["results"]
    fill = pipeline("fill-mask", bert)
    fill.model.prepare("bf16")
    assert [dict(one) for one in fill(GAP)] == answered
    with pytest.raises(ConfigError, match="precision is 'fp61'"):
        predict("fill-mask", bert, [GAP], precision="fp61")


def test_writing(stories: str, capsys: Any) -> None:
    predict("text-generation", stories, ["Once upon a time"], max_new_tokens=9)
    write = pipeline("text-generation", stories)
    assert capsys.readouterr().out == write("Once upon a time", max_new_tokens=9)[0].text + "\n"
    given = ["do_sample=true", "seed=1", "top_p=0.9", "stop_strings=['.']", "prefix=One day"]
    predict("generate", stories, [" she"], settings=given, max_new_tokens=9)
    options = {"do_sample": True, "seed": 1, "top_p": 0.9, "stop_strings": ["."], "prefix": "One day"}
    assert capsys.readouterr().out == write(" she", max_new_tokens=9, **options)[0].text + "\n"


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
    predict("fill-mask", bert, [str(tmp_path / name)], output=tmp_path / "out.jsonl", columns=[f"text={column}"])
    rows = lines_of(tmp_path / "out.jsonl")
    assert [row["text"] for row in rows] == [GAP, "[MASK] flies"]
    fill = pipeline("fill-mask", bert)
    assert rows[1]["results"] == [dict(result) for result in fill([GAP, "[MASK] flies"])[1]]


def test_the_format_of_a_file(bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "texts.csv"
    options: dict[str, Any] = {"output": tmp_path / "out.jsonl", "columns": ["text=said"]}
    path.write_text(f"id;said\n1;{GAP}\n2;time, [MASK] flies\n")
    with pytest.raises(DataError, match="and so does line 2: read it with --delimiter ';'"):
        predict("fill-mask", bert, [str(path)], **options)
    predict("fill-mask", bert, [str(path)], delimiter=";", **options)
    assert [row["text"] for row in lines_of(tmp_path / "out.jsonl")] == [GAP, "time, [MASK] flies"]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a;b\n")))
    with pytest.raises(DataError, match="options of a file format are for files"):
        predict("fill-mask", bert, ["-"], delimiter=";")
    (tmp_path / "texts.txt").write_text(GAP)
    with pytest.raises(ConfigError, match="is no option of text"):
        predict("fill-mask", bert, [str(tmp_path / "texts.txt")], delimiter=";")


def test_standard_input(bert: str, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(f"{GAP}\n[MASK] flies\n".encode())))
    predict("fill-mask", bert, ["-"])
    assert len(capsys.readouterr().out.splitlines()) == 2
    for content, message in (
        (b"", "standard input is empty"),
        (b"a\n\xff", "standard input: line 2 is not UTF-8"),
        (b"a\nb\n\0c", "standard input: line 3 holds a NUL byte, so this is a binary file"),
    ):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        with pytest.raises(DataError, match=message):
            predict("fill-mask", bert, ["-"])


def test_what_is_there_is_not_overwritten(bert: str, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    options: dict[str, Any] = {"output": out, "batch_size": 1}
    predict("fill-mask", bert, [GAP], **options)
    saved = out.read_bytes()
    with pytest.raises(
        DataError, match="already exists; --resume continues after its last line, --overwrite replaces it"
    ):
        predict("fill-mask", bert, [GAP], **options)
    assert out.read_bytes() == saved
    predict("fill-mask", bert, [GAP, "[MASK] flies"], resume=True, **options)
    assert out.read_bytes().startswith(saved) and len(lines_of(out)) == 2
    whole = out.read_bytes()
    predict("fill-mask", bert, [GAP, "[MASK] flies"], resume=True, **options)  # all is done
    assert out.read_bytes() == whole
    out.write_bytes(whole[:-9])  # stopped in the middle of a line
    predict("fill-mask", bert, [GAP, "[MASK] flies"], resume=True, **options)
    assert out.read_bytes() == whole
    with pytest.raises(DataError, match="holds predictions for other texts"):
        predict("fill-mask", bert, ["[MASK] flies"], resume=True, **options)
    predict("fill-mask", bert, ["[MASK] flies"], overwrite=True, **options)
    assert len(lines_of(out)) == 1
    out.write_text("no answers\n")
    with pytest.raises(DataError, match="is not a file of predictions"):
        predict("fill-mask", bert, [GAP], resume=True, **options)


def test_a_model_that_does_not_load_leaves_files_as_they_are(tmp_path: Path, command: Command) -> None:
    output, nothing = tmp_path / "answers.jsonl", tmp_path / "nothing"
    words = ["predict", "fill-mask", nothing, "the [MASK]", "--output", output]
    assert command(*words)[0] != 0 and not output.exists()
    output.write_text("an older answer\n")
    assert command(*words, "--overwrite")[0] != 0 and output.read_text() == "an older answer\n"


def test_a_bad_text_loses_nothing_before_it(bert: str, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with pytest.raises(DataError, match="text 2: the text 'flies' has no gap"):
        predict("fill-mask", bert, [GAP, "[MASK] flies", "flies", GAP], output=out, batch_size=1)
    assert [row["text"] for row in lines_of(out)] == [GAP, "[MASK] flies"]


def test_a_full_disk_keeps_what_fits(bert: str, tmp_path: Path) -> None:
    """The error names the file; once there is room, the rest follows."""
    out, texts = tmp_path / "out.jsonl", [GAP] * 20
    with (
        full_disk(3_000),
        pytest.raises(DataError, match="cannot be written: File too large; --resume continues") as raised,
    ):
        predict("fill-mask", bert, texts, output=out)
    assert str(raised.value).startswith(str(out))
    predict("fill-mask", bert, texts, output=out, resume=True)
    assert len(lines_of(out)) == 20


def test_a_killed_run_keeps_its_lines(stories: str, tmp_path: Path) -> None:
    out, texts = tmp_path / "out.jsonl", tmp_path / "texts.txt"
    texts.write_text("".join(f"Once upon a time {i}\n" for i in range(5_000)))
    options = [
        "predict",
        "text-generation",
        stories,
        str(texts),
        "-o",
        str(out),
        "-n",
        "4",
        "--batch-size",
        "1",
    ]
    running = subprocess.Popen([sys.executable, "-m", "glassformer", *options], env=os.environ, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 300
    while not (out.exists() and out.read_bytes().count(b"\n") > 2):
        assert time.monotonic() < deadline and running.poll() is None
        time.sleep(0.05)
    running.send_signal(signal.SIGKILL)
    running.wait()
    done = lines_of(out) if out.read_bytes().endswith(b"\n") else lines_of(out)[:-1]
    assert 2 < len(done) < 5_000 and done[2]["text"] == "Once upon a time 2"


def test_as_a_command(bert: str, tmp_path: Path, command: Command) -> None:
    done = command("predict", "fill-mask", bert, GAP, "--json")
    assert (done.returncode, done.stderr) == (0, "") and json.loads(done.stdout)["text"] == GAP
    gpt2 = make_folder(tmp_path / "gpt2", "gpt2")
    done = command("predict", "fill-mask", str(gpt2), GAP)
    assert done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) == 1
    assert "a decoder reads from left to right" in done.stderr
    done = command("predict", "--help")
    for word in ("Examples", "task", "--resume", "--target", "--column", "summaries.jsonl"):
        assert word in done.stdout


@pytest.mark.parametrize(
    ("texts", "options", "kind", "message"),
    [
        ([GAP], {"task": ""}, UnsupportedError, "no pipeline for the task ''"),
        ([GAP], {"task": "juggling"}, UnsupportedError, "no pipeline for the task 'juggling'"),
        ([], {}, DataError, "give texts, files, or - for standard input"),
        (["-", "-"], {}, DataError, "give it once"),
        (["nowhere.txt"], {}, DataError, "nowhere.txt: no such file; if it is meant as a text"),
        (["tests/cli"], {}, DataError, "tests/cli: is no regular file"),
        (
            [GAP],
            {"columns": ["text_pair=b"]},
            DataError,
            "text_pair= names a column, 'b'; pairs come from tables",
        ),
        ([GAP], {"all_scores": True, "top_k": 2}, ConfigError, "--all-scores and --top-k 2 were both given"),
        ([GAP], {"plot": True, "json": True}, ConfigError, "--plot draws on the screen"),
        ([GAP], {"aggregation_strategy": "none"}, ConfigError, "takes no 'aggregation_strategy'"),
        ([GAP], {"settings": ["a"]}, ConfigError, "--set takes name=value"),
        ([GAP], {"settings": ["num_beams=4"]}, ConfigError, "takes no 'num_beams'"),
        ([GAP], {"output": Path("nowhere/out")}, DataError, "name a file in a folder that exists"),
        ([GAP], {"output": Path("x"), "resume": True, "overwrite": True}, ConfigError, "give one of them"),
    ],
)
def test_bad_requests(
    bert: str, texts: list[str], options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        predict(options.pop("task", "fill-mask"), bert, texts, **options)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "{", "line 1 is not valid JSON"),
        ("a.jsonl", '{"a": 1}', "line 1: no column 'text'; there are: 'a'; say which one it is: --column text=NAME"),
        ("a.jsonl", "\n5", "line 2 holds 5"),
        ("a.csv", "a,b\n1,2\n", "line 2: no column 'text'; there are: 'a', 'b'"),
        ("a.csv", "", "holds no row"),
        ("a.csv", "a,text\n1\n", "line 2 has 1 fields"),
        ("a.csv", 'text\n"a\n', "line 2 cannot be read as a row"),
        ("a.json", '[{"text": 5}]', "line 1 holds 5"),
        ("a.txt", "", "is empty"),
        ("a.txt", "x\n\0", "line 2 holds a NUL byte, so this is a binary file"),
    ],
)
def test_bad_files(bert: str, tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        predict("fill-mask", bert, [str(tmp_path / name)])


def test_binary_files(bert: str, tmp_path: Path) -> None:
    for name, content, message in (
        ("picture.png", b"\x89PNG\r\n\x1a\n\0\0", "line 1 is not UTF-8"),
        ("numbers", b"ok\n" + bytes(range(256)), "line 2 holds a NUL byte"),
        ("wide.txt", "wide".encode("utf-16-le"), "line 1 holds a NUL byte"),
        ("a.csv", b"text\n\xff\xfe\n", "line 2 is not UTF-8"),
        ("a.parquet", b"PAR1 or not", "a.parquet"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=message):
            predict("fill-mask", bert, [str(tmp_path / name)], output=tmp_path / "out.jsonl")
        assert not (tmp_path / "out.jsonl").exists()


def test_texts_files_and_standard_input_in_one_line(bert: str, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gaps").write_text("a [MASK]\nan [MASK]\n")  # no ending says what it is; it is there
    Path("packed.txt.gz").write_bytes(gzip.compress(b"the [MASK]\n"))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"[MASK] flies\n")))
    predict("fill", bert, [GAP, "gaps", "-", "packed.txt.gz"], json=True)
    captured = capsys.readouterr()
    texts = [json.loads(line)["text"] for line in captured.out.splitlines()]
    assert texts == [GAP, "a [MASK]", "an [MASK]", "[MASK] flies", "the [MASK]"]
    assert captured.err == "gaps: read as a file, 2 texts\npacked.txt.gz: read as a file, 1 text\n"


# ------------------------------------------------------------------------------------------------- tasks that read

LABELS = {"id2label": {"0": "bad", "1": "\x1b[31mgood"}, "label2id": {"bad": 0, "\x1b[31mgood": 1}}
TAGS = {"id2label": {"0": "B-PER", "1": "I-PER"}, "label2id": {"B-PER": 0, "I-PER": 1}}


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    root = tmp_path_factory.mktemp("readers")

    def make(task: str, **changes: Any) -> str:
        return str(make_folder(root / str(len(list(root.iterdir()))), "bert", task=task, **changes))

    return make


def test_classes(reader: Callable[..., str], tmp_path: Path, capsys: Any) -> None:
    folder = reader("classify", **LABELS)
    classify = pipeline("classify", folder)
    predict("classify", folder, ["time flies"], all_scores=True)
    _, *rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 2 and all("█" in row for row in rows) and "\x1b" not in "".join(rows)
    assert f"{classify('time flies')[0].score:.4f}" in rows[0]
    predict("classify", folder, ["time flies"])
    assert len(capsys.readouterr().out.splitlines()) == 2
    predict("classify", folder, ["time flies", "fruit"])
    texts = ["time flies", "fruit"]
    for line, text, (best, *_) in zip(capsys.readouterr().out.splitlines(), texts, classify(texts), strict=True):
        name = "\\x1b[31mgood" if best.label != "bad" else best.label
        assert line.split() == [name, f"{best.score:.2%}", *text.split()]
    predict("classify", folder, ["time flies", "fruit"], plot=True, top_k=1)
    assert capsys.readouterr().out.split("\n\n")[1].startswith("fruit\n")
    (tmp_path / "pairs.jsonl").write_text('{"a": "time", "b": "flies"}\n')
    predict(
        "classify",
        folder,
        [str(tmp_path / "pairs.jsonl")],
        columns=["text=a", "text_pair=b"],
        json=True,
        all_scores=True,
    )
    row = json.loads(capsys.readouterr().out)
    assert row["text"] == {"text": "time", "text_pair": "flies"} and len(row["results"]) == 2
    predict("classify", folder, ["time " * 30, "a"], settings=["truncation=true"])
    assert capsys.readouterr().err == "note: 1 of 2 texts were cut to 16 tokens\n"
    with pytest.raises(DataError, match="have more than 16 tokens"):
        predict("classify", folder, ["time " * 30], settings=["truncation=false"])


def test_labels_that_hold_together(reader: Callable[..., str], capsys: Any) -> None:
    folder = reader("classify", problem_type="multi_label_classification", **LABELS)
    predict("classify", folder, ["time", "a"], threshold=0.0)
    assert all(", " in line for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize(
    "given", ["[travel,cooking]", "['travel', 'cooking']", "travel,cooking,", "- travel\n- cooking"]
)
def test_settings_are_read_as_those_of_train_are(reader: Callable[..., str], capsys: Any, given: str) -> None:
    """As YAML: a list needs no quotes within it."""
    folder = reader("classify", id2label={"0": "entailment", "1": "other"}, label2id={"entailment": 0, "other": 1})
    predict("zero-shot-classification", folder, ["time flies"], settings=[f"candidate_labels={given}"], json=True)
    told = json.loads(capsys.readouterr().out)["results"]
    assert sorted(told["labels"]) == ["cooking", "travel"]


def test_tags_and_vectors(reader: Callable[..., str], tmp_path: Path, capsys: Any) -> None:
    folder = reader("tag", **TAGS)
    predict("tag", folder, ["time flies like an arrow"])
    entities = pipeline("tag", folder)("time flies like an arrow")
    assert [row.split()[0] for row in capsys.readouterr().out.splitlines()[1:]] == ["PER"] * len(entities)
    predict("tag", folder, ["time flies like an arrow", "time flies"])
    tag = pipeline("tag", folder)
    assert capsys.readouterr().out.splitlines() == [
        f"{tag.in_words(tag(text)) or 'no entities'}  {text}" for text in ("time flies like an arrow", "time flies")
    ]
    predict("tag", folder, ["time flies"], aggregation_strategy="none")
    assert [row.split()[-3] for row in capsys.readouterr().out.splitlines()[1:]] == ["time", "flies"]
    (tmp_path / "rows.jsonl").write_text('{"tokens": ["time", "flies"]}\n{"tokens": ["a"]}\n')
    out = tmp_path / "out.jsonl"
    predict("tag", folder, [str(tmp_path / "rows.jsonl")], columns=["text=tokens"], output=out)
    whole = out.read_bytes()
    assert lines_of(out)[0]["text"] == {"tokens": ["time", "flies"]} and lines_of(out)[1]["results"][0]["end"] == 1
    out.write_bytes(whole[:-5])
    predict("tag", folder, [str(tmp_path / "rows.jsonl")], columns=["text=tokens"], output=out, resume=True)
    assert out.read_bytes() == whole
    capsys.readouterr()
    predict("features", folder, ["time flies"])
    assert capsys.readouterr().out.startswith("4 × 8 numbers; --json")
    predict("features", folder, ["time flies"], settings=["pooling=mean"], json=True)
    assert len(json.loads(capsys.readouterr().out)["results"]) == 8


def test_pictures_and_sounds_are_files(tmp_path: Path, capsys: Any) -> None:
    vit = make_folder(tmp_path / "vit", "vit", task="image-classification", id2label={"0": "cat", "1": "dog"})
    predict("image-classification", str(vit), [str(vit / "picture.png")], top_k=1)
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split() == ["label", "score"] and line.split()[0] in ("cat", "dog") and "█" in line
    ctc = make_folder(tmp_path / "ctc", "wav2vec2", task="automatic-speech-recognition")
    predict("automatic-speech-recognition", str(ctc), [str(ctc / "sound.wav")], json=True)
    assert isinstance(json.loads(capsys.readouterr().out)["results"]["text"], str)
    with pytest.raises(DataError, match=r"nosuch\.png"):
        predict("image-classification", str(vit), [str(tmp_path / "nosuch.png")])


def test_a_question_and_its_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    model = make_folder(tmp_path / "qa", "bert", task="question-answering", max_position_embeddings=40)
    context = "time flies like an arrow"
    asked = pipeline("question-answering", model)
    expected = asked(question="time", context=context, top_k=2)
    monkeypatch.chdir(tmp_path)
    Path("context.txt").write_text(context + "\n")
    for given in (context, "context.txt"):
        done = command("predict", "answer", model, "time", given, "--top-k", 2)
        assert done.returncode == 0, done.stderr
        _, *shown = done.stdout.splitlines()
        for row, each in zip(shown, expected, strict=True):
            assert row.startswith(f"{each.score:.4f}") and row.rstrip().endswith(each.answer or "(no answer)")
            assert f" {each.start} " in row and f" {each.end} " in row
    rows = [{"question": "time", "passage": context}, {"question": "fruit", "passage": "fruit flies"}]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = command("predict", "answer", model, "rows.jsonl", "--column", "context=passage", "--json")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["text"] for each in told] == [{"question": x["question"], "context": x["passage"]} for x in rows]
    assert told[0]["results"]["answer"] == expected[0].answer
    for arguments, message in (
        (["time"], "give question and context, each in quotes or as a file"),
        (["rows.jsonl"], "say which one it is: --column context=NAME"),
        (["rows.jsonl", "--column", "text=passage"], "with a role of question, context"),
    ):
        done = command("predict", "answer", model, *arguments)
        assert done.returncode == 2 and message in done.stderr
