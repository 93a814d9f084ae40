"""A folder of adapters is a model: loaded with its base model; several at once, switched, combined and saved back."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import glassformer
from glassformer import Model
from glassformer.compression.adapter_files import CONFIG, PICKLED, WEIGHTS
from glassformer.compression.adapters import AdapterSpec
from glassformer.compression.weighted_adapters import Combination
from glassformer.errors import ConfigError, DataError, GlassformerError, UnsupportedError, WeightsError
from tests.compression.test_adapters import IDS, output_of, shaken, tiny

SPECS = {
    "a": AdapterSpec(rank=2, target_modules=("q", "v")),
    "b": AdapterSpec(rank=3, alpha=5.0, target_modules=("q", "down")),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`base`, and adapters `a` and `b` of different ranks and targets."""
    folder = tmp_path_factory.mktemp("adapters")
    tiny("llama", "text-generation").save_pretrained(folder / "base")
    model = glassformer.load(folder / "base")
    for name, spec in SPECS.items():
        shaken(model.add_adapter(name, spec))
        model.save_adapter(folder / name, name)
    return folder


@pytest.fixture
def model(folder: Path) -> Iterator[Model]:
    model = glassformer.load(folder / "base")
    for name in SPECS:
        model.load_adapter(folder / name, name)
    yield model


@cache
def by_hand(folder: Path, **weights: float) -> Tensor:
    """The logits of the base model with Σ weight · α/r · B A added to its weights, from the files alone."""
    base = {name: x.clone() for name, x in load_file(folder / "base" / "model.safetensors").items()}
    for adapter, weight in weights.items():
        config, tensors = json.loads((folder / adapter / CONFIG).read_text()), load_file(folder / adapter / WEIGHTS)
        for layer in config["target_modules"]:
            down, up = (tensors[f"base_model.model.{layer}.lora_{side}.weight"] for side in "AB")
            base[f"{layer}.weight"] += weight * config["lora_alpha"] / config["r"] * up @ down
    summed = folder / "by-hand"
    summed.mkdir(exist_ok=True)
    (summed / "config.json").write_bytes((folder / "base" / "config.json").read_bytes())
    save_file(base, summed / "model.safetensors")
    return output_of(glassformer.load(summed))


def near(left: Tensor, right: Tensor) -> bool:
    return torch.allclose(left, right, atol=1e-5, rtol=1e-4)


def test_adapters_are_switched_and_added(model: Model, folder: Path) -> None:
    plain = by_hand(folder)
    assert model.active_adapters == ["a"] and near(output_of(model), by_hand(folder, a=1))
    model.generate(IDS[:1], max_new_tokens=1)  # which prepares the network
    for names, expected in (("b", {"b": 1}), (["a", "b"], {"a": 1, "b": 1}), ([], {})):
        model.set_adapter(names)
        assert near(output_of(model), by_hand(folder, **expected))
    assert torch.equal(output_of(model), plain)
    model.set_adapter(["b", "a"])
    with model.disable_adapter():
        assert model.active_adapters == [] and torch.equal(output_of(model), plain)
        model.generate(IDS[:1], max_new_tokens=1)
    assert model.active_adapters == ["a", "b"]
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert trained == {name for name, _ in model.named_parameters() if ".adapters." in name}
    model.set_adapter("b")
    assert not any(p.requires_grad for name, p in model.named_parameters() if ".adapters.b." not in name)


def test_combinations(model: Model, folder: Path) -> None:
    expected = by_hand(folder, a=0.7, b=-0.5)
    model.add_weighted_adapter(["a", "b"], [0.7, -0.5], "cat", "cat")
    model.add_weighted_adapter(["a", "b"], [0.7, -0.5], "svd", svd_rank=5)
    model.add_weighted_adapter(["a", "b"], [0.7, -0.5], "small")
    model.add_weighted_adapter(["b"], [-0.5], "negated", "linear")
    ranks = {adapter.down.out_features for adapter in model.adapters["cat"].by_target.values()}
    assert ranks == {2, 3, 5} and model.active_adapters == ["a"]
    for name in ("cat", "svd"):
        model.set_adapter(name)
        torch.testing.assert_close(output_of(model), expected, atol=1e-4, rtol=1e-4)
    model.set_adapter("small")
    assert not near(output_of(model), expected)
    model.set_adapter("negated")
    assert near(output_of(model), by_hand(folder, b=-0.5))
    # Both factors of "linear" are sums: (A + A) and (B + B), each times √w.
    model.load_adapter(folder / "b", "c")
    model.add_weighted_adapter(["b", "c"], [0.25, 0.25], "linear", "linear")
    model.set_adapter("linear")
    assert near(output_of(model), by_hand(folder, b=1))


def test_combinations_of_pruned_adapters() -> None:
    a, b = torch.tensor([[4.0, -3.0, 1.0, 0.5]]), torch.tensor([[-2.0, -1.0, 3.0, 0.1]])
    ties = Combination("ties", density=0.75)  # 0.5 and 0.1 go; signs of the sums: + - +
    assert ties.merge([a, b], [1, 2]).tolist() == [[4.0, (-3 - 2) / 2, (1 + 6) / 2, 0.0]]
    assert Combination("magnitude_prune", density=0.25).merge([a, b], [1, 2]).tolist() == [[4.0, 0.0, 6.0, 0.0]]
    torch.manual_seed(0)
    ones = Combination("dare_linear", density=0.25).merge([torch.ones(100, 100)], [1])
    assert set(ones.flatten().tolist()) == {0.0, 4.0} and abs(float(ones.mean()) - 1) < 0.1


def test_removed_and_merged(model: Model, folder: Path, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"'a' were the active ones: .* chooses among 'b'"):
        model.delete_adapter("a")
    assert model.active_adapters == [] and torch.equal(output_of(model), by_hand(folder))
    model.set_adapter("b")
    model.save_adapter(tmp_path / "again")
    again, before = load_file(tmp_path / "again" / WEIGHTS), load_file(folder / "b" / WEIGHTS)
    assert again.keys() == before.keys() and all(torch.equal(again[name], before[name]) for name in before)
    with pytest.raises(ConfigError, match="has adapters"):
        model.save_pretrained(tmp_path / "merged")
    model.merge_and_unload().save_pretrained(tmp_path / "merged")
    assert not model.adapters and all(p.requires_grad for p in model.parameters())
    assert near(output_of(glassformer.load(tmp_path / "merged")), by_hand(folder, b=1))
    model.load_adapter(folder / "a")
    assert torch.equal(output_of(model.unload()), output_of(glassformer.load(tmp_path / "merged")))


def test_copies_have_adapters_of_their_own(model: Model) -> None:
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(output_of(twin), output_of(model))
        before = output_of(model)
        twin.set_adapter("b")
        assert model.active_adapters == ["a"] and torch.equal(output_of(model), before)
        assert all(p.requires_grad for p in twin.unload().parameters())


def test_modules_trained_in_full_change_places(folder: Path, tmp_path: Path) -> None:
    """A head for other labels comes with its adapters; only one such head is used at a time."""
    base = glassformer.load(folder / "base", task="text-classification", num_labels=3)
    for number, name in enumerate("xy"):
        adapters = base.add_adapter(name, AdapterSpec(rank=2, modules_to_save=("head",)))
        shaken(adapters)
        for value in adapters.full_values().values():
            value += number + 1
        base.save_adapter(tmp_path / name, name)
    expected = {}
    for name in "xy":
        base.set_adapter(name)
        expected[name] = output_of(base)
    assert not near(expected["x"], expected["y"])
    with pytest.raises(ConfigError, match=r"'x' and 'y' have both trained 'head\.\S+' in full"):
        base.set_adapter(["x", "y"])
    assert base.active_adapters == ["y"]
    loaded = glassformer.load(tmp_path / "x")  # the base folder has no such head
    assert loaded.task == "text-classification" and loaded.num_labels == 3 and not loaded.report.new
    assert near(output_of(loaded), expected["x"])
    assert near(output_of(loaded.merge_and_unload()), expected["x"])


def test_a_folder_of_adapters_is_a_model(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = by_hand(folder, a=1)
    model = glassformer.load(folder / "a")
    assert model.active_adapters == ["default"] and near(output_of(model), expected)
    assert model.folder == folder / "base"
    config = json.loads((folder / "a" / CONFIG).read_text())
    for name in ("weights", "nothing"):
        (tmp_path / name).mkdir()
    (tmp_path / "weights" / WEIGHTS).write_bytes((folder / "a" / WEIGHTS).read_bytes())
    own = tmp_path / "weights"

    def named(base: str | None) -> Path:
        (own / CONFIG).write_text(json.dumps(config | {"base_model_name_or_path": base}))
        return own

    tiny("llama", "text-generation").save_pretrained(own / "inside")
    assert near(output_of(glassformer.load(named("inside"))), expected)
    monkeypatch.chdir(folder)
    assert near(output_of(glassformer.load(named("base"))), expected)
    assert near(output_of(glassformer.load(named(None), base="base")), expected)
    with pytest.raises(ConfigError, match=r"names no base model .* base='folder or name' \(--base\)"):
        glassformer.load(own)
    with pytest.raises(DataError, match=r"the base model of these adapters cannot be had: .*--base"):
        glassformer.load(named("nobody/nothing"), offline=True)
    with pytest.raises(ConfigError, match="is a folder of adapters too; merge those first"):
        glassformer.load(named(str(folder / "b")))
    with pytest.raises(ConfigError, match="base = 'base' is the base model of a folder of adapters, and"):
        glassformer.load("base", base="base")


def test_bad_adapters_are_refused(model: Model, folder: Path, tmp_path: Path) -> None:
    from glassformer.models import FAMILIES

    torch.manual_seed(0)
    wider = FAMILIES["llama"].tiny | {"hidden_size": 64}
    Model.from_config(wider, task="text-generation").save_pretrained(tmp_path / "w")
    add = model.add_weighted_adapter
    refused: list[tuple[type[GlassformerError], str, object]] = [
        (WeightsError, r"lora_A.weight' is \[2, 32\], needed \[2, 64\]; .*; …; load the base model that they belong to "
         r"\('.*base'\)", lambda: glassformer.load(folder / "a", base=tmp_path / "w")),
        (ConfigError, "has adapters named 'a' already", lambda: model.load_adapter(folder / "b", "a")),
        (ConfigError, "'x.y' cannot be the name", lambda: model.load_adapter(folder / "b", "x.y")),
        (ConfigError, "'keys' cannot be the name", lambda: model.load_adapter(folder / "b", "keys")),
        (ConfigError, "no adapter is named 'aa'; nearest: 'a'; there are: 'a', 'b'", lambda: model.set_adapter("aa")),
        (ConfigError, "no adapter is named 'c'", lambda: model.delete_adapter("c")),
        (ConfigError, "has the adapters 'a', 'b'; name those to save", lambda: model.save_adapter(tmp_path / "out")),
        (WeightsError, "cannot be written", lambda: model.save_adapter(tmp_path / "w" / "config.json" / "x", "a")),
        (DataError, "give a folder, or a name on the Hub", lambda: model.load_adapter(5, "c")),  # type: ignore[arg-type]
        (DataError, "nothing.*connections are off", lambda: model.load_adapter("no/nothing", "c", offline=True)),
        (ConfigError, "the adapter is None; give a name", lambda: model.set_adapter(None)),  # type: ignore[arg-type]
        (ConfigError, "has adapters", lambda: model.resize_token_embeddings(200)),
        (ConfigError, "ranks 2, 3; 'linear' adds equal ones", lambda: add(["a", "b"], [1, 1], "c", "linear")),
        (ConfigError, r"the weights \[1\]; give two lists", lambda: add(["a", "b"], [1], "c")),
        (ConfigError, "a weight is nan", lambda: add(["a"], [float("nan")], "c")),
        (UnsupportedError, "'tie'; supported: cat, svd, linear.*nearest: 'ties'", lambda: add(["a"], [1], "c", "tie")),
        (ConfigError, "density is None; for 'ties' it must be", lambda: add(["a", "b"], [1, 1], "c", "ties")),
        (ConfigError, "density is 0; for", lambda: add(["a", "b"], [1, 1], "c", "dare_linear_svd", density=0)),
        (ConfigError, "sign_method is 'most'", lambda: add(["a", "b"], [1, 1], "c", majority_sign_method="most")),
        (ConfigError, "also has the adapters 'b'; model.merge_and_unload", lambda: model.adapters["a"].merge()),
    ]  # fmt: skip
    for kind, says, call in refused:
        with pytest.raises(kind, match=says):
            call()  # type: ignore[operator]
    assert list(model.adapters) == ["a", "b"] and near(output_of(model), by_hand(folder, a=1))


def test_adapters_without_weights_or_with_pickled_ones_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_bytes((folder / "a" / CONFIG).read_bytes())
    with pytest.raises(WeightsError, match=WEIGHTS.replace(".", r"\.")):
        glassformer.load(tmp_path)
    (tmp_path / PICKLED).write_bytes(b"a pickle")
    with pytest.raises(WeightsError, match=r"holds only pickled adapters .* pass allow_pickle=True"):
        glassformer.load(tmp_path)


@pytest.mark.soak
def test_pickled_adapters_are_read_where_they_are_allowed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_bytes((folder / "a" / CONFIG).read_bytes())
    torch.save(load_file(folder / "a" / WEIGHTS), tmp_path / PICKLED)
    assert near(output_of(glassformer.load(tmp_path, allow_pickle=True)), by_hand(folder, a=1))
