"""Texts under way: bounded, kept, stopped; and the options as a page, a link and the command line may say them."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from glassformer.errors import ConfigError
from glassformer.explorer.runs import SessionGone
from glassformer.explorer.writings import OPTIONS, Work, Writings, command_options, options_of
from glassformer.generation.options import VALUES
from glassformer.inspect.growing import Enough
from glassformer.inspect.tree import Step
from glassformer.inspect.writing import Writing
from glassformer.model import Model

STEP = Step((), (), (), ())


@pytest.fixture
def writings(models: dict[str, Model]) -> Writings:
    return Writings(models["llama"], most=3)


def done(work: Work) -> list[dict[str, Any]]:
    while not work.over:
        time.sleep(0.005)
    return work.take()


def test_lines_come_once_and_in_order() -> None:
    work = Work()
    work.see(STEP)
    assert [list(line) for line in work.take()] == [["step"]] and work.take() == [] and not work.over
    work.see(STEP)
    work.end({"ready": {}})
    assert work.over
    assert [list(line) for line in work.take()] == [["step"], ["ready"]] and work.take() == []


def test_a_stop_ends_it_with_its_next_step() -> None:
    work = Work()
    work.stop()
    with pytest.raises(Enough):
        work.see(STEP)
    assert len(work.take()) == 1  # that step is told still


def test_what_goes_wrong_is_the_last_line(writings: Writings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writing, "write", lambda *_, **__: 1 / 0)
    kept = writings.begin("time flies", {})
    (line,) = done(writings.write(kept))
    assert line["error"].startswith("ZeroDivisionError") and not kept.under_way


def test_the_longest_unseen_is_let_go(writings: Writings) -> None:
    first, second, third = (writings.begin("time", {}).id for _ in range(3))
    writings.get(first)
    writings.begin("flies", {})
    with pytest.raises(SessionGone, match="written again"):
        writings.get(second)
    assert writings.get(first).id == first and writings.get(third).id == third


def test_what_is_being_written_is_not_let_go(writings: Writings, monkeypatch: pytest.MonkeyPatch) -> None:
    go, own = threading.Event(), Writing.write

    def waiting(self: Writing, *given: Any, **named: Any) -> Any:
        assert go.wait(30)
        return own(self, *given, **named)

    monkeypatch.setattr(Writing, "write", waiting)
    busy = writings.begin("time", {"max_new_tokens": 2})
    work = writings.write(busy)
    for _ in range(5):
        writings.begin("flies", {})
    assert writings.get(busy.id) is busy
    go.set()
    assert "ready" in done(work)[-1] and busy.written is not None


def test_closing_ends_what_is_being_written(writings: Writings) -> None:
    kept = writings.begin("time flies", {"max_new_tokens": 1000, "min_new_tokens": 1000})
    work = writings.write(kept)
    while not kept.writing.nodes:
        time.sleep(0.005)
    writings.close()
    assert work.over and 0 < len(kept.writing.nodes) < 1000
    assert kept.written is not None and kept.written.answers[0].reason == "interrupted"


def test_two_may_write_in_one_tree(writings: Writings) -> None:
    kept = writings.begin("time flies", {"max_new_tokens": 60, "min_new_tokens": 60})
    works = [writings.write(kept, after=0, tokens=[token]) for token in (4, 5, 6)]
    lines = [done(work) for work in works]
    told = [node["id"] for each in lines for line in each[:-1] for node in line["step"]["nodes"]]
    assert sorted(told) == list(range(1, len(kept.writing.nodes) + 1)) == list(range(1, 3 * 61 + 1))
    for token, each in zip((4, 5, 6), lines, strict=True):
        (answer,) = each[-1]["ready"]["answers"]
        assert kept.writing.tree.tokens(answer["node"])[0] == token


def test_options_are_those_of_generate() -> None:
    assert set(OPTIONS) <= VALUES.keys()
    assert options_of({"num_beams": 2}) == {"max_new_tokens": 40, "num_beams": 2}
    assert options_of({"max_new_tokens": 7}) == {"max_new_tokens": 7}
    for given, message in (({"beams": 2}, "takes no 'beams'"), ({"num_beams": 33}, "at most 32")):
        with pytest.raises(ConfigError, match=message):
            options_of(given)


def test_options_as_the_command_line_spells_them(models: dict[str, Model]) -> None:
    writing = models["llama"].writing("time flies")
    for given, spelled in (
        ({}, "--view generate"),
        ({"max_new_tokens": 9, "num_beams": 3}, "--view generate -n 9 --beams 3"),
        (
            {"do_sample": True, "temperature": 0.7, "top_k": 5, "top_p": 0.9, "seed": 1},
            "--view generate --sample --temperature 0.7 --top-k 5 --top-p 0.9 --seed 1",
        ),
    ):
        assert " ".join(command_options(writing.asked(**given))) == spelled
