"""`glassformer lesson`: the list, the JSON with real numbers, the page as a file, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

from glassformer.explorer.lesson import shipped
from tests.cli.conftest import Command
from tests.explorer.reader import Reader

SHAKESPEARE = "package:glassformer/checkpoints/shakespeare"


def test_the_list_names_every_lesson(command: Command) -> None:
    done = command("lesson", "--list")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(shipped())


def test_the_steps_as_json_on_its_own_and_on_another_text(command: Command) -> None:
    data = json.loads(command("lesson", "generation", "--json").stdout)
    assert data["kind"] == "lesson" and data["texts"] == ["ROMEO: I will"] and len(data["steps"]) == 4
    own = data["steps"][0]["question"]["number"]
    other = json.loads(command("lesson", "generation", "--text", "JULIET: O", "--json").stdout)
    assert other["texts"] == ["JULIET: O"] and other["steps"][0]["question"]["number"] != own
    moved = json.loads(
        command("lesson", "attention", "--model", SHAKESPEARE, "--text", "ROMEO: I will", "--json").stdout
    )
    assert moved["model"] == "shakespeare" and len(moved["steps"]) == 6


def test_the_page_as_a_file_holds_the_steps_and_what_is_left_out(command: Command, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = command("lesson", "left-out", "--html", page)
    assert done.returncode == 0, done.stderr
    session = Reader(page.read_text("utf-8")).session()
    assert session["start"] == "v=1&tour=1" and session["texts"] == ["today the keys near the cabinet"], (
        "not what it writes after it"
    )
    held = [each["request"]["components"] for each in session["readings"] if each["view"] == "without"]
    assert ["blocks.0.ffn.out"] in held and ["attn.out"] in held


def test_a_lesson_on_two_texts_lists_their_similar_words(command: Command, minilm: Path, tmp_path: Path) -> None:
    mine, page = tmp_path / "mine.json", tmp_path / "page.html"
    step = {"title": "x", "text": "{text_similarity:.2f}", "list": "similar words", "view": "similarity"}
    texts = ["time flies like an arrow", "fruit flies like a banana"]
    mine.write_text(json.dumps({"title": "Mine", "model": str(minilm), "texts": texts, "steps": [step]}))
    (told,) = json.loads(command("lesson", mine, "--json").stdout)["steps"]
    assert told["items"][0][0] == "flies · flies"
    done = command("lesson", mine, "--html", page)
    assert done.returncode == 0, done.stderr
    readings = Reader(page.read_text("utf-8")).session()["readings"]
    assert {"tour", "similarity"} <= {each["view"] for each in readings}


def test_what_is_missing_or_wrong_is_said(command: Command, tmp_path: Path) -> None:
    mine = tmp_path / "mine.json"
    step = {"title": "One", "text": "{tokens} tokens"}
    mine.write_text(json.dumps({"title": "Mine", "steps": [step]}))
    assert "the lesson 'Mine' is on one of your own; give it by --model" in command("lesson", mine).stderr
    assert "give it by --text" in command("lesson", mine, "--model", SHAKESPEARE).stderr
    mine.write_text(
        json.dumps({"title": "Mine", "model": SHAKESPEARE, "texts": ["I"], "steps": [{**step, "layer": 9}]})
    )
    done = command("lesson", mine, "--json")
    assert done.returncode == 2 and "lesson 'Mine': steps[0]: layer is 9; the model has layers 0 to 3" in done.stderr
    assert "nearest: 'attention'" in command("lesson", "atention").stderr
