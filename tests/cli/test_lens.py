"""`glassformer lens` and `glassformer attribute`: what they print, write and refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.e2e.tiny_models import make_folder
from tests.explorer.reader import Reader

SHAKESPEARE = "package:glassformer/checkpoints/shakespeare"
TEXT = "ROMEO: O, she doth teach the torches"


def test_the_lens_fits_a_screen(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = command("lens", SHAKESPEARE, TEXT)
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert done.returncode == 0 and max(map(len, lines)) <= 80
    (heads,) = [at for at, line in enumerate(lines) if line.startswith("after")]
    assert lines[heads].split() == ["after", "embedding", "0", "1", "2", "3"]
    assert [cell for cell in lines[heads + 15].split() if "%" not in cell] == ["s", "s", ",", ",", "of", "of"]
    followed = command("lens", SHAKESPEARE, TEXT, "--target", " of").stdout
    assert "rank of of" in followed and followed.splitlines()[heads + 15].split()[-2] == "1"
    part = command("lens", SHAKESPEARE, TEXT, "--first", 13, "--count", 2).stdout.split("3\n", 1)[1]
    assert [line.split()[0] for line in part.splitlines() if line] == ["he", "s"]
    monkeypatch.setenv("COLUMNS", "40")
    narrow = " ".join(command("lens", SHAKESPEARE, TEXT).stdout.split())
    assert "3 of 5 columns fit this terminal; --json has all" in narrow


def test_the_lens_as_data_and_as_a_page(command: Command, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    data = json.loads(command("lens", SHAKESPEARE, TEXT, "--top", 3, "--json", "--html", page).stdout)
    assert data["texts"] == [TEXT] and data["out"] == str(page)
    assert data["cells"][-1][-1]["top"][0][0] == "of" and len(data["cells"][0][0]["top"]) == 3
    reader = Reader(page.read_text("utf-8"))
    session = reader.session()
    assert session["start"] == "v=1&view=lens" and session["model"]["reads"]
    readings = [(each["view"], each["request"]) for each in session["readings"]]
    assert [each for each in readings if each[0] in ("lens", "attribution", "tour")] == [
        ("lens", {"target": None, "first": 0, "count": None}),
        ("attribution", {"target": None, "at": None, "against": None, "baseline": None, "steps": None}),
        ("tour", {}),
    ]
    frames = reader.attention_frames()
    # a tour has texts and numbers alone
    assert all(
        (f"view/{each['key']}" in frames) != (each["view"] in ("tour", "without")) for each in session["readings"]
    )


def test_an_attribution_fits_a_screen_and_adds_up(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = command("attribute", SHAKESPEARE, TEXT, "--target", " of", "--against", ",")
    assert done.returncode == 0 and max(map(len, done.stdout.splitlines())) <= 80
    assert done.stdout.startswith("“of” rather than “,” after “s”: difference of logits ")
    assert "layer 2 head 1" in done.stdout and "of the change of the logit" in " ".join(done.stdout.split())
    data = json.loads(command("attribute", SHAKESPEARE, TEXT, "--target", " of", "--json").stdout)
    total = sum(part["value"] for part in data["parts"])
    assert total == pytest.approx(data["target"]["score"], abs=1e-4)
    assert data["gap"] < 0.01 and [word for word, _ in data["words"]["text"]][-1] == "torches"


def test_a_classifier_shows_its_labels_at_every_layer(command: Command, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "bert", "bert", task="text-classification")
    lines = command("lens", folder, "time flies").stdout.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("label"))
    assert [line.split()[0] for line in lines[at + 1 : at + 3]] == ["LABEL_0", "LABEL_1"]
    few = command("lens", folder, "time flies", "--top", 1).stdout
    (one,) = [line for line in few.splitlines() if line.startswith("LABEL_")]
    assert one.endswith("%")  # of more labels than are asked for, those that are known
    page = tmp_path / "page.html"
    done = command("attribute", folder, "time flies", "--target", "label_1", "--html", page)
    assert done.stdout.startswith("LABEL_1: logit") and "saved in" in done.stdout
    assert Reader(page.read_text("utf-8")).session()["start"] == "v=1&view=attribution&r.target=label_1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("lens", SHAKESPEARE, TEXT, "--target", "unfathomable"), "tokens"),
        (("lens", SHAKESPEARE, TEXT, "--target", "100000"), "there is no output 100000"),
        (("lens", SHAKESPEARE, "one", "two", "three"), "one text or two"),
        (("lens", SHAKESPEARE, "x" * 100_000), "the model reads at most"),
        (("attribute", SHAKESPEARE, TEXT, "--at", "Hamlet"), "the text has no word"),
        (("attribute", SHAKESPEARE, TEXT, "--at", "99"), "there is no token 99"),
        (("attribute", SHAKESPEARE, TEXT, "--baseline", "noise"), "baseline"),
        (("attribute", SHAKESPEARE, TEXT, "--html", "page.txt"), "html"),
    ],
)
def test_what_cannot_be_answered_is_one_line(command: Command, arguments: tuple[str, ...], message: str) -> None:
    done = command(*arguments)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ")


def test_a_model_without_logits_says_so(command: Command, minilm: Path) -> None:
    for name in ("lens", "attribute"):
        done = command(name, minilm, "time flies")
        assert done.returncode == 2 and "gives pooler_output, no logits" in done.stderr


def test_a_head_that_the_checkpoint_lacks_is_not_explained(command: Command, minilm: Path) -> None:
    for name in ("lens", "attribute", "patch"):
        done = command(name, minilm, "time flies [MASK] an arrow", "--task", "fill-mask")
        assert done.returncode == 2 and "holds no head for fill-mask (head.transform.weight" in done.stderr
        assert not done.stdout
