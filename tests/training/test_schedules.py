"""Schedules are their formulas, at every step, and know nothing but the step."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from glassformer.errors import ConfigError
from glassformer.runs.presets import PRESETS, preset
from glassformer.training.schedules import SCHEDULES, Schedule

STEPS, WARMUP = 40, 10


def by_hand(name: str, step: int, floor: float = 0.0) -> float:
    if name == "noam":
        return 512**-0.5 * min(step**-0.5, step * WARMUP**-1.5)
    if step < WARMUP:
        return step / WARMUP
    t = (step - WARMUP) / (STEPS - WARMUP)
    falls = {
        "constant": 1.0,
        "linear": 1 - t,
        "cosine": 0.5 * (1 + math.cos(math.pi * t)),
        "inverse-sqrt": math.sqrt(WARMUP) / math.sqrt(step),
    }
    return floor + (1 - floor) * falls[name]


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_curve_is_the_formula(name: str) -> None:
    schedule = Schedule(name=name, steps=STEPS, warmup=WARMUP, width=512)
    for step in range(1, STEPS + 1):
        assert schedule(step) == pytest.approx(by_hand(name, step), rel=1e-12, abs=1e-12), step
    assert schedule(0) == 0
    peak = max(range(1, STEPS + 1), key=schedule)
    assert peak == WARMUP
    share = Schedule(name=name, steps=STEPS, warmup=0.25, width=512)
    assert [share(step) for step in range(STEPS)] == [schedule(step) for step in range(STEPS)]


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_the_curve_is_that_of_the_reference_library(name: str) -> None:
    """Whose step counts from 0, the updates that are done."""
    import transformers

    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = getattr(transformers, f"get_{name}_schedule_with_warmup")(optimiser, WARMUP, STEPS)
    schedule = Schedule(name=name, steps=STEPS, warmup=WARMUP)
    for step in range(STEPS):
        assert theirs.get_last_lr()[0] == pytest.approx(schedule(step), abs=1e-12)
        optimiser.step()
        theirs.step()


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_a_floor_is_where_it_ends_and_stays(name: str) -> None:
    schedule = Schedule(name=name, steps=STEPS, warmup=WARMUP, floor=0.1)
    for step in range(1, STEPS + 1):
        assert schedule(step) == pytest.approx(by_hand(name, step, floor=0.1))
    assert schedule(STEPS) == schedule(STEPS + 50) == pytest.approx(0.1)


def test_without_warm_up_it_begins_at_the_top() -> None:
    assert Schedule(name="constant")(1) == 1
    assert Schedule(name="linear", steps=10)(0) == 1
    assert Schedule(name="linear", steps=1)(1) == 0
    assert Schedule(name="linear", steps=5, warmup=5)(5) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": "cosin"}, "schedule is 'cosin'; allowed: .*; nearest: 'cosine'"),
        ({"name": "cosine"}, "the schedule 'cosine' needs to know how many steps"),
        ({"name": "constant", "warmup": 0.1}, "a warm-up that is a share needs"),
        ({"steps": 0}, "steps is 0"),
        ({"steps": 9, "warmup": 10}, "warmup is 10, longer than the 9 steps"),
        ({"steps": 9, "warmup": 1.5}, r"warmup is 1\.5; give a whole number"),
        ({"steps": 9, "warmup": -1}, "warmup is -1"),
        ({"steps": 9, "floor": 1.5}, r"floor is 1\.5"),
        ({"name": "inverse-sqrt"}, "falls from the end of its warm-up on: give warmup"),
        ({"name": "noam", "warmup": 5}, "needs width"),
        ({"name": "noam", "warmup": 5, "width": 8, "floor": 0.1}, "noam has none"),
    ],
)
def test_schedules_check_themselves(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Schedule(**options)


def test_steps_count_forward() -> None:
    with pytest.raises(ConfigError, match="step is -1"):
        Schedule(name="constant")(-1)


# ── presets ──────────────────────────────────────────────────────────────────────────────────────────────


def test_tr_17_the_presets_of_the_book() -> None:
    small, large = preset("gpt-small"), preset("gpt-large")
    assert (small["batch_size"], large["batch_size"]) == (12 * 1, 2 * 16)
    wanted = {
        "learning_rate": (5e-4, 2e-4),
        "weight_decay": (0.1, 0.1),
        "steps": (150_000, 50_000),
        "block": (1024, 1024),
        "seed": (1, 1),
        "warmup": (2000, 750),
        "schedule": ("cosine", "cosine"),
    }
    for name, both in wanted.items():
        assert (small[name], large[name]) == both, name


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_makes_a_schedule(name: str) -> None:
    options = preset(name)
    steps = options.get("steps", 900)
    schedule = Schedule(name=options["schedule"], steps=steps, warmup=options["warmup"], width=512)
    assert 0 < schedule.warmup_steps < steps
    assert (
        0 < options["learning_rate"] * max(schedule(s) for s in range(1, steps, max(1, steps // 99))) < 1e-3
    )
    assert preset(name) is not options, "a copy, to be changed"


def test_an_unknown_preset_is_named_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"preset is 'gpt-smal'; allowed: .*; nearest: 'gpt-small'"):
        preset("gpt-smal")
