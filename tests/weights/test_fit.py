"""A checkpoint fitted into a network: every tensor accounted for before any is read, and taken out again unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from glassformer.errors import WeightsError
from glassformer.weights.fit import LoadReport, fill, gather
from glassformer.weights.names import Fused, Names, Part, Tied, Transposed
from glassformer.weights.read import open_checkpoint
from glassformer.weights.write import write_checkpoint


class Small(nn.Module):
    """A table, a fused projection, a norm, and a head that is the table again."""

    def __init__(self, tied: bool = True) -> None:
        super().__init__()
        self.tokens = nn.Embedding(5, 4)
        self.qk = nn.Linear(4, 6)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 5, bias=False)
        if tied:
            self.head.weight = self.tokens.weight


def names(tied: bool = True) -> Names:
    return Names(
        prefix="body",
        body={"tokens": "words", "qk": Fused(("query", "key"), (4, 2)), "norm": "layer_norm"},
        head={"head": Tied("lm_head") if tied else Transposed("lm_head")},
        ignored=("old.{i}.mask",),
    )


def tensors(
    tied: bool = True, prefix: str = "body.", dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    shapes = {
        "words.weight": (5, 4),
        "query.weight": (4, 4),
        "query.bias": (4,),
        "key.weight": (2, 4),
        "key.bias": (2,),
        "layer_norm.weight": (4,),
        "layer_norm.bias": (4,),
    }
    made = {prefix + name: torch.randn(shape).to(dtype) for name, shape in shapes.items()}
    return made if tied else {**made, "lm_head.weight": torch.randn(4, 5).to(dtype)}


def filled(
    folder: Path, given: dict[str, Tensor], *, tied: bool = True, **options: object
) -> tuple[Small, LoadReport]:
    write_checkpoint(folder, given)
    with torch.device("meta"):
        network = Small(tied)
    with open_checkpoint(folder) as checkpoint:
        report = fill(network, checkpoint, names(tied), **options)  # type: ignore[arg-type]
    return network, report


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("prefix", ["body.", ""])
def test_what_is_filled_in_is_gathered_again(tmp_path: Path, tied: bool, prefix: str) -> None:
    given = tensors(tied, prefix)
    network, report = filled(tmp_path, given, tied=tied, strict=True)
    assert torch.equal(
        network.qk.weight, torch.cat([given[f"{prefix}query.weight"], given[f"{prefix}key.weight"]])
    )
    assert (network.head.weight is network.tokens.weight) == tied
    assert torch.equal(
        network.head.weight, given[f"{prefix}words.weight"] if tied else given["lm_head.weight"].T
    )
    assert all(not p.is_meta and p.requires_grad and p.is_contiguous() for p in network.parameters())
    assert set(report.loaded) == {name for name, _ in network.named_parameters()} and not report.unused
    again = gather(network, names(tied), prefixed=bool(prefix))
    assert set(again) == set(given)
    assert all(torch.equal(again[name], given[name]) for name in given)


def test_parts_of_one_tensor_are_joined_in_their_order(tmp_path: Path) -> None:
    """Whatever the order of the modules that they fill."""
    network = nn.ModuleDict({"up": nn.Linear(3, 2, device="meta"), "gate": nn.Linear(3, 1, device="meta")})
    table = Names(body={"gate": Part("both", (1, 2), 0), "up": Part("both", (1, 2), 1)})
    given = {"both.weight": torch.randn(3, 3), "both.bias": torch.randn(3)}
    write_checkpoint(tmp_path, given)
    with open_checkpoint(tmp_path) as checkpoint:
        fill(network, checkpoint, table, strict=True)
    assert torch.equal(network["gate"].weight, given["both.weight"][:1])
    assert torch.equal(network["up"].bias, given["both.bias"][1:])
    again = gather(network, table, prefixed=False)
    assert set(again) == set(given) and all(torch.equal(again[name], given[name]) for name in given)


def test_a_stored_tied_head_is_neither_read_nor_left_over(tmp_path: Path) -> None:
    given = {**tensors(), "lm_head.weight": torch.full((5, 4), 9.0)}
    network, report = filled(tmp_path, given, strict=True)
    assert torch.equal(network.head.weight, given["body.words.weight"])
    assert report.unused == []


def test_dtype_is_the_files_own_unless_asked_for(tmp_path: Path) -> None:
    given = tensors(dtype=torch.bfloat16)
    given["body.layer_norm.weight"] = given["body.layer_norm.weight"].float()  # one tensor kept wider
    assert {p.dtype for p in filled(tmp_path, given)[0].parameters()} == {torch.bfloat16}
    network, _ = filled(tmp_path, given, dtype=torch.float64)
    assert {p.dtype for p in network.parameters()} == {torch.float64}
    assert torch.equal(network.norm.weight, given["body.layer_norm.weight"].double())


def test_old_names_of_norms(tmp_path: Path) -> None:
    given = tensors()
    given["body.layer_norm.gamma"] = given.pop("body.layer_norm.weight")
    given["body.layer_norm.beta"] = given.pop("body.layer_norm.bias")
    network, report = filled(tmp_path, given, strict=True)
    assert torch.equal(network.norm.weight, given["body.layer_norm.gamma"]) and not report.unused


def test_surplus_is_reported_and_an_error_only_if_strict(tmp_path: Path) -> None:
    given = {**tensors(), "other.weight": torch.ones(2), "old.3.mask": torch.ones(1)}
    assert filled(tmp_path, given)[1].unused == ["other.weight"]
    with pytest.raises(WeightsError, match=r"1 surplus: other\.weight$"):
        filled(tmp_path, given, strict=True)


def test_all_problems_are_told_at_once_and_nothing_is_filled(tmp_path: Path) -> None:
    given = tensors()
    del given["body.query.bias"], given["body.key.bias"]
    given["body.querry.bias"] = torch.ones(4)
    given["body.words.weight"] = torch.ones(5, 3)
    write_checkpoint(tmp_path, given)
    network = Small()
    before = {name: p.clone() for name, p in network.named_parameters()}
    with open_checkpoint(tmp_path) as checkpoint, pytest.raises(WeightsError) as error:
        fill(network, checkpoint, names(), strict=True)
    said = str(error.value)
    assert "2 missing: body.query.bias (for qk.bias; nearest: 'body.querry.bias'), body.key.bias" in said
    assert "1 misshapen: body.words.weight is [5, 3], the config asks for [5, 4]" in said
    assert "1 surplus: body.querry.bias" in said
    assert all(torch.equal(p, before[name]) for name, p in network.named_parameters())


def test_a_new_head_is_initialised_and_reported(tmp_path: Path) -> None:
    seen: list[nn.Module] = []

    def initialise(module: nn.Module) -> None:
        seen.append(module)
        nn.init.constant_(module.weight, 0.5)  # type: ignore[arg-type]

    network, report = filled(
        tmp_path,
        tensors(),
        tied=False,
        may_be_new=lambda name: name.startswith("head."),
        initialise=initialise,
    )
    assert report.new == ["head.weight"] and seen == [network.head]
    assert network.head.weight.shape == (5, 4) and bool((network.head.weight == 0.5).all())
    assert "head.weight" in str(report) and "train them before use" in str(report)


def test_half_of_a_fused_tensor_is_missing_even_where_it_may_be_new(tmp_path: Path) -> None:
    given = tensors()
    del given["body.key.weight"]
    with pytest.raises(WeightsError, match=r"1 missing: body\.key\.weight \(for qk\.weight"):
        filled(tmp_path, given, may_be_new=lambda name: True)


def test_training_on_loaded_weights_leaves_the_file_alone(tmp_path: Path) -> None:
    given = tensors()
    network, _ = filled(tmp_path, given)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    with open_checkpoint(tmp_path) as checkpoint:
        assert torch.equal(checkpoint.read("body.words.weight"), given["body.words.weight"])


def test_saving_over_the_loaded_file(tmp_path: Path) -> None:
    given = tensors()
    network, _ = filled(tmp_path, given)
    write_checkpoint(tmp_path, gather(network, names(), prefixed=True))
    with open_checkpoint(tmp_path) as checkpoint:
        assert all(torch.equal(checkpoint.read(name), tensor) for name, tensor in given.items())


def test_the_report_is_a_table() -> None:
    report = LoadReport(
        loaded=["a", "b"], unused=[f"x{i}" for i in range(12)], warnings=["config.json: y = 1 is not read"]
    )
    lines = str(report).splitlines()
    assert lines[0].split() == ["loaded", "2", "tensors"]
    assert lines[1].startswith("unused") and lines[1].endswith("x9, and 2 more")
    assert lines[2] == "warning  config.json: y = 1 is not read"
