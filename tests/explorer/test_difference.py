"""The view of differences: a precision of the same model, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import glassformer
from glassformer.explorer.binary_frames import decode
from glassformer.explorer.describe import model_facts
from glassformer.explorer.difference import names_apart
from glassformer.model import Model
from tests.explorer.client import Client

TEXT = "time flies like an arrow"


@pytest.fixture(scope="module")
def encoder(minilm: Path) -> Model:
    return glassformer.load(minilm)


@pytest.fixture(scope="module")
def client(encoder: Model) -> Iterator[Client]:
    with encoder.look(TEXT, browser=False, block=False) as look:
        yield Client(look)


def test_names_are_what_differs(models: dict[str, Model]) -> None:
    own = model_facts(models["bert"])
    assert names_apart(own, replace(own, name="other", dtype="bfloat16")) == (own.name, "other")
    assert names_apart(own, replace(own, dtype="bfloat16", revision="1")) == (own.dtype, "bfloat16")
    assert names_apart(own, replace(own, revision="1")) == (own.revision, "1")


@pytest.mark.parametrize("precision", ["bfloat16", "int4"])
def test_a_precision_is_compared_with_no_model_given(
    client: Client, encoder: Model, minilm: Path, precision: str
) -> None:
    session = client.session(TEXT)
    assert session["model"]["precisions"] == ["float16", "bfloat16", "int8", "int4"]
    frame = decode(client.view("difference", s=session["id"], precision=precision).body)
    assert frame.fields["names"] == ["float32", precision]
    other = glassformer.load(minilm, dtype=precision).inspect(TEXT)
    wanted = encoder.inspect(TEXT).difference(other)
    np.testing.assert_allclose(frame.arrays["distance"], wanted.distance, atol=1e-6)
    assert wanted.distance.max() > 1e-3


def test_what_cannot_be_compared_says_what_can(client: Client, minilm: Path) -> None:
    session = client.session(TEXT)["id"]
    unknown = client.view("difference", s=session, precision="int3")
    assert unknown.status == 400 and unknown.error.endswith("allowed for this model: float16, bfloat16, int8, int4")
    nothing = client.view("difference", s=session)
    assert nothing.status == 400 and "write another text, or choose a precision" in nothing.error
    levels = glassformer.load(minilm, dtype="int8")
    with levels.look(TEXT, browser=False, block=False) as look:
        rounded = Client(look)
        none = rounded.view("difference", s=rounded.session(TEXT)["id"], precision="int4")
    assert none.status == 400 and "none: its weights are levels" in none.error
