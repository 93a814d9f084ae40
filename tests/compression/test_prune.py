"""Pruning: exact numbers of zeros where scores are lowest, patterns, activations without padding, and the schedule."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from glassformer import Model
from glassformer.compression.prune import (
    CubicSchedule,
    InputNorms,
    SparsityReport,
    apply_masks,
    magnitude_scores,
    n_of_m_masks,
    prunable_weights,
    sparsity_masks,
    sparsity_of,
    wanda_scores,
)
from glassformer.core.flow import Batch, Flow
from glassformer.errors import ConfigError, WeightsError
from glassformer.models import FAMILIES


def tiny(family: str) -> Model:
    torch.manual_seed(0)
    return Model.from_config(FAMILIES[family].tiny).eval()


def few_values(seed: int, *shape: int) -> Tensor:
    """Numbers of which many are equal, and some are zero."""
    return torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(seed)).float()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 9),
    width=st.integers(1, 9),
    sparsity=st.floats(0, 0.999),
    scope=st.sampled_from(["global", "layer", "row"]),
)
def test_exactly_that_share_goes_and_none_of_it_is_larger_than_what_stays(
    seed: int, rows: int, width: int, sparsity: float, scope: str
) -> None:
    weights = {"a": few_values(seed, rows, width), "b": few_values(seed + 1, width, rows)}
    masks = sparsity_masks(magnitude_scores(weights), sparsity, scope)  # type: ignore[arg-type]
    groups = {
        "global": [list(weights)],
        "layer": [["a"], ["b"]],
        "row": [["a"], ["b"]],
    }[scope]
    for names in groups:
        scores = torch.cat([weights[name].abs().flatten() for name in names])
        mask = torch.cat([masks[name].flatten() for name in names])
        lines = [(scores, mask)]
        if scope == "row":
            lines = list(zip(weights[names[0]].abs(), masks[names[0]], strict=True))
        for score, stays in lines:
            assert int((~stays).sum()) == round(sparsity * len(score))
            if stays.any() and not stays.all():
                assert score[~stays].max() <= score[stays].min()


def test_a_half_of_all_is_no_half_of_each() -> None:
    weights = {"small": torch.tensor([[1.0, 2.0]]), "large": torch.tensor([[3.0, 4.0]])}
    scores = magnitude_scores(weights)
    assert not sparsity_masks(scores, 0.5)["small"].any()
    assert sparsity_masks(scores, 0.5, "layer")["small"].tolist() == [[False, True]]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 3), groups=st.integers(1, 5), rows=st.integers(1, 4))
def test_n_of_every_m_neighbours_stay_those_with_the_highest_scores(seed: int, n: int, groups: int, rows: int) -> None:
    scores = few_values(seed, rows, 4 * groups).abs()
    mask = n_of_m_masks({"w": scores}, n, 4)["w"].reshape(-1, 4)
    assert mask.sum(dim=1).tolist() == [n] * (rows * groups)
    for score, stays in zip(scores.reshape(-1, 4), mask, strict=True):
        assert score[~stays].max() <= score[stays].min()


def test_two_of_four() -> None:
    mask = n_of_m_masks(magnitude_scores({"w": torch.tensor([[0.1, -5, 3, 0.2, 1, 1, 1, 2]])}), 2, 4)["w"]
    assert mask.int().tolist() == [[0, 1, 1, 0, 1, 0, 0, 1]]


def test_a_small_weight_of_a_large_input_stays() -> None:
    weights, norms = {"w": torch.tensor([[1.0, -2.0], [3.0, 1.0]])}, {"w": torch.tensor([10.0, 1.0])}
    assert wanda_scores(weights, norms)["w"].tolist() == [[10, 2], [30, 1]]
    assert sparsity_masks(wanda_scores(weights, norms), 0.5, "row")["w"].tolist() == [[True, False]] * 2


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "mixtral", "albert"])
def test_a_pruned_network_has_exactly_that_share_of_zeros_and_runs(family: str) -> None:
    model = tiny(family)
    weights = prunable_weights(model.network)
    assert all(".attn." in name or ".ffn." in name for name in weights)
    assert not any("router" in name for name in weights)
    apply_masks(weights, sparsity_masks(magnitude_scores(weights), 0.9))
    report = sparsity_of(prunable_weights(model.network))
    total = sum(weight.numel() for weight in weights.values())
    assert sum(report.zeros.values()) == round(0.9 * total)
    assert "90.0%" in report.caption
    assert SparsityReport.from_dict(report.to_dict()) == report
    output = model.network(Batch(input_ids=torch.arange(5, 15)[None]), Flow())
    assert all(x.isfinite().all() for x in (output.logits, output.last_hidden_state) if x is not None)


def test_norms_of_inputs_leave_padding_out_and_sum_over_calls() -> None:
    network = tiny("bert").network
    ids = torch.arange(5, 11)[None]
    padded = torch.cat([ids, torch.zeros(1, 4, dtype=torch.long)], dim=1)
    keep = (torch.arange(10) < 6)[None, None]
    with torch.no_grad(), InputNorms(network) as alone:
        network(Batch(input_ids=ids), Flow())
    with torch.no_grad(), InputNorms(network) as with_padding:
        network(Batch(input_ids=padded), Flow(keep=keep))
    with torch.no_grad(), InputNorms(network) as twice:
        network(Batch(input_ids=ids), Flow())
        network(Batch(input_ids=ids), Flow())
    assert set(alone.values) == set(prunable_weights(network))
    for name, norm in alone.values.items():
        torch.testing.assert_close(with_padding.values[name], norm)
        torch.testing.assert_close(twice.values[name], norm * 2**0.5)
    # The first layer reads the embeddings: its norms by hand.
    x = network.embed(ids, Flow(), None)[0]
    torch.testing.assert_close(alone.values["blocks.0.attn.qkv.weight"], x.norm(dim=0).detach())
    assert not any(module._forward_pre_hooks for module in network.modules())


def test_the_cubic_schedule_prunes_fast_at_first() -> None:
    schedule = CubicSchedule(final=0.9, begin=10, end=110)
    assert [schedule(step) for step in (0, 9, 10, 110, 500)] == pytest.approx([0, 0, 0, 0.9, 0.9])
    assert schedule(60) == pytest.approx(0.9 - 0.9 / 8)
    steps = [schedule(step) for step in range(10, 111)]
    gains = [after - before for before, after in pairwise(steps)]
    assert all(gain > 0 for gain in gains)
    assert gains == sorted(gains, reverse=True)


@pytest.mark.parametrize("sparsity", [1.0, -0.1, float("nan")])
def test_all_weights_cannot_go(sparsity: float) -> None:
    with pytest.raises(ConfigError, match=r"sparsity is .*not including, 1"):
        sparsity_masks({"w": torch.ones(2, 2)}, sparsity)


@pytest.mark.parametrize(("n", "m", "width"), [(4, 4, 8), (0, 4, 8), (2, 4, 6)])
def test_a_pattern_that_does_not_fit(n: int, m: int, width: int) -> None:
    with pytest.raises(ConfigError, match="at least 1" if width == 8 else "no multiple of 4"):
        n_of_m_masks({"w": torch.ones(2, width)}, n, m)


def test_other_mistakes() -> None:
    with pytest.raises(WeightsError, match="NaN"):
        magnitude_scores({"w": torch.tensor([[1.0, float("nan")]])})
    with pytest.raises(ConfigError, match="ends at step 5"):
        CubicSchedule(final=0.9, begin=5, end=5)
    with pytest.raises(ConfigError, match="calibration rows"):
        _ = InputNorms(tiny("bert").network).values
