"""The architecture of a model: its tree against torch's own counts, and a weight's numbers against plain loops."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from torch import Tensor, nn

from glassformer.compression.prune import apply_masks, magnitude_scores, prunable_weights, sparsity_masks
from glassformer.compression.quantise import Scheme
from glassformer.compression.quantised_loading import TABLES
from glassformer.compression.quantised_network import quantise_network
from glassformer.core.quantised import QuantisedEmbedding, QuantisedLinear
from glassformer.errors import ConfigError
from glassformer.inspect import Session, ram
from glassformer.inspect.architecture import (
    BARS,
    TILES,
    ModelWeight,
    ModulePart,
    _parts,
    _read,
    _zeros,
    architecture,
    weight_numbers,
    weights_of,
)
from tests.inspect.passes import KINDS, network_of, reading_of, session_of

NAME = "blocks.1.ffn.up.weight"


def unfolded(part: ModulePart, weight: str) -> list[str]:
    """The names that a weight of a folded part stands for; of one that is tied to another module's, its own alone."""
    steps = []
    for step, own in zip(part.path.split("."), weight.split("."), strict=False):
        ranges = [each.split("-") for each in step.split(",")] if step[:1].isdigit() else []
        numbers = [str(n) for each in ranges for n in range(int(each[0]), int(each[-1]) + 1)]
        steps.append(numbers if own in numbers else [own])
    rest = weight.split(".")[len(steps) :]
    return [".".join([*found, *rest]) for found in product(*steps)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_tree_counts_every_tensor_once(kind: str) -> None:
    session = session_of(kind)
    found = architecture(session)
    sizes = {name: parameter.numel() for name, parameter in session.network.named_parameters()}
    assert found.parts[0].parameters == sum(sizes.values())
    assert found.parts[0].bytes == 4 * found.parts[0].parameters
    lengths = {name: len(tokens) for name, tokens in session.streams.items()}
    if "target" not in lengths:
        estimate = ram(session.network, tokens=max(lengths.values()))
        assert found.parts[0].activations == estimate.training.activations
        assert found.texts == f"{estimate.tokens} tokens"
    names = {name for part in found.parts for weight in part.weights for name in unfolded(part, weight)}
    assert names == set(sizes)
    assert f"of {found.parts[0].parameters:,} parameters" in found.finding


def test_each_side_of_an_encoder_decoder_counts_its_own_tokens() -> None:
    session = session_of("transformer")
    source, target = (len(session.streams[name]) for name in ("source", "target"))
    assert source != target
    found = architecture(session)
    assert f"of {source} source and {target} target tokens" in found.finding
    flops = {part.path: part.flops for part in found.parts}
    seen = {length: {p.path: p for p in _parts(session.network, length, None)} for length in (source, target)}
    assert flops["encoder"] == seen[source]["encoder"].flops != seen[target]["encoder"].flops
    kv = session.network.get_submodule("decoder.blocks.0.cross.kv")
    width = kv.in_features * kv.out_features
    (cross,) = {part.flops for part in found.parts if part.path.endswith(".cross.kv")}
    assert cross == 2 * source * width, "keys and values are made of the source"
    attention = session.network.get_submodule("decoder.blocks.0.cross").spec
    products = 4 * attention.heads * attention.E * source * target
    linear = 2 * target * 2 * attention.heads * attention.E * attention.width + cross
    (whole,) = {part.flops for part in found.parts if part.path.endswith(".cross") and part.name == "cross"}
    assert whole == linear + products
    root = found.parts[0]
    (encoder,) = (part for part in found.parts if part.path == "encoder")
    assert encoder.activations == seen[source]["encoder"].activations and root.activations is not None
    other = {length: seen[length][""].activations for length in seen}
    assert min(other.values()) < root.activations < max(other.values())


def loops(weight: Tensor, found: ModelWeight) -> None:
    """Compare with plain loops over the numbers of a weight."""
    w = found.weight
    matrix = weight.detach().double().reshape(len(weight), -1) if weight.dim() > 1 else weight.detach().double()[None]
    numbers = matrix.flatten().tolist()
    mean = sum(numbers) / len(numbers)
    assert (w.count, w.zeros, w.bad) == (len(numbers), numbers.count(0.0), 0) and w.shape == list(weight.shape)
    assert (w.least, w.most) == pytest.approx((min(numbers), max(numbers)))
    assert w.mean == pytest.approx(mean, abs=1e-7)
    assert w.std == pytest.approx(math.sqrt(sum((x - mean) ** 2 for x in numbers) / len(numbers)), rel=1e-5)
    assert len(w.counts) == BARS and sum(w.counts) == len(numbers)
    rows, columns = w.step
    assert found.tiles.shape == (-(-matrix.shape[0] // rows), -(-matrix.shape[1] // columns))
    assert max(found.tiles.shape) <= TILES
    for row in range(found.tiles.shape[0]):
        for column in range(found.tiles.shape[1]):
            tile = matrix[row * rows : (row + 1) * rows, column * columns : (column + 1) * columns].flatten().tolist()
            assert found.tiles[row, column] == pytest.approx(sum(tile) / len(tile), abs=1e-6)
            assert found.zero_tiles[row, column] == pytest.approx(tile.count(0.0) / len(tile), abs=1e-6)


def test_a_pruned_model_tells_its_zeros() -> None:
    session = session_of("bert")
    network = session.network
    dense = architecture(session)
    assert not dense.has_zeros and "zeros" not in dense.finding and "zeros" not in dense.tables()[0].headings
    weights = prunable_weights(network)
    apply_masks(weights, sparsity_masks(magnitude_scores(weights), 0.75))
    tiles = weight_numbers(session, parameter=NAME)
    loops(network.get_parameter(NAME), tiles)
    assert float(tiles.zero_tiles.mean()) == pytest.approx(tiles.weight.zeros / tiles.weight.count)
    found = architecture(session)  # of the same session, whose weights have changed
    every = {name: (int((x == 0).sum()), x.numel()) for name, x in network.named_parameters()}
    for part in found.parts:
        below = [x for name, x in every.items() if _is_below(part.path, name)]
        expected = sum(zeros for zeros, _ in below) / sum(of for _, of in below) if part.parameters else None
        assert part.zeros == (None if expected is None else pytest.approx(expected)), part.path
    (blocks,) = (part for part in found.parts if part.repeats > 1 and part.path.count(".") == 1)
    assert blocks.zeros is not None and blocks.zeros > 0.5
    assert found.finding.endswith(f"; {blocks.zeros:.0%} of the weights of {blocks.path} are zeros.")
    assert found.tables()[0].headings[-1] == "zeros" and found.tables()[0].rows[0][-1].endswith("%")


def _is_below(path: str, name: str) -> bool:
    """Whether a weight is of a folded module, by the names that it stands for; the tests' models have three layers."""
    paths = {path.replace("0-2", str(layer)) for layer in range(3)}
    return path == "" or any(name.startswith(f"{each}.") for each in paths)


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_zeros_of_tied_and_stored_weights_are_counted_once(kind: str) -> None:
    session = Session(network_of(kind, task="text-generation" if kind == "gpt2" else None), reading_of(kind))
    network, layer = session.network, "blocks.0.ffn.up.weight"
    with torch.no_grad():
        weight = network.get_parameter(layer)
        weight[::2] = 0
    if kind == "bert":
        quantise_network(network, Scheme(8))
    steps: list[tuple[int, int]] = []
    found = architecture(session, progress=lambda done, of: steps.append((done, of)))
    zeros, own = _zeros(network), weight_numbers(session, parameter=layer).weight
    assert [done for done, _ in steps] == list(range(1, steps[-1][1] + 1)) and steps[-1][0] == len(weights_of(network))
    assert found.parts[0].parameters == sum(of for _, of in zeros.values())
    assert zeros[layer] == (own.zeros, weight.numel()) and own.zeros >= weight.numel() // 2
    tied = [part for part in found.parts if part.weights and not part.parameters]
    assert len(tied) == (kind == "gpt2") and all(part.zeros is None for part in tied)


@pytest.mark.parametrize("name", [NAME, "embed.tokens.weight", "blocks.0.attn.qkv.bias"])
def test_a_weight_by_plain_loops(name: str) -> None:
    session = session_of("bert")
    loops(session.network.get_parameter(name), weight_numbers(session, parameter=name))


@pytest.mark.parametrize("shape", [(300, 130), (1, 1), (500,), (130, 3, 50)])
def test_weights_larger_than_the_tiles(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.inspect.architecture.BLOCK", 4_000)  # several blocks, the last one smaller
    weight = nn.Parameter(torch.randn(*shape, generator=torch.Generator().manual_seed(0)))
    steps: list[tuple[int, int]] = []
    numbers, tiles, zeros = _read("w", weight, lambda done, of: steps.append((done, of)))
    loops(weight, ModelWeight(numbers, tiles.numpy(), zeros.numpy()))
    assert [done for done, _ in steps] == list(range(1, steps[-1][1] + 1))


def test_a_histogram_by_plain_loops() -> None:
    session = session_of("bert")
    w = weight_numbers(session, parameter=NAME).weight
    counts = [0] * BARS
    for x in session.network.get_parameter(NAME).detach().double().flatten().tolist():
        counts[min(int((x - w.least) / (w.most - w.least) * BARS), BARS - 1)] += 1
    assert sum(abs(a - b) for a, b in zip(counts, w.counts, strict=True)) <= 2, "but for numbers on an edge"
    assert (w.edges[0], w.edges[-1]) == pytest.approx((w.least, w.most))


@pytest.mark.parametrize("bits", [8, 4])
def test_levels_are_shown_as_the_numbers_they_stand_for(bits: int) -> None:
    session = session_of("bert")
    whole = architecture(session).parts[0].parameters
    quantise_network(session.network, Scheme(bits, 16 if bits == 4 else 0), embeddings=TABLES)
    stored = {
        f"{path}.weight": module
        for path, module in session.network.named_modules()
        if isinstance(module, QuantisedLinear | QuantisedEmbedding)
    }
    found = architecture(session)
    assert NAME in stored and stored.keys() <= weights_of(session.network).keys()
    assert found.parts[0].parameters == whole and weight_numbers(session).weight.stored == f"int{bits}"
    names = {name for part in found.parts for weight in part.weights for name in unfolded(part, weight)}
    assert stored.keys() <= names
    for name in (NAME, next(iter(stored))):
        loops(stored[name].weight, weight_numbers(session, parameter=name))


def test_factors_of_a_smoothed_layer_are_part_of_its_weight() -> None:
    session = session_of("bert")
    quantise_network(session.network, Scheme(8))
    layer = session.network.get_submodule(NAME.removesuffix(".weight"))
    assert isinstance(layer, QuantisedLinear)
    layer.input_factors = torch.linspace(0.5, 2.0, layer.in_features)
    loops(layer.weight, weight_numbers(session, parameter=NAME))


def test_a_pruned_weight_and_one_that_broke() -> None:
    session = session_of("bert")
    weight = session.network.get_parameter(NAME)
    with torch.no_grad():
        weight[::2] = 0
    pruned = weight_numbers(session, parameter=NAME)
    loops(weight, pruned)
    assert pruned.weight.zeros == weight.numel() // 2
    with torch.no_grad():
        weight[0, 0], weight[1, 0] = float("nan"), float("inf")
    broken = weight_numbers(session, parameter=NAME)
    finite = weight[weight.isfinite()].detach().double()
    assert broken.weight.bad == 2 and sum(broken.weight.counts) == finite.numel() == broken.weight.count - 2
    assert broken.weight.mean == pytest.approx(float(finite.mean()), abs=1e-7)
    assert math.isnan(broken.tiles[0, 0]) and not math.isfinite(broken.tiles[1, 0])
    with torch.no_grad():
        weight.fill_(float("nan"))
    lost = weight_numbers(session, parameter=NAME)
    assert math.isnan(lost.weight.mean) and lost.weight.bad == lost.weight.count and sum(lost.weight.counts) == 0
    assert lost.to_dict()["weight"]["mean"] is None


def test_one_number_everywhere() -> None:
    session = session_of("bert")
    with torch.no_grad():
        session.network.get_parameter("embed.norm.weight").fill_(1.0)
    w = weight_numbers(session, parameter="embed.norm.weight").weight
    assert (w.mean, w.std, w.least, w.most) == (1.0, 0.0, 1.0, 1.0) and w.edges[0] < 1.0 < w.edges[-1]
    assert w.counts[BARS // 2] == w.count


def test_tied_weights_are_one() -> None:
    session = session_of("gpt2")
    found = architecture(session)
    tied = [part for part in found.parts if part.weights == ["embed.tokens.weight"]]
    assert tied
    names = weights_of(session.network)
    assert all(names[part.weights[0]] is session.network.get_parameter("embed.tokens.weight") for part in tied)


def test_a_weight_is_read_without_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of("bert")
    monkeypatch.setattr("glassformer.inspect.architecture._zeros", None)  # counting the zeros of all fails
    assert weight_numbers(session, parameter=NAME).weight.name == NAME
    with pytest.raises(TypeError):
        architecture(session)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"no weight is named 'blocks\.1\.ffn\.upp\.weight'.*blocks\.1\.ffn\.up"):
        weight_numbers(session_of("bert"), parameter="blocks.1.ffn.upp.weight")


def test_it_as_tables() -> None:
    session = session_of("bert")
    found, own = architecture(session), weight_numbers(session, parameter=NAME)
    assert found.finding in str(found) and "blocks.0-2  ×3, each" in str(found)
    assert NAME in str(own) and "standard deviation" in str(own)
    (chart,) = own.charts()
    assert sum(chart.lines[0].y) == own.weight.count
    data = found.to_dict()
    assert data["kind"] == "architecture" and data["finding"] == found.finding
