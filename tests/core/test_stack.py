"""Stacks of blocks: properties that hold for every spec and need no reference."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from glassformer.core import (
    AttentionPattern,
    AttentionSpec,
    BlockSpec,
    EncoderOutput,
    FeedForwardSpec,
    Flow,
    KeyValueCache,
    LayerNormSpec,
    Packing,
    ResidualSpec,
    Rotary,
    Stack,
    StackSpec,
)
from glassformer.core.masks import Mask
from glassformer.errors import ConfigError
from tests.core.small import (
    CAUSAL,
    CROSS,
    LLAMA,
    POST,
    PRE,
    STACKS,
    assert_all_close,
    assert_close,
    examples,
    fused_calls,
    gradients,
    keeps,
    perturbed,
    recorded,
    recording,
    stack,
    turning,
    windowed,
    with_dropout,
)

few = examples(8)
PATHS = {"fused": (), "explicit": ("*probs",)}
every_kind = pytest.mark.parametrize("kind", STACKS)
every_path = pytest.mark.parametrize("path", PATHS)
both_modes = pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])


def run(network: Stack, x: Tensor, path: str = "fused", **flow: object) -> Tensor:
    return network(x, recording(network, *PATHS[path], **flow))


# ── what it is made of ───────────────────────────────────────────────────────────────────────────────────


def test_cl_15_a_stack_keeps_the_shape_and_its_blocks_their_own_weights() -> None:
    block = BlockSpec(
        attention=AttentionSpec(width=768, heads=12),
        feed_forward=FeedForwardSpec(width=768, hidden=3072),
        residual=ResidualSpec(on_residual=LayerNormSpec(width=768)),
    )
    network = Stack(StackSpec(blocks=(block,) * 2))
    assert network(torch.randn(1, 5, 768), Flow()).shape == (1, 5, 768)
    assert len(network) == 2 and [network[0], network[1]] == list(network)
    first, second = dict(network[0].named_parameters()), dict(network[1].named_parameters())
    for name in first:
        assert first[name].data_ptr() != second[name].data_ptr(), f"{name} is shared"
        if first[name].dim() == 2:
            assert not torch.equal(first[name], second[name]), f"{name} starts equal in both blocks"


def test_cl_19_nine_blocks_keep_the_shape_round_trip_and_respect_their_mode() -> None:
    block = BlockSpec(
        attention=AttentionSpec(width=24, heads=4, head_width=3),
        feed_forward=FeedForwardSpec(width=24, hidden=96, dropout=0.1),
        residual=ResidualSpec(before=LayerNormSpec(width=24), dropout=0.1),
    )
    network, other = Stack(StackSpec(blocks=(block,) * 9)), Stack(StackSpec(blocks=(block,) * 9))
    perturbed(network)
    x = torch.randn(10, 10, 24)
    out = network(x, Flow())
    assert out.shape == (10, 10, 24)
    other.load_state_dict(network.state_dict())
    assert torch.equal(other.eval()(x, Flow()), out)
    assert torch.equal(network(x, Flow()), out), "no chance in eval mode"
    network.train()
    assert not torch.equal(network(x, Flow()), network(x, Flow())), "dropout in train mode"
    assert torch.equal(network.eval()(x, Flow()), out)


@every_kind
def test_the_stream_is_what_enters_each_block_and_leaves_the_last(kind: str) -> None:
    network, x = stack(kind), torch.randn(2, 7, 32)
    flow = recording(network, "*.before", keep=keeps([7, 4], 7))
    states = network.hidden_states(x, flow)
    assert len(states) == len(network) + 1
    assert all(torch.equal(state, recorded(flow, f"{i}.before")) for i, state in enumerate(states[:-1]))
    assert torch.equal(states[-1], network(x, Flow(keep=flow.keep)))


def test_each_block_gets_the_mask_of_its_own_pattern() -> None:
    network, x = stack("alternating windows"), torch.randn(1, 7, 32)
    flow = recording(network, "*probs")
    network(x, flow)
    rows = torch.arange(7)
    distance = rows[:, None] - rows[None]
    assert torch.equal(recorded(flow, "0.attn.probs")[0, 0] > 0, (distance >= 0) & (distance < 3))
    assert torch.equal(recorded(flow, "1.attn.probs")[0, 0] > 0, distance >= 0)


def test_masks_are_made_once_a_call_for_each_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    network = perturbed(Stack(StackSpec(blocks=(windowed(PRE, 3), PRE) * 3)))
    patterns: list[AttentionPattern] = []
    combine = Mask.combine

    def recorded(pattern: AttentionPattern, *rest: object) -> Mask:
        patterns.append(pattern)
        return combine(pattern, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Mask, "combine", recorded)
    network(torch.randn(1, 5, 32), Flow())
    assert sorted(map(repr, patterns)) == [repr(AttentionPattern(True, 3)), repr(AttentionPattern(True))]


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", CAUSAL)
@every_path
@few
@given(t=st.integers(0, 8))
def test_cl_10_changing_the_future_leaves_the_past_bit_equal(kind: str, path: str, t: int) -> None:
    # How many tokens share an expert's product decides how it rounds; in fp64 that is far below any leak.
    exact = kind != "experts"
    dtype = torch.float32 if exact else torch.float64
    network, x = stack(kind).to(dtype), torch.randn(2, 9, 32, dtype=dtype)
    changed = x.clone()
    changed[:, t:] += torch.randn(2, 9 - t, 32, dtype=dtype)
    before, after = run(network, x, path), run(network, changed, path)
    if not exact:
        assert_close(before[:, :t], after[:, :t], 1e-12)
    else:
        assert torch.equal(before[:, :t], after[:, :t])
    assert (before[:, t] != after[:, t]).any(-1).all(), "the present does change"


@pytest.mark.parametrize("kind", sorted(set(STACKS) - set(CAUSAL)))
def test_a_stack_that_reads_both_ways_sees_the_future(kind: str) -> None:
    network, x = stack(kind), torch.randn(2, 9, 32)
    changed = x.clone()
    changed[:, -1] += 1.0
    assert (run(network, x)[:, -2] != run(network, changed)[:, -2]).any(-1).all()


@pytest.mark.parametrize("kind", CAUSAL)
@every_path
@few
@given(chunks=st.lists(st.integers(1, 5), min_size=1, max_size=5), block_tokens=st.sampled_from([1, 4, 256]))
def test_chunked_equals_whole(kind: str, path: str, chunks: list[int], block_tokens: int) -> None:
    network, x = stack(kind).double(), torch.randn(2, sum(chunks), 32, dtype=torch.float64)
    cache = KeyValueCache(block_tokens)
    with torch.no_grad():
        steps = [run(network, part, path, cache=cache) for part in x.split(chunks, dim=1)]
        assert_close(torch.cat(steps, dim=1), run(network, x), 1e-9)
    assert cache.length == sum(chunks)


@pytest.mark.parametrize("kind", CAUSAL)
@pytest.mark.parametrize("chunks", [[6, 5], [1] * 11, [4, 4, 3]], ids=["two chunks", "token by token", "whole blocks"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_chunked_equals_whole_with_padding(kind: str, chunks: list[int], side: str) -> None:
    network, x, keep = stack(kind), torch.randn(3, 11, 32), keeps([11, 8, 5], 11, side)
    cache, steps, end = KeyValueCache(block_tokens=4), [], 0
    with torch.no_grad():
        for part in x.split(chunks, dim=1):
            end += part.shape[1]
            steps.append(network(part, Flow(cache=cache, keep=keep[..., :end])))
        whole = network(x, Flow(keep=keep))
    seen = keep[:, 0]
    assert_close(torch.cat(steps, dim=1)[seen], whole[seen])


@every_path
def test_chunked_equals_whole_with_a_memory(path: str) -> None:
    network, x = perturbed(Stack(StackSpec(blocks=(CROSS,) * 2))), torch.randn(2, 9, 32)
    memory = EncoderOutput(torch.randn(2, 7, 24), keeps([7, 4], 7))
    cache = KeyValueCache(block_tokens=4)
    with torch.no_grad():
        steps = [run(network, part, path, cache=cache, memory=memory) for part in x.split([5, 1, 3], dim=1)]
        assert_close(torch.cat(steps, dim=1), run(network, x, memory=memory))


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────


@every_kind
@every_path
@both_modes
@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_equals_unpadded(kind: str, path: str, training: bool, side: str) -> None:
    network, lengths = stack(kind).train(training), [9, 6, 1]
    texts = [torch.randn(1, length, 32) for length in lengths]
    rubbish = 50 * torch.randn(3, 9, 32)
    keep = keeps(lengths, 9, side)
    for row, text in enumerate(texts):
        rubbish[row, keep[row, 0]] = text[0]
    out = run(network, rubbish, path, keep=keep)
    assert out.isfinite().all()
    for row, text in enumerate(texts):
        assert_close(out[row : row + 1, keep[row, 0]], run(network, text))


@every_kind
@every_path
def test_a_row_alone_equals_the_row_in_a_batch(kind: str, path: str) -> None:
    network, x = stack(kind), torch.randn(5, 7, 32)
    out = run(network, x, path)
    for row in range(5):
        assert_close(run(network, x[row : row + 1], path), out[row : row + 1])


@pytest.mark.parametrize("kind", STACKS)
@every_path
@few
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_packed_equals_one_text_at_a_time(kind: str, path: str, lengths: list[int]) -> None:
    network = stack(kind).double()
    texts = [torch.randn(1, length, 32, dtype=torch.float64) for length in lengths]
    packed = run(network, torch.cat(texts, dim=1), path, packing=Packing(tuple(lengths)))
    assert_close(packed, torch.cat([run(network, text) for text in texts], dim=1), 1e-9)


@pytest.mark.parametrize("kind", STACKS)
@every_path
@both_modes
def test_packed_gradients_equal_those_of_one_text_at_a_time(kind: str, path: str, training: bool) -> None:
    network, lengths = stack(kind).double().train(training), (4, 4, 1, 6)
    x, weights = torch.randn(2, 1, 15, 32, dtype=torch.float64)
    packed = gradients(network, lambda: (run(network, x, path, packing=Packing(lengths)) * weights).sum())

    def one_by_one() -> Tensor:
        outs = [run(network, text) for text in x.split(lengths, dim=1)]
        return (torch.cat(outs, dim=1) * weights).sum()

    assert_all_close(packed, gradients(network, one_by_one), 1e-9)


# ── paths ────────────────────────────────────────────────────────────────────────────────────────────────


@every_kind
@both_modes
@pytest.mark.parametrize("masked", ["nothing", "padding", "whole rows"])
def test_fused_equals_explicit_with_equal_gradients(kind: str, training: bool, masked: str) -> None:
    network = stack(kind).train(training)
    x, weights = torch.randn(3, 7, 32, requires_grad=True), torch.randn(3, 7, 32)
    keep = {"nothing": None, "padding": keeps([7, 3, 5], 7), "whole rows": keeps([7, 0, 4], 7)}[masked]
    results = []
    for path in PATHS:
        out = run(network, x, path, keep=keep)
        grads = gradients(network, lambda out=out: (out * weights).sum())
        assert x.grad is not None
        results.append({"out": out, "x": x.grad.clone(), **grads})
        x.grad = None
    assert all(value.isfinite().all() for value in results[0].values()), "no NaN, even where a row sees nothing"
    assert_all_close(results[0], results[1], 1e-4)


def test_looking_at_one_layer_leaves_the_others_on_the_fused_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    network, x = perturbed(Stack(StackSpec(blocks=(PRE,) * 5))), torch.randn(2, 6, 32)
    expected = {
        (): 5,
        ("*.q", "*.before", "*.z", "*.neurons"): 5,
        ("3.attn.probs",): 4,
        ("1.attn.scores", "3.attn.probs"): 3,
        ("*.probs",): 0,
    }
    for patterns, count in expected.items():
        with fused_calls(monkeypatch) as calls:
            network(x, recording(network, *patterns))
        assert len(calls) == count, patterns


def test_packed_texts_of_one_length_go_through_the_kernel_together(monkeypatch: pytest.MonkeyPatch) -> None:
    network = perturbed(Stack(StackSpec(blocks=(POST,))))
    with fused_calls(monkeypatch) as calls:
        run(network, torch.randn(1, 16, 32), packing=Packing((2, 2, 2, 5, 5)))
    assert calls == [3, 2]


@every_kind
def test_listening_to_everything_changes_nothing(kind: str) -> None:
    network, x = stack(kind), torch.randn(2, 7, 32)
    assert_close(network(x, recording(network, "*")), network(x, Flow()))


@every_kind
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes_flow_through_unchanged(kind: str, dtype: torch.dtype) -> None:
    network, x, keep = stack(kind), torch.randn(2, 7, 32), keeps([7, 4], 7)
    plain = run(network, x, keep=keep)
    network.to(dtype)
    for path in PATHS:
        out = run(network, x.to(dtype), path, keep=keep)
        assert out.dtype == dtype
        assert_close(out.float(), plain, 1e-4 if dtype == torch.float64 else 0.2)
    if dtype == torch.float64:
        assert_close(
            run(network, x.double(), "fused", keep=keep),
            run(network, x.double(), "explicit", keep=keep),
            1e-12,
        )


# ── order ────────────────────────────────────────────────────────────────────────────────────────────────


@every_path
@few
@given(order=st.permutations(range(7)))
def test_cl_23_without_positions_a_permutation_of_tokens_permutes_the_output(path: str, order: list[int]) -> None:
    network, x = stack("post-norm").double(), torch.randn(2, 7, 32, dtype=torch.float64)
    assert_close(run(network, x[:, order], path), run(network, x, path)[:, order], 1e-9)


@pytest.mark.parametrize("kind", ["rotary both ways", "bucketed", "windows both ways", "pre-norm causal"])
def test_cl_23_with_positions_it_does_not(kind: str) -> None:
    network, x, order = stack(kind), torch.randn(2, 7, 32), [6, 2, 0, 1, 5, 3, 4]
    difference = run(network, x[:, order]) - run(network, x)[:, order]
    assert difference.abs().max() > 1e-2


def test_cl_22_rotary_sees_differences_of_positions_alone() -> None:
    for kind in ("grouped, gated, rotary", "rotary in part", "rotary both ways"):
        network, x = stack(kind).double(), torch.randn(2, 7, 32, dtype=torch.float64)
        counted = run(network, x)
        positions = torch.arange(7)[None]
        assert_close(run(network, x, positions=positions), counted, 1e-12)
        assert_close(run(network, x, positions=positions + 1000), counted, 1e-9)
        assert (run(network, x, positions=2 * positions) - counted).abs().max() > 1e-3


def test_angles_are_computed_once_a_call_for_each_base(monkeypatch: pytest.MonkeyPatch) -> None:
    wide, narrow = turning(LLAMA, 8), turning(LLAMA, 8, theta=50.0)
    network = perturbed(Stack(StackSpec(blocks=(wide, narrow, LLAMA, wide, narrow))))
    x, calls = torch.randn(2, 7, 32), []
    forward = Rotary.forward
    monkeypatch.setattr(Rotary, "forward", lambda self, *args: calls.append(self.spec.theta) or forward(self, *args))
    out = network(x, Flow())
    assert sorted(calls) == [50.0, 10_000.0]
    by_itself = x
    for block in network:  # outside a stack a layer computes its own
        by_itself = block(by_itself, Flow())
    assert_close(out, by_itself, 1e-6)
    other = Stack(StackSpec(blocks=(wide,) * 5))
    assert other.state_dict().keys() == network.state_dict().keys(), "positions have no parameters"
    other.load_state_dict(network.state_dict())
    assert (other.eval()(x, Flow()) - out).abs().max() > 1e-3, "each layer rotates by its own base"


# ── shared parameters ────────────────────────────────────────────────────────────────────────────────────


def test_blocks_that_share_parameters_are_the_same_block_in_turn() -> None:
    shared = Stack(StackSpec(blocks=(PRE,) * 4, shared=(0, 1, 0, 1))).eval()
    own = Stack(StackSpec(blocks=(PRE,) * 2)).eval()
    assert sum(p.numel() for p in shared.parameters()) == sum(p.numel() for p in own.parameters())
    own.load_state_dict({name: x for name, x in shared.state_dict().items() if name[0] in "01"})
    x = torch.randn(2, 5, 32)
    assert_close(shared(x, Flow()), own(own(x, Flow()), Flow()), 1e-6)
    flow = recording(shared, "*.attn.probs")
    shared(x, flow)
    assert flow.tape is not None
    assert [name[0] for name in flow.tape.taps] == ["0", "1", "2", "3"], "each has taps of its own"


@pytest.mark.parametrize("shared", [(0, 0), (0, 0, 1, 0), (0, 0, 0, 3, 3)])
def test_blocks_share_with_one_that_has_parameters_of_its_own(shared: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"StackSpec\.shared .* each of the 4 blocks"):
        StackSpec(blocks=(PRE,) * 4, shared=shared)


# ── dropout ──────────────────────────────────────────────────────────────────────────────────────────────


@every_kind
def test_cl_24_no_dropout_in_eval_mode_and_some_in_train_mode(kind: str) -> None:
    network, dropping = stack(kind), Stack(with_dropout(STACKS[kind], p=0.1))
    dropping.load_state_dict(network.state_dict())
    x = torch.randn(2, 7, 32)
    assert torch.equal(dropping.eval()(x, Flow()), network(x, Flow()))
    dropping.train()
    assert not torch.equal(dropping(x, Flow()), dropping(x, Flow()))
    assert_close(network.train()(x, Flow()), network.eval()(x, Flow()), 1e-6)  # p = 0: both modes are one


def test_windows_of_the_whole_text_hide_nothing() -> None:
    wide, free = Stack(StackSpec(blocks=(windowed(PRE, 7),))), Stack(StackSpec(blocks=(PRE,)))
    wide.load_state_dict(free.state_dict())
    x = torch.randn(2, 7, 32)
    assert_close(wide(x, Flow()), free(x, Flow()), 1e-6)
