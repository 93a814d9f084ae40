"""Validated dataclass fields: `heads: Count`, `dropout: Probability`; a spec checks its fields when it is made.

    class FeedForwardSpec(Spec):
        width: Count                     FeedForwardSpec.width is 0; it must be a whole number from 1 up
        dropout: Probability = 0.0

What depends on several fields is code: `Spec.validate`. Numbers of a tensor are checked through `any_true`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from glassformer.errors import ConfigError


@dataclass(frozen=True)
class Check:
    """A condition on a field; `allowed` is how an error states it."""

    allowed: str
    holds: Callable[[Any], bool]


Count = Annotated[int, Check("it must be a whole number from 1 up", lambda n: isinstance(n, int) and n >= 1)]
NonNegativeInt = Annotated[int, Check("it must be a number from 0 up", lambda n: n >= 0)]
NonNegative = Annotated[float, Check("it must be a number from 0 up", lambda x: x >= 0)]
Positive = Annotated[float, Check("it must be a number above 0", lambda x: x > 0)]
Probability = Annotated[float, Check("a dropout lies in [0, 1)", lambda p: 0.0 <= p < 1.0)]


class Spec:
    """Base class of specs: frozen dataclasses that validate themselves.

    Raises: ConfigError: a field breaks its `Check`, or `validate` finds that fields do not fit each other.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        for field, check in field_checks(type(self)):  # type: ignore[arg-type] # mypy takes its hash for that of its instances
            value = getattr(self, field)
            if value is not None and not check.holds(value):
                raise ConfigError(f"{type(self).__name__}.{field} is {value!r:.120}; {check.allowed}")
        self.validate()

    def validate(self) -> None:
        """Check what depends on several fields."""


@cache  # resolving annotations takes longer than checking them, and a deep model has a spec for each layer
def field_checks(spec: Any) -> list[tuple[str, Check]]:
    """Each checked field of a spec class with its check; None passes where the annotation allows it."""
    checks = []
    for field, annotation in get_type_hints(spec, include_extras=True).items():
        for option in (annotation, *get_args(annotation)):
            if get_origin(option) is Annotated:
                checks += [(field, check) for check in option.__metadata__ if isinstance(check, Check)]
    return checks


def check_widths(spec: Spec, whose: str, width: int, *parts: str) -> None:
    """Check that parts of a spec are as wide as the tensors that they read.

    Args:
        whose, width: what they read, for the message, and its width
        parts: fields; one may be None.
    Raises: ConfigError: one has another width.
    """
    for field in parts:
        part = getattr(spec, field)
        if part is not None and part.width != width:
            raise ConfigError(
                f"{type(spec).__name__}.{field} has width {part.width}, {whose} {width}; they must be equal"
            )


def any_true(flags: Tensor) -> bool:
    """Whether a flag is set that makes an input invalid; always False while `torch.export` traces a network.

    An exported program is one graph, which cannot branch on numbers: it has no such checks.
    """
    return not torch.compiler.is_exporting() and bool(flags.any())
