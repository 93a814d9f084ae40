"""Feed-forward layers: position by position, each activation, the gate, and their taps."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from glassformer.core import FeedForward, FeedForwardSpec, Flow, GatedFeedForward, GatedFeedForwardSpec, Tape
from glassformer.core.feed_forward import ACTIVATIONS, make_activation, make_feed_forward
from glassformer.errors import UnsupportedError
from tests.core.small import assert_close, perturbed, recorded, recording

SPEC = FeedForwardSpec(width=32, hidden=48)


def test_cl_11_widens_to_four_times_the_width_and_narrows_again() -> None:
    ffn = perturbed(FeedForward(FeedForwardSpec(width=768, hidden=4 * 768)))
    x = torch.randn(1, 5, 768)
    flow = recording(ffn, "*")
    out = ffn(x, flow)
    assert recorded(flow, "neurons").shape == (1, 5, 3072) and out.shape == (1, 5, 768)


def test_cl_11_every_position_by_itself() -> None:
    ffn, x = perturbed(FeedForward(SPEC)), torch.randn(2, 7, 32)
    alone = torch.cat([ffn(x[:, t : t + 1], Flow()) for t in range(7)], dim=1)
    assert_close(ffn(x, Flow()), alone, 1e-6)


def test_cl_11_is_two_convolutions_with_a_kernel_of_1() -> None:
    ffn, x = perturbed(FeedForward(SPEC)), torch.randn(2, 7, 32)
    neurons = F.gelu(F.conv1d(x.mT, ffn.up.weight[..., None], ffn.up.bias))
    assert_close(ffn(x, Flow()), F.conv1d(neurons, ffn.down.weight[..., None], ffn.down.bias).mT)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_cl_11_activations_equal_the_reference(name: str) -> None:
    from transformers.activations import ACT2FN

    x = torch.linspace(-9, 9, 2001)
    assert_close(make_activation(name)(x), ACT2FN[name](x), 1e-6)


def test_cl_11_gelu_is_exact_and_gelu_new_is_not() -> None:
    x = torch.linspace(-4, 4, 801)
    exact = x * (1 + torch.erf(x / 2**0.5)) / 2
    assert_close(make_activation("gelu")(x), exact, 1e-6)
    assert (make_activation("gelu_new")(x) - exact).abs().max() > 1e-4, "the two are told apart"


def test_an_unknown_activation_names_the_nearest() -> None:
    with pytest.raises(UnsupportedError, match=r"'gelu_nwe'.*nearest: 'gelu_new'"):
        FeedForward(FeedForwardSpec(width=8, hidden=8, activation="gelu_nwe"))


@pytest.mark.parametrize("bias", [True, False])
def test_the_gated_layer_equals_the_reference(bias: bool) -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaMLP

    ours = perturbed(GatedFeedForward(GatedFeedForwardSpec(width=32, hidden=48, bias=bias)))
    theirs = LlamaMLP(LlamaConfig(hidden_size=32, intermediate_size=48, mlp_bias=bias))
    theirs.load_state_dict({name.replace(".", "_proj."): value for name, value in ours.state_dict().items()})
    x = torch.randn(2, 5, 32)
    assert_close(ours(x, Flow()), theirs(x), 1e-6)


def test_without_biases_there_are_none() -> None:
    ffn = FeedForward(FeedForwardSpec(width=8, hidden=16, bias=False))
    assert sorted(ffn.state_dict()) == ["down.weight", "up.weight"]


@pytest.mark.parametrize("spec", [SPEC, GatedFeedForwardSpec(width=32, hidden=48)])
def test_neurons_can_be_read_and_replaced(spec: FeedForwardSpec | GatedFeedForwardSpec) -> None:
    ffn, x = perturbed(make_feed_forward(spec)), torch.randn(2, 5, 32)
    flow = recording(ffn, "*")
    out = ffn(x, flow)
    bias = ffn.down.bias if ffn.down.bias is not None else 0.0
    assert_close(recorded(flow, "neurons") @ ffn.down.weight.T + bias, out, 1e-6)
    silenced = ffn(x, Flow(tape=Tape(edit={"neurons": torch.zeros(())}).attach(ffn)))
    assert_close(silenced, torch.zeros(2, 5, 32) + bias, 1e-6)


def test_cl_24_dropout_falls_on_the_neurons_in_training_only() -> None:
    ffn = perturbed(FeedForward(FeedForwardSpec(width=4, hidden=4000, activation="relu", dropout=0.25)))
    with torch.no_grad():
        ffn.up.weight.zero_()
        ffn.up.bias.fill_(1.0)  # every neuron is 1
        ffn.down.weight.fill_(1 / 4000)
        ffn.down.bias.zero_()
    x = torch.randn(1, 50, 4)
    assert_close(ffn(x, Flow()), torch.ones(1, 50, 4))
    out = ffn.train()(x, Flow())
    assert out.std() > 1e-3 and abs(out.mean() - 1) < 0.01, "a quarter falls out, the others grow by 4/3"


def test_cl_24_dropout_falls_on_gated_neurons_too() -> None:
    spec = GatedFeedForwardSpec(width=4, hidden=4000, activation="relu", bias=True, dropout=0.25)
    ffn = perturbed(GatedFeedForward(spec))
    with torch.no_grad():
        for layer in (ffn.gate, ffn.up):  # every neuron is 1 · 1
            layer.weight.zero_()
            layer.bias.fill_(1.0)
        ffn.down.weight.fill_(1 / 4000)
        ffn.down.bias.zero_()
    x = torch.randn(1, 50, 4)
    assert_close(ffn(x, Flow()), torch.ones(1, 50, 4))
    out = ffn.train()(x, Flow())
    assert out.std() > 1e-3 and abs(out.mean() - 1) < 0.01
