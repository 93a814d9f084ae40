"""A program in several threads: any number of programs at once, and after a fork."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn

from glassformer.engine import native
from glassformer.engine.few_tokens import FewTokensProduct
from glassformer.engine.packed_linear import PackedLinear
from glassformer.engine.program import STATE_SIZE
from glassformer.engine.team import WORTH_HELP, TeamJob

pytestmark = pytest.mark.skipif(not native.available(), reason="needs numba and an x86 processor")


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def linear() -> nn.Linear:
    """Large enough for helpers."""
    torch.manual_seed(0)
    return nn.Linear(256, 1024)


def product_of(linear: nn.Linear) -> FewTokensProduct:
    return FewTokensProduct(PackedLinear(linear, "fp32", inside=False).matrix())


@torch.inference_mode()
def check(product: FewTokensProduct, linear: nn.Linear, times: int = 50) -> None:
    for i in range(times):
        x = torch.full((1 + i % 8, 1, 256), 0.01 * i)
        y = product(x)
        assert y is not None
        assert torch.allclose(y, linear(x), atol=1e-4)


def test_several_python_threads_at_once(two_threads: None, linear: nn.Linear) -> None:
    product, failures = product_of(linear), list[BaseException]()

    def work() -> None:
        try:
            check(product, linear)
        except BaseException as problem:
            failures.append(problem)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("factor", [0.5, 1.5, 10.0, 100.0])
def test_a_busy_neighbour_costs_a_run_in_fifty(
    two_threads: None, monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    """A team takes so many times as long as one thread; then the neighbour goes, and it takes half as long."""
    now, team_seconds, teams = 0.0, factor, 0

    def kernel(job: int, threads: int) -> None:
        nonlocal now, teams
        now, teams = now + (team_seconds if threads > 1 else 1.0), teams + (threads > 1)

    monkeypatch.setattr("time.perf_counter", lambda: now)
    job = TeamJob(np.zeros(STATE_SIZE, np.int64), 0, WORTH_HELP)
    for _ in range(10_000):
        job.run(kernel)
    assert now < 1.02 * 10_000 * min(factor, 1) + 2 * factor
    team_seconds, teams = 0.5, 0
    for _ in range(8_000):
        job.run(kernel)
    assert teams > 1_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_helpers_of_its_own(two_threads: None, linear: nn.Linear) -> None:
    product = product_of(linear)
    wanted = product(torch.ones(1, 1, 256))
    assert wanted is not None
    child = os.fork()
    if child == 0:
        try:  # torch's own threads do not outlive a fork: only ours are tried
            same = all(torch.equal(product(torch.ones(1, 1, 256)), wanted) for _ in range(20))  # type: ignore[arg-type]
            os._exit(0 if same else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    check(product, linear)
