"""`glassformer sizes` and `glassformer families`, in words and in JSON."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from glassformer.cli.models import families, sizes
from glassformer.errors import DataError
from glassformer.lessons.sizes import check
from glassformer.models import FAMILIES
from glassformer.models.presets import PRESETS


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.mark.parametrize("width", [80, 119, 120])
def test_it_fits_the_terminal(capsys: Any, monkeypatch: Any, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    sizes(["mixtral", "bart", "distilbert", "llama3.1"])
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    assert "…" not in out
    row = next(line for line in out.splitlines() if line.startswith("mixtral-8x7b"))
    for words in ("46.7B", "187 GB", "46.7 GB", "32,768", "32,000", "4,096"):
        assert words in row
    assert ("15.6T" in out) == ("12.9B" in row) == (width > 80)
    assert ("columns fit this terminal; --json has all" in out) == (width == 80)
    assert "6 + 6" in out


def test_json_has_every_preset() -> None:
    from typer.testing import CliRunner

    from glassformer.cli.app import app

    rows = json.loads(CliRunner().invoke(app, ["sizes", "--json"]).stdout)["models"]
    assert [row["name"] for row in rows] == list(PRESETS)
    sizes_by_name = {row["name"]: row for row in rows}
    assert sizes_by_name["gpt3-175b"]["fp32_bytes"] == 4 * sizes_by_name["gpt3-175b"]["int8_bytes"] == 698_417_037_312
    assert sizes_by_name["gpt3-175b"]["trained_on"] == 300e9
    assert "Brown" in sizes_by_name["gpt3-175b"]["source"]


def test_notes_beside_computed_sizes(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = check()  # once: it builds every published network
    monkeypatch.setattr("glassformer.lessons.sizes.check", lambda: checked)
    sizes(notes=True)
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if line.startswith("GPT-2 1.5B"))
    assert "wrong" in line and "width 1,600" in line
    line = next(line for line in out.splitlines() if line.startswith("GPT-3"))
    assert "right" in line
    sizes(notes=True, json=True)
    assert {line["correct"] for line in json.loads(capsys.readouterr().out)["claims"]} == {True, False}


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(DataError, match="'llama3-8b'"):
        sizes(["llama3-8B"])


def test_every_family_is_listed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    families()
    shown = capsys.readouterr().out
    assert all(re.search(rf"^{re.escape(family)} +reads ", shown, re.MULTILINE) for family in FAMILIES)
    assert "rotary" in shown and "text-generation" in shown


def test_long_descriptions_are_folded_in_their_column(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    families(["bert"])
    lines = capsys.readouterr().out.splitlines()
    assert "reads text" in lines[0] and max(map(len, lines)) <= 80
    folded = [line for line in lines if line.startswith(" ")]
    assert folded and all(line[:14].strip() == "" and line[14] != " " for line in folded)


def test_json_has_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    families(json=True)
    report = json.loads(capsys.readouterr().out)["families"]
    assert [line["family"] for line in report] == list(FAMILIES)
    assert {line["family"]: tuple(line["tasks"]) for line in report} == {
        family: record.tasks for family, record in FAMILIES.items()
    }


def test_only_those_that_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    families(["roberta"], json=True)
    assert [line["family"] for line in json.loads(capsys.readouterr().out)["families"]] == ["roberta", "xlm-roberta"]


def test_a_name_that_none_has() -> None:
    with pytest.raises(DataError, match=r"no family has 'lama7'.*nearest: 'llama'"):
        families(["lama7"])
