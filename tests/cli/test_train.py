"""`glassformer train` and `search`, as a user types them."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from glassformer.cli.app import main
from glassformer.cli.options import SPELLINGS, of_field, spelling
from glassformer.cli.screen import first_words
from glassformer.errors import GlassformerError
from glassformer.files.schema import Doc, field_types, metadata_of
from glassformer.runs import KEYS, folder
from glassformer.runs import config as configured
from glassformer.runs.options import PATHS, TrainOptions
from tests.cli.conftest import Command
from tests.e2e.tiny_runs import tiny_run


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A file that says what a small run is."""
    values = tiny_run(tmp_path)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(values))
    return tmp_path / "run.yaml"


def typed(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[Any, str, str]:
    """Exit code, output and messages of a command."""
    with pytest.raises(SystemExit) as done:
        main([str(word) for word in words])
    captured = capsys.readouterr()
    return done.value.code or 0, captured.out, captured.err


def test_suggested_commands_have_the_words_of_a_row(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = (tmp_path / "rows.csv").read_text().replace("time flies", "TIME Flies").replace("fruit flies", "FRUIT Flies")
    (tmp_path / "rows.csv").write_text(rows)
    code, out, err = typed(capsys, "train", config, "--column", "label=mood")
    assert code == 0, err
    *_, first, second, _ = out.splitlines()
    texts = {shlex.split(first)[-1], shlex.split(second)[-1]}
    assert texts in ({"TIME Flies"}, {"FRUIT Flies"}), "as the row has them, not as the tokenizer lower-cases them"


def test_from_a_file_to_a_model(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = typed(capsys, "train", config, "--column", "label=mood", "--set", "training.seed=3")
    assert code == 0 and "run on 8 rows" in out and "validation: loss" in err
    opening = [line.split()[0] for line in err.splitlines()[:5]]
    assert opening == ["model", "task", "data", "budget", "output"]
    assert "32 examples" in err and "3 steps of 8 examples, learning rate 5e-5" in err
    *_, heading, first, second, third = out.splitlines()
    assert heading == "next:" and shlex.split(first)[:3] == ["glassformer", "predict", "classify"]
    assert shlex.split(second)[:3] == ["glassformer", "look", str(tmp_path / "run")]
    assert shlex.split(third) == ["glassformer", "look", str(tmp_path / "run")]
    assert shlex.split(first)[-1] == shlex.split(second)[-1] in ("time flies", "fruit flies")
    assert "seed: 3" in (tmp_path / "run" / "config.yaml").read_text()
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names >= {"config.yaml", "journal.jsonl", "checkpoints", "curves.html", "model"}
    assert {"README.md", "metrics.json", "config.json"} <= {p.name for p in (tmp_path / "run" / "model").iterdir()}

    code, out, _ = typed(capsys, "train", tmp_path / "run" / "config.yaml", "--json")
    assert code == 0 and json.loads(out)["steps"] == 3, "a finished run is not trained again"
    for words, message in (
        (("--lr", "1"), "another configuration: learning_rate was 5e-05, is now 1.0"),
        (("--fresh",), "holds a run already"),
        (("--set", "training.step=3"), "'step' is no option"),
        (("--set", "training"), "--set takes name=value"),
        (("--set", "task.name=3"), "task is 'classify', which has no 'name'"),
        (("--column", "label=none"), "no column 'none'"),
    ):
        code, _, err = typed(capsys, "train", tmp_path / "run" / "config.yaml", *words)
        assert code == 2 and message in err and "Traceback" not in err


def test_a_configuration_is_read_once(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By training, its curves, the evaluation after it, and the card."""
    read: list[Path] = []
    once = folder.read_config

    def counted(path: Path, *error: type[GlassformerError]) -> dict[str, Any]:
        read.append(path)
        return once(path, *error)

    for module in (folder, configured):
        monkeypatch.setattr(module, "read_config", counted)
    code, _, err = typed(capsys, "train", config, "--column", "label=mood")
    assert code == 0, err
    assert read == [config] and (tmp_path / "run" / "evaluation").is_dir()
    card = json.loads((tmp_path / "run" / "model" / "metrics.json").read_text())
    saved = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert card["config"]["training"] == saved["training"] and "comparison" in card


def test_a_file_with_semicolons(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(path.read_text().replace(",", ";"))
    words = ("train", config, "-c", "label=mood", "-q", "--no-evaluate")
    code, _, err = typed(capsys, *words)
    assert code == 2 and "and so does line 2: read it with --delimiter ';'" in err.replace("\n", " ")
    assert typed(capsys, *words, "--delimiter", ";")[0] == 0
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["data"]["format"] == {"delimiter": ";"}
    path.write_text(path.read_text() + "time flies;\n")
    code, _, err = typed(capsys, *words, "--delimiter", ";", "--skip-bad-rows", "-o", tmp_path / "again")
    assert code == 0 and "1 of 41 rows were left out: 1 without a label" in err.replace("\n", " ")
    assert err.startswith("note: ") and "UserWarning" not in err


def test_unused_columns_are_found_before_a_model_is_loaded(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.csv").write_text("text,mood,channel\n" + "time flies,a,web\nfruit flies,b,book\n" * 10)
    monkeypatch.setattr("glassformer.training.run._model", lambda *_: pytest.fail("a model was loaded"))
    code, _, err = typed(capsys, "train", config, "-c", "label=mood", "-q")
    message = "unused columns 'channel'; read are text=text, label=mood. To leave them out: --ignore channel"
    assert code == 2 and message in err.replace("\n", " "), err


def test_without_a_file(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    typed(capsys, "train", config, "-c", "label=mood", "-q")
    words = (
        "-t",
        "classify",
        "-m",
        tmp_path / "run" / "model",
        "-d",
        tmp_path / "rows.csv",
        "-c",
        "label=mood",
    )
    code, out, _ = typed(capsys, "train", *words, "-o", tmp_path / "more", "--steps", "2", "--dry-run", "--json")
    assert code == 0 and json.loads(out)["steps"] == 2
    code, _, err = typed(capsys, "train", *words, "-o", tmp_path / "few", "--epochs", "1")
    assert code == 0 and "2 steps are few" in err and "--epochs 50 makes 100" in " ".join(err.split())
    assert err.index("2 steps are few") < err.index("2 steps in ")
    code, out, _ = typed(capsys, "train", *words, "-v", "0.5", "--epochs", "2", "--show")
    shown = yaml.safe_load(out)
    assert code == 0 and shown["training"]["epochs"] == 2 and shown["data"]["validation"] == 0.5
    assert shown["output"] == "runs/classify" and not Path("runs").exists()


@pytest.mark.parametrize("command", ["search", "study"])
def test_a_configuration_of_one_training_is_no_search_and_no_study(
    config: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    code, _, err = typed(capsys, command, config)
    assert code == 2 and f"needs a section `{command}`" in err and "glassformer train" in err


def test_what_to_add_where_the_task_or_the_data_is_missing(command: Command) -> None:
    for arguments, message in (
        (["--model", "some", "--data", "rows.csv"], "add --task classify, or name a configuration file"),
        (["--task", "tag", "--model", "some"], "add --data rows.csv, or"),
        ([], "add --task classify and --data rows.csv, or"),
        (["rows.csv"], "rows.csv: is a data file, and a configuration was expected; give rows with --data rows.csv"),
        (["--task", "tag", "--data", "rows.csv"], "give either a model to fine-tune (--model NAME; `model` in"),
    ):
        done = command("train", *arguments)
        assert done.returncode == 2 and message in done.stderr


def test_several_runs_of_one_file(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its own keys, the second from the model of the first; finished ones are not trained again."""
    values = yaml.safe_load(config.read_text())
    first = {key: values.pop(key) for key in ("scratch", "tokenizer")}
    values |= {"runs": {"first": first, "second": {"model": "run:first", "training": {"steps": 2}}}}
    values["data"]["columns"] = {"label": "mood"}
    config.write_text(yaml.safe_dump(values))
    code, out, err = typed(capsys, "train", config)
    assert code == 0 and "first on 8 rows" in out and "second on 8 rows" in out
    assert [line for line in err.splitlines() if " of 2, in " in line] == [
        f"{name}, {number} of 2, in {tmp_path / 'run' / name}" for number, name in ((1, "first"), (2, "second"))
    ]
    second = yaml.safe_load((tmp_path / "run" / "second" / "config.yaml").read_text())
    assert (second["model"], second["training"]["steps"]) == (str(tmp_path / "run" / "first" / "model"), 2)

    code, out, err = typed(capsys, "train", config)
    assert code == 0 and not out and err.count(": finished already") == 2
    (
        tmp_path / "run" / "second" / "evaluation" / "validation" / "report.json"
    ).unlink()  # Ctrl-C while it was evaluated
    code, out, err = typed(capsys, "train", config)
    assert code == 0 and err.count(": finished already") == 1 and "second on 8 rows" in out
    code, out, _ = typed(capsys, "train", config, "--json")
    facts = json.loads(out)
    assert {name: one["steps"] for name, one in facts.items()} == {"first": 3, "second": 2}
    report = json.loads((tmp_path / "run" / "first" / "model" / "metrics.json").read_text())
    assert all(facts["first"][key] == report[key] for key in ("best_step", "metrics", "comparison"))
    for command, problem in (
        ("listen", "is no run"),
        ("evaluate", "holds no run"),
        ("compare", "no run and no evaluation"),
    ):
        code, _, err = typed(capsys, command, tmp_path / "run")
        both = f"{tmp_path / 'run' / 'first'}, {tmp_path / 'run' / 'second'}"
        assert code == 2 and problem in err and f"; name one of those in it: {both}" in " ".join(err.split())
    code, out, _ = typed(capsys, "train", config, "--output", tmp_path / "again", "--steps", "1", "--json")
    assert {name: one["steps"] for name, one in json.loads(out).items()} == {"first": 1, "second": 1}
    code, out, _ = typed(capsys, "train", config, "--show")
    outputs = [one["output"] for one in yaml.safe_load_all(out)]
    assert outputs == [str(tmp_path / "run" / name) for name in ("first", "second")]
    code, _, err = typed(capsys, "train", config, "--seeds", "2")
    assert code == 2 and "--seeds repeats one run; this configuration has 2: first, second" in err
    code, _, err = typed(capsys, "train", config, "--set", "training.stpes=2")
    assert code == 2 and "runs.first: training: 'stpes' is no option" in err
    for command in ("search", "study"):
        config.write_text(yaml.safe_dump({**values, command: {"space": {}}}))
        code, _, err = typed(capsys, command, config)
        assert code == 2 and "needs the configuration of one run, and this one has `runs`" in " ".join(err.split())


def test_a_folder_takes_the_place_of_the_configurations(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = yaml.safe_load(config.read_text())
    values["data"] |= {"folder": "elsewhere", "train": "rows.csv"}
    config.write_text(yaml.safe_dump(values))
    code, _, err = typed(capsys, "train", config, "--column", "label=mood")
    assert code == 2 and "elsewhere: no such folder, which is to hold the data (rows.csv)" in err
    code, out, _ = typed(capsys, "train", config, "--data", tmp_path, "--show")
    assert code == 0 and yaml.safe_load(out)["data"]["folder"] == str(tmp_path)


def test_a_search(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = yaml.safe_load(config.read_text())
    values["data"]["columns"] = {"label": "mood"}
    values["search"] = {
        "space": {"training.learning_rate": [1e-3, 1e-2], "training.batch_size": [4, 99999999]},
        "trials": 2,
    }
    config.write_text(yaml.safe_dump(values))
    code, out, _ = typed(capsys, "search", config, "-o", tmp_path / "found", "--json")
    report = json.loads(out)
    assert code == 0 and len(report["trials"]) == 2
    best = yaml.safe_load((tmp_path / "found" / "best.yaml").read_text())
    assert best["training"]["learning_rate"] == report["best"]["settings"]["training.learning_rate"]
    code, out, err = typed(capsys, "search", config, "-o", tmp_path / "found", "--trials", "3")
    assert code == 0 and "trial 2" in err and "trial 1" not in err, "it goes on where it was"
    assert not list((tmp_path / "found").glob("trial-*"))
    del values["data"]["validation"]
    config.write_text(yaml.safe_dump(values))
    code, _, err = typed(capsys, "search", config)
    assert code == 2 and "compares trials on validation data" in err


def test_interrupted_it_saves_and_says_how_to_go_on(config: Path, tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "glassformer",
        "train",
        str(config),
        "-c",
        "label=mood",
        "--steps",
        "100000",
    ]
    run = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    journal, until = tmp_path / "run" / "journal.jsonl", time.monotonic() + 300
    while not (journal.exists() and '"step"' in journal.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    _, captured = run.communicate(timeout=300)
    assert run.returncode == 75, captured
    assert "which is saved; the same command resumes from there" in captured
    assert "Traceback" not in captured and "error" not in captured
    assert list((tmp_path / "run" / "checkpoints").glob("step-*/manifest.json"))


@pytest.mark.soak  # tests/training/test_distributed.py has the same without torchrun
def test_two_processes(config: Path, tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "glassformer",
        "train",
    ]
    done = subprocess.run(
        [*words, str(config), "-c", "label=mood", "-q"],
        capture_output=True, text=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "run" / "model" / "README.md").is_file() and (tmp_path / "run" / "journal-1.jsonl").is_file()


def test_the_docs_say_of_each_key_what_help_says() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "training.md").read_text("utf-8")
    assert set(PATHS.values()) >= set(KEYS)
    for name, hint in field_types(TrainOptions).items():
        if (key := PATHS.get(name)) in KEYS:
            names = of_field(SPELLINGS, TrainOptions, name) or (spelling(name, TrainOptions),)
            assert f"| `{key}` | {' '.join(f'`{each}`' for each in names)} | {KEYS[key]} |" in docs
            assert metadata_of(hint, Doc).text == KEYS[key]


def test_the_file_of_a_study_is_sent_to_its_command(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = yaml.safe_load(config.read_text())
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({**values, "study": {"systems": []}}))
    code, _, err = typed(capsys, "train", tmp_path / "study.yaml")
    assert code == 2 and "glassformer study" in err


def test_examples_in_commands_are_whole_sentences() -> None:
    sentence = "i feel like a faithful servant of a house that has long been sold"
    assert first_words(sentence) == sentence
    cut = first_words("word " * 40)
    assert 80 < len(cut) <= 100 and cut == " ".join(["word"] * cut.count("word"))
