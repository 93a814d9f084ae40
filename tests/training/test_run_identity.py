"""What a resumed run compares: whatever decides a number of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from glassformer import Model
from glassformer.compression.adapters import AdapterSpec, adapt
from glassformer.errors import ConfigError
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.masked import Masked
from glassformer.training.state import check_same_run, model_identity, run_identity
from tests.tasks.words import tiny
from tests.training.tiny import BERT, some


def identity(*, adapter: Mapping[str, Any] | None = None, validation: int | None = 9, **options: Any) -> dict[str, Any]:
    """Of a run on 29 texts; options: of the task."""
    model = tiny("bert", "fill-mask", "bert")
    adapters = None if adapter is None else adapt(model.network, AdapterSpec(**adapter))
    held_out = None if validation is None else some(validation)
    known = model_identity(model, adapters)
    return run_identity(Masked(model, **options), TrainingOptions(), known, some(29), held_out)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"adapter": {"alpha": 64}}, "adapter.alpha was 16.0, is now 64"),
        ({"adapter": {"dropout": 0.5}}, "adapter.dropout was 0.0, is now 0.5"),
        ({"adapter": {"modules_to_save": ("head",)}}, r"adapter.modules_to_save was \[\], is now \['head'\]"),
        ({"adapter": None}, "adapter.rank was 2, is now None"),
        ({"rate": 0.4}, "task_options.rate was 0.15, is now 0.4"),
        ({"validation": 8}, "validation was '[0-9a-f]+', is now '[0-9a-f]+'"),
        ({"validation": None}, "validation was '[0-9a-f]+', is now None"),
    ],
)
def test_a_change_is_named(changed: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"adapter": {"rank": 2}}
    if changed.get("adapter"):
        changed = {"adapter": {"rank": 2, **changed["adapter"]}}
    with pytest.raises(ConfigError, match=f"another configuration: {said}"):
        check_same_run(identity(**given), identity(**{**given, **changed}), Path("run"))


def test_defaults_may_be_written_out() -> None:
    check_same_run(identity(adapter={}), identity(adapter={"rank": 8, "alpha": 16}, rate=0.15), Path("run"))


@pytest.mark.parametrize("missing", ["validation", "task_options.", "config.", "learning_rate"])
def test_what_a_checkpoint_lacks_differs(missing: str) -> None:
    known = identity()
    part = {name: x for name, x in known.items() if not name.startswith(missing)}
    lost = next(name for name, x in known.items() if name.startswith(missing) and x is not None)
    with pytest.raises(ConfigError, match=rf"{lost} was None, is now "):
        check_same_run(part, {**part, lost: known[lost]}, Path("run"))


def test_a_model_without_loaded_weights_has_no_digest() -> None:
    assert model_identity(Model.from_config(BERT, task="feature-extraction"))["loaded weights"] is None
