"""Encoders in int8 as one program: what the same rounding gives in fp64, and taken only where nobody could tell."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer import Model
from glassformer.compression.quantise import Scheme
from glassformer.compression.quantised_network import quantise_network
from glassformer.core import processor
from glassformer.core.attention import AttentionSpec
from glassformer.core.blocks import Block, BlockSpec, Residual, ResidualSpec
from glassformer.core.feed_forward import FeedForwardSpec
from glassformer.core.flow import Batch, Flow, Tape
from glassformer.core.masks import Packing
from glassformer.core.norms import LayerNormSpec
from glassformer.core.stack import Stack, StackSpec
from glassformer.engine import native
from glassformer.engine.packed_row import PackedProgram, PackedRow
from glassformer.engine.prepare import prepare, prepared_copy, unprepare
from glassformer.errors import ConfigError
from glassformer.files.child import command
from glassformer.models import FAMILIES, Network
from tests.core.small import perturbed

pytestmark = pytest.mark.skipif(
    not (native.available() and processor.has("vnni") and not processor.has("amx_tile")),
    reason="needs numba, and a processor with VNNI and no AMX",
)
LENGTHS = (3, 3, 8, 1, 37)


def stack_of(
    heads: int, head: int, hidden: int, activation: str = "gelu", pre: bool = False, bias: bool = True, blocks: int = 1
) -> Stack:
    width = heads * head
    residual = ResidualSpec.pre_or_post(LayerNormSpec(width=width), pre=pre, dropout=0.0)
    block = BlockSpec(
        attention=AttentionSpec(width=width, heads=heads, bias=bias, out_bias=bias),
        feed_forward=FeedForwardSpec(width=width, hidden=hidden, activation=activation, bias=bias),
        residual=residual,
    )
    torch.manual_seed(0)
    return perturbed(Stack(StackSpec(blocks=(block,) * blocks))).eval()


def rounded(x: Tensor) -> Tensor:
    """The numbers of a row's levels."""
    step = x.abs().amax(-1, keepdim=True).clamp_min(1e-30) / 127
    return (x / step).round() * step


def product(linear: nn.Linear, x: Tensor) -> Tensor:
    bias = None if linear.bias is None else linear.bias.double()
    return F.linear(rounded(x), rounded(linear.weight.float()).double(), bias)


def exact_block(block: Block, x: Tensor, lengths: tuple[int, ...]) -> Tensor:
    """A block in fp64 with rounded inputs and weights. [tokens, D]"""
    spec = block.attn.spec

    def attention(y: Tensor) -> Tensor:
        q, k, v = product(block.attn.qkv, y).view(len(y), 3, spec.heads, spec.E).unbind(1)
        parts = [t.split(lengths) for t in (q, k, v)]
        z = [
            torch.einsum("hts,she->the", (torch.einsum("the,she->hts", a, b) * block.attn.scale).softmax(-1), c)
            for a, b, c in zip(*parts, strict=True)
        ]
        return product(block.attn.out, torch.cat(z).flatten(1))

    def neurons(y: Tensor) -> Tensor:
        up, activation, down = block.ffn.up, block.ffn.activation, block.ffn.down
        return product(down, activation(product(up, y)))  # type: ignore[operator, arg-type]

    def added(residual: Residual, y: Tensor, sublayer: Any) -> Tensor:
        wide = copy.deepcopy(residual).double()
        normed: Tensor = wide.on_residual(y + wide.scale * sublayer(wide.before(y)))
        return normed

    return added(block.ffn_residual, added(block.attn_residual, x, attention), neurons)


@torch.inference_mode()
def run(stack: Stack, x: Tensor, lengths: tuple[int, ...]) -> Tensor:
    states: Tensor = stack(x[None], Flow(packing=Packing(lengths)))
    return states[0]


def is_fused(stack: Stack) -> bool:
    row = stack.packed_row
    return isinstance(row, PackedRow) and row._understood and bool(row._idle)


def off(found: Tensor, wanted: Tensor) -> float:
    return float((found.detach().double() - wanted.detach()).norm() / wanted.detach().norm())


@settings(max_examples=25, deadline=None)
@given(
    heads=st.integers(1, 5),
    head=st.sampled_from([4, 7, 12, 16, 31, 32, 33, 64, 80]),
    hidden=st.integers(1, 200),
    lengths=st.lists(st.integers(1, 70), min_size=1, max_size=6),
    activation=st.sampled_from(["gelu", "gelu_new", "quick_gelu", "relu", "silu", "tanh"]),
    pre=st.booleans(),
    bias=st.booleans(),
)
def test_any_size_is_as_exact_as_its_rounding(
    heads: int, head: int, hidden: int, lengths: list[int], activation: str, pre: bool, bias: bool
) -> None:
    """A number between two levels may go to the other one, where fp32 and fp64 differ: rarely, and by one level."""
    stack, sizes = stack_of(heads, head, hidden, activation, pre, bias), tuple(lengths)
    x = torch.randn(sum(sizes), heads * head, generator=torch.Generator().manual_seed(len(sizes)))
    wanted = exact_block(stack[0], x.double(), sizes)  # type: ignore[arg-type]
    prepare(stack, "int8")
    assert off(run(stack, x, sizes), wanted) < 5e-3
    assert is_fused(stack)


def test_the_rounding_is_nearly_all_that_is_lost() -> None:
    """Of the width of MiniLM, one level in a few hundred thousand is another: 50 times as exact as in bfloat16."""
    stack = stack_of(12, 32, 1536)
    x = torch.randn(sum(LENGTHS), 384, generator=torch.Generator().manual_seed(1))
    wanted = exact_block(stack[0], x.double(), LENGTHS)  # type: ignore[arg-type]
    prepare(stack, "int8")
    fused = off(run(stack, x, LENGTHS), wanted)
    stack.packed_row = None
    assert fused < 5e-4 and fused < off(run(stack, x, LENGTHS), wanted) / 10


def test_gelu_on_a_grid() -> None:
    """Levels of x are exact here, so y is GELU itself: of 255 numbers from -8 to 8."""
    stack = stack_of(1, 4, 4, blocks=1)
    block = stack[0]
    grid = torch.arange(-127, 128) * (8 / 127)
    # The stream passes through up as it is; attention adds nothing, and down gives the neurons.
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.zero_()
        block.ffn.up.weight.copy_(torch.eye(4))  # type: ignore[union-attr]
        block.ffn.down.weight.copy_(torch.eye(4))  # type: ignore[union-attr]
    for residual in (block.attn_residual, block.ffn_residual):  # type: ignore[union-attr]
        residual.on_residual = nn.Identity().eval()
    x = torch.stack([grid, torch.full_like(grid, 8.0), torch.zeros_like(grid), torch.zeros_like(grid)], 1)
    prepare(stack, "int8")
    y = run(stack, x, (255,)) - x
    assert is_fused(stack)
    assert (y[:, 0] - rounded(F.gelu(x))[:, 0]).abs().max() < 8 / 127 + 1e-4
    assert (y[:, 1] - 8).abs().max() < 1e-5


def network_of(family: str) -> Network:
    torch.manual_seed(0)
    return perturbed(Model.from_config(FAMILIES[family].tiny).eval().network)


def packed_states(network: Network, texts: list[list[int]], tape: Tape | None = None) -> Tensor:
    row = torch.tensor([[number for text in texts for number in text]])
    with torch.inference_mode():
        return network.states(Batch(input_ids=row), Flow(packing=Packing(tuple(map(len, texts))), tape=tape))[0]


def texts_of(*lengths: int) -> list[list[int]]:
    draw = np.random.default_rng(0)
    return [draw.integers(5, 30, n).tolist() for n in lengths]


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "distilbert", "electra"])
def test_families_of_encoders_take_it(family: str) -> None:
    network = network_of(family)
    texts = texts_of(3, 8, 8, 5)
    wanted = packed_states(network, texts).double()
    prepare(network, "int8")
    found = packed_states(network, texts)
    (stack,) = (module for module in network.modules() if isinstance(module, Stack))
    assert is_fused(stack) and off(found, wanted) < 0.1
    stack.packed_row = None
    assert off(packed_states(network, texts), wanted) < 0.1


@pytest.mark.parametrize("inputs", ["dynamic", "wide"])
def test_stored_levels_that_meet_rounded_inputs_take_it_in_every_precision(inputs: str) -> None:
    network, texts = network_of("bert"), texts_of(3, 8, 8, 5)
    quantise_network(network, Scheme(bits=8), inputs=inputs)
    plain = packed_states(network, texts)
    prepare(network, "fp32")
    (stack,) = (module for module in network.modules() if isinstance(module, Stack))
    found = packed_states(network, texts)
    assert off(found, plain) < 5e-3  # few numbers between two levels go to the other one
    assert (stack.packed_row is not None and is_fused(stack)) == (inputs == "dynamic")
    unprepare(network)
    assert stack.packed_row is None


def test_no_text_depends_on_those_beside_it_nor_on_threads() -> None:
    network = prepare(network_of("bert"), "int8")
    texts = texts_of(*LENGTHS[:4], 12)
    assert isinstance(network, Network)
    together = packed_states(network, texts).split([len(text) for text in texts])
    for text, states in zip(texts, together, strict=True):
        assert torch.equal(packed_states(network, [text]), states)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3 if threads == 1 else 1)
        other = prepared_copy(network_of("bert"), "int8")
        assert torch.equal(packed_states(other, texts), torch.cat(together))
    finally:
        torch.set_num_threads(threads)


def test_several_threads_share_weights() -> None:
    network = prepare(network_of("bert"), "int8")
    assert isinstance(network, Network)
    inputs = [texts_of(n + 1, 9) for n in range(4)] * 6
    alone = [packed_states(network, texts) for texts in inputs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda texts: packed_states(network, texts), inputs))
    assert all(map(torch.equal, alone, together))
    (stack,) = (module for module in network.modules() if isinstance(module, Stack))
    row = stack.packed_row
    assert isinstance(row, PackedRow) and len(row._tiles) == 4 * len(stack)
    assert all(program._tiles is row._tiles for program in row._idle)


def test_a_program_of_former_weights_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    network, texts = prepare(network_of("bert"), "int8"), texts_of(4, 6)
    (stack,) = (module for module in network.modules() if isinstance(module, Stack))
    row, run_program = stack.packed_row, PackedProgram.run
    assert isinstance(row, PackedRow) and isinstance(network, Network)

    def run_meanwhile(*call: Any) -> Tensor:
        row._idle = []  # as another thread does that sees other weights
        return run_program(*call)

    monkeypatch.setattr(PackedProgram, "run", run_meanwhile)
    packed_states(network, texts)
    assert row._idle == []


def test_a_tape_a_hook_and_changed_weights_take_the_plain_path() -> None:
    network = network_of("bert")
    texts = texts_of(4, 6)
    prepare(network, "int8")
    fused = packed_states(network, texts)
    (stack,) = (module for module in network.modules() if isinstance(module, Stack))
    row = stack.packed_row
    assert isinstance(row, PackedRow) and is_fused(stack)
    tape = Tape("blocks.*.out").attach(network)
    assert off(packed_states(network, texts, tape), fused.double()) < 0.1 and tape.taps
    seen: list[Any] = []
    with torch.no_grad(), stack[0].ffn.register_forward_hook(lambda *call: seen.append(call)):
        packed_states(network, texts)
    assert seen
    with torch.no_grad():
        stack[0].attn.qkv.weight.mul_(2)
    with pytest.raises(ConfigError, match="call prepare"):
        packed_states(network, texts)
    prepare(network, "int8")
    assert not torch.equal(packed_states(network, texts), fused) and is_fused(stack)
    unprepare(network)
    assert stack.packed_row is None


@pytest.mark.parametrize(("missing", "there"), [("vnni", ""), ("", "amx_tile")])
def test_a_processor_without_vnni_or_with_amx_takes_the_plain_path(
    missing: str, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = prepare(network_of("bert"), "int8")
    assert isinstance(network, Network)
    has = processor.has
    monkeypatch.setattr(processor, "has", lambda name: name == there or (name != missing and has(name)))
    packed_states(network, texts_of(4, 6))
    (stack,) = (module for module in network.modules() if isinstance(module, Stack))
    assert isinstance(stack.packed_row, PackedRow) and not stack.packed_row._idle


@pytest.mark.parametrize("family", ["t5", "modernbert", "llama"])
def test_other_stacks_are_not_understood(family: str) -> None:
    """Position bias, rotary positions, a causal pattern: the plain path, and the question is asked once."""
    network = Model.from_config(FAMILIES[family].tiny).eval().network
    prepare(network, "int8")
    stack = next(module for module in network.modules() if isinstance(module, Stack))
    run(stack, torch.randn(7, stack.spec.width), (3, 4))
    assert isinstance(stack.packed_row, PackedRow) and not stack.packed_row._understood


@pytest.mark.parametrize("way", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_write_their_own_programs(way: Any) -> None:
    network = prepare(network_of("bert"), "int8")
    assert isinstance(network, Network)
    texts = texts_of(4, 6)
    wanted = packed_states(network, texts)
    other = way(network)
    assert torch.equal(packed_states(other, texts), wanted)
    (mine, theirs) = (next(m for m in n.modules() if isinstance(m, Stack)).packed_row for n in (network, other))
    assert mine is not theirs and isinstance(theirs, PackedRow) and theirs._idle


WITHOUT_VNNI = """
import os
os.environ["NUMBA_CPU_FEATURES"] = FEATURES
import numpy as np
from numba import njit
from glassformer.engine.kernels.tiles import VNNI, levels_tile
assert VNNI == ("+avx512vnni" in FEATURES)
@njit
def tile(x, w, begins, out):
    levels_tile((x, x + 64, x + 128, x + 192, x + 256, x + 320), w, 256, 16, begins, out, 256, 5)
draw = np.random.default_rng(0)
x, w = draw.integers(0, 256, (6, 64), np.uint8), draw.integers(-128, 128, (16, 64, 4), np.int8)
begins, out = draw.integers(-9999, 9999, 64, np.int32), np.full((6, 64), 7, np.int32)
tile(x.ctypes.data, w.ctypes.data, begins.ctypes.data, out.ctypes.data)
wanted = x.astype(int) @ w.transpose(0, 2, 1).reshape(64, 64) + begins
assert (out[:5] == wanted[:5]).all() and (out[5] == 7).all()
"""


@pytest.mark.parametrize("vnni", [True, False])
def test_a_tile_with_and_without_vnni(vnni: bool) -> None:
    """Bytes at both ends of their range, and a row that is not stored."""
    features = ",".join(f for f in native._features().split(",") if vnni or "vnni" not in f)
    program = f"FEATURES = {features!r}\n{WITHOUT_VNNI}"
    done = subprocess.run(
        command(program), capture_output=True, text=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_features_of_this_process_are_those_of_its_kernels() -> None:
    assert "+avx512vnni" in native._features() and sys.platform == "linux"
