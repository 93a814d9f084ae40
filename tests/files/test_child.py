"""Child processes with limits: they answer, they end, and each process has its own."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from glassformer.files.child import ChildFailure, Worker

PROGRAM = """
import time
from glassformer.files.child import enter_sandbox, serve
def answer(request):
    if request == "stop": os._exit(3)
    if request == "sleep": time.sleep(60)
    if request == "spin":
        while True: pass
    if request == "fill":
        try: return len(bytearray(20_000_000_000))
        except MemoryError: return "no memory"
    if request == "write":
        try: open("stolen", "w")
        except PermissionError as problem: return str(problem)
    return [os.getpid(), request]
enter_sandbox(memory_bytes=100_000_000)
serve(answer, cpu_s=0.2)
"""


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker(PROGRAM, timeout_s=2)
    yield worker
    worker.close()


def test_one_child_answers_everything(worker: Worker) -> None:
    requests: list[Any] = ["é\ud800", None, {"a": [1.5]}, "x" * 3_000_000, ""]
    answers = [worker.ask(request) for request in requests]
    assert [answer for _, answer in answers] == requests
    assert len({child for child, _ in answers}) == 1 and answers[0][0] != os.getpid()


@pytest.mark.skipif(sys.platform != "linux", reason="time and memory are bounded on Linux")
def test_limits_hold_and_a_stopped_child_is_replaced(worker: Worker) -> None:
    assert worker.ask("fill") == "no memory" and worker.ask("write") == "it tried to write a file"
    for request, reason in (("spin", "runs too long"), ("sleep", "runs too long"), ("stop", "code 3")):
        with pytest.raises(ChildFailure, match=reason):
            worker.ask(request)
        assert worker.ask("well")[1] == "well"
    with pytest.raises((TypeError, ValueError)):
        worker.ask({1, 2})
    assert worker.ask("well")[1] == "well"


def test_an_event_is_allowed_by_name_and_the_others_stay_refused() -> None:
    program = """
import ctypes, socket
from glassformer.files.child import enter_sandbox, serve
def answer(request):
    try: return ctypes.string_at(b"read").decode() if request == "ctypes" else str(socket.create_server(("", 0)))
    except PermissionError as problem: return str(problem)
enter_sandbox(memory_bytes=100_000_000, allowed_events=("ctypes.",))
serve(answer, cpu_s=5)
"""
    for source, expected in (
        (program, "read"),
        (program.replace('"ctypes."', '"os.exec"'), "it tried ctypes.string_at"),
    ):
        worker = Worker(source, timeout_s=30)
        assert worker.ask("ctypes") == expected
        assert str(worker.ask("network")).startswith("it tried socket.")
        worker.close()


def test_threads_and_forks_get_their_own_answers(worker: Worker) -> None:
    wrong = []

    def ask(number: int) -> None:
        for i in range(20):
            if worker.ask([number, i])[1] != [number, i]:
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    child = worker.ask(0)[0]
    if hasattr(os, "fork"):
        process = os.fork()
        if process == 0:
            os._exit(0 if worker.ask(1)[0] != child else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert worker.ask(2)[0] == child


def test_an_interrupted_request_leaves_nothing_behind(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    worker.ask(0)
    with monkeypatch.context() as patch:
        patch.setattr("glassformer.files.child._receive", lambda stream: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            worker.ask("interrupted")
    assert worker.ask("next")[1] == "next"
