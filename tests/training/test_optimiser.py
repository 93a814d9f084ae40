"""Weights decay by what they are, in every family; rates by group; steps equal to a loop written out."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from glassformer import Model
from glassformer.core.embeddings import LearnedPositions
from glassformer.core.norms import LayerNorm, RMSNorm
from glassformer.errors import ConfigError
from glassformer.models import FAMILIES, ConfigReader, Family
from glassformer.runs.config import PRESETS, preset
from glassformer.training.optimiser import (
    SCHEDULES,
    Schedule,
    decays,
    depths,
    make_optimiser,
    parameter_groups,
    set_rate,
)


def names_below(network: nn.Module, kinds: tuple[type[nn.Module], ...]) -> set[str]:
    """Every parameter that a module of these kinds owns, tied ones by their first name."""
    owned = {id(p) for module in network.modules() if isinstance(module, kinds) for p in module.parameters(False)}
    return {name for name, p in network.named_parameters() if id(p) in owned}


@pytest.mark.parametrize(
    ("family", "task"),
    [(family, task) for family in FAMILIES.values() for task in family.tasks],
    ids=[f"{family.model_type}-{task}" for family in FAMILIES.values() for task in family.tasks],
)
def test_tr_15_each_parameter_of_every_family_decays_or_does_not(family: Family, task: str) -> None:
    network = family.build_on_meta(family.spec(ConfigReader(family.tiny)), task)
    found = decays(network)
    groups = parameter_groups(network, learning_rate=1e-3, weight_decay=0.1)
    grouped = [id(p) for group in groups for p in group["params"]]
    assert sorted(grouped) == sorted(map(id, network.parameters())), "each is in exactly one group, once"

    decayed = {name for name, yes in found.items() if yes}
    assert decayed == {name for group in groups if group["weight_decay"] for name in group["names"]}
    spared = names_below(network, (LayerNorm, RMSNorm, nn.Embedding, LearnedPositions))
    assert spared and not decayed & spared
    parameters = dict(network.named_parameters())
    for name, parameter in parameters.items():
        if parameter.dim() < 2 or name.endswith(".bias"):
            assert name not in decayed
    matrices = names_below(network, (nn.Linear, nn.Conv1d, nn.Conv2d)) - spared
    assert decayed == {name for name in matrices if parameters[name].dim() > 1}
    assert decayed


def test_bug_29_norms_by_any_name_are_norms() -> None:
    """GPT-2's files call them ln_1, ln_2 and ln_f, which a search for "LayerNorm" does not find."""
    network = Model.from_config(FAMILIES["gpt2"].tiny, task="text-generation").network
    found = decays(network)
    norms = [name for name, module in network.named_modules() if isinstance(module, LayerNorm)]
    assert len(norms) == 2 * 3 + 1
    assert not any(found[f"{name}.{leaf}"] for name in norms for leaf in ("weight", "bias"))
    assert found["blocks.0.attn.qkv.weight"] and not found["embed.tokens.weight"]
    assert "head.decoder.weight" not in found, "tied: it is the embedding, once"


@pytest.mark.parametrize("family", ["bert", "mixtral", "t5", "wav2vec2"])
def test_after_a_step_without_gradients_only_what_decays_is_smaller(family: str) -> None:
    network = Model.from_config(FAMILIES[family].tiny).network
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    optimiser = make_optimiser(network, learning_rate=0.1, weight_decay=0.5)
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(parameter.detach(), before[name] * (0.95 if decays(network)[name] else 1.0))


def test_a_step_is_that_of_adamw_written_out() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    optimiser = make_optimiser(network, learning_rate=0.01, weight_decay=0.1, beta1=0.8, beta2=0.95, epsilon=1e-6)
    weight = network[0].weight
    ours, first, second = weight.detach().double(), torch.zeros(3, 4).double(), torch.zeros(3, 4).double()
    for step in range(1, 6):
        set_rate(optimiser, step / 5)
        gradients = [torch.randn_like(p) for p in network.parameters()]
        for parameter, gradient in zip(network.parameters(), gradients, strict=True):
            parameter.grad = gradient
        optimiser.step()
        g, rate = gradients[0].double(), 0.01 * step / 5
        first, second = 0.8 * first + 0.2 * g, 0.95 * second + 0.05 * g * g
        ours = ours * (1 - rate * 0.1)
        ours -= rate * (first / (1 - 0.8**step)) / ((second / (1 - 0.95**step)).sqrt() + 1e-6)
    torch.testing.assert_close(weight.detach().double(), ours, atol=1e-7, rtol=1e-6)


def test_rates_of_a_head_and_by_depth() -> None:
    network = Model.from_config(FAMILIES["bert"].tiny, task="text-classification").network
    below = depths(network)
    assert below["head.classifier.weight"] == 0
    assert [below[f"blocks.{i}.attn.qkv.weight"] for i in range(3)] == [3, 2, 1]
    assert below["embed.tokens.weight"] == 4
    groups = parameter_groups(network, learning_rate=1.0, head_learning_rate=5.0, layer_decay=0.5)
    rates = {name: group["lr"] for group in groups for name in group["names"]}
    assert rates["head.classifier.weight"] == 5.0
    assert rates["blocks.2.ffn.up.bias"] == 0.5 and rates["embed.norm.weight"] == 0.0625
    optimiser = make_optimiser(network, learning_rate=1.0, layer_decay=0.5)
    set_rate(optimiser, 0.1)
    for group in optimiser.param_groups:
        assert math.isclose(group["lr"], 0.1 * group["peak"])
    llama = depths(Model.from_config(FAMILIES["llama"].tiny).network)
    assert llama["final_norm.weight"] == 0


@pytest.mark.parametrize("name", ["adamw", "adafactor"])
def test_every_optimiser_learns_and_goes_on_from_its_state(name: str) -> None:
    def run(steps: int, state: dict[str, Any] | None = None, weights: Any = None) -> Any:
        torch.manual_seed(0)
        network = nn.Linear(5, 1)
        if weights is not None:
            network.load_state_dict(weights)
        optimiser = make_optimiser(network, name, learning_rate=0.05, weight_decay=0.01)
        if state is not None:
            optimiser.load_state_dict(state)
        x = torch.randn(64, 5, generator=torch.Generator().manual_seed(1))
        losses = []
        for _ in range(steps):
            optimiser.zero_grad()
            loss = (network(x) - x.sum(1, keepdim=True)).pow(2).mean()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        return losses, optimiser.state_dict(), network.state_dict()

    losses, _, whole = run(40)
    assert losses[-1] < 0.5 * losses[0]
    _, state, half = run(20)
    _, _, resumed = run(20, state, half)
    assert all(torch.equal(resumed[key], whole[key]) for key in whole)


def test_frozen_weights_are_in_no_group() -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    network[0].requires_grad_(False)
    groups = parameter_groups(network, learning_rate=1e-3)
    assert {name for group in groups for name in group["names"]} == {"1.weight", "1.bias"}
    with pytest.raises(ConfigError, match="nothing to train"):
        parameter_groups(network.requires_grad_(False), learning_rate=1e-3)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": "adam"}, "optimiser is 'adam'; allowed: adamw, adafactor; nearest: 'adamw'"),
        ({"learning_rate": 0.0}, r"learning_rate is 0\.0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"head_learning_rate": -1.0}, "head_learning_rate is -1"),
        ({"weight_decay": -0.1}, r"weight_decay is -0\.1"),
        ({"layer_decay": 0.0}, "layer_decay is 0"),
        ({"beta2": 1.0}, r"beta2 is 1\.0"),
        ({"epsilon": 0.0}, "epsilon is 0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make_optimiser(nn.Linear(2, 2), **{"learning_rate": 1e-3, **options})


# ------------------------------------------------------------------------------------ learning rate schedules


STEPS, WARMUP = 40, 10


def by_hand(name: str, step: int, floor: float = 0.0) -> float:
    if name == "noam":
        return 512**-0.5 * min(step**-0.5, step * WARMUP**-1.5)
    if step < WARMUP:
        return step / WARMUP
    t = max(0, step - 1 - WARMUP) / (STEPS - WARMUP)
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
    """Whose step counts the updates that are done, so its warm-up is one behind."""
    import transformers

    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = getattr(transformers, f"get_{name}_schedule_with_warmup")(optimiser, WARMUP, STEPS)
    schedule = Schedule(name=name, steps=STEPS, warmup=WARMUP)
    for step in range(1, STEPS + 1):
        behind = 1 / WARMUP if step <= WARMUP else 0
        assert theirs.get_last_lr()[0] + behind == pytest.approx(schedule(step), abs=1e-12), step
        optimiser.step()
        theirs.step()


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_a_floor_is_where_it_ends_and_stays(name: str) -> None:
    schedule = Schedule(name=name, steps=STEPS, warmup=WARMUP, floor=0.1)
    for step in range(1, STEPS + 1):
        assert schedule(step) == pytest.approx(by_hand(name, step, floor=0.1))
    assert schedule(STEPS) > schedule(STEPS + 1) == schedule(STEPS + 50) == pytest.approx(0.1)


def test_without_warm_up_it_begins_at_the_top() -> None:
    assert Schedule(name="constant")(1) == 1
    assert [Schedule(name="linear", steps=3)(step) for step in (1, 2, 3)] == pytest.approx([1, 2 / 3, 1 / 3])
    assert Schedule(name="linear", steps=1)(1) == Schedule(name="cosine", steps=1)(1) == 1
    assert Schedule(name="linear", steps=5, warmup=5)(5) == 1


@pytest.mark.parametrize("name", SCHEDULES)
def test_no_update_has_rate_0(name: str) -> None:
    for warmup in (1, 5, 20):
        schedule = Schedule(name=name, steps=20, warmup=warmup, width=512)
        assert min(schedule(step) for step in range(1, 21)) > 0


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
    assert 0 < options["learning_rate"] * max(schedule(s) for s in range(1, steps, max(1, steps // 99))) < 1e-3
    assert preset(name) is not options, "a copy, to be changed"


def test_an_unknown_preset_is_named_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"preset is 'gpt-smal'; allowed: .*; nearest: 'gpt-small'"):
        preset("gpt-smal")
