"""Integrations: a Glassformer model in the place where another library expects one of its own.

Each module imports the library that it is named after, and is imported by nothing else. docs/integrations.md has the
lines to write for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.errors import DataError
from glassformer.files import safe_repr
from glassformer.generation.generate import encode_prompts, generation_defaults, prompts_for
from glassformer.model import Model, load


def loaded(model: Model | str | Path, task: str, **options: Any) -> Model:
    """A model as it is given, or loaded by its name or folder for a task; options as in `load`."""
    return model if isinstance(model, Model) else load(model, task=task, **options)


def one_text(text: Any) -> str:
    """The text itself. Raises: DataError: something else, such as several."""
    if not isinstance(text, str):
        raise DataError(f"the text is {safe_repr(text)}; give one text, a string")
    return text


def check_room(model: Model, prompt: Any, options: Mapping[str, Any]) -> None:
    """Check that a text, or a conversation, is no longer than what the model was trained to read.

    `generate` alone warns; a client hides warnings, and the time of a prompt is quadratic in its length.
    Raises: DataError: it is longer, and no option `truncation` cuts it; a conversation without a message.
    """
    if not (prompts := prompts_for(model, prompt)):
        raise DataError("the conversation has no message; give one or more")
    limit = generation_defaults(model).context or model.network.max_tokens
    if limit is None or options.get("truncation"):
        return
    tokens = encode_prompts(model, prompts, None)[0].shape[1]
    if tokens > limit:
        raise DataError(
            f"the prompt has {tokens:,} tokens, and the model reads {limit:,}; shorten it, or give the option "
            "truncation=True, which keeps its end"
        )


def until(text: str, stop: list[str] | None) -> str:
    """A text up to the first stop string, which `generate` leaves at its end."""
    ends = [at for mark in stop or () if (at := text.find(mark)) >= 0]
    return text[: min(ends)] if ends else text
