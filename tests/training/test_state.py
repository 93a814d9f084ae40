"""What a run knows comes back exactly: tensors to the bit, values as they are, optimisers by name."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from glassformer.data.order import example_generator
from glassformer.errors import ConfigError, WeightsError
from glassformer.training.state import (
    capture_rng,
    optimiser_tensors,
    read_state,
    restore_optimiser,
    restore_rng,
    seed_all,
    write_state,
)
from glassformer.weights.header import DTYPES

leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.sampled_from(["float", "tuple", "object"]), inner, max_size=4)
    ),
    max_leaves=12,
)


def exactly(value: Any) -> str:
    """Tells apart what `==` does not: 1 and True and 1.0, 0.0 and -0.0; and finds NaN equal to itself."""
    return repr(value)


@given(values=st.dictionaries(st.text(), trees, max_size=4))
def test_values_come_back_as_they_are(tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]) -> None:
    folder = tmp_path_factory.getbasetemp()
    write_state(folder, {}, values)
    assert exactly(read_state(folder)[1]) == exactly(values)


def test_numbers_of_any_size_and_no_numbers_at_all(tmp_path: Path) -> None:
    values = {
        "big": 1 << 4000,
        "floats": [0.1, 5e-324, 1.7976931348623157e308, -0.0, math.inf, -math.inf, math.nan],
    }
    write_state(tmp_path, {}, values, name="rank-1")
    assert exactly(read_state(tmp_path, name="rank-1")[1]) == exactly(values)
    text = (tmp_path / "rank-1.json").read_text()
    assert "NaN" not in text and "Infinity" not in text


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({1: "a"}, r"values\['x'\] is \{1: 'a'\} \(dict\)"),
        ([{"y": {1, 2}}], r"values\['x'\]\[0\]\['y'\] is \{1, 2\} \(set\)"),
        (torch.ones(1), r"\(Tensor\).*tensors go next to them"),
        (b"bytes", r"\(bytes\)"),
    ],
)
def test_what_would_come_back_different_is_refused(tmp_path: Path, value: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        write_state(tmp_path, {}, {"x": value})
    assert not list(tmp_path.iterdir())


def test_a_number_too_long_for_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be written: .*digits"):
        write_state(tmp_path, {}, {"x": 1 << 20_000})


def test_tensors_come_back_to_the_bit_in_memory_of_their_own(tmp_path: Path) -> None:
    tensors = {name: torch.tensor([[0.0, 1.0], [1.0, 0.0]]).to(dtype) for name, dtype in DTYPES.items()}
    tensors |= {
        "nan": torch.tensor([float("nan"), -0.0]),
        "none": torch.zeros(0, 3),
        "one": torch.tensor(3.5),
    }
    write_state(tmp_path, tensors, {})
    found, values = read_state(tmp_path)
    (tmp_path / "state.safetensors").write_bytes(b"")
    assert values == {} and found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape
        assert same_bits(found[name], tensor)


def test_tensors_that_no_file_holds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="complex64"):
        write_state(tmp_path, {"z": torch.ones(1, dtype=torch.complex64)}, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["state.json", "state.safetensors"])
def test_a_state_that_is_missing_or_another_thing_names_the_file(tmp_path: Path, name: str) -> None:
    write_state(tmp_path, {}, {})
    (tmp_path / name).write_bytes(b"{}")
    with pytest.raises(WeightsError, match=name):
        read_state(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(WeightsError, match=name):
        read_state(tmp_path)


def same_bits(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(
        one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8)
    )


# ------------------------------------------------------------------------------------------- optimisers

OPTIMISERS: dict[str, Any] = {
    "AdamW": lambda groups: torch.optim.AdamW(groups, lr=1e-2, amsgrad=True),
    "AdamW, learning rate a tensor": lambda groups: torch.optim.AdamW(groups, lr=torch.tensor(0.1)),
    "AdamW, fused": lambda groups: torch.optim.AdamW(groups, lr=1e-2, fused=True),
    "SGD": lambda groups: torch.optim.SGD(groups, lr=1e-2),
    "SGD, momentum": lambda groups: torch.optim.SGD(groups, lr=1e-2, momentum=0.9),
    "Adafactor": lambda groups: torch.optim.Adafactor(groups),
    "NAdam": lambda groups: torch.optim.NAdam(groups),
    "RMSprop": lambda groups: torch.optim.RMSprop(groups, centered=True, momentum=0.1),
    "Rprop": lambda groups: torch.optim.Rprop(groups),
    "ASGD": lambda groups: torch.optim.ASGD(groups),
}


def network(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 3)).to(dtype)


def groups(net: nn.Sequential, *, turned: bool = False) -> list[dict[str, Any]]:
    """Decayed and not; `turned`: the same groups, the other way round."""
    decayed = [net[0].weight, net[2].weight]
    others = [net[0].bias, net[1].weight, net[1].bias, net[2].bias]
    made = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return [{**group, "params": group["params"][::-1]} for group in made[::-1]] if turned else made


def steps(net: nn.Sequential, optimizer: torch.optim.Optimizer, count: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    for _ in range(count):
        x = torch.randn(5, 4, generator=draw).to(next(net.parameters()).dtype)
        optimizer.zero_grad()
        net(x).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("turned", [False, True], ids=["in order", "in another order"])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_an_optimiser_goes_on_to_the_bit(tmp_path: Path, name: str, turned: bool) -> None:
    make = OPTIMISERS[name]
    net = network()
    optimizer = make(groups(net))
    steps(net, optimizer, 3, seed=1)
    optimizer.param_groups[0]["lr"] *= 0.5  # as a schedule does
    write_state(tmp_path, *optimiser_tensors(optimizer, net.named_parameters()))
    there = network()
    there.load_state_dict(net.state_dict())
    other = make(groups(there, turned=turned))
    restore_optimiser(other, there.named_parameters(), *read_state(tmp_path))
    for run in ((net, optimizer), (there, other)):
        steps(*run, 3, seed=2)
    assert all(same_bits(a, b) for a, b in zip(net.parameters(), there.parameters(), strict=True))
    assert optimizer.param_groups[0].keys() == other.param_groups[0].keys()


@pytest.mark.parametrize("name", OPTIMISERS)
def test_an_optimiser_of_transposed_weights_goes_on_to_the_bit(tmp_path: Path, name: str) -> None:
    """GPT-2's checkpoints hold matrices transposed; a fused step reads weights and state in the order of memory."""

    def transposed() -> nn.Sequential:
        net = network()
        for parameter in net.parameters():
            if parameter.dim() == 2:
                parameter.data = parameter.data.T.contiguous().T
        return net

    net, there = transposed(), transposed()
    assert not net[0].weight.is_contiguous()
    optimizer, other = OPTIMISERS[name](groups(net)), OPTIMISERS[name](groups(there))
    steps(net, optimizer, 3, seed=1)
    write_state(tmp_path, *optimiser_tensors(optimizer, net.named_parameters()))
    there.load_state_dict(net.state_dict())
    restore_optimiser(other, there.named_parameters(), *read_state(tmp_path))
    for run in ((net, optimizer), (there, other)):
        steps(*run, 3, seed=2)
    assert all(same_bits(a, b) for a, b in zip(net.parameters(), there.parameters(), strict=True))


def test_state_wider_than_its_parameter_keeps_its_bits() -> None:
    def made() -> tuple[nn.Sequential, torch.optim.AdamW]:
        net = network(torch.bfloat16)
        return net, torch.optim.AdamW(net.parameters())

    net, optimizer = made()
    steps(net, optimizer, 1, seed=1)
    wide = torch.full_like(net[0].weight, 1 / 3, dtype=torch.float32)
    optimizer.state[net[0].weight]["exp_avg"] = wide
    there, other = made()
    restore_optimiser(other, there.named_parameters(), *optimiser_tensors(optimizer, net.named_parameters()))
    assert same_bits(other.state[there[0].weight]["exp_avg"], wide)
    assert other.state[there[2].weight]["exp_avg"].dtype == torch.bfloat16


def test_the_state_of_another_model_or_of_other_groups_is_refused() -> None:
    net = network()
    optimizer = torch.optim.AdamW(groups(net))
    saved = optimiser_tensors(optimizer, net.named_parameters())
    wider = nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.Linear(6, 3))
    with pytest.raises(WeightsError, match=r"'0.weight' has shape \[6, 4\] in the checkpoint and \[6, 5\] here"):
        restore_optimiser(torch.optim.AdamW(wider.parameters()), wider.named_parameters(), *saved)
    longer = network().append(nn.Linear(3, 3))
    with pytest.raises(WeightsError, match=r"'3.bias' has shape \(it is missing\) in the checkpoint"):
        restore_optimiser(torch.optim.AdamW(longer.parameters()), longer.named_parameters(), *saved)
    with pytest.raises(WeightsError, match=r"in other groups: none is of the 6 with '0.bias'"):
        restore_optimiser(torch.optim.AdamW(net.parameters()), net.named_parameters(), *saved)


def test_a_parameter_without_a_name_is_refused() -> None:
    net = network()
    optimizer = torch.optim.AdamW([*net.parameters(), nn.Parameter(torch.ones(9))])
    with pytest.raises(ConfigError, match=r"1 of the optimiser's 7 parameters have no name, one of shape \[9\]"):
        optimiser_tensors(optimizer, net.named_parameters())


def test_an_optimiser_that_keeps_more_than_tensors_and_values_is_refused() -> None:
    net = network()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = net(torch.ones(1, 4)).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    with pytest.raises(ConfigError, match=r"values of LBFGS: .*\(Tensor\)"):
        optimiser_tensors(optimizer, net.named_parameters())


def drawn() -> list[float]:
    """A few numbers of each generator; those of the normal distribution come in pairs, of which one waits."""
    return [
        random.random(),
        random.gauss(0, 1),
        float(np.random.rand()),
        float(np.random.normal()),
        float(torch.rand(1)),
        *torch.nn.functional.dropout(torch.ones(9)).tolist(),
    ]


@pytest.mark.parametrize("before", range(3))
def test_after_a_restore_all_goes_on_as_it_would_have(tmp_path: Path, before: int) -> None:
    seed_all(3)
    for _ in range(before):
        drawn()
    write_state(tmp_path, capture_rng(), {})
    wanted = [drawn() for _ in range(3)]
    seed_all(4)
    drawn()
    restore_rng(read_state(tmp_path)[0])
    assert [drawn() for _ in range(3)] == wanted


def test_capturing_draws_nothing() -> None:
    seed_all(3)
    wanted = drawn()
    seed_all(3)
    capture_rng()
    assert drawn() == wanted


def test_a_seed_decides_everything() -> None:
    found = []
    for seed in (0, 0, 1, 2**31, 2**32 - 1):
        seed_all(seed)
        found.append(drawn())
    assert found[0] == found[1]
    for place in (0, 2, 4):  # each generator by itself
        assert len({values[place] for values in found}) == 4


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_out_of_range_is_refused(seed: int) -> None:
    with pytest.raises(ConfigError, match=f"got {seed}"):
        seed_all(seed)


@pytest.mark.parametrize("wrong", [(-1, 0, 0), (2**128, 0, 0), (0, -1, 0), (0, 2**64, 0), (0, 0, -1), (0, 0, 2**64)])
def test_an_example_out_of_range_is_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ConfigError, match="whole numbers from 0 on"):
        example_generator(*wrong)


def test_a_state_that_lacks_one_or_is_none_is_refused() -> None:
    state = capture_rng()
    with pytest.raises(WeightsError, match="lacks 'numpy'"):
        restore_rng({name: tensor for name, tensor in state.items() if name != "numpy"})
    with pytest.raises(WeightsError, match="cannot be restored"):
        restore_rng({**state, "torch": torch.ones(3)})
    restore_rng(state)


def test_another_generator_of_numpy_is_refused() -> None:
    own: Any = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.PCG64(1))
        with pytest.raises(ConfigError, match="replaced by PCG64"):
            capture_rng()
    finally:
        np.random.set_bit_generator(own)


def test_an_example_draws_the_same_whenever_and_wherever() -> None:
    first = example_generator(5, 1, 77).normal(size=4)
    example_generator(5, 1, 78).random(1000)
    np.random.seed(0)
    assert (example_generator(5, 1, 77).normal(size=4) == first).all()


def test_neighbours_draw_nothing_alike() -> None:
    keys = [(s, e, i) for s in (0, 1, 2**64) for e in range(5) for i in (*range(40), 2**40)]
    draws = np.stack([example_generator(*key).integers(0, 2**63, size=50) for key in keys])
    assert len(np.unique(draws)) == draws.size


def test_the_draws_of_neighbours_are_even_and_independent() -> None:
    """The first number that each of 20,000 examples draws: as from one good generator."""
    first = np.array([example_generator(1, 0, index).random(2) for index in range(20_000)])
    assert abs(first.mean() - 0.5) < 0.005
    assert abs(np.corrcoef(first[:-1, 0], first[1:, 0])[0, 1]) < 0.03
    assert abs(np.corrcoef(first[:, 0], first[:, 1])[0, 1]) < 0.03
    counts = np.histogram(first[:, 0], bins=20, range=(0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 45  # chi², 19 degrees of freedom: 1 in 1,000
