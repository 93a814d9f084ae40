"""The four steps of a text, and the command that shows them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from glassformer.cli.tokenizer import tokens
from glassformer.text import Tokenizer
from tests.text.conftest import wild_texts


def test_each_step_with_places_in_the_text(bert_folder: Path) -> None:
    tokenizer = Tokenizer.from_folder(bert_folder)
    text = "Time FLIES,  unaffable [MASK] Café"
    stages = tokenizer.explain(text)
    assert stages.normalized == "time flies,  unaffable [MASK] cafe"
    assert [word.text for word in stages.words] == "time flies , unaffable [MASK] cafe".split()
    assert [text[word.start : word.end] for word in stages.words] == "Time FLIES , unaffable [MASK] Café".split()
    assert [token.token for token in stages.pieces] == "time flies , un ##aff ##able [MASK] ca ##fe".split()
    assert [token.word for token in stages.pieces] == [0, 1, 2, 3, 3, 3, 4, 5, 5]
    assert [text[p.start : p.end] for p in stages.pieces[3:6]] == ["un", "aff", "able"]
    assert [p.id for p in stages.final] == tokenizer.encode(text)
    assert [p.special for p in stages.final] == [i in (0, 7, 10) for i in range(11)]
    assert json.loads(json.dumps(stages.to_dict()))["pieces"][0]["token"] == "time"


def test_words_agree_with_word_ids(minilm: Path, gpt2_folder: Path) -> None:
    for folder in (minilm, gpt2_folder):
        tokenizer = Tokenizer.from_folder(folder)
        for text in wild_texts(300, seed=7):
            stages = tokenizer.explain(text)
            assert [p.id for p in stages.final] == tokenizer.encode(text)
            for token in stages.pieces:
                assert token.word is not None
                word = stages.words[token.word]
                assert word.start <= token.start
                assert token.end <= word.end


app = typer.Typer()
app.command()(tokens)


def test_the_command(bert_folder: Path) -> None:
    result = CliRunner().invoke(app, [str(bert_folder), "Time flies"])
    assert result.exit_code == 0
    assert (
        result.output.split()
        == (
            "step result text Time flies normalised time flies words time · flies pieces time · flies ids 2 5 6 3 "
            "position token in the text id word characters "
            "0 [CLS] special 2 1 time Time 5 0 0–4 2 flies flies 6 1 5–10 3 [SEP] special 3"
        ).split()
    )
    as_json = json.loads(CliRunner().invoke(app, [str(bert_folder), "Time flies", "--json"]).output)
    assert [token["id"] for token in as_json["final"]] == [2, 5, 6, 3]


def test_the_command_shows_control_characters(bert_folder: Path) -> None:
    result = CliRunner().invoke(app, [str(bert_folder), "a\x1b[31m [bold]a"])
    assert result.exit_code == 0
    assert "\x1b[31m" not in result.output
    assert "\\x1b[31m [bold]a" in result.output


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_command_on_an_empty_text(bert_folder: Path, options: list[str]) -> None:
    assert CliRunner().invoke(app, [str(bert_folder), "", *options]).exit_code == 0
