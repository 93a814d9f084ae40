"""Prepared weights: near enough to the plain ones, undone exactly, and never seen from outside."""

from __future__ import annotations

import copy
import io
import pickle
import threading
import warnings
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from glassformer.core import processor
from glassformer.engine import products
from glassformer.engine.packed_linear import PackedLinear
from glassformer.engine.prepare import (
    PRECISIONS,
    prepare,
    prepared_precision,
    unprepare,
)
from glassformer.engine.products import kernels
from glassformer.errors import ConfigError

# How far one layer's answer may be off, relative to the largest of the plain one's.
BOUNDS = {"fp32": 1e-6, "fp16": 1e-3, "bf16": 1e-2, "int8": 3e-2}


class Block(nn.Module):
    """Two linear layers on a residual stream."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width, bias=False)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(x + self.down(nn.functional.gelu(self.up(x))))
        return normed


class Tiny(nn.Module):
    """Embedding, two blocks, a tied head and a classifier."""

    def __init__(self, width: int = 48, hidden: int = 96) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, width)
        self.blocks = nn.ModuleList(Block(width, hidden) for _ in range(2))
        self.classify = nn.Linear(width, 3)
        self.tied = nn.Linear(width, 20, bias=False)
        self.tied.weight = self.embed.weight

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.classify(x), self.tied(x)


@pytest.fixture(params=["packed", "fallback"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Both ways: this processor's packed products, and a processor that has none."""
    if request.param == "fallback":
        monkeypatch.setattr(products, "kernels", lambda precision: False)
    elif not all(map(kernels, PRECISIONS)):
        pytest.skip("this processor or build of torch lacks a packed product; the fallback is tested")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*products", category=UserWarning)
        yield request.param


@pytest.fixture
def network() -> Tiny:
    torch.manual_seed(0)
    return Tiny().eval()


IDS = torch.tensor([[1, 2, 3, 4, 19], [0, 7, 7, 5, 2]])


def run(network: nn.Module, ids: Tensor = IDS) -> Tensor:
    """The classifier's logits."""
    with torch.inference_mode():
        logits: Tensor = network(ids)[0]
        return logits


def off(got: Tensor, wanted: Tensor) -> float:
    return ((got - wanted).abs().max() / wanted.abs().max()).item()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_prepared_network_is_near_the_plain_one(network: Tiny, precision: str, path: str) -> None:
    wanted = run(network)
    assert prepare(network, precision) is network
    got = run(network)
    assert got.dtype == torch.float32  # what leaves the blocks is wide again
    assert off(got, wanted) < BOUNDS[precision]
    narrow = precision != "fp32" and not (precision in ("fp16", "int8") and path == "fallback")
    assert (off(got, wanted) > 1e-5) == narrow, "a narrow product must really be one, a wide one too"
    assert prepared_precision(network) == precision


@pytest.mark.skipif(not all(map(kernels, PRECISIONS)), reason="needs the packed products of x86")
@settings(max_examples=60, deadline=None)
@given(
    precision=st.sampled_from(PRECISIONS),
    rows=st.sampled_from([(), (1,), (0,), (2, 3), (1, 65), (0, 4), (33,)]),
    widths=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    bias=st.booleans(),
    inside=st.booleans(),
    wide=st.booleans(),
    seed=st.integers(0, 100),
)
def test_any_size_fits(
    precision: str,
    rows: tuple[int, ...],
    widths: tuple[int, int],
    bias: bool,
    inside: bool,
    wide: bool,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    linear = nn.Linear(*widths, bias=bias)
    x = torch.randn(*rows, widths[0])
    x = x if wide or precision in ("fp32", "fp16") else x.to(torch.bfloat16)
    packed = PackedLinear(linear, precision, inside=inside)
    with torch.inference_mode():
        got, wanted = packed(x), linear(x.float())
    assert packed.fast
    assert got.shape == wanted.shape
    narrow = precision in ("bf16", "int8") and inside and processor.is_fast(torch.bfloat16)
    assert got.dtype == (torch.bfloat16 if narrow else x.dtype)
    scale = (x.float().abs().amax() * linear.weight.abs().amax() * widths[0] ** 0.5 if x.numel() else 1.0) + 1.0
    assert ((got.float() - wanted).abs() <= 2 * BOUNDS[precision] * scale).all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_strided_input_and_odd_values(precision: str, path: str) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(19, 7)
    packed = PackedLinear(linear, precision, inside=False)
    x = torch.randn(19, 6).T  # columns lie side by side
    with torch.inference_mode():
        assert off(packed(x), linear(x)) < 2 * BOUNDS[precision]
        zeros = packed(torch.zeros(2, 19))
        assert off(zeros, linear.bias.expand(2, 7)) < BOUNDS[precision]
        x = torch.zeros(3, 19)
        x[1, 4] = torch.nan
        got = packed(x)
    assert got[1].isnan().all(), "a NaN must not turn into numbers"
    assert got[[0, 2]].isfinite().all(), "and stays in its row"


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_row_of_weights_that_is_zero_gives_the_bias(precision: str, path: str) -> None:
    linear = nn.Linear(16, 4)
    with torch.no_grad():
        linear.weight[2] = 0.0
    packed = PackedLinear(linear, precision, inside=False)
    with torch.inference_mode():
        assert off(packed(torch.randn(5, 16))[:, 2], linear.bias[2].expand(5)) < 1e-2


def test_int8_does_not_depend_on_the_tokens_beside(network: Tiny, path: str) -> None:
    prepare(network, "int8")
    with torch.inference_mode():
        together = network(IDS)[0]
        alone = network(IDS[:1])[0]
    torch.testing.assert_close(together[:1], alone, atol=1e-6, rtol=1e-6)


def steps(count: int, width: int) -> Tensor:
    """One token in each of so many rows, of very different sizes."""
    return torch.randn(count, 1, width) * torch.logspace(-3, 3, count)[:, None, None]


@pytest.mark.skipif(not kernels("int8"), reason="needs the packed products of x86")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_step_of_generation_in_int8(bias: bool, dtype: torch.dtype) -> None:
    linear, x = nn.Linear(40, 24, bias=bias), steps(7, 40).to(dtype)
    packed = PackedLinear(linear, "int8", inside=True)
    with torch.inference_mode():
        wanted, got = linear(x.float()), packed(x)
        alone = packed(x[3:4])
        assert got.dtype == dtype
        for row, plain in zip(got, wanted, strict=True):
            assert off(row.float(), plain) < 2 * BOUNDS["int8"]
        assert off(alone[0].float(), wanted[3]) < 2 * BOUNDS["int8"]
        assert torch.equal(packed(x[2:6]), got[2:6])  # rows do not see each other
        many = packed(x.transpose(0, 1))  # one row of seven tokens
        assert off(many[0].float(), got[:, 0].float()) < BOUNDS["int8"]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_weights_that_a_file_holds_transposed(precision: str, path: str) -> None:
    linear, x = nn.Linear(40, 24), torch.randn(2, 5, 40, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        wanted = PackedLinear(linear, precision, inside=True)(x)
        linear.weight = nn.Parameter(linear.weight.t().contiguous().t())  # as views of GPT-2's files lie in memory
        assert torch.allclose(PackedLinear(linear, precision, inside=True)(x), wanted, rtol=0, atol=1e-6)


@pytest.mark.skipif(not kernels("int8"), reason="needs the packed products of x86")
def test_steps_take_the_common_product_where_the_faster_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_has_dynamic_quantisation", lambda: False)
    linear, x = nn.Linear(40, 24), steps(3, 40)
    packed = PackedLinear(linear, "int8", inside=False)
    with torch.inference_mode():
        assert torch.equal(packed(x)[:, 0], packed(x.transpose(0, 1))[0])


def test_packing_leaves_torchs_settings_as_they_were() -> None:
    before = torch.backends.quantized.engine
    with torch.inference_mode():
        prepare(nn.Sequential(nn.Linear(8, 8)), "int8")(torch.ones(1, 1, 8))
    assert torch.backends.quantized.engine == before


@pytest.mark.parametrize("precision", PRECISIONS)
def test_undoing_is_exact(network: Tiny, precision: str, path: str) -> None:
    before = {name: (id(part), type(part)) for name, part in network.named_modules()}
    tensors = {name: (id(p), p.detach().clone()) for name, p in network.named_parameters()}
    wanted = run(network)
    prepare(network, precision)
    assert unprepare(network) is network
    assert prepared_precision(network) is None
    assert {name: (id(part), type(part)) for name, part in network.named_modules()} == before
    for name, p in network.named_parameters():
        assert (id(p), True) == (tensors[name][0], torch.equal(p, tensors[name][1]))
    assert torch.equal(run(network), wanted)
    unprepare(network)  # a plain network stays as it is


def test_preparing_twice_changes_nothing_and_another_precision_replaces_the_first(network: Tiny, path: str) -> None:
    originals = {name: part for name, part in network.named_modules() if type(part) is nn.Linear}
    prepare(network, "int8")
    first = [id(part) for part in network.modules()]
    prepare(network, "int8")
    assert [id(part) for part in network.modules()] == first
    prepare(network, "bf16")
    assert prepared_precision(network) == "bf16"
    assert all(part.precision == "bf16" for part in network.modules() if isinstance(part, PackedLinear))
    unprepare(network)
    assert all(network.get_submodule(name) is part for name, part in originals.items())


def test_what_is_left_alone(network: Tiny) -> None:
    class Special(nn.Linear):
        """Somebody else's layer; it may compute anything."""

    network.special = Special(4, 4)
    network.hooked = nn.Linear(4, 4)
    network.hooked.register_forward_hook(lambda *_: None)
    prepare(network, "fp32")
    packed = {name for name, part in network.named_modules() if isinstance(part, PackedLinear)}
    assert packed == {"blocks.0.up", "blocks.0.down", "blocks.1.up", "blocks.1.down", "classify", "tied"}
    assert network.tied.weight is network.embed.weight


def test_a_layer_that_stands_in_two_places_stays_one(path: str) -> None:
    shared = nn.Linear(8, 8)
    network = nn.ModuleDict({"a": shared, "b": shared, "c": nn.Sequential(shared)})
    prepare(network, "fp32")
    assert isinstance(network["a"], PackedLinear)
    assert network["a"] is network["b"] is network["c"][0]
    unprepare(network)
    assert shared is network["a"] is network["b"] is network["c"][0]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_layers_that_share_their_weights_are_packed_once(precision: str, path: str) -> None:
    network = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    network[1].weight, network[1].bias = network[0].weight, network[0].bias
    x = torch.randn(3, 8)
    with torch.inference_mode():
        expected = network(x)
        prepare(network, precision)
        packed = network(x)
    assert network[0] is not network[1]
    assert network[0]._product is network[1]._product is not None
    torch.testing.assert_close(packed.float(), expected, atol=0.05, rtol=0.05)
    with torch.no_grad():
        network[0].weight.mul_(2)
    assert network[0].stale() and network[1].stale()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_checkpoints_do_not_see_it(network: Tiny, precision: str, path: str) -> None:
    before = {name: t.clone() for name, t in network.state_dict().items()}
    count = sum(p.numel() for p in network.parameters())
    prepare(network, precision)
    state = network.state_dict()
    assert list(state) == list(before)
    assert all(torch.equal(state[name], t) and state[name].dtype == t.dtype for name, t in before.items())
    assert sum(p.numel() for p in network.parameters()) == count


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_loading_weights_packs_them_anew(precision: str, assign: bool, path: str) -> None:
    torch.manual_seed(1)
    network, other = Tiny().eval(), Tiny().eval()
    prepare(network, precision)
    network.load_state_dict(other.state_dict(), assign=assign)
    assert off(run(network), run(other)) < BOUNDS[precision]
    unprepare(network)
    assert torch.equal(run(network), run(other))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("how", ["deepcopy", "pickle", "save"])
def test_copies_are_prepared_and_independent(network: Tiny, precision: str, how: str, path: str) -> None:
    prepare(network, precision)
    if how == "deepcopy":
        twin = copy.deepcopy(network)
    elif how == "pickle":
        twin = pickle.loads(pickle.dumps(network))
    else:
        stream = io.BytesIO()
        torch.save(network, stream)
        stream.seek(0)
        twin = torch.load(stream, weights_only=False)  # our own bytes, a line above
    assert prepared_precision(twin) == precision
    assert torch.equal(run(twin), run(network))
    wanted = run(unprepare(network))
    unprepare(twin)
    assert torch.equal(run(twin), wanted)
    assert twin.classify.weight is not network.classify.weight
    assert twin.tied.weight is twin.embed.weight


def test_moving_to_another_dtype_packs_anew(network: Tiny, path: str) -> None:
    wanted = run(network)
    prepare(network, "fp32").double()
    assert run(network).dtype == torch.float64
    assert off(run(network), wanted.double()) < 1e-6
    network.float()
    assert torch.equal(run(unprepare(network)), wanted)


def test_gradients_take_the_plain_product_in_fp32_and_are_refused_else(network: Tiny, path: str) -> None:
    network.train()
    network(IDS)[0].sum().backward()
    wanted = {name: p.grad.clone() for name, p in network.named_parameters()}
    network.zero_grad()
    prepare(network, "fp32")
    network(IDS)[0].sum().backward()
    for name, p in network.named_parameters():
        assert torch.equal(p.grad, wanted[name])
    for precision in ("bf16", "int8"):
        prepare(network, precision)
        with pytest.raises(ConfigError, match=r"gradients.*inference_mode.*unprepare"):
            network(IDS)


def test_a_training_step_does_not_leave_old_weights_behind(network: Tiny, path: str) -> None:
    def step() -> None:
        optimiser = torch.optim.AdamW(network.parameters(), lr=0.1, foreach=True)
        with torch.enable_grad():
            nn.functional.gelu(network.classify.weight).sum().backward()
        optimiser.step()

    prepare(network, "fp32")
    step()
    got = run(network)  # stale: the plain product
    assert off(got, run(unprepare(copy.deepcopy(network)))) < BOUNDS["fp32"]
    prepare(network, "fp32")
    assert off(run(network), got) < BOUNDS["fp32"]
    prepare(network, "int8")
    step()
    with pytest.raises(ConfigError, match=r"weights have changed.*prepare\(\) again"):
        run(network)
    assert run(prepare(network, "int8")).isfinite().all()


def test_bad_requests_change_nothing(network: Tiny) -> None:
    with pytest.raises(ConfigError, match=r"'int4'; allowed: fp32, fp16, bf16, int8; nearest: 'int8'"):
        prepare(network, "int4")
    network.blocks[1].half()
    with pytest.raises(ConfigError, match=r"blocks\.1\.up\.weight is float16; .* float32 or bfloat16"):
        prepare(network, "int8")
    network.blocks[1].bfloat16()
    with pytest.raises(ConfigError, match=r"is bfloat16; preparing fp32 takes float32"):
        prepare(network, "fp32")
    assert prepared_precision(network) is None


def test_bfloat16_weights_can_be_packed(path: str) -> None:
    torch.manual_seed(0)
    network = Tiny().eval()
    wanted = run(network)
    network.bfloat16()
    for precision in ("bf16", "int8"):
        prepare(network, precision)
        assert off(run(network).float(), wanted) < 2 * BOUNDS["int8"]


@pytest.mark.parametrize(("precision", "says"), [("fp32", 0), ("bf16", 1), ("int8", 1)])
def test_a_missing_product_is_reported_once(
    network: Tiny, precision: str, says: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "kernels", lambda precision: False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        prepare(network, precision)
        prepare(network, precision)
    assert len(caught) == says
    assert all(precision in str(w.message) and w.filename == __file__ for w in caught)


def test_bf16_is_computed_in_fp32_where_the_processor_has_no_bf16(
    network: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kernels("bf16"):
        pytest.skip("needs the packed products of x86")
    monkeypatch.setattr(processor, "is_fast", lambda dtype, device="cpu": dtype != torch.bfloat16)
    wanted = run(network)
    with pytest.warns(UserWarning, match="no instructions for bf16 products") as caught:
        prepare(network, "bf16")
    assert len(caught) == 1 and caught[0].filename == __file__
    narrow = run(network)
    assert 1e-5 < off(narrow, wanted) < BOUNDS["bf16"]
    x = torch.randn(3, 8)
    layer = nn.Linear(8, 5)
    with torch.inference_mode():
        packed = PackedLinear(layer, "bf16", inside=True)(x)
        assert packed.dtype == torch.float32
        assert off(packed, nn.functional.linear(x, layer.weight.bfloat16().float(), layer.bias)) < 1e-6
    assert torch.equal(run(prepare(network, "bf16")), narrow)


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="this build of torch has no MKL")
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_mkl_multiplies_many_tokens_with_avx2_alone(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "has", lambda name: name == "avx2")
    monkeypatch.setattr(processor, "is_fast", lambda dtype, device="cpu": dtype == torch.float32)
    blocks = products._fp32_blocks
    monkeypatch.setattr(products, "_fp32_blocks", None)  # what oneDNN packs is not needed
    layer, x = nn.Linear(40, 24), torch.randn(1, 30, 40)
    narrow = {"fp32": layer.weight, "fp16": layer.weight.half(), "bf16": layer.weight.bfloat16()}[precision]
    wanted = nn.functional.linear(x, narrow.float(), layer.bias)
    with torch.inference_mode():
        assert torch.equal(PackedLinear(layer, precision, inside=True)(x), wanted)
        monkeypatch.setattr(products, "_fp32_blocks", blocks)
        monkeypatch.setattr(processor, "has", lambda name: True)
        assert off(PackedLinear(layer, precision, inside=True)(x).float(), wanted) < BOUNDS[precision]


@pytest.mark.skipif(not kernels("int8"), reason="needs the packed products of x86")
def test_no_sum_saturates_without_vnni(monkeypatch: pytest.MonkeyPatch) -> None:
    """AVX2 adds pairs of products in 16 bits: the largest inputs and weights are where they would not fit."""
    monkeypatch.setattr(processor, "has", lambda name: name != "vnni")
    layer = nn.Linear(64, 3, bias=False)
    with torch.no_grad():
        layer.weight[0], layer.weight[1], layer.weight[2] = 1.0, -1.0, 0.5
    x = torch.ones(20, 64)
    with torch.inference_mode():
        y = PackedLinear(layer, "int8", inside=False)(x)
        step = PackedLinear(layer, "int8", inside=False)(x[:4, None])
    assert off(y, layer(x)) < 1e-3 and off(step[:, 0], layer(x[:4])) < 1e-2


@pytest.mark.parametrize("changing", [True, False])
def test_threads_may_run_it(network: Tiny, changing: bool) -> None:
    """In fp32 while others prepare and undo; in a narrow precision once it is prepared, by whoever came first."""
    wanted = run(network)
    failures: list[object] = []

    def work(seed: int) -> None:
        try:
            for turn in range(12):
                prepare(network, "fp32" if changing else "int8")
                if changing and turn % 3 == seed:
                    unprepare(network)
                barrier.wait(timeout=300)
                if off(run(network), wanted) >= BOUNDS["fp32" if changing else "int8"]:
                    failures.append("a wrong number")
        except Exception as problem:
            failures.append(problem)

    barrier = threading.Barrier(3) if not changing else threading.Barrier(1)
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert torch.equal(run(unprepare(network)), wanted)


def test_nothing_is_replaced_when_one_layer_cannot_be_packed(network: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter([products._plain] * 2)

    def product(*args: object) -> object:
        if next(calls, None) is None:
            raise MemoryError
        return products._plain(*args)  # type: ignore[arg-type]

    monkeypatch.setitem(products.PACKED, "fp32", product)
    monkeypatch.setitem(products.PLAIN, "fp32", product)
    with pytest.raises(MemoryError):
        prepare(network, "fp32")
    assert prepared_precision(network) is None


def test_an_empty_network_is_fine() -> None:
    network = nn.Sequential(nn.ReLU())
    assert prepared_precision(prepare(network, "int8")) is None


def test_a_packed_layer_says_what_it_is() -> None:
    assert "in_features=3, out_features=2, bias=True, precision=fp32" in repr(
        prepare(nn.Sequential(nn.Linear(3, 2)), "fp32")
    )


@pytest.mark.skipif(not all(map(kernels, PRECISIONS)), reason="needs the packed products of x86")
@pytest.mark.parametrize("texts", [1, 3])
@pytest.mark.parametrize("held", [True, False])
def test_a_step_in_fp32_reads_16_bits_only_where_they_hold_the_weights(
    texts: int, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(70, 90).requires_grad_(False)
    if held:
        linear.weight.copy_(linear.weight.half())
    narrow, fp16_for_step = list[Tensor](), products._fp16_for_step

    def noted(weight: Tensor, bias: Tensor | None) -> products.Product:
        narrow.append(weight)
        return fp16_for_step(weight, bias)

    monkeypatch.setattr(products, "_fp16_for_step", noted)
    packed = PackedLinear(linear, "fp32", inside=True)
    with torch.inference_mode():
        step, prompts = torch.randn(texts, 1, 70), torch.randn(texts, 5, 70)
        assert off(packed(step), linear(step)) < BOUNDS["fp32"]
        assert len(narrow) == held
        assert off(packed(prompts), linear(prompts)) < BOUNDS["fp32"]
    assert len(narrow) == held
