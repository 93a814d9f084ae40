"""Loading a checkpoint into a network: every tensor accounted for before any is read, and exported again unchanged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from glassformer.errors import WeightsError
from glassformer.weights.load import LoadReport, export_weights, load_weights, name_list
from glassformer.weights.names import Fused, Slice, Tied, TiedUnlessStored, Transposed, WeightNames
from glassformer.weights.read import WeightFiles, open_checkpoint
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


def names(tied: bool = True) -> WeightNames:
    return WeightNames(
        prefix="body",
        body={"tokens": "words", "qk": Fused(("query", "key"), (4, 2)), "norm": "layer_norm"},
        head={"head": Tied("lm_head") if tied else Transposed("lm_head")},
        ignored=("old.{i}.mask",),
    )


def tensors(tied: bool = True, prefix: str = "body.", dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    shapes = {
        "words.weight": (5, 4),
        "query.weight": (4, 4),
        "query.bias": (4,),
        "key.weight": (2, 4),
        "key.bias": (2,),
        "layer_norm.weight": (4,),
        "layer_norm.bias": (4,),
    }
    result = {prefix + name: torch.randn(shape).to(dtype) for name, shape in shapes.items()}
    return result if tied else {**result, "lm_head.weight": torch.randn(4, 5).to(dtype)}


def load_into_small(
    folder: Path, saved: dict[str, Tensor], *, tied: bool = True, **options: object
) -> tuple[Small, LoadReport]:
    write_checkpoint(folder, saved)
    with torch.device("meta"):
        network = Small(tied)
    with open_checkpoint(folder) as checkpoint:
        report = load_weights(network, checkpoint, names(tied), **options)  # type: ignore[arg-type]
    return network, report


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("prefix", ["body.", ""])
def test_loaded_weights_are_exported_unchanged(tmp_path: Path, tied: bool, prefix: str) -> None:
    saved = tensors(tied, prefix)
    network, report = load_into_small(tmp_path, saved, tied=tied, strict=True)
    assert torch.equal(
        network.qk.weight,
        torch.cat([saved[f"{prefix}query.weight"], saved[f"{prefix}key.weight"]]),
    )
    assert (network.head.weight is network.tokens.weight) == tied
    assert torch.equal(
        network.head.weight,
        saved[f"{prefix}words.weight"] if tied else saved["lm_head.weight"].T,
    )
    assert all(not p.is_meta and p.requires_grad for p in network.parameters())
    assert set(report.loaded) == {name for name, _ in network.named_parameters()} and not report.unused
    again = export_weights(network, names(tied), prefixed=bool(prefix))
    assert set(again) == set(saved)
    assert all(torch.equal(again[name], saved[name]) for name in saved)


def test_parts_of_one_tensor_are_joined_in_their_order(tmp_path: Path) -> None:
    """Whatever the order of the modules that they belong to."""
    network = nn.ModuleDict({"up": nn.Linear(3, 2, device="meta"), "gate": nn.Linear(3, 1, device="meta")})
    table = WeightNames(body={"gate": Slice("both", (1, 2), 0), "up": Slice("both", (1, 2), 1)})
    saved = {"both.weight": torch.randn(3, 3), "both.bias": torch.randn(3)}
    write_checkpoint(tmp_path, saved)
    with open_checkpoint(tmp_path) as checkpoint:
        load_weights(network, checkpoint, table, strict=True)
    assert torch.equal(network["gate"].weight, saved["both.weight"][:1])
    assert torch.equal(network["up"].bias, saved["both.bias"][1:])
    again = export_weights(network, table, prefixed=False)
    assert set(again) == set(saved) and all(torch.equal(again[name], saved[name]) for name in saved)


def test_a_tied_head_that_is_stored_too_is_kept_where_it_differs(tmp_path: Path) -> None:
    stored = tensors()
    saved = {**stored, "lm_head.weight": torch.full((5, 4), 9.0)}
    network, report = load_into_small(tmp_path, saved, strict=True)
    assert torch.equal(network.head.weight, saved["lm_head.weight"]) and report.unused == []
    assert torch.equal(network.tokens.weight, saved["body.words.weight"])
    assert torch.equal(export_weights(network, names(), prefixed=True)["lm_head.weight"], saved["lm_head.weight"])
    same = {**stored, "lm_head.weight": stored["body.words.weight"].clone()}
    network, report = load_into_small(tmp_path, same, strict=True)
    assert network.head.weight is network.tokens.weight and report.unused == []


@pytest.mark.parametrize("prefix", ["body.", ""])
def test_a_shared_tensor_is_read_under_whichever_name_the_file_has(tmp_path: Path, prefix: str) -> None:
    saved = tensors(prefix=prefix)
    saved["lm_head.weight"] = saved.pop(f"{prefix}words.weight")
    network, report = load_into_small(tmp_path, saved, strict=True)
    assert network.head.weight is network.tokens.weight
    assert torch.equal(network.tokens.weight, saved["lm_head.weight"]) and not report.unused
    assert f"{prefix}words.weight" in export_weights(network, names(), prefixed=bool(prefix))  # the first of its names


@pytest.mark.parametrize("stored", [True, False])
def test_a_head_that_is_tied_unless_it_is_stored(tmp_path: Path, stored: bool) -> None:
    table = replace(names(), head={"head": TiedUnlessStored("lm_head", "tokens")})
    saved = tensors() | ({"lm_head.weight": torch.randn(5, 4)} if stored else {})
    write_checkpoint(tmp_path, saved)
    with torch.device("meta"):
        network = Small(tied=False)
    with open_checkpoint(tmp_path) as checkpoint:
        report = load_weights(network, checkpoint, table, strict=True, may_be_new=lambda name: True)
    assert (network.head.weight is network.tokens.weight) != stored and not report.new
    assert torch.equal(network.head.weight, saved["lm_head.weight" if stored else "body.words.weight"])
    again = export_weights(network, table, prefixed=True)
    assert set(again) == set(saved) and all(torch.equal(again[name], saved[name]) for name in saved)


def test_what_a_file_leaves_out_because_it_is_zero(tmp_path: Path) -> None:
    """It is neither missing nor new: nothing has to be trained."""
    saved = tensors()
    del saved["body.layer_norm.bias"]
    with pytest.raises(WeightsError, match=r"1 missing: body\.layer_norm\.bias"):
        load_into_small(tmp_path / "strict", saved)
    write_checkpoint(tmp_path, saved)
    with torch.device("meta"):
        network = Small()
    with open_checkpoint(tmp_path) as checkpoint:
        report = load_weights(network, checkpoint, replace(names(), zero_if_missing=("norm.bias",)))
    assert network.norm.bias.tolist() == [0, 0, 0, 0] and not report.new
    assert torch.equal(network.norm.weight, saved["body.layer_norm.weight"])


def test_what_is_there_of_a_fused_parameter_is_no_surplus(tmp_path: Path) -> None:
    saved = tensors()
    del saved["body.key.weight"]
    with pytest.raises(WeightsError, match=r"1 missing: body\.key\.weight \(for qk\.weight") as error:
        load_into_small(tmp_path, saved, strict=True, may_be_new=lambda name: True)
    assert "surplus" not in str(error.value)


def test_a_prefix_may_be_read_and_not_written(tmp_path: Path) -> None:
    network, _ = load_into_small(tmp_path, tensors())
    written = export_weights(network, replace(names(), prefixed=False), prefixed=True)
    assert set(written) == set(tensors(prefix=""))


def test_dtype_is_the_files_own_unless_asked_for(tmp_path: Path) -> None:
    saved = tensors(dtype=torch.bfloat16)
    saved["body.layer_norm.weight"] = saved["body.layer_norm.weight"].float()  # one tensor kept wider
    assert {p.dtype for p in load_into_small(tmp_path, saved)[0].parameters()} == {torch.bfloat16}
    network, _ = load_into_small(tmp_path, saved, dtype=torch.float64)
    assert {p.dtype for p in network.parameters()} == {torch.float64}
    assert torch.equal(network.norm.weight, saved["body.layer_norm.weight"].double())


def test_old_names_of_norms(tmp_path: Path) -> None:
    saved = tensors()
    saved["body.layer_norm.gamma"] = saved.pop("body.layer_norm.weight")
    saved["body.layer_norm.beta"] = saved.pop("body.layer_norm.bias")
    network, report = load_into_small(tmp_path, saved, strict=True)
    assert torch.equal(network.norm.weight, saved["body.layer_norm.gamma"]) and not report.unused


def test_surplus_is_reported_and_an_error_only_if_strict(tmp_path: Path) -> None:
    saved = {**tensors(), "other.weight": torch.ones(2), "old.3.mask": torch.ones(1)}
    assert load_into_small(tmp_path, saved)[1].unused == ["other.weight"]
    with pytest.raises(WeightsError, match=r"1 surplus: other\.weight$"):
        load_into_small(tmp_path, saved, strict=True)


def test_all_mismatches_are_reported_at_once_and_nothing_is_loaded(tmp_path: Path) -> None:
    saved = tensors()
    del saved["body.query.bias"], saved["body.key.bias"]
    saved["body.querry.bias"] = torch.ones(4)
    saved["body.words.weight"] = torch.ones(5, 3)
    write_checkpoint(tmp_path, saved)
    network = Small()
    before = {name: p.clone() for name, p in network.named_parameters()}
    with open_checkpoint(tmp_path) as checkpoint, pytest.raises(WeightsError) as error:
        load_weights(network, checkpoint, names(), strict=True)
    message = str(error.value)
    assert "2 missing: body.query.bias (for qk.bias; nearest: 'body.querry.bias'), body.key.bias" in message
    assert "1 misshapen: body.words.weight is [5, 3], the config asks for [5, 4]" in message
    assert "1 surplus: body.querry.bias" in message
    assert all(torch.equal(p, before[name]) for name, p in network.named_parameters())


def test_a_new_head_is_initialised_and_reported(tmp_path: Path) -> None:
    initialised: list[nn.Module] = []

    def initialise(module: nn.Module) -> None:
        initialised.append(module)
        nn.init.constant_(module.weight, 0.5)  # type: ignore[arg-type]

    network, report = load_into_small(
        tmp_path,
        tensors(),
        tied=False,
        may_be_new=lambda name: name.startswith("head."),
        initialise=initialise,
    )
    assert report.new == ["head.weight"] and initialised == [network.head]
    assert network.head.weight.shape == (5, 4) and bool((network.head.weight == 0.5).all())
    assert "head.weight" in str(report) and "train them before use" in str(report)


def test_half_of_a_fused_tensor_is_missing_even_where_it_may_be_new(tmp_path: Path) -> None:
    saved = tensors()
    del saved["body.key.weight"]
    with pytest.raises(WeightsError, match=r"1 missing: body\.key\.weight \(for qk\.weight"):
        load_into_small(tmp_path, saved, may_be_new=lambda name: True)


def test_training_on_loaded_weights_leaves_the_file_alone(tmp_path: Path) -> None:
    saved = tensors()
    network, _ = load_into_small(tmp_path, saved)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    with open_checkpoint(tmp_path) as checkpoint:
        assert torch.equal(checkpoint.read("body.words.weight"), saved["body.words.weight"])


def test_saving_over_the_loaded_file(tmp_path: Path) -> None:
    saved = tensors()
    network, _ = load_into_small(tmp_path, saved)
    write_checkpoint(tmp_path, export_weights(network, names(), prefixed=True))
    with open_checkpoint(tmp_path) as checkpoint:
        assert all(torch.equal(checkpoint.read(name), tensor) for name, tensor in saved.items())


def test_the_report_knows_the_shapes_of_what_is_left_over(tmp_path: Path) -> None:
    saved = {**tensors(), "other.weight": torch.ones(3, 2), "other.bias": torch.ones(3)}
    _, report = load_into_small(tmp_path, saved)
    assert report.shapes == {"other.weight": (3, 2), "other.bias": (3,)}
    line = next(line for line in str(report).splitlines() if "other.*" in line)
    assert line.split() == ["other.*", "3,", "3×2", "2"]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the mappings of a process are listed on Linux")
def test_what_is_copied_lets_go_of_the_file(tmp_path: Path) -> None:
    def mapped() -> bool:
        return str(tmp_path) in Path("/proc/self/maps").read_text()

    network, _ = load_into_small(
        tmp_path, tensors(), dtype=torch.float64
    )  # other numbers than the file's: all are copies
    assert not mapped() and network.norm.weight.dtype == torch.float64
    network, _ = load_into_small(tmp_path, tensors())
    assert mapped() and network.norm.weight.dtype == torch.float32


def test_on_the_meta_device_no_number_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WeightFiles, "read", None)
    network, report = load_into_small(tmp_path, tensors(dtype=torch.bfloat16), device="meta")
    assert {(p.device.type, p.dtype) for p in network.parameters()} == {("meta", torch.bfloat16)}
    assert len(report.loaded) == len(list(network.parameters()))
    assert network.head.weight is network.tokens.weight


def test_the_names_of_a_message_fit_into_a_line() -> None:
    names = [f"encoder.blocks.{i}.{'x' * 180}" for i in range(14)]
    shown = name_list(names)
    assert len(shown) < 1_600 and shown.startswith(names[0]) and shown.endswith(", and 7 more")
    assert name_list(["a"] * 12).count("a, ") == 10 and name_list([]) == "" and name_list(["x" * 3_000])
