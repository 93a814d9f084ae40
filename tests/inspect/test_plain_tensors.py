"""What is looked at can be computed with: no tensor of a session is an inference tensor, which no gradient may pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError
from glassformer.inspect.session import Session
from glassformer.model import Model, load
from tests.e2e.tiny_models import make_folder

TEXT = "time flies like an arrow"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load(make_folder(tmp_path_factory.mktemp("model") / "gpt2", "gpt2"))


@pytest.fixture(scope="module")
def session(model: Model) -> Session:
    return model.inspect(TEXT)


def tensors(value: Any, seen: set[int]) -> Iterator[Tensor]:
    """All tensors that can be reached from a result, without those of the model."""
    if id(value) in seen or isinstance(value, (str, bytes, int, float, nn.Module, type(None))):
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        yield value
        return
    parts: Any = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else None
    if parts is None and dataclasses.is_dataclass(value):
        parts = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif parts is None:
        parts = vars(value).values() if hasattr(value, "__dict__") else ()
    for part in parts:
        yield from tensors(part, seen)


LOOKS: dict[str, Callable[[Session], Any]] = {
    **{name: lambda s, name=name: getattr(s.head(0, 0), name) for name in ("q", "k", "v")},
    **{name: lambda s, name=name: getattr(s.head(0, 0), name)() for name in ("scores", "probs", "z", "out")},
    "states": lambda s: s.states(1),
    "norms": lambda s: s.norms("text"),
    "overview": lambda s: s.overview(0),
    "trace": lambda s: s.trace(),
    "lens": lambda s: s.lens(),
    "attribute": lambda s: s.attribute(),
    "sweep": lambda s: s.sweep("heads"),
}


@pytest.mark.parametrize("name", LOOKS)
def test_a_session_gives_plain_tensors(session: Session, name: str) -> None:
    found = list(tensors(LOOKS[name](session), set()))
    assert not [x for x in found if x.is_inference()]
    assert found or name == "trace"


def test_a_gradient_passes_through_the_lens(session: Session) -> None:
    weights = torch.ones(10, requires_grad=True)
    (session.lens().logits @ weights).sum().backward()
    assert weights.grad is not None and weights.grad.abs().sum() > 0


def test_a_generation_gives_plain_tensors(model: Model) -> None:
    writing = model.writing("time flies")
    written = writing.write(max_new_tokens=3)
    results = [written, writing.tree, writing.session(written.answers[0].node).states(1)]
    assert not [x for x in tensors(results, set()) if x.is_inference()]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.lens(tpo=3), r"lens\(…\) takes no 'tpo'; nearest: 'top'"),
        (lambda s: s.attribute(step=3), r"attribute\(…\) takes no 'step'; nearest: 'steps'"),
        (lambda s: s.patch("blocks.0.attn.z[0]", mod="zero"), r"patch\(…\) takes no 'mod'; nearest: 'mode'"),
        (lambda s: s.sweep("heads", tagret=1), r"takes no 'tagret'; nearest: 'target'"),
    ],
)
def test_an_option_that_there_is_not_is_refused(session: Session, call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call(session)
