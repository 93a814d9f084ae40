"""Output classes by the names of Hugging Face transformers, for custom models: all are `core.flow.Output`.

from glassformer.hf.modeling_outputs import TokenClassifierOutput

return TokenClassifierOutput(loss=loss, logits=logits)

`ModelOutput` is what a custom dataclass derives from.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import fields
from typing import Any

from glassformer.core.flow import Output

__all__ = ["ModelOutput", "Output"]


class _AnyOutput(type):
    """`isinstance(output, ModelOutput)` holds for outputs of our models, too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or (cls is ModelOutput and isinstance(instance, Output))


class ModelOutput(OrderedDict[str, Any], metaclass=_AnyOutput):
    """Fields that are attributes, keys, and numbers of a tuple; those that are None are left out."""

    def __post_init__(self) -> None:
        """Of a dataclass: its fields become keys."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type] # a dataclass
        super().update({name: value for name, value in given.items() if value is not None})

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else self.to_tuple()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def to_tuple(self) -> tuple[Any, ...]:
        """The values that are there."""
        return tuple(self.values())


def __getattr__(name: str) -> Any:
    if "Output" in name:
        return Output
    raise AttributeError(f"glassformer.hf.modeling_outputs has no {name!r}; names of outputs hold the word Output")
