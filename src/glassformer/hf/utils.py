"""Names of `transformers.utils`: logging, and which packages are there."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from glassformer.errors import MissingNameError
from glassformer.hf import logging

__all__ = ["logging"]

PACKAGES = {"vision": "PIL", "sentencepiece": "tokenizers", "tf": "tensorflow", "soundfile": "soundfile"}
"""What `is_…_available` calls a package that has another name."""


def __getattr__(name: str) -> Any:
    if name.startswith("is_") and name.endswith("_available"):
        return _finder(name.removeprefix("is_").removesuffix("_available"))
    if name == "get_json_schema":
        from glassformer.text.tool_schema import function_schema

        return function_schema
    if name == "ModelOutput":
        from glassformer.hf.modeling_outputs import ModelOutput

        return ModelOutput
    raise MissingNameError(f"glassformer.hf.utils has no {name!r}")


def _finder(name: str) -> Callable[[], bool]:
    def is_available() -> bool:
        """Whether the package can be imported."""
        return find_spec(PACKAGES.get(name, name)) is not None

    return is_available
