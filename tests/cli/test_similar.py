"""`glassformer similar`: shares and pairs on the screen, everything as JSON, and errors that say what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer.explorer.binary_frames import decode
from glassformer.model import load
from tests.cli.conftest import Command
from tests.explorer.reader import Reader

A, B = "a man plays guitar", "someone plays an unbelievable instrument"


def test_two_texts(minilm: Path, command: Command) -> None:
    done = command("similar", minilm, A, B, "--words", "--top", 3)
    assert done.returncode == 0, done.stderr
    assert "cosine 0.53" in done.stdout
    assert "unbelievable" in done.stdout
    pairs = done.stdout.rpartition("of the sum")[2].split("\n")[1:4]
    assert pairs[0].split()[:2] == ["plays", "plays"]


def test_json_is_the_map(minilm: Path, command: Command) -> None:
    told = json.loads(command("similar", minilm, A, B, "--json").stdout)
    found = load(minilm).explain_similarity(A, B)
    assert told == json.loads(json.dumps(found.to_dict()))
    assert sum(map(sum, told["cells"])) == pytest.approx(told["similarity"])


def test_several_texts_are_a_table(minilm: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "others.txt").write_text(f"{B}\nthe stock fell\n")
    done = command("similar", minilm, A, tmp_path / "others.txt", "--json")
    told = json.loads(done.stdout)
    assert told["texts"] == [A, B, "the stock fell"]
    model = load(minilm)
    assert told["similarities"][0][1] == pytest.approx(model.explain_similarity(A, B).similarity, abs=1e-6)
    assert "1.000" in command("similar", minilm, A, tmp_path / "others.txt").stdout


def test_of_many_texts_the_nearest_to_the_first(minilm: Path, command: Command, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    lines = [f"the stock of company {number} fell" for number in range(40)]
    lines[17] = B
    file.write_text("\n".join(lines) + "\n")
    found = json.loads(command("similar", minilm, A, file, "--top", 3, "--json").stdout)
    assert (found["texts"], found["nearest"][0]["number"], found["nearest"][0]["text"]) == (40, 18, B)
    expected = load(minilm).explain_similarity(A, B).similarity
    assert found["nearest"][0]["score"] == pytest.approx(expected, abs=1e-6)
    shown = command("similar", minilm, A, file, "--top", 3)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("the stock of company") == 2 and B in shown.stdout
    assert shown.stdout.split("\n\n")[1].split()[:3] == ["cosine", "no.", "text"]

    swapped = command("similar", minilm, file, A, "--json")
    assert swapped.returncode == 2 and "put the query before the file" in swapped.stderr.replace("\n", " ")
    (tmp_path / "query.txt").write_text(A)
    assert json.loads(command("similar", minilm, tmp_path / "query.txt", file, "--json").stdout)["query"] == A

    file.write_text("\n".join([A, *lines]) + "\n")  # the query is the first line, and numbers are those of lines
    found = json.loads(command("similar", minilm, file, "--top", 1, "--json").stdout)
    assert [(each["number"], each["text"]) for each in found["nearest"]] == [(19, B)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([A], "compares texts, and got one"),
        ([A, B, "third", "--words"], "give two texts"),
        ([A, B, "third", "--html", "page.html"], "give two texts"),
        ([A, B, "--html", "page.html", "--prompt", "query: "], "leave --measure and the prompt out"),
        ([A, B, "--html", "page.txt"], "page.txt"),
        ([A, B, "--measure", "euclid"], "measure is 'euclid'; allowed: cosine, dot"),
        ([A, "missing.txt"], "missing.txt: no such file"),
    ],
)
def test_errors(minilm: Path, command: Command, arguments: list[str], message: str) -> None:
    done = command("similar", minilm, *arguments)
    assert done.returncode == 2
    assert message in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_the_page_as_a_file(minilm: Path, command: Command, tmp_path: Path) -> None:
    done = command("similar", minilm, A, B, "--html", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    page = Reader((tmp_path / "page.html").read_text())
    assert page.session()["start"] == "v=1&view=similarity"
    (stored,) = [each for each in page.session()["readings"] if each["view"] == "similarity"]
    assert decode(page.frames()[f"view/{stored['key']}"]).fields["similarity"] == pytest.approx(0.534, abs=1e-3)
