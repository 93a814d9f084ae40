"""`glassformer families` in words and in JSON."""

from __future__ import annotations

import json

import pytest

from glassformer.cli.families import families
from glassformer.errors import DataError
from glassformer.models import FAMILIES


def test_every_family_is_listed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    families()
    shown = capsys.readouterr().out
    assert all(f"{family}  reads " in shown for family in FAMILIES)
    assert "rotary" in shown and "text-generation" in shown


def test_json_has_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    families(json=True)
    report = json.loads(capsys.readouterr().out)
    assert [line["family"] for line in report] == list(FAMILIES)
    assert {line["family"]: tuple(line["tasks"]) for line in report} == {
        family: record.tasks for family, record in FAMILIES.items()
    }


def test_only_those_that_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    families(["roberta"], json=True)
    assert [line["family"] for line in json.loads(capsys.readouterr().out)] == ["roberta", "xlm-roberta"]


def test_a_name_that_none_has() -> None:
    with pytest.raises(DataError, match=r"no family has 'lama7'.*nearest: 'llama'"):
        families(["lama7"])
