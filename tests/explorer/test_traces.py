"""Texts under way: bounded, kept, stopped; and the options as a page, a link and the command line may say them."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from glassformer.errors import ConfigError, DataError
from glassformer.explorer.session_runs import SessionGone
from glassformer.explorer.traces import TraceJob, TraceStore, check_options
from glassformer.generation.served_options import command_line_options
from glassformer.inspect.generation_trace import GenerationTrace
from glassformer.inspect.token_tree import TreeStep
from glassformer.inspect.trace_recorder import StopTrace
from glassformer.model import Model

STEP = TreeStep((), (), (), ())


@pytest.fixture
def traces(models: dict[str, Model]) -> TraceStore:
    return TraceStore(models["llama"].writing, max_stored=3)


def done(job: TraceJob) -> list[dict[str, Any]]:
    while not job.finished:
        time.sleep(0.005)
    return job.take()


def test_lines_come_once_and_in_order() -> None:
    job = TraceJob(lambda on_step: {})
    job.on_step(STEP)
    assert [list(line) for line in job.take()] == [["step"]] and job.take() == [] and not job.finished
    job.on_step(STEP)
    job.run(job.queue_last_line)
    assert job.finished
    assert [list(line) for line in job.take()] == [["step"], ["ready"]] and job.take() == []


def test_a_stop_ends_it_with_its_next_step() -> None:
    job = TraceJob(lambda on_step: {})
    job.stop()
    with pytest.raises(StopTrace):
        job.on_step(STEP)
    assert len(job.take()) == 1  # that step is told still


def test_what_goes_wrong_is_the_last_line(traces: TraceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GenerationTrace, "write", lambda *_, **__: 1 / 0)
    stored = traces.begin("time flies", {})
    (line,) = done(traces.write(stored))
    assert line["error"].startswith("ZeroDivisionError") and not stored.running


def test_the_longest_unseen_is_let_go(traces: TraceStore) -> None:
    first, second, third = (traces.begin("time", {}).id for _ in range(3))
    traces.get(first)
    traces.begin("flies", {})
    with pytest.raises(SessionGone, match="generate it again"):
        traces.get(second)
    assert traces.get(first).id == first and traces.get(third).id == third


def test_what_is_being_written_is_not_let_go(traces: TraceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    go, own = threading.Event(), GenerationTrace.write

    def waiting(self: GenerationTrace, *values: Any, **named: Any) -> Any:
        assert go.wait(30)
        return own(self, *values, **named)

    monkeypatch.setattr(GenerationTrace, "write", waiting)
    busy = traces.begin("time", {"max_new_tokens": 2})
    job = traces.write(busy)
    for _ in range(5):
        traces.begin("flies", {})
    assert traces.get(busy.id) is busy
    go.set()
    assert "ready" in done(job)[-1] and busy.result is not None


def test_closing_ends_what_is_being_written(traces: TraceStore) -> None:
    stored = traces.begin("time flies", {"max_new_tokens": 1000, "min_new_tokens": 1000})
    job = traces.write(stored)
    while not stored.trace.nodes:
        time.sleep(0.005)
    traces.close()
    assert job.finished and 0 < len(stored.trace.nodes) < 1000
    assert stored.result is not None and stored.result.answers[0].reason == "interrupted"


def test_a_long_prompt_is_refused_and_a_pass_stops_between_blocks(
    traces: TraceStore, models: dict[str, Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.explorer.traces.MAX_PROMPT_TOKENS", 3)
    with pytest.raises(DataError, match="has 5 tokens; the generation view takes at most 3"):
        traces.begin("time flies like an arrow", {})
    stored = traces.begin("time", {})
    (stack,) = models["llama"].network.stacks().values()
    began: list[int] = []

    def stop_in_the_first(*_: Any) -> None:
        began.append(1)
        for job in list(stored.running):
            job.stop()

    handle = stack[0].register_forward_pre_hook(stop_in_the_first)
    lines = done(traces.write(stored))
    handle.remove()
    assert len(began) <= 2 and list(lines[-1]) == ["ready"]
    assert {answer.reason for answer in stored.result.answers} == {"interrupted"}  # type: ignore[union-attr]
    assert not stack[0]._forward_pre_hooks  # nothing of it is left on the network


def test_two_may_write_in_one_tree(traces: TraceStore) -> None:
    stored = traces.begin("time flies", {"max_new_tokens": 60, "min_new_tokens": 60})
    jobs = [traces.write(stored, after=0, tokens=[token]) for token in (4, 5, 6)]
    lines = [done(job) for job in jobs]
    text = [node["id"] for each in lines for line in each[:-1] for node in line["step"]["nodes"]]
    assert sorted(text) == list(range(1, len(stored.trace.nodes) + 1)) == list(range(1, 3 * 61 + 1))
    for token, each in zip((4, 5, 6), lines, strict=True):
        (answer,) = each[-1]["ready"]["answers"]
        assert stored.trace.tree.tokens(answer["node"])[0] == token


def test_options_are_those_of_generate() -> None:
    assert check_options({"num_beams": 2}) == {"max_new_tokens": 40, "num_beams": 2}
    assert check_options({"max_new_tokens": 7}) == {"max_new_tokens": 7}
    for values, message in (({"beams": 2}, "takes no 'beams'"), ({"num_beams": 33}, "at most 32")):
        with pytest.raises(ConfigError, match=message):
            check_options(values)


def test_options_as_the_command_line_spells_them(models: dict[str, Model]) -> None:
    trace = models["llama"].writing("time flies")
    for values, spelled in (
        ({}, "--view generate"),
        ({"max_new_tokens": 9, "num_beams": 3}, "--view generate -n 9 --beams 3"),
        (
            {"do_sample": True, "temperature": 0.7, "top_k": 5, "top_p": 0.9, "seed": 1},
            "--view generate --sample --temperature 0.7 --top-k 5 --top-p 0.9 --seed 1",
        ),
    ):
        assert " ".join(command_line_options(trace.resolve_options(**values))) == spelled
