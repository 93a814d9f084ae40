"""Soft cap and scale of a causal model's logits: every way to logits and to their loss agrees."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from glassformer.core import Batch, Flow, KeyValueCache
from glassformer.engine.prepare import PRECISIONS, prepare
from glassformer.errors import ConfigError
from glassformer.inspect import ram
from glassformer.models import FAMILIES, ConfigReader, Network, TextSpec
from tests.core.small import assert_close, gradients, perturbed
from tests.inspect.test_ram import kept_by_autograd

CAP, SCALE = 1.5, 2.0
IDS = torch.randint(3, 99, (2, 12), generator=torch.Generator().manual_seed(0))


def spec() -> TextSpec:
    family = FAMILIES["llama"]
    made: TextSpec = family.spec(ConfigReader(dict(family.tiny)))
    return made


def network(cap: float | None = CAP, scale: float = SCALE) -> Network:
    made = FAMILIES["llama"].build(replace(spec(), logit_cap=cap, logit_scale=scale), "text-generation")
    torch.manual_seed(0)
    return perturbed(made).eval()


def logits_of(network: Network, ids: Tensor = IDS, flow: Flow | None = None) -> Tensor:
    logits = network(Batch(input_ids=ids), flow or Flow()).logits
    assert logits is not None
    return logits


@torch.inference_mode()
def test_logits_are_scaled_then_capped() -> None:
    capped, plain = network(), network(None, 1.0)
    plain.load_state_dict(capped.state_dict())
    expected = CAP * torch.tanh(SCALE * logits_of(plain) / CAP)
    assert_close(logits_of(capped), expected, 1e-5)
    assert float((expected - SCALE * logits_of(plain)).abs().max()) > 0.1, "the cap has something to cap"


@torch.inference_mode()
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_packed_head_caps_too(precision: str) -> None:
    capped, plain = network(), network(None, 1.0)
    plain.load_state_dict(capped.state_dict())
    for model in (capped, plain):
        prepare(model, precision)
    assert_close(logits_of(capped), CAP * torch.tanh(SCALE * logits_of(plain) / CAP), 1e-5)


@torch.inference_mode()
def test_a_step_with_the_cache_caps_too() -> None:
    model, cache = network(), KeyValueCache()
    logits_of(model, IDS[:, :-1], Flow(cache=cache))
    assert_close(logits_of(model, IDS[:, -1:], Flow(cache=cache, last=1)), logits_of(model)[:, -1:], 1e-5)


def test_training_learns_what_the_logits_say() -> None:
    model, batch = network(), Batch(input_ids=IDS)
    head = model.require_head()
    actual = gradients(model, lambda: model.loss_sums(batch, Flow(), IDS)["loss"])
    expected = gradients(model, lambda: head.output_loss_sums(model(batch, Flow()), IDS)["loss"])
    for name in expected:
        assert_close(actual[name], expected[name], 1e-4)


def test_the_tanh_is_counted_among_the_activations() -> None:
    def kept(model: Network) -> int:
        head = model.require_head()
        return kept_by_autograd(model, lambda: head.loss(model(Batch(input_ids=IDS), Flow()), IDS))

    capped, plain = network(), network(None)
    estimates = [ram(model, batch=2, tokens=12).training.activations for model in (capped, plain)]
    assert kept(capped) - kept(plain) == estimates[0] - estimates[1] == 2 * 12 * 99 * 4


@pytest.mark.parametrize(
    "fields", [{"logit_cap": 0.0}, {"logit_cap": -1.0}, {"logit_cap": float("nan")}, {"logit_scale": 0.0}]
)
def test_what_is_no_cap_or_scale_is_refused(fields: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"TextSpec.{next(iter(fields))} is .*it must be a number above 0"):
        replace(spec(), **fields)  # type: ignore[arg-type]
