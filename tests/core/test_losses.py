"""Cross-entropy losses: sums equal torch's, and chunked logits give the same gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.core import Flow, LayerNormSpec
from glassformer.core.classification_heads import SpanClassifier, TokenClassifier
from glassformer.core.dot_product import soft_cap
from glassformer.core.language_heads import CausalLMHead, MaskedLMHead, TransformedCausalLMHead
from glassformer.core.losses import cross_entropy, linear_cross_entropy, summed_cross_entropy
from glassformer.errors import ConfigError, DataError
from glassformer.models._seq2seq import BiasedSeq2SeqLMHead
from tests.core.small import assert_close, gradients, perturbed

N, D, V = 23, 16, 41


def random_inputs(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(3)
    shapes = ((N, D), (V, D), (V,))
    x, weight, bias = (torch.randn(shape, generator=draw, dtype=dtype).requires_grad_() for shape in shapes)
    return x, weight, bias, torch.randint(0, V, (N,), generator=draw)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_sums_are_torchs(smoothing: float) -> None:
    logits = torch.randn(4, 6, V)
    labels = torch.randint(0, V, (4, 6)).masked_fill(torch.rand(4, 6) < 0.3, -100)
    labels[0, 0] = 1
    ours = summed_cross_entropy(logits, labels, smoothing) / int((labels != -100).sum())
    theirs = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=smoothing)
    assert_close(ours, theirs, 1e-6)
    if not smoothing:
        assert_close(cross_entropy(logits, labels), theirs, 1e-6)
    assert cross_entropy(logits, torch.full((4, 6), -100)).isnan()


@pytest.mark.parametrize("cap", [None, 1.5])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("piece", [1, 5 * V, 10**9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_in_pieces_it_is_the_same_loss_with_the_same_gradients(
    dtype: torch.dtype, piece: int, smoothing: float, cap: float | None
) -> None:
    x, weight, bias, labels = random_inputs(dtype)
    logits = x @ weight.T + bias
    capped = logits if cap is None else cap * torch.tanh(logits / cap)
    whole = summed_cross_entropy(capped, labels, smoothing) / 7
    ours = linear_cross_entropy(x, weight, bias, labels, smoothing=smoothing, logit_cap=cap, chunk_logits=piece) / 7
    within = 1e-6 if dtype == torch.float32 else 1e-13
    assert abs(float(ours.detach() - whole.detach())) <= within * float(whole.detach())
    for actual, expected in zip(
        torch.autograd.grad(ours, (x, weight, bias)),
        torch.autograd.grad(whole, (x, weight, bias)),
        strict=True,
    ):
        assert float((actual - expected).abs().max()) <= within * float(expected.abs().max())


def test_what_asks_for_no_gradient_gets_none() -> None:
    x, weight, bias, labels = random_inputs()
    linear_cross_entropy(x, weight.detach(), None, labels).backward()
    assert x.grad is not None
    with torch.no_grad():
        assert not linear_cross_entropy(x, weight, bias, labels).requires_grad
    none = linear_cross_entropy(x[:0], weight, bias, labels[:0])
    none.backward()
    assert none.item() == 0 and weight.grad is not None and not weight.grad.any()


@pytest.mark.parametrize("cap", [None, 1.5])
def test_under_autocast_it_is_a_narrow_linear_layer_and_a_wide_loss(cap: float | None) -> None:
    x, weight, bias, labels = random_inputs()
    with torch.autocast("cpu", torch.bfloat16):
        ours = linear_cross_entropy(x, weight, bias, labels, logit_cap=cap, chunk_logits=5 * V)
        logits = F.linear(x, weight, bias)
        whole = summed_cross_entropy(logits if cap is None else soft_cap(logits.float(), cap), labels)
    assert ours.dtype == torch.float32
    assert_close(ours, whole, 1e-6)
    grads = [torch.autograd.grad(loss, (x, weight, bias)) for loss in (ours, whole)]
    for actual, expected in zip(*grads, strict=True):
        assert actual.dtype == torch.float32
        assert float((actual - expected).abs().max()) <= 2e-2 * float(expected.abs().max())


def test_a_second_derivative_and_a_second_backward_pass_are_refused() -> None:
    x, weight, bias, labels = random_inputs()
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(linear_cross_entropy(x, weight, bias, labels), x, create_graph=True)
    loss = linear_cross_entropy(x, weight, bias, labels)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="for one backward pass"):
        loss.backward()


class Largest(TorchDispatchMode):
    """The most numbers that any tensor held."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.numbers = max(self.numbers, result.numel())
        return result


def test_a_soft_cap_is_a_line_near_zero_and_never_passed() -> None:
    x = torch.tensor([-1e6, -3.0, 0.0, 1e-4, 3.0, 1e6], dtype=torch.float64)
    capped = soft_cap(x, 2.0)
    assert capped[2] == 0 and capped[0] == -2 and capped[-1] == 2
    assert_close(capped[3], x[3], 1e-9)
    assert_close(capped[4], torch.tensor(2 * 0.905148253644866, dtype=torch.float64), 1e-12)  # tanh 1.5


@pytest.mark.parametrize("cap", [None, 1.5])
def test_logits_are_never_whole(cap: float | None) -> None:
    x, weight, labels = torch.randn(600, 8, requires_grad=True), torch.randn(500, 8), torch.arange(600) % 500
    with Largest() as chunked:
        linear_cross_entropy(x, weight, None, labels, logit_cap=cap, chunk_logits=20_000).backward()
    with Largest() as whole:
        summed_cross_entropy(F.linear(x, weight), labels).backward()
    assert chunked.numbers <= 20_000 < 600 * 500 <= whole.numbers


# ── heads over a vocabulary ──────────────────────────────────────────────────────────────────────────────

HEADS = {
    "language model": lambda: CausalLMHead(D, V),
    "with a bias": lambda: CausalLMHead(D, V, bias=True),
    "masked": lambda: MaskedLMHead(D, V, "gelu", LayerNormSpec(width=D)),
    "transformed": lambda: TransformedCausalLMHead(D, V, "gelu", LayerNormSpec(width=D)),
    "scaled": lambda: CausalLMHead(D, V, logit_scale=0.25),
    "capped": lambda: CausalLMHead(D, V, logit_cap=1.5),
    "with all of them": lambda: CausalLMHead(D, V, bias=True, logit_cap=1.5, logit_scale=3.0),
    "with a constant": lambda: BiasedSeq2SeqLMHead(D, V),
}


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("kind", HEADS)
def test_a_head_learns_from_its_states_what_its_logits_say(kind: str, smoothing: float) -> None:
    head = perturbed(HEADS[kind]())
    x = torch.randn(3, 7, D, requires_grad=True)
    labels = torch.randint(0, V, (3, 7)).masked_fill(torch.rand(3, 7) < 0.5, -100)
    labels[0, 3] = 2

    def from_states() -> Tensor:
        return head.loss_sums(x, Flow(), labels, smoothing=smoothing)["loss"]

    def from_logits() -> Tensor:
        return head.output_loss_sums(head(x, Flow()), labels, smoothing=smoothing)["loss"]

    assert_close(from_states(), from_logits(), 1e-5)
    actual, expected = gradients(head, from_states), gradients(head, from_logits)
    assert set(actual) == set(expected)
    for name in expected:
        assert_close(actual[name], expected[name], 1e-5)


def test_a_tied_matrix_is_trained_from_both_its_ends() -> None:
    table, head = nn.Embedding(V, D), CausalLMHead(D, V)
    head.decoder.weight = table.weight
    ids = torch.randint(0, V, (2, 9))
    grads = []
    for learn in (
        lambda x: head.loss_sums(x, Flow(), ids)["loss"],
        lambda x: head.output_loss_sums(head(x, Flow()), ids)["loss"],
    ):
        table.zero_grad()
        learn(table(ids)).backward()
        assert table.weight.grad is not None
        grads.append(table.weight.grad.clone())
    assert_close(grads[0], grads[1], 1e-5)


def test_logits_are_made_where_labels_count_alone() -> None:
    head = MaskedLMHead(D, V, "gelu", LayerNormSpec(width=D))
    x, labels = torch.randn(2, 50, D), torch.full((2, 50), -100)
    labels[:, 7] = 3
    with Largest() as largest, torch.no_grad():
        head.loss_sums(x, Flow(), labels)
    assert largest.numbers <= V * D < 2 * 50 * D, "nor are the others transformed"
    assert head.label_counts(labels) == {"loss": 2}
    assert CausalLMHead(D, V).label_counts(labels) == {"loss": 2}
    assert CausalLMHead(D, V).label_counts(torch.zeros(2, 5, dtype=torch.int64)) == {"loss": 8}


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────


def test_what_cannot_be_smoothed_or_judged_is_refused() -> None:
    x = torch.randn(2, 7, D)
    with pytest.raises(ConfigError, match=r"smoothing is 1\.5"):
        TokenClassifier(D, 3).loss_sums(x, Flow(), torch.zeros(2, 7, dtype=torch.int64), smoothing=1.5)
    span, both = (
        SpanClassifier(D),
        {"start_positions": torch.tensor([1, 2]), "end_positions": torch.tensor([3, 9])},
    )
    with pytest.raises(ConfigError, match="a span is two positions"):
        span.loss_sums(x, Flow(), both, smoothing=0.1)
    with pytest.raises(DataError, match=r"\[3, 9\], beyond its text's end; a text without one has -100"):
        span.loss_sums(x, Flow(), both)
    with pytest.raises(DataError, match="2 positions for 1 texts"):
        span.loss_sums(x[:1], Flow(), both)
    with pytest.raises(DataError, match=r"shape \[5\]; they must be \[B, T\]"):
        CausalLMHead(D, V).label_counts(torch.zeros(5, dtype=torch.int64))
    for head in (CausalLMHead(D, V), MaskedLMHead(D, V, "gelu", LayerNormSpec(width=D))):
        for labels, says in (
            (torch.full((2, 7), V), f"allowed: 0 to {V - 1}"),
            (torch.zeros(2, 6, dtype=torch.int64), r"\[2, 6\].*\[2, 7\]"),
            (torch.zeros(2, 7), "labels.long"),
        ):
            with pytest.raises(DataError, match=says):
                head.loss_sums(x, Flow(), labels)
