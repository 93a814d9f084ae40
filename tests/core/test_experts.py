"""Mixture of experts: routing, weights, and that each expert runs once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from glassformer.core import (
    Experts,
    ExpertsSpec,
    FeedForward,
    FeedForwardSpec,
    Flow,
    GatedFeedForward,
    GatedFeedForwardSpec,
    Stack,
    Tape,
)
from glassformer.engine.prepare import PackedLinear, prepare, unprepare
from tests.core.small import STACKS, assert_close, examples, gradients, perturbed, recorded, recording

GATED = GatedFeedForwardSpec(width=32, hidden=48)
SPEC = ExpertsSpec(expert=GATED, experts=4, experts_per_token=2)


def written_out(experts: Experts, x: Tensor) -> Tensor:
    """The paper's sum, token by token and expert by expert."""
    out = torch.zeros_like(x)
    for b, t in [(b, t) for b in range(x.shape[0]) for t in range(x.shape[1])]:
        scores = experts.router.scores.weight @ x[b, t]
        best = scores.topk(experts.spec.experts_per_token)
        for weight, which in zip(best.values.softmax(-1), best.indices.tolist(), strict=True):
            out[b, t] += weight * experts.experts[which](x[b, t][None, None], Flow())[0, 0]
    return out


@given(
    X=st.integers(1, 9),
    k=st.integers(1, 9),
    B=st.integers(1, 3),
    T=st.integers(1, 7),
    gated=st.booleans(),
    seed=st.integers(0, 99),
)
@examples(40)
def test_it_is_the_weighed_sum_of_the_chosen(X: int, k: int, B: int, T: int, gated: bool, seed: int) -> None:
    expert = GATED if gated else FeedForwardSpec(width=32, hidden=20)
    experts = perturbed(Experts(ExpertsSpec(expert=expert, experts=X, experts_per_token=min(k, X))), seed)
    x = torch.randn(B, T, 32, generator=torch.Generator().manual_seed(seed))
    flow = recording(experts, "*")
    assert_close(experts(x, flow), written_out(experts, x))
    probs, chosen = recorded(flow, "router.probs"), recorded(flow, "router.chosen")
    assert probs.shape == (B, T, X) and chosen.shape == (B, T, min(k, X))
    assert_close(probs.sum(-1), torch.ones(B, T))
    assert (chosen.sort(-1).values.diff(dim=-1) > 0).all(), "no expert twice"
    assert torch.equal(probs.gather(-1, chosen), probs.sort(-1, descending=True).values[..., : min(k, X)])


@given(k=st.integers(1, 6), seed=st.integers(0, 99), scale=st.sampled_from([0.0, 1.0, 100.0]))
@examples(20)
def test_the_weights_of_a_token_sum_to_1(k: int, seed: int, scale: float) -> None:
    experts = perturbed(Experts(replace(SPEC, experts=6, experts_per_token=k)), seed)
    x = scale * torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(seed))
    _, weights = experts.router(x, Flow())
    assert (weights >= 0).all()
    assert_close(weights.sum(-1), torch.ones(2, 5), 1e-6)


@given(gated=st.booleans(), B=st.integers(1, 3), T=st.integers(1, 9), seed=st.integers(0, 99))
@examples(20)
def test_one_expert_equals_plain_feed_forward(gated: bool, B: int, T: int, seed: int) -> None:
    spec = GATED if gated else FeedForwardSpec(width=32, hidden=20)
    plain = perturbed(GatedFeedForward(spec) if isinstance(spec, GatedFeedForwardSpec) else FeedForward(spec))
    experts = perturbed(Experts(ExpertsSpec(expert=spec, experts=1, experts_per_token=1)), seed)
    experts.experts[0].load_state_dict(plain.state_dict())
    x = torch.randn(B, T, 32, generator=torch.Generator().manual_seed(seed))
    assert_close(experts(x, Flow()), plain(x, Flow()), 1e-6)


def test_equal_experts_equal_one() -> None:
    """Whoever is chosen says the same, and the weights sum to 1."""
    experts, x = perturbed(Experts(SPEC)), torch.randn(2, 7, 32)
    for expert in experts.experts:
        expert.load_state_dict(experts.experts[0].state_dict())
    assert_close(experts(x, Flow()), experts.experts[0](x, Flow()))


def test_each_expert_runs_once_on_the_tokens_that_chose_it() -> None:
    experts, x = perturbed(Experts(SPEC)), torch.randn(2, 7, 32)
    seen: dict[int, list[Tensor]] = {}
    for number, expert in enumerate(experts.experts):
        expert.register_forward_pre_hook(lambda _, args, n=number: seen.setdefault(n, []).append(args[0]))
    flow = recording(experts, "router.chosen")
    experts(x, flow)
    chosen = recorded(flow, "router.chosen")
    for number in range(4):
        (tokens,) = seen[number]
        assert torch.equal(tokens[0], x[(chosen == number).any(-1)])
    assert sum(tokens.shape[1] for (tokens,) in seen.values()) == 2 * 7 * 2


def test_a_token_does_not_care_who_else_is_there() -> None:
    experts, x = perturbed(Experts(SPEC)).double(), torch.randn(3, 7, 32, dtype=torch.float64)
    whole = experts(x, Flow())
    assert_close(torch.cat([experts(row[None], Flow()) for row in x]), whole, 1e-12)
    assert_close(torch.cat([experts(x[:, t : t + 1], Flow()) for t in range(7)], dim=1), whole, 1e-12)
    order = torch.randperm(7)
    assert_close(experts(x[:, order], Flow()), whole[:, order], 1e-12)


def test_gradients_equal_those_of_the_sum_written_out() -> None:
    experts, x = perturbed(Experts(SPEC)), torch.randn(2, 3, 32)
    goal = torch.randn(2, 3, 32)
    ours = gradients(experts, lambda: (experts(x, Flow()) * goal).sum())
    theirs = gradients(experts, lambda: (written_out(experts, x) * goal).sum())
    assert set(ours) == {name for name, _ in experts.named_parameters()}
    for name in ours:
        assert_close(ours[name], theirs.get(name, torch.zeros(())).expand_as(ours[name]))
    assert ours["router.scores.weight"].abs().max() > 0.1


def test_an_expert_that_nobody_chose_has_taps_and_gradients_of_0() -> None:
    experts, x = perturbed(Experts(replace(SPEC, experts=8, experts_per_token=1))), torch.randn(1, 1, 32)
    flow = recording(experts, "*")
    grads = gradients(experts, lambda: experts(x, flow).sum())
    (expert_index,) = recorded(flow, "router.chosen").flatten().tolist()
    for number in range(8):
        assert recorded(flow, f"experts.{number}.neurons").shape == (1, int(number == expert_index), 48)
        assert (grads[f"experts.{number}.down.weight"].abs().max() > 0) == (number == expert_index)


def test_where_tokens_go_can_be_read_and_replaced() -> None:
    experts, x = perturbed(Experts(replace(SPEC, experts_per_token=1))), torch.randn(2, 5, 32)
    third = Flow(tape=Tape(edit={"router.chosen": torch.tensor(2)}).attach(experts))
    assert_close(experts(x, third), experts.experts[2](x, Flow()), 1e-6)
    evenly = torch.tensor([0.0, 0.0, 0.7, 0.3])
    first = Flow(tape=Tape(edit={"router.probs": evenly}).attach(experts))
    assert_close(experts(x, first), experts.experts[2](x, Flow()), 1e-6)
    assert experts.taps()[:3] == ["out", "router.probs", "router.chosen"]


def test_narrow_numbers_choose_in_fp32() -> None:
    experts, x = perturbed(Experts(SPEC)).bfloat16(), torch.randn(2, 5, 32).bfloat16()
    flow = recording(experts, "*")
    out = experts(x, flow)
    assert out.dtype == torch.bfloat16 and recorded(flow, "router.probs").dtype == torch.float32
    exact = experts.double()(x.double(), Flow())
    assert (out.double() - exact).abs().mean() < 0.02 * exact.abs().mean()


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.filterwarnings("ignore:int8 products", "ignore:bf16 products")
@torch.inference_mode()
def test_prepared_experts_choose_as_plain_ones_do(precision: str) -> None:
    """Their own products are narrow; the router's are not, since a rounded score chooses other experts."""
    block = replace(STACKS["grouped, gated, rotary"].blocks[0], feed_forward=replace(SPEC, experts=16))
    network = perturbed(Stack(replace(STACKS["grouped, gated, rotary"], blocks=(block,))))
    ffn, x = network[0].ffn, torch.randn(1, 3, 32)
    plain = recording(network, "*.router.chosen", "*.ffn.out")
    ffn(x, plain)
    prepare(network, precision)
    assert any(isinstance(module, PackedLinear) for module in ffn.modules())
    assert not isinstance(ffn.router.scores, PackedLinear)
    narrow = recording(network, "*.router.chosen", "*.ffn.out")
    ffn(x, narrow)
    assert torch.equal(recorded(plain, "0.ffn.router.chosen"), recorded(narrow, "0.ffn.router.chosen"))
    out = recorded(plain, "0.ffn.out")
    assert (recorded(narrow, "0.ffn.out") - out).abs().mean() < 0.03 * out.abs().mean()
    unprepare(network)
