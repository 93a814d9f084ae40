"""`glassformer generate`: what a model writes, as text, as a table, as JSON."""

from __future__ import annotations

import io
import json
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from glassformer import ConfigError, DataError, Model, load
from glassformer.cli.generate import generate
from glassformer.cli.screen import visible_lines
from tests.cli.conftest import Command
from tests.cli.test_app import run

PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def stories(shared: Path) -> str:
    return str(shared / "models" / "stories260k")


@pytest.fixture(scope="module")
def model(stories: str) -> Model:
    return load(stories)


def test_it_writes_what_generate_gives(stories: str, model: Model, capsys: Any) -> None:
    generate(stories, PROMPT, max_new_tokens=20)
    assert capsys.readouterr().out == model.generate(PROMPT, max_new_tokens=20) + "\n"


def test_on_a_terminal_a_story_begins_with_its_prompt(
    stories: str, model: Model, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    generate(stories, PROMPT, max_new_tokens=20)
    out = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out)
    assert out == PROMPT + model.generate(PROMPT, max_new_tokens=20) + "\n"


def test_adapters_are_a_model(stories: str, command: Command, tmp_path: Path) -> None:
    """A folder of adapters, with the base model that it names or that is given."""
    adapted = load(stories)
    with torch.no_grad():
        for adapter in adapted.add_adapter().by_target.values():
            adapter.up.weight.fill_(0.2)
    adapted.save_adapter(tmp_path)
    expected = adapted.generate(PROMPT, max_new_tokens=5)
    assert expected != load(stories).generate(PROMPT, max_new_tokens=5)
    assert command("generate", tmp_path, PROMPT, "-n", 5).stdout == expected + "\n"
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    (tmp_path / "adapter_config.json").write_text(json.dumps(config | {"base_model_name_or_path": None}))
    refused = command("generate", tmp_path, PROMPT)
    assert refused.returncode == 2 and "--base" in refused.stderr
    assert command("generate", tmp_path, PROMPT, "-n", 5, "--base", stories).stdout == expected + "\n"


def test_in_a_process_of_its_own(stories: str, model: Model) -> None:
    done = run("generate", stories, PROMPT, "-n", "12", "--temperature", "0.8", "--seed", "3", "--top-k", "9")
    sampled = model.generate(PROMPT, max_new_tokens=12, do_sample=True, temperature=0.8, seed=3, top_k=9)
    assert (done.returncode, done.stdout, done.stderr) == (0, sampled + "\n", "")


def test_help_has_examples(command: Command) -> None:
    done = command("generate", "--help")
    assert done.returncode == 0
    for word in (
        "Examples",
        "--top-p",
        "--beams",
        "--seed",
        "Beam search",
        "standard input",
        "--regex",
        "--truncate",
    ):
        assert word in done.stdout


def test_standard_input(stories: str, model: Model, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(PROMPT.encode() + b"\n")))
    generate(stories, "-", max_new_tokens=5)
    assert capsys.readouterr().out == model.generate(PROMPT, max_new_tokens=5) + "\n"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"\xff")))
    with pytest.raises(DataError, match="standard input is not UTF-8"):
        generate(stories, "-")


def test_any_sampling_option_samples(stories: str, model: Model, capsys: Any) -> None:
    for given in ({"top_p": 0.9}, {"min_p": 0.1}, {"typical_p": 0.9}, {"do_sample": True}):
        generate(stories, PROMPT, max_new_tokens=9, seed=5, **given)
        options = {name: value for name, value in given.items() if name != "do_sample"}
        sampled = model.generate(PROMPT, max_new_tokens=9, do_sample=True, seed=5, **options)
        assert capsys.readouterr().out == sampled + "\n"


def test_rules_and_stops(stories: str, capsys: Any) -> None:
    generate(stories, PROMPT, max_new_tokens=40, stop_strings=["She"], bad_words=["girl"], no_repeat_ngram_size=2)
    out = capsys.readouterr().out
    assert "girl" not in out
    generate(stories, PROMPT, max_new_tokens=40, stop_strings=["little"])
    assert capsys.readouterr().out.endswith("little\n")


def test_several_answers(stories: str, capsys: Any) -> None:
    generate(stories, PROMPT, max_new_tokens=6, num_beams=3, num_return_sequences=2)
    out = capsys.readouterr().out
    assert "answer 1, score -" in out and "answer 2, score -" in out


def test_the_most_likely_tokens_at_each_step(stories: str, capsys: Any) -> None:
    generate(stories, PROMPT, max_new_tokens=4, top=3)
    out = capsys.readouterr().out
    assert "choice 3" in out and "choice 4" not in out
    lines = [line.split() for line in out.splitlines()]
    assert [line[0] for line in lines[-4:]] == ["1", "2", "3", "4"]
    assert lines[-4][1:4] == [",", ",", "96.9%"]


def test_json(stories: str, model: Model, capsys: Any) -> None:
    generate(stories, PROMPT, max_new_tokens=4, top=5, json=True)
    report = json.loads(capsys.readouterr().out)
    (answer,) = report["answers"]
    assert report["prompt"] == PROMPT
    assert answer["text"] == model.generate(PROMPT, max_new_tokens=4)
    assert answer["ended_by"] == "max_new_tokens" and len(answer["ids"]) == len(answer["steps"]) == 4
    for step in answer["steps"]:
        shares = [other["probability"] for other in step["likeliest"]]
        assert len(shares) == 5 and shares == sorted(shares, reverse=True) and sum(shares) <= 1.0001
        assert step["id"] == step["likeliest"][0]["id"] and step["probability"] == shares[0]


def test_json_of_beams(stories: str, capsys: Any) -> None:
    generate(stories, PROMPT, max_new_tokens=4, num_beams=2, num_return_sequences=2, json=True)
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert len(answers) == 2 and answers[0]["score"] >= answers[1]["score"]
    for answer in answers:
        logprobs = [math.log(step["probability"]) for step in answer["steps"]]
        assert sum(logprobs) / len(logprobs) == pytest.approx(answer["score"], abs=1e-5)


def test_constraints(stories: str, tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("llguidance", reason="needs llguidance: pip install 'glassformer[constrain]'")
    generate(stories, PROMPT, regex=" was [0-9]{1,2} days\\.")
    assert re.fullmatch(" was [0-9]{1,2} days\\.\n", capsys.readouterr().out)
    schema = {"type": "object", "properties": {"age": {"enum": [3, 7]}}, "required": ["age"]}
    schema["additionalProperties"] = False
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    for given in (str(tmp_path / "schema.json"), json.dumps(schema)):
        for beams in (1, 3):
            generate(stories, PROMPT, json_schema=given, num_beams=beams)
            assert json.loads(capsys.readouterr().out)["age"] in (3, 7)
    generate(stories, PROMPT, choices=["dog", "cat"])
    assert capsys.readouterr().out in ("dog\n", "cat\n")


def test_a_schema_that_is_none(stories: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        generate(stories, PROMPT, json_schema=str(tmp_path / "nowhere.json"))
    (tmp_path / "half.json").write_text('{"type": ')
    with pytest.raises(ConfigError, match="half"):
        generate(stories, PROMPT, json_schema=str(tmp_path / "half.json"))
    with pytest.raises(ConfigError, match="--json-schema is invalid JSON"):
        generate(stories, PROMPT, json_schema='{"type": ')


def test_a_prompt_that_is_too_long_is_cut(stories: str, model: Model, capsys: Any) -> None:
    long = f"{PROMPT} there was a dog. " * 60
    generate(stories, long, max_new_tokens=9, truncation=True)
    printed = capsys.readouterr()
    assert printed.err.startswith("note: 1 of 1 prompts, of up to ") and "cut on the left to 504" in printed.err
    with pytest.warns(UserWarning, match="cut on the left to 504"):
        assert printed.out == model.generate(long, max_new_tokens=9, truncation=True) + "\n"


def test_guesses_change_nothing_but_are_counted(stories: str, model: Model, capsys: Any) -> None:
    plain = model.generate(PROMPT, max_new_tokens=30)
    for given in ({"prompt_lookup_num_tokens": 4}, {"assistant_model": stories, "num_assistant_tokens": 3}):
        generate(stories, PROMPT, max_new_tokens=30, **given)
        assert capsys.readouterr().out == plain + "\n"
        generate(stories, PROMPT, max_new_tokens=30, json=True, **given)
        (answer,) = json.loads(capsys.readouterr().out)["answers"]
        assert answer["text"] == plain and 0 <= answer["accepted"] <= answer["proposed"] <= 90
    assert answer["accepted"] == answer["proposed"] > 20  # a model guesses itself
    generate(stories, PROMPT, max_new_tokens=3, json=True)
    assert "proposed" not in json.loads(capsys.readouterr().out)["answers"][0]


def test_contrastive_search(stories: str, model: Model, capsys: Any, command: Command) -> None:
    generate(stories, PROMPT, max_new_tokens=20, penalty_alpha=0.6, top_k=5)
    assert capsys.readouterr().out == model.generate(PROMPT, max_new_tokens=20, penalty_alpha=0.6, top_k=5) + "\n"
    done = command("generate", stories, PROMPT, "--penalty-alpha", "0.6")
    assert done.returncode == 2 and "add it, such as top_k=4" in done.stderr


@pytest.mark.parametrize(("precision", "guessed"), [("fp16", False), ("fp16", True), ("int8", False)])
def test_a_precision(stories: str, precision: str, guessed: bool, capsys: Any) -> None:
    generate(stories, PROMPT, max_new_tokens=12, precision=precision, assistant_model=stories if guessed else None)
    prepared = load(stories).prepare(precision)
    assert capsys.readouterr().out == prepared.generate(PROMPT, max_new_tokens=12) + "\n"
    with pytest.raises(ConfigError, match="precision is 'fp61'"):
        generate(stories, PROMPT, precision="fp61")


def test_wrong_options(stories: str, command: Command) -> None:
    with pytest.raises(ConfigError, match="temperature is -1"):
        generate(stories, PROMPT, temperature=-1.0)
    done = command("generate", stories, PROMPT, "--beams", "9999")
    assert done.returncode == 2 and done.stderr.startswith("error: --beams is 9999")


def test_ctrl_c_keeps_what_was_written(stories: str, monkeypatch: Any, capsys: Any) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        yield "half a"
        raise KeyboardInterrupt

    monkeypatch.setattr(Model, "stream", interrupted)
    with pytest.raises(KeyboardInterrupt):
        generate(stories, PROMPT)
    assert capsys.readouterr().out == "half a\n"


def test_text_cannot_steer_the_terminal() -> None:
    assert visible_lines("a\nb\x1b[31m") == "a\nb\\x1b[31m"
