"""Patch embedding: projected patches of an image, and images that do not fit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from glassformer.core.flow import Flow, Tape
from glassformer.core.init import normal
from glassformer.core.norms import LayerNormSpec
from glassformer.core.patches import Patches, PatchesSpec
from glassformer.errors import ConfigError, DataError
from tests.core.small import assert_close, perturbed

SMALL = PatchesSpec(image=(6, 10), patch=(3, 2), channels=2, width=8)


def test_a_patch_is_a_row_of_pixels_times_a_matrix() -> None:
    """The convolution written out: cut, lay each patch out, multiply."""
    patches = perturbed(Patches(replace(SMALL, norm=LayerNormSpec(width=8))))
    pixels = torch.randn(3, 2, 6, 10)
    matrix = patches.projection.weight.flatten(1)  # [8, 2 · 3 · 2]
    rows = [patches.summary.expand(3, -1)]
    for row in range(2):
        for column in range(5):
            cut = pixels[:, :, 3 * row : 3 * row + 3, 2 * column : 2 * column + 2]
            rows.append(cut.flatten(1) @ matrix.T + patches.projection.bias)
    x = torch.stack(rows, dim=1) + patches.positions.weight
    assert x.shape == (3, SMALL.tokens, 8) == (3, 11, 8)
    assert_close(patches(pixels, Flow()), patches.norm(x), 1e-5)


def test_pixels_left_over_are_not_read() -> None:
    patches = perturbed(Patches(replace(SMALL, image=(7, 11))))
    assert patches.spec.grid == (2, 5)
    pixels = torch.randn(1, 2, 7, 11)
    changed = pixels.clone()
    changed[:, :, 6:] = 9.0
    changed[:, :, :, 10:] = 9.0
    assert torch.equal(patches(pixels, Flow()), patches(changed, Flow()))


def test_a_pixel_changes_its_own_patch_alone() -> None:
    patches = perturbed(Patches(SMALL))
    pixels = torch.randn(1, 2, 6, 10)
    before = patches(pixels, Flow())
    pixels[0, 1, 4, 7] += 1.0
    changed = (patches(pixels, Flow()) != before).any(-1)[0]
    assert [patches.token_labels()[position] for position in changed.nonzero().flatten()] == ["r1 c3"]


def test_places_are_the_tokens_in_order() -> None:
    labels = Patches(SMALL).token_labels()
    assert labels[:3] == ["[CLS]", "r0 c0", "r0 c1"] and labels[-1] == "r1 c4"
    assert len(labels) == SMALL.tokens


def test_pixels_of_another_precision_are_taken() -> None:
    patches = Patches(SMALL).double()
    assert patches(torch.randn(1, 2, 6, 10), Flow()).dtype == torch.float64


def test_the_stream_can_be_listened_to() -> None:
    patches = perturbed(Patches(SMALL))
    tape = Tape("out").attach(patches)
    x = patches(torch.randn(1, 2, 6, 10), Flow(tape=tape))
    assert torch.equal(tape.taps["out"], x)


@pytest.mark.parametrize("shape", [(1, 2, 6, 9), (1, 2, 10, 6), (1, 3, 6, 10), (1, 2, 12, 20)])
def test_another_size_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"reads \['B', 2, 6, 10\] \(config.json: num_channels, image_size\)"):
        Patches(SMALL)(torch.randn(shape), Flow())


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"patch": (7, 2)}, "at least one patch"),
        ({"patch": (0, 2)}, "at least one patch"),
        ({"channels": 0}, "channels is 0"),
        ({"width": -1}, "width is -1"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"norm": LayerNormSpec(width=9)}, "norm has width 9"),
    ],
)
def test_a_spec_checks_itself(changes: dict[str, object], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        replace(SMALL, **changes)


def test_everything_starts_at_random_but_biases() -> None:
    patches = Patches(SMALL)
    normal(patches, 0.02)
    for name, parameter in patches.named_parameters():
        assert bool((parameter == 0).all()) == name.endswith("bias"), name
        assert parameter.abs().max() < 0.2
