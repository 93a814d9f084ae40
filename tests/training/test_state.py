"""What a run knows comes back exactly: tensors to the bit, values as they are, optimisers by name."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from glassformer.errors import ConfigError, WeightsError
from glassformer.training.state import optimiser_tensors, read_state, restore_optimiser, write_state
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
        (torch.ones(1), r"\(Tensor\).*tensors go beside them"),
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
