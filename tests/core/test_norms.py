"""Norms against torch and against their formula."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.core import LayerNorm, LayerNormSpec, RMSNorm, RMSNormSpec
from glassformer.core.norms import HeadNorms, make_norm
from tests.core.small import assert_close, perturbed

X = 3.0 * torch.randn(2, 5, 48, generator=torch.Generator().manual_seed(3)) + 1.0


@pytest.mark.parametrize("eps", [1e-5, 1e-12])
def test_cl_12_layer_norm_equals_torch(eps: float) -> None:
    ours, theirs = perturbed(LayerNorm(LayerNormSpec(width=48, eps=eps))), nn.LayerNorm(48, eps=eps)
    theirs.load_state_dict(ours.state_dict())
    assert_close(ours(X), theirs(X), 1e-6)


def test_cl_12_the_variance_is_biased_and_eps_inside_the_root() -> None:
    norm = perturbed(LayerNorm(LayerNormSpec(width=48, eps=0.5)))  # an eps that shows where it is added
    centred = X - X.mean(-1, keepdim=True)
    expected = centred / (centred.square().mean(-1, keepdim=True) + 0.5).sqrt() * norm.weight + norm.bias
    assert_close(norm(X), expected, 1e-6)


def test_layer_norm_without_a_shift() -> None:
    norm = LayerNorm(LayerNormSpec(width=48, bias=False))
    assert [name for name, _ in norm.named_parameters()] == ["weight"]
    assert_close(norm(X), nn.functional.layer_norm(X, (48,)), 1e-6)


def test_each_head_is_normed_by_weights_of_its_own() -> None:
    norms = perturbed(HeadNorms(LayerNormSpec(width=48, eps=0.5, bias=False), heads=3))
    x = torch.stack([X, 2 * X, X - 1], dim=1)  # [B, N, T, E]
    for head, norm in enumerate(norms):
        assert_close(norms(x)[:, head], norm(x[:, head]), 1e-6)


@pytest.mark.parametrize("eps", [1e-5, 1e-6, 0.5])
def test_cl_12_rms_norm_equals_torch_and_its_formula(eps: float) -> None:
    ours, theirs = perturbed(RMSNorm(RMSNormSpec(width=48, eps=eps))), nn.RMSNorm(48, eps=eps)
    theirs.load_state_dict(ours.state_dict())
    assert_close(ours(X), theirs(X), 1e-6)
    assert_close(ours(X), X / (X.square().mean(-1, keepdim=True) + eps).sqrt() * ours.weight, 1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_cl_12_rms_norm_equals_the_reference_in_each_dtype(dtype: torch.dtype) -> None:
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    ours, theirs = perturbed(RMSNorm(RMSNormSpec(width=48))).to(dtype), LlamaRMSNorm(48).to(dtype)
    theirs.load_state_dict(ours.state_dict())
    assert torch.equal(ours(X.to(dtype)), theirs(X.to(dtype)))


def test_rms_norm_of_large_half_numbers_does_not_overflow() -> None:
    norm = RMSNorm(RMSNormSpec(width=48)).half()
    assert norm(torch.full((1, 48), 1000.0, dtype=torch.float16)).isfinite().all(), "1000² is beyond float16"


def test_double_precision_stays_double() -> None:
    norm = RMSNorm(RMSNormSpec(width=48, eps=1e-6)).double()
    expected = X.double() / (X.double().square().mean(-1, keepdim=True) + 1e-6).sqrt()
    assert_close(norm(X.double()), expected, 1e-14)


def test_an_empty_slot_passes_its_input_on() -> None:
    assert make_norm(None)(X) is X
