"""Losses of knowledge distillation, each against a formula that is written out, and against one of plain torch."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.compression.distil import (
    Distillation,
    attention_divergence,
    cosine_distance,
    even_layers,
    matching_states,
    reverse_soft_targets,
    soft_targets,
    soft_yes_or_no,
    state_distance,
    top_soft_targets,
)
from glassformer.errors import ConfigError


def logits(seed: int, *shape: int) -> Tensor:
    return 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("T", [1.0, 2.0, 7.0])
def test_soft_targets_are_the_divergence_times_the_squared_temperature(T: float) -> None:
    student, teacher = logits(0, 5, 4), logits(1, 5, 4)
    by_hand = 0.0
    for z, y in zip(student.tolist(), teacher.tolist(), strict=True):
        q = [math.exp(x / T) / sum(math.exp(v / T) for v in z) for x in z]
        p = [math.exp(x / T) / sum(math.exp(v / T) for v in y) for x in y]
        by_hand += T**2 * sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    assert float(soft_targets(student, teacher, T)) == pytest.approx(by_hand, rel=1e-12)
    plain = F.kl_div(F.log_softmax(student / T, -1), F.softmax(teacher / T, -1), reduction="sum") * T**2
    torch.testing.assert_close(soft_targets(student, teacher, T), plain, rtol=1e-12, atol=0)
    assert float(soft_targets(teacher, teacher, T)) == pytest.approx(0, abs=1e-12)


def test_the_scale_of_the_gradient_does_not_depend_on_the_temperature() -> None:
    """For T far above the logits it is (z_s - z_t) / C, centred; without T² it would be a hundredth at T = 10 · T."""
    teacher = logits(1, 8, 6)

    def gradient(T: float) -> Tensor:
        student = logits(0, 8, 6).requires_grad_()
        soft_targets(student, teacher, T).backward()  # type: ignore[no-untyped-call]
        assert student.grad is not None
        return student.grad

    difference = logits(0, 8, 6) - teacher
    limit = (difference - difference.mean(-1, keepdim=True)) / 6
    torch.testing.assert_close(gradient(1e4), limit, rtol=1e-2, atol=1e-3)
    norms = [float(gradient(T).norm()) for T in (1e3, 1e4, 1e5)]
    assert norms == pytest.approx([float(limit.norm())] * 3, rel=1e-2)
    assert 0.2 < float(gradient(1.0).norm()) / norms[0] < 5


def test_the_largest_logits_are_the_whole_where_they_are_all() -> None:
    student, teacher = logits(0, 5, 9), logits(1, 5, 9)
    values, ids = teacher.topk(9, -1)
    torch.testing.assert_close(
        top_soft_targets(student, ids, values, 2.0), soft_targets(student, teacher, 2.0), rtol=1e-12, atol=0
    )
    few, places = teacher.topk(3, -1)
    p = F.softmax(few / 2, -1)
    expected = 4 * (p * (p.log() - F.log_softmax(student / 2, -1).gather(-1, places))).sum()
    torch.testing.assert_close(top_soft_targets(student, places, few, 2.0), expected, rtol=1e-12, atol=0)


def test_reverse_divergence_and_that_of_several_labels() -> None:
    student, teacher = logits(0, 5, 4), logits(1, 5, 4)
    torch.testing.assert_close(reverse_soft_targets(student, teacher, 3.0), soft_targets(teacher, student, 3.0))
    p, q = (teacher / 2).sigmoid(), (student / 2).sigmoid()
    expected = 4 * (p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()).sum()
    torch.testing.assert_close(soft_yes_or_no(student, teacher, 2.0), expected)
    assert float(soft_yes_or_no(teacher, teacher, 2.0)) == pytest.approx(0, abs=1e-12)
    far = torch.tensor([[1000.0]])
    assert torch.isfinite(soft_yes_or_no(far, -far, 1.0))


def test_states_and_attention() -> None:
    a, b = logits(0, 6, 8), logits(1, 6, 8)
    assert float(state_distance(a, b)) == pytest.approx(float(F.mse_loss(a, b)) * 6)
    assert float(cosine_distance(a, b)) == pytest.approx(float(F.cosine_embedding_loss(a, b, torch.ones(6))) * 6)
    own, theirs = (F.softmax(logits(i, 2, 3, 5, 5), -1) for i in (0, 1))
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool()
    each = (theirs * (theirs / own).log()).sum(-1).mean(1)
    torch.testing.assert_close(attention_divergence(own, theirs, real), each[real].sum())
    # of other numbers of heads the means are compared; a zero of masked keys counts for nothing
    one = own.mean(1, keepdim=True)
    assert float(attention_divergence(own, one, real)) == pytest.approx(0, abs=1e-9)
    masked = F.softmax(torch.tensor([[[[0.0, -math.inf]]]]), -1)
    assert float(attention_divergence(masked, masked, torch.ones(1, 1).bool())) == 0


def test_layers_of_the_student() -> None:
    assert [even_layers(n, 6) for n in (1, 2, 3, 6)] == [[0], [0, 5], [0, 2, 5], [0, 1, 2, 3, 4, 5]]
    assert matching_states(3, 6) == [0, 2, 4, 6] and matching_states(2, 2) == [0, 1, 2]
    with pytest.raises(ConfigError, match="layers is 7, and the model has 6"):
        even_layers(7, 6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 1.5}, "alpha is 1.5; it must be a number from 0 to 1"),
        ({"temperature": 0.0}, "temperature is 0.0; it must be a number above 0"),
        ({"top_k": 1}, "one logit alone has the probability 1"),
        ({"top_k": 8, "divergence": "reverse"}, "reverse, which needs all logits of the teacher"),
        ({"divergence": "backward"}, "divergence is 'backward'; allowed: forward, reverse"),
    ],
)
def test_options_that_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Distillation(teacher="large", **options)  # type: ignore[arg-type]
