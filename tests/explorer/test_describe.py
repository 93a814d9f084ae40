"""What the page is told of a session, and the names by which it finds it again."""

from __future__ import annotations

import shlex
import sysconfig
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer.explorer.describe import command, describe, model_facts, session_id, without_places
from glassformer.inspect.opening import HeadFinding
from glassformer.model import Model, load
from glassformer.pretrained import ModelParts


def test_a_pair_of_texts(models: dict[str, Model]) -> None:
    texts = ("time flies", "a banana")
    result = describe(models["bert"].inspect(*texts), model_facts(models["bert"]), texts)
    assert result["fields"] == ["text", "second text"]
    assert result["texts"] == list(texts)
    assert result["model"]["family"] == "bert"
    assert (result["model"]["dtype"], result["model"]["levels"]) == ("float32", None)
    assert result["model"]["max_tokens"] == 16
    assert result["model"]["parameters"] == sum(p.numel() for p in models["bert"].parameters())
    assert "place" not in result["model"]
    assert [(t["text"], t["segment"], t["special"]) for t in result["streams"]["text"]] == [
        ("[CLS]", None, True),
        ("time", 0, False),
        ("flies", 0, False),
        ("[SEP]", None, True),
        ("a", 1, False),
        ("banana", 1, False),
        ("[SEP]", None, True),
    ]
    (only,) = result["maps"]
    assert only == {
        "name": "self",
        "title": "self-attention",
        "layers": 2,
        "heads": 2,
        "kv_heads": 2,
        "head_width": 4,
        "queries": "text",
        "keys": "text",
        "causal": False,
        "windows": (None, None),
        "rotary_bases": (None, None),
        "biased": False,
        "paths": ["blocks.0.attn", "blocks.1.attn"],
    }


def test_two_stacks_have_source_and_target(models: dict[str, Model]) -> None:
    result = describe(models["transformer"].inspect("time flies"), model_facts(models["transformer"]), ("time flies",))
    assert result["fields"] == ["source", "target"]
    assert {m["name"]: (m["queries"], m["keys"]) for m in result["maps"]} == {
        "encoder": ("source", "source"),
        "decoder": ("target", "target"),
        "cross": ("target", "source"),
    }
    assert all(m["title"] != m["name"] for m in result["maps"])
    assert set(result["streams"]) == {"source", "target"}


@pytest.mark.parametrize(
    ("name", "texts", "view", "map"),
    [
        ("bert", ("time", "flies"), "model", "self"),
        ("gpt2", ("time flies like",), "generate", "self"),
        ("gpt2", ("time", "flies"), "model", "self"),
        ("transformer", ("time flies",), "model", "cross"),
    ],
)
def test_a_decoder_opens_with_its_text_and_two_stacks_with_their_cross_attention(
    models: dict[str, Model], name: str, texts: tuple[str, ...], view: str, map: str
) -> None:
    opening = describe(models[name].inspect(*texts), model_facts(models[name]), texts)["opening"]
    assert opening["view"] == view
    assert all(finding["map"] == map and finding["sentence"].startswith("In layer ") for finding in opening["findings"])


def test_every_field_of_the_contract_is_there(models: dict[str, Model]) -> None:
    """The interfaces of web/src/core/types.ts, read as text."""
    file = Path(__file__).parents[2] / "web" / "src" / "core" / "types.ts"
    if not file.is_file():
        pytest.skip("needs the page's sources in web/, which a source archive does not hold")
    result = describe(models["bert"].inspect("time"), model_facts(models["bert"]), ("time",))
    for name, example in (
        ("Session", result),
        ("Opening", result["opening"]),
        ("Finding", asdict(HeadFinding("self", 0, 0, sentence="", short=""))),
        ("AttentionMap", result["maps"][0]),
        ("Token", result["streams"]["text"][0]),
    ):
        assert set(example) == fields_of(file.read_text("utf-8"), name), name


def fields_of(source: str, interface: str) -> set[str]:
    """The names of an interface's fields that are always there."""
    body = source.split(f"export interface {interface} {{\n")[1].split("\n}\n")[0]
    own = [line.strip() for line in body.splitlines() if line.startswith("  ") and not line.startswith("   ")]
    return {line.split(":")[0] for line in own if line[0].isalpha() and not line.split(":")[0].endswith("?")}


# ------------------------------------------------------------------------------------------------------- names


def test_the_same_weights_have_the_same_revision(folders: dict[str, Path]) -> None:
    first, second = load(folders["gpt2"]), load(folders["gpt2"])
    assert model_facts(first).revision == model_facts(second).revision
    with torch.no_grad():
        next(second.parameters()).add_(1e-3)
    assert model_facts(first).revision != model_facts(second).revision
    assert model_facts(first).revision != model_facts(load(folders["gpt2"], dtype="float64")).revision


def test_a_session_is_named_by_weights_and_texts() -> None:
    names = [
        session_id("a", ["x", "y"]),
        session_id("a", ["xy"]),
        session_id("a", ["x"]),
        session_id("b", ["x"]),
    ]
    assert len(set(names)) == 4
    assert session_id("a", ["x"]) == names[2]


def named(models: dict[str, Model], folder: Path | None) -> Any:
    model = models["bert"]
    other = Model(ModelParts(model.network, model.family, model.spec, model.config, model.task, folder=folder))
    return model_facts(other)


def test_a_model_of_the_hub_has_the_hubs_name(models: dict[str, Model]) -> None:
    commit = "0123456789" * 4
    facts = named(models, Path("cache") / "models--org--some-name" / "snapshots" / commit)
    assert facts.name == "org/some-name"
    assert command(facts, ["time flies"]) == f"glassformer look org/some-name --revision {commit} 'time flies'"


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("some/where/mini", "mini"),
        ("some/where/model", "where"),
        ("runs/checkpoint-500", "runs/checkpoint-500"),
    ],
)
def test_a_folder_has_a_name_that_says_something(models: dict[str, Model], folder: str, name: str) -> None:
    assert named(models, Path(folder)).name == name


def test_a_model_without_a_folder_has_its_familys_name(models: dict[str, Model]) -> None:
    assert named(models, None).name == "bert"
    assert command(named(models, None), ["a"]) == "glassformer look MODEL a"


def test_the_home_folder_is_not_spelled_out(
    models: dict[str, Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    line = command(named(models, tmp_path / "my models" / "mini"), ["a"])
    assert line == "glassformer look ~/'my models/mini' a"


def test_a_page_for_others_names_no_folder_of_this_machine(models: dict[str, Model], tmp_path: Path) -> None:
    facts = without_places(named(models, tmp_path / "my models" / "mini one"))
    assert command(facts, ["a"]) == "glassformer look 'mini one' a"
    for folder in (Path("some/mini"), Path(sysconfig.get_path("purelib")) / "gt_mini" / "model", None):
        assert without_places(named(models, folder)) == named(models, folder)
    assert "look package:gt_mini/model a" in command(
        named(models, Path(sysconfig.get_path("purelib")) / "gt_mini" / "model"), ["a"]
    )


def test_a_checkpoint_of_this_package_is_named_by_it(models: dict[str, Model]) -> None:
    folder = Path(glassformer.__file__).parent / "checkpoints" / "shakespeare"
    line = command(without_places(named(models, folder)), ["a"])
    assert line == "glassformer look package:glassformer/checkpoints/shakespeare a"


def test_the_command_gives_the_texts_back(models: dict[str, Model]) -> None:
    texts = ['it\'s $HOME & "quotes"\nand lines', "</script>"]
    words = shlex.split(command(named(models, Path("some/mini")), texts, "--html", "page.html"))
    assert words == ["glassformer", "look", "some/mini", *texts, "--html", "page.html"]


def test_a_text_that_begins_with_a_dash_is_no_option(models: dict[str, Model]) -> None:
    words = shlex.split(command(named(models, Path("some/mini")), ["--help"], "--layers", "3"))
    assert words == ["glassformer", "look", "some/mini", "--layers", "3", "--", "--help"]


def test_a_long_text_stands_in_a_file(models: dict[str, Model]) -> None:
    assert command(named(models, Path("some/mini")), ["word " * 200]).endswith('"$(cat text.txt)"')
