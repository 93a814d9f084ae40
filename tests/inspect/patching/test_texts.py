"""From two texts to a patch or a sweep: the same numbers as a session's, and requests that contradict themselves."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch

import glassformer
from glassformer.errors import ConfigError
from glassformer.files.schema import field_types
from glassformer.inspect import PatchResult, PatchSweep
from glassformer.inspect.options import PatchSettings, PatchTextsRequest
from glassformer.inspect.patching.effects import DIRECTIONS, METRICS, MODES
from glassformer.inspect.patching.sweep import SWEEPS, patch_texts
from glassformer.model import Model

CLEAN, CORRUPT = "My lord, the king and his", "My lord, the men and his"


@pytest.fixture(scope="module")
def model() -> Model:
    return glassformer.load("package:glassformer/checkpoints/shakespeare")


def test_two_texts_are_swept_as_sessions_are(model: Model) -> None:
    clean, corrupt = model.inspect(CLEAN), model.inspect(CORRUPT)
    steps: list[tuple[int, int]] = []
    swept = patch_texts(
        model, CLEAN, CORRUPT, PatchTextsRequest(target=" son"), progress=lambda *done: steps.append(done)
    )
    assert isinstance(swept, PatchSweep) and swept.component_kind == "residual" and steps[-1][0] == steps[-1][1]
    assert torch.equal(swept.values, corrupt.sweep("residual", source=clean, target=" son").values)
    noising = patch_texts(model, CLEAN, CORRUPT, PatchTextsRequest(direction="noising", sweep="heads"))
    assert isinstance(noising, PatchSweep)
    assert torch.equal(noising.values, clean.sweep("heads", source=corrupt, direction="noising").values)


def test_one_text_is_ablated(model: Model) -> None:
    swept = patch_texts(model, CLEAN)
    assert isinstance(swept, PatchSweep) and (swept.component_kind, swept.mode) == ("heads", "zero")
    own = model.inspect(CLEAN)
    request = PatchTextsRequest(components=["blocks.3.attn.z[3]"], mean_over=[CORRUPT, "I am"])
    patched = patch_texts(model, CLEAN, request=request)
    assert isinstance(patched, PatchResult) and patched.mode == "mean"
    means = map(model.inspect, [CORRUPT, "I am"])
    assert patched.after == own.patch("blocks.3.attn.z[3]", mode="mean", mean_of=means).after


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sweep": "heads", "components": ["attn.z"]}, "give one"),
        ({"new_tokens": 3}, "name it with components="),
        ({"sweep": "neurons"}, "sweep is 'neurons'; allowed: residual, heads, attention, feed-forward"),
        ({"align": "middle"}, "align is 'middle'; allowed: strict, start, end"),
        ({"new_tokens": -1}, "new_tokens is -1; it must be a whole number from 0 up"),
    ],
)
def test_requests_that_contradict_themselves(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PatchTextsRequest(**options)


def test_a_request_has_the_values_that_patching_takes() -> None:
    def allowed(name: str) -> tuple[str, ...]:
        annotated, *_ = get_args(field_types(PatchTextsRequest)[name])
        choices = next((each for each in get_args(annotated) if get_args(each)), annotated)
        return get_args(choices)

    assert {"mode", "direction", "align"} < set(field_types(PatchSettings))
    assert (allowed("mode"), allowed("direction")) == (MODES, DIRECTIONS)
    assert (allowed("sweep"), allowed("metric")) == (SWEEPS, METRICS)
