"""A layer before and after quantisation: the numbers of plain loops, and what a quantised network holds."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.compression.calibrate import calibrated_grid, input_histograms
from glassformer.compression.quantise import Scheme
from glassformer.compression.quantised_network import quantisable_layers, quantise_network
from glassformer.core.flow import Flow
from glassformer.engine.prepare import prepare
from glassformer.errors import ConfigError
from glassformer.inspect import Session
from glassformer.inspect.quantisation import LayerQuantisation, layer_quantisation
from tests.inspect.passes import session_of

UP = "blocks.1.ffn.up"


@pytest.fixture
def session() -> Session:
    return session_of("bert")


def linear(session: Session, path: str) -> nn.Linear:
    module = session.network.get_submodule(path)
    assert isinstance(module, nn.Linear)
    return module


def read(session: Session, path: str) -> torch.Tensor:
    """What a layer reads in the pass."""
    seen: list[torch.Tensor] = []
    handle = linear(session, path).register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0][0]))
    with torch.no_grad():
        session.network.states(session.batch, Flow())
    handle.remove()
    return seen[0]


def test_weights_of_a_row_and_inputs_of_a_token_by_plain_loops(session: Session) -> None:
    report = layer_quantisation(session, layer=UP)
    weight, x = linear(session, UP).weight.detach(), read(session, UP)
    for part, numbers in ((report.weights, weight), (report.inputs, x)):
        assert part is not None
        counts, squares, largest, steps = [0] * 256, 0.0, 0.0, []
        for row in numbers.tolist():
            scale = max(map(abs, row)) / 127
            steps.append(scale)
            for f in row:
                q = round(f / scale)
                counts[q + 128] += 1
                squares += (f - scale * q) ** 2
                largest = max(largest, abs(f - scale * q))
        assert list(part.levels) == counts and part.first_level == -128 and part.used == sum(n > 0 for n in counts)
        assert part.error == pytest.approx((squares / float(numbers.square().sum())) ** 0.5, rel=1e-3)
        assert part.largest_error == pytest.approx(largest, rel=1e-3) and largest <= max(steps) / 2 + 1e-9
        assert (part.scales, part.scale[0], part.scale[2]) == (
            len(steps),
            pytest.approx(min(steps)),
            pytest.approx(max(steps)),
        )
        assert list(part.zero) == [0, 0] and part.clipped == 0
        assert [sum(part.before), sum(part.after), sum(part.step_errors)] == pytest.approx([1, 1, 1])
    chosen = next(each for each in report.layers if each.path == UP)
    assert (chosen.weights, chosen.inputs) == (
        pytest.approx(report.weights.error, rel=1e-3),
        pytest.approx(report.inputs and report.inputs.error, rel=1e-3),
    )


def test_four_bits_one_scale_and_a_zero_point(session: Session) -> None:
    report = layer_quantisation(session, layer=UP, bits=4, scales="tensor", symmetric=False, inputs="tensor")
    weight, x = linear(session, UP).weight.detach(), read(session, UP)
    assert (report.weights.scales, len(report.weights.levels), report.weights.first_level) == (1, 16, -8)
    assert report.weights.scale[1] == pytest.approx(float(weight.max() - weight.min()) / 15)
    assert report.inputs is not None and report.inputs.scale[1] == pytest.approx(float(x.max() - x.min()) / 255)
    assert report.inputs.zero[0] == round(-128 - float(x.min()) / report.inputs.scale[1]) != 0
    assert report.weights.error is not None and report.weights.error > 5 * (
        layer_quantisation(session).weights.error or 1
    )
    assert "16 of 16" in str(report) and LayerQuantisation.from_dict(report.to_dict()) == report


def test_layers_are_in_the_order_of_the_pass_with_tables_first(session: Session) -> None:
    report = layer_quantisation(session)
    assert report.layer == "blocks.0.attn.qkv" and not report.stored
    assert [each.path for each in report.layers][:5] == [
        "embed.tokens", "blocks.0.attn.qkv", "blocks.0.attn.out", "blocks.0.ffn.up", "blocks.0.ffn.down"
    ]  # fmt: skip
    table = layer_quantisation(session, layer="embed.tokens")
    assert table.inputs is None and report.layers[0].inputs is None and table.layers == report.layers


def test_a_quantised_network_shows_its_own_levels(session: Session) -> None:
    network, paths = session.network, list(quantisable_layers(session.network))
    run = lambda batch: network.states(batch, Flow())  # noqa: E731
    grids = input_histograms({path: network.get_submodule(path) for path in paths}, [session.batch], run)
    static = {path: calibrated_grid(histogram, "minmax") for path, histogram in grids.items()}
    quantise_network(network, Scheme(4, 16), inputs="static", keep=[UP], grids=static, embeddings=Scheme(8))
    report = layer_quantisation(session, bits=8, inputs="token")
    assert report.stored and report.bits == 4 and report.weights.error is None and not report.weights.before
    stored = network.get_submodule("blocks.0.attn.qkv").stored
    assert report.weights.scales == stored.scale.numel()
    assert sum(report.weights.levels) == stored.rows * stored.columns
    assert report.inputs is not None and report.inputs.scales == 1  # as it was calibrated, whatever the request says
    assert report.inputs.scale[1] == pytest.approx(float(static["blocks.0.attn.qkv"].scale))
    kept = layer_quantisation(session, layer=UP)
    assert not kept.stored and kept.bits == 8 and kept.weights.error is not None
    assert {each.path: each.bits for each in kept.layers}["embed.tokens"] == 8
    assert "not known" in str(report) and LayerQuantisation.from_dict(report.to_dict()) == report


def test_inputs_that_stay_wide(session: Session) -> None:
    quantise_network(session.network, Scheme(8))
    report = layer_quantisation(session)
    assert (
        report.inputs is not None and not report.inputs.levels and report.inputs.before and "not rounded" in str(report)
    )


def test_what_is_refused(session: Session) -> None:
    with pytest.raises(ConfigError, match=r"named 'blocks.1.ffn.upp'; nearest: 'blocks.1.ffn.up'"):
        layer_quantisation(session, layer="blocks.1.ffn.upp")


def test_a_network_that_was_prepared_meanwhile_has_its_layers(session: Session) -> None:
    before = layer_quantisation(session, layer=UP)
    prepare(session.network, "fp32")
    after = layer_quantisation(session, layer=UP)
    assert [each.path for each in after.layers] == [each.path for each in before.layers] and len(after.layers) > 2
    assert type(session.network.get_submodule(UP)) is not nn.Linear, "others go on using the prepared one"
