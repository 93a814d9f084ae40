"""`glassformer patch`: a sweep and single patches, as a table, JSON and a page; and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import glassformer
from tests.cli.conftest import Command
from tests.explorer.reader import Reader

SHAKESPEARE = "package:glassformer/checkpoints/shakespeare"
CLEAN, CORRUPT = "My lord, the king and his", "My lord, the men and his"


@pytest.fixture(scope="module")
def session() -> Any:
    return glassformer.load(SHAKESPEARE).inspect(CLEAN)


def test_one_text_is_ablated_head_by_head(command: Command, session: Any) -> None:
    result = command("patch", SHAKESPEARE, CLEAN, "--json")
    data = json.loads(result.stdout)
    assert data["values"] == session.sweep("heads").to_dict()["values"]
    shown = command("patch", SHAKESPEARE, CLEAN).stdout
    assert "heads: switched off" in shown and data["metric"] in shown
    strongest = session.sweep("heads").strongest(1)[0][0]
    assert strongest in shown


def test_two_texts_are_patched_position_by_position(command: Command) -> None:
    result = command("patch", SHAKESPEARE, CLEAN, CORRUPT, "--target", " son", "--against", " men", "--json")
    data = json.loads(result.stdout)
    assert (data["kind"], data["component_kind"]) == ("patch-map", "residual")
    assert (data["mode"], data["direction"]) == ("swap", "denoising")
    assert data["normalised"][-1][-1] == pytest.approx(1.0, abs=1e-5)
    noising = command("patch", SHAKESPEARE, CLEAN, CORRUPT, "--target", " son", "--against", " men", "--direction",
                  "noising", "--json")  # fmt: skip
    assert json.loads(noising.stdout)["normalised"][-1][-1] == pytest.approx(0.0, abs=1e-5)


def test_components_together_and_the_texts_after_them(command: Command, tmp_path: Path) -> None:
    parts = ("-c", "blocks.3.attn.z[3]", "-c", "blocks.0.ffn.neurons[7]@2")
    data = json.loads(command("patch", SHAKESPEARE, CLEAN, *parts, "--new-tokens", "4", "--json").stdout)
    assert data["components"] == ["blocks.3.attn.z[3]", "blocks.0.ffn.neurons[7]@2"]
    assert data["text_before"] and data["classes"][0]["logit_after"]
    shown = command("patch", SHAKESPEARE, CLEAN, *parts).stdout
    assert "probability before" in shown and "%" in shown
    (tmp_path / "texts.txt").write_text("What news, my lord?\nI am\n")
    mean = command("patch", SHAKESPEARE, CLEAN, *parts, "--mean-over", str(tmp_path / "texts.txt"), "--json")
    assert json.loads(mean.stdout)["mode"] == "mean"


def test_a_page_of_the_sweep(command: Command, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert f"saved in {page}" in command("patch", SHAKESPEARE, CLEAN, CORRUPT, "--html", str(page)).stdout
    content = page.read_text()
    assert [each["view"] for each in Reader(content).session()["readings"]].count("sweep") == 1
    assert len(content) < 620_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((CLEAN, "My lord"), "have 7 and 2 text tokens"),
        ((CLEAN, "-c", "blocks.0.attn.z[9]"), "there is no head 9"),
        ((CLEAN, "-c", "blocks.9.attn.z"), "no tap matches"),
        ((CLEAN, "--target", "king of"), "give one that is a single token, such as its first, "),
        ((CLEAN, "--sweep", "neurons"), "--sweep is 'neurons'; allowed: residual, heads, attention, feed-forward"),
        ((CLEAN, "--sweep", "heads", "-c", "attn.z"), "give one"),
        ((CLEAN, "--new-tokens", "3"), "name it with --component"),
        ((CLEAN, "--mode", "swap"), "no other text"),
        ((CLEAN, "--mean-over", "no.txt"), "names no file"),
        (("",), "the text is empty"),
    ],
)
def test_what_cannot_be_is_refused(command: Command, arguments: tuple[str, ...], message: str) -> None:
    result = command("patch", SHAKESPEARE, *arguments)
    assert result.returncode == 2 and message in " ".join(result.stderr.split())


def test_a_model_without_a_prediction(command: Command, minilm: Path) -> None:
    assert "no logits" in " ".join(command("patch", str(minilm), "time flies").stderr.split())
