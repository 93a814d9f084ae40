"""`glassformer demo`: its figures against the model itself, its choice of a model, and what it shows."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer.cli.demo as module
from glassformer.cli.demo import HUB_NAME, TEXTS, demo
from glassformer.core.flow import Tape
from glassformer.errors import DataError, UnsupportedError
from glassformer.explorer.server import Server
from glassformer.model import Model, load
from glassformer.models import FAMILIES
from tests.explorer.reader import Reader


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture(scope="module")
def model(minilm: Path) -> Model:
    return load(minilm)


@pytest.fixture(autouse=True)
def loaded_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading is not what most of these tests are about."""
    if "model" in request.fixturenames:
        model = request.getfixturevalue("model")
        monkeypatch.setattr(module, "_load", lambda name, offline: model)


@pytest.fixture(autouse=True)
def not_served(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Serving goes on until Ctrl-C, and is not what most of these tests are about."""
    if "page" not in request.node.name:
        monkeypatch.setattr(module, "_explore", lambda *_, **__: None)


def data_of(capsys: pytest.CaptureFixture[str], *texts: str, **options: Any) -> Any:
    demo(list(texts) or None, json=True, **options)
    return json.loads(capsys.readouterr().out)


def test_pieces_and_ids(model: Model, capsys: Any) -> None:
    first, second = data_of(capsys)["texts"]
    assert first["ids"] == [101, 2051, 10029, 2066, 2019, 8612, 102]
    assert second["pieces"] == ["[CLS]", "fruit", "flies", "like", "a", "banana", "[SEP]"]


def test_shapes_are_those_of_the_taps(model: Model, capsys: Any) -> None:
    tape = Tape("*")
    model(**model.tokenizer(TEXTS[0], return_tensors="pt"), tape=tape)
    shapes = {row["tap"]: row["shape"] for row in data_of(capsys)["shapes"]}
    assert shapes.pop("input_ids") == [1, 7]
    assert shapes.pop("encode(text)") == [384]
    assert {"embed.out", "blocks.0.attn.probs", "blocks.0.ffn.neurons", "blocks.5.out"} <= set(shapes)
    assert shapes == {tap: list(tape.taps[tap].shape) for tap in shapes}


def test_heads_are_the_findings_of_the_pair_with_the_models_own_shares(model: Model, capsys: Any) -> None:
    session = model.inspect(*TEXTS)
    heads = data_of(capsys)["heads"]
    assert heads == [asdict(finding) for finding in session.findings]
    link = heads[0]
    share = float(session.head(link["layer"], link["head"]).probs(link["query"])[0, link["key"]])
    assert link["short"] == f"time → flies {share:.0%}" and link["sentence"].endswith(
        f"{share:.0%} of its attention to “flies”."
    )


def test_flies_starts_equal_and_drifts_apart(model: Model, capsys: Any) -> None:
    words = {word["word"]: word for word in data_of(capsys)["words"]}
    assert list(words) == ["flies", "like"]
    cosines = words["flies"]["cosines"]
    assert list(cosines) == ["embed.out", *(f"blocks.{i}.out" for i in range(6))]
    assert cosines["embed.out"] == pytest.approx(1.0, abs=1e-12)
    vectors = [model(**model.tokenizer(text, return_tensors="pt")).last_hidden_state[0, 2] for text in TEXTS]
    assert cosines["blocks.5.out"] == pytest.approx(float(torch.cosine_similarity(*vectors, dim=0).detach()), abs=1e-5)
    assert cosines["blocks.5.out"] < 0.7


def test_sentences_are_as_alike_as_their_vectors(model: Model, capsys: Any) -> None:
    first, second = model.encode(TEXTS)
    assert data_of(capsys)["sentences"]["cosine"] == pytest.approx(float(first @ second), abs=1e-5)


def test_a_word_of_several_pieces_at_other_places_in_texts_of_other_lengths(model: Model, capsys: Any) -> None:
    """Case and commas do not matter; the vectors of the pieces are averaged."""
    texts = "Antidisestablishmentarianism, again", "what is that antidisestablishmentarianism of yours about?"
    report = data_of(capsys, *texts)
    [word] = report["words"]
    assert word["word"] == "antidisestablishmentarianism"
    states = []
    for row, places, text in zip(report["texts"], word["places"], texts, strict=True):
        assert "".join(row["pieces"][i].removeprefix("##") for i in places) == word["word"]
        states.append(model(**model.tokenizer(text, return_tensors="pt")).last_hidden_state[0, places].mean(dim=0))
    assert word["cosines"]["blocks.5.out"] == pytest.approx(
        float(torch.cosine_similarity(*states, dim=0).detach()), abs=1e-5
    )
    assert word["cosines"]["embed.out"] < 1
    demo(list(texts))
    assert "at positions 1 and 4: its vectors differ in the position embedding only" in " ".join(
        capsys.readouterr().out.split()
    )


def test_what_a_person_sees(model: Model, capsys: Any) -> None:
    demo()
    out = capsys.readouterr().out
    for words in (
        "10029",
        "blocks.0.attn.q       [1, 12, 7, 32]  queries: what tokens look for",
        "time → flies",
        "“flies” has the same id at the same position in both texts",
        "embed.out     1.000 ████████████",
        "glassformer info ",
    ):
        assert words in out
    head, _, commands = out.partition("What next")
    assert max(map(len, head.splitlines())) <= 80
    assert commands.count("glassformer") >= 4


@pytest.mark.parametrize(
    "texts",
    [
        ("dog", "cat"),
        ("one two three four", "five"),
        ("same words", "same words"),
        ("été 你好 🙂", "ÉTÉ 你好"),
        ("a " * 200, "!"),
    ],
)
def test_odd_texts(model: Model, capsys: Any, texts: tuple[str, str]) -> None:
    demo(list(texts))
    out = capsys.readouterr().out
    assert "What next" in out
    assert "nan" not in out


def test_texts_without_a_common_word(model: Model, capsys: Any) -> None:
    demo(["one two", "three four"])
    assert "no word in common" in capsys.readouterr().out


def test_text_cannot_steer_the_terminal(model: Model, capsys: Any) -> None:
    demo(["time \x1b[31mflies [bold]fast[/]", "fruit flies [/]"])
    assert "\x1b" not in capsys.readouterr().out


def test_a_causal_model_with_a_final_norm(shared: Path, capsys: Any) -> None:
    report = data_of(capsys, "Once upon a time", "there was one time", model=str(shared / "models" / "stories260k"))
    assert list(report["words"][0]["cosines"])[-1] == "final"
    assert all(head["query"] is None or head["key"] < head["query"] for head in report["heads"])


@pytest.mark.parametrize(("texts", "message"), [(["one"], "two texts, got 1"), (["a", ""], "give at least one word")])
def test_texts_that_do_not_do(model: Model, texts: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        demo(texts)


def test_a_model_of_another_shape_is_refused(monkeypatch: Any) -> None:
    other = Model.from_config(FAMILIES["transformer"].tiny)
    monkeypatch.setattr(module, "_load", lambda name, offline: other)
    with pytest.raises(UnsupportedError, match="one stack of blocks"):
        demo()


# -------------------------------------------------------------------------------------------------- the page


def test_the_page_of_the_same_two_texts_as_a_file(model: Model, tmp_path: Path, capsys: Any) -> None:
    demo(html=tmp_path / "page.html")
    out = capsys.readouterr().out
    assert out.index("What next") < out.index("Attention explorer") < out.index("saved in ")
    session = Reader((tmp_path / "page.html").read_text("utf-8")).session()
    assert session["texts"] == TEXTS
    assert session["opening"]["findings"][0]["sentence"] in " ".join(out.split())  # one rule chooses the head of both
    assert session["exact_layers"] == {"self": [0, 1, 2, 3, 4, 5]}


def test_the_page_is_served_until_it_is_interrupted(model: Model, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    asked: list[str] = []

    def wait(self: Server) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/") as answer:
            asked.append(answer.read().decode())
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "wait", wait)
    demo(browser=False)
    shown = capsys.readouterr().out.split("Attention explorer")[1]
    assert "open http://127.0.0.1:" in shown and "#token=" in shown
    assert "Ctrl-C stops the server\n" in shown
    assert "13 text tokens · self 6 × 12 heads" in shown
    assert shown.endswith("\nstopped\n")
    assert '<div id="app">' in asked[0]


def test_a_place_for_the_page_is_checked_before_the_tour(model: Model, tmp_path: Path, capsys: Any) -> None:
    with pytest.raises(DataError, match=r"must end in \.html"):
        demo(html=tmp_path / "page.txt")
    assert not capsys.readouterr().out


# ------------------------------------------------------------------------------------------- finding a model


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("GLASSFORMER_MINILM", str(tmp_path))
    assert module._named() == str(tmp_path)
    monkeypatch.setenv("GLASSFORMER_MINILM", str(tmp_path / "gone"))
    with pytest.raises(DataError, match="GLASSFORMER_MINILM"):
        demo()


def test_with_nothing_at_hand_it_says_what_to_install(monkeypatch: Any, tmp_path: Path) -> None:
    asked = []

    def nothing(name: str, **options: Any) -> None:
        asked.append((name, options))
        raise DataError("not in the cache")

    monkeypatch.delenv("GLASSFORMER_MINILM", raising=False)
    monkeypatch.setattr("glassformer.model.load", nothing)
    with pytest.raises(DataError, match=r"pip install .*--model .*not in the cache"):
        demo(offline=True)
    assert asked == [(HUB_NAME, {"offline": True})]
