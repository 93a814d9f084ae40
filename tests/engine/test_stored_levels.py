"""Products of stored levels: the numbers of the plain layer, from the levels as they are in memory."""

from __future__ import annotations

import copy
import os
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

import glassformer
from glassformer.compression.quantise import Scheme, round_to_nearest
from glassformer.compression.quantised_network import quantise_network
from glassformer.core.quantised import QuantisedLinear, StoredLevels
from glassformer.engine import native
from glassformer.engine.few_tokens import FewTokensProduct
from glassformer.engine.prepare import PRECISIONS, prepare, prepared_copy, prepared_precision, unprepare
from glassformer.engine.stored_levels import StoredLevelsProduct
from glassformer.files.child import command
from tests.e2e.tiny_models import make_folder


def layer_of(bits: int, group: int, inputs: str, *, symmetric: bool = True) -> tuple[QuantisedLinear, nn.Linear]:
    """A quantised layer of 64 inputs and 48 outputs, and the plain one with the same weights."""
    generator = torch.Generator().manual_seed(0)
    plain = nn.Linear(64, 48)
    plain.weight.data = torch.randn(48, 64, generator=generator)
    made = round_to_nearest(plain.weight, Scheme(bits, group, symmetric))
    static = (torch.tensor(0.05), torch.tensor(-3, dtype=torch.int8)) if inputs == "static" else (None, None)
    layer = QuantisedLinear(StoredLevels.of(made.levels, made.scale, bits, made.zero), plain.bias, inputs, *static)
    plain.weight.data = layer.weight
    return layer, plain


LAYERS = [(8, 0, "wide"), (8, 0, "dynamic"), (8, 0, "static"), (8, 16, "wide"), (4, 32, "wide"), (4, 0, "dynamic")]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("bits", "group", "inputs"), LAYERS)
@pytest.mark.parametrize("tokens", [1, 3, 7, 20, 40])
def test_a_product_gives_the_numbers_of_its_layer(
    precision: str, bits: int, group: int, inputs: str, tokens: int
) -> None:
    layer, plain = layer_of(bits, group, inputs)
    x = torch.randn(2, tokens, 64, generator=torch.Generator().manual_seed(tokens))
    product = StoredLevelsProduct(layer, precision, inside=False)
    with torch.inference_mode():
        y, expected = product(x), layer.plain(x)
        assert y.dtype == x.dtype and y.shape == (2, tokens, 48)
        narrow = precision == "int8" and inputs == "wide" and bits == 8 and group == 0 and 2 * tokens > 8
        bound = 3e-2 if narrow else 1e-5
        assert float((y - expected).abs().max()) <= bound * float(expected.abs().max())
        if inputs == "wide":
            assert torch.allclose(expected, plain(x), atol=1e-5)


@pytest.mark.parametrize("symmetric", [True, False])
def test_four_bits_in_bfloat16(symmetric: bool) -> None:
    layer, _ = layer_of(4, 32, "wide", symmetric=symmetric)
    x = torch.randn(30, 64, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        y, expected = StoredLevelsProduct(layer, "bf16", inside=True)(x), layer.plain(x)
    assert float((y.float() - expected).abs().max()) <= 2e-2 * float(expected.abs().max())


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(
    ("columns", "group"), [(96, 32), (768, 32), (200, 0), (64, 64), (192, 64), (256, 128), (512, 256), (8, 0)]
)
@pytest.mark.parametrize(("rows", "tokens"), [(1, 1), (7, 1), (50, 3), (33, 8)])
def test_products_of_four_bits_are_exact(rows: int, columns: int, group: int, tokens: int, symmetric: bool) -> None:
    if native.kernel() is None:
        pytest.skip("compiled kernels are not available here")
    draw = torch.Generator().manual_seed(columns + rows)
    made = round_to_nearest(torch.randn(rows, columns, generator=draw), Scheme(4, group, symmetric))
    layer = QuantisedLinear(StoredLevels.of(made.levels, made.scale, 4, made.zero), None)
    x = torch.randn(tokens, columns, generator=draw)
    x[0, ::7] *= 1e4  # outliers, and small numbers next to them
    product = StoredLevelsProduct(layer, "fp32", inside=True)
    assert product.has_matrix and product.matrix().weight.data_ptr() == layer.stored.levels.data_ptr()
    y, expected = FewTokensProduct(product.matrix())(x), x.double() @ layer.stored.numbers().double().T
    zero = torch.zeros(made.scale.shape, dtype=torch.int8) if made.zero is None else made.zero
    terms = made.levels.abs().unflatten(1, (made.scale.shape[1], -1)) + zero.abs()[..., None]  # |q| + |Z|
    terms = (made.scale[..., None] * terms).flatten(1)
    runs = x.abs().unflatten(1, (-1, 8)).amax(-1, keepdim=True).expand(-1, -1, 8).flatten(1)  # that share a scale
    assert y is not None and ((y - expected).abs() <= 2e-7 * (runs @ terms.T)).all()


SUMS_OF_FOUR_BITS = """
import os
os.environ["NUMBA_CPU_FEATURES"] = FEATURES
import numpy as np
from numba import njit
from glassformer.engine.kernels.four_bits import _sums_of, round_inputs
from glassformer.engine.kernels.tiles import VNNI
from glassformer.engine.program import rounded_floats
assert VNNI == ("+avx512vnni" in FEATURES)
@njit
def sums(w, s, x, place):
    round_inputs(x, 160, 32, place)
    return _sums_of(32, (w, w + 80, w + 160, w + 240), (s, s + 20, s + 40, s + 60), place, 160)
draw = np.random.default_rng(0)
q = draw.integers(0, 16, (4, 160), np.uint8)
w, s, x = q[:, ::2] | q[:, 1::2] << 4, draw.random((4, 5), np.float32), draw.standard_normal(160, np.float32)
q[0], w[0], x[:8] = 15, 255, -7  # sums as far from 0 as they can be
place = np.zeros(rounded_floats(160), np.float32)
found = sums(w.ctypes.data, s.ctypes.data, x.ctypes.data, place.ctypes.data)
W = (q.astype(float) - 8) * s.repeat(32, 1)
assert (abs(np.array(found) - W @ x) <= 2e-7 * abs(W) @ abs(x).reshape(-1, 8).max(1).repeat(8)).all()
"""


@pytest.mark.parametrize("hidden", ["", "vnni", "avx512"])
def test_four_bits_on_other_processors(hidden: str) -> None:
    if not native.available():
        pytest.skip("compiled kernels are not available here")
    features = ",".join(f"-{f[1:]}" if hidden and hidden in f else f for f in native._features().split(","))
    done = subprocess.run(
        command(f"FEATURES = {features!r}\n{SUMS_OF_FOUR_BITS}"),
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_four_bits_keep_what_is_not_a_number() -> None:
    if native.kernel() is None:
        pytest.skip("compiled kernels are not available here")
    layer, _ = layer_of(4, 32, "wide")
    for value in (float("nan"), float("inf")):
        x = torch.zeros(2, 64)
        x[0, 5] = value
        y = StoredLevelsProduct(layer, "fp32", inside=True)(x)
        assert not y[0].isfinite().any() and torch.allclose(y[1], layer.bias)


@pytest.mark.parametrize(("bits", "group"), [(8, 16), (4, 16), (4, 4)])
def test_other_groups_are_left_to_torch(bits: int, group: int) -> None:
    layer, _ = layer_of(bits, group, "wide")
    assert not StoredLevelsProduct(layer, "fp32", inside=True).has_matrix


def test_levels_are_read_where_they_are() -> None:
    layer, _ = layer_of(8, 0, "wide")
    matrix = StoredLevelsProduct(layer, "fp32", inside=True).matrix()
    assert matrix.weight.data_ptr() == layer.stored.levels.data_ptr()


def test_prepared_and_back() -> None:
    layer, _ = layer_of(8, 0, "dynamic")
    network = nn.Sequential(layer, nn.Linear(48, 5))
    x = torch.randn(20, 64)
    before = network(x)
    for precision in ("fp32", "int8"):
        prepare(network, precision)
        assert prepared_precision(network) == precision
        assert isinstance(layer.product, StoredLevelsProduct) and layer.product.precision == precision
    other = prepared_copy(network, "fp32")
    assert prepared_precision(other) == "fp32" and prepared_precision(network) == "int8"
    assert other[0].stored.levels.data_ptr() == layer.stored.levels.data_ptr()
    assert copy.deepcopy(layer).product is None
    unprepare(network)
    assert layer.product is None and torch.equal(network(x), before)


def test_gradients_of_inputs_pass_a_prepared_layer() -> None:
    layer, plain = layer_of(8, 0, "wide")
    prepare(layer_network := nn.Sequential(layer), "fp32")
    x = torch.randn(4, 64, requires_grad=True)
    (gradient,) = torch.autograd.grad(layer_network(x).square().sum(), x)
    (expected,) = torch.autograd.grad(plain(x).square().sum(), x)
    assert torch.allclose(gradient, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scheme", [Scheme(8), Scheme(4, 32), Scheme(4, 64, symmetric=False)])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_step_of_generation_reads_stored_levels(tmp_path: Path, family: str, scheme: Scheme, rows: int) -> None:
    if native.kernel() is None:
        pytest.skip("compiled kernels are not available here")
    sizes = {"llama": {"hidden_size": 64, "intermediate_size": 192}, "gpt2": {"n_embd": 64, "n_inner": 192}}[family]
    model = glassformer.load(make_folder(tmp_path, family, task="text-generation", **sizes))
    quantise_network(model.network, scheme, embeddings=Scheme(8))
    ids = torch.tensor([[3, 4, 5], [6, 7, 8], [5, 3, 4]])[:rows]
    with torch.inference_mode():
        expected = model(input_ids=ids).logits[:, -1]
        prepare(model.network, "fp32")
        first = model(input_ids=ids[:, :2], use_cache=True)
        step = model(input_ids=ids[:, 2:], past_key_values=first.cache, use_cache=True).logits[:, -1]
    assert torch.allclose(step, expected, atol=1e-5)
    stack = model.network.get_submodule("blocks")
    assert stack.few_tokens is not None and stack.few_tokens._understood and stack.few_tokens._programs
