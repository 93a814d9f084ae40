"""Systems by name, for comparisons: a baseline such as `lead-3`, or a model that writes.

An encoder-decoder answers a text. A decoder continues it, so behind a text to be summarised stands "TL;DR:".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.model import Model, load
from glassformer.tasks.generate.compare import System, check_names
from glassformer.tasks.generate.lead import Lead
from glassformer.tasks.generate.long import ChunkAndMerge
from glassformer.tasks.generate.prompts import tldr
from glassformer.tasks.generate.recommended import recommended

_LEAD = re.compile(r"lead-(\d{1,4})")


def named_systems(
    names: Sequence[str], task: str, *, language: str = "en", loading: Any = None, **options_of_model: Any
) -> list[System]:
    """The systems of these names, models loaded; a model's folder is shown by its own name where that is enough.

    Args:
        names: "lead-N", folders, or names on the Hub · loading: options of `load` · asked: as in `model_system`
    Raises: ConfigError: a name twice, or no such task. Else as `load` and `model_system`.
    """
    ends = [Path(name).name for name in names]
    shown = [end if end and ends.count(end) == 1 else name for name, end in zip(names, ends, strict=True)]
    check_names(shown, task)
    return [
        _named(name, its, task, language, loading or {}, options_of_model)
        for name, its in zip(names, shown, strict=True)
    ]


def _named(
    name: str, shown: str, task: str, language: str, loading: dict[str, Any], options_of_model: dict[str, Any]
) -> System:
    if (baseline := _LEAD.fullmatch(name)) is None:
        return model_system(load(name, **loading), task, shown, language=language, **options_of_model)
    if task != "summarization":
        raise ConfigError(f"{name} is a baseline for summaries; it cannot do {task}")
    return System(name, Lead(int(baseline[1]), language))


def model_system(
    model: Model,
    task: str,
    name: str,
    *,
    language: str = "en",
    prefix: str | None = None,
    max_new_tokens: int = 60,
    **options: Any,
) -> System:
    """A model as a system; a document to be summarised that is longer than it reads goes through `ChunkAndMerge`.

    Args:
        prefix: what is put before a text; None = what the folder's config.json says for the task.
        max_new_tokens, options: as in `model.generate`.
    Raises: UnsupportedError: a model that does not write, or that cannot do this. ConfigError: no room for a text.
    """
    if model.task not in ("translation", "text-generation"):
        raise UnsupportedError(f"{name} was loaded for {model.task!r}; to be compared it must write texts")
    continues = model.task == "text-generation"
    if continues and task != "summarization":
        raise UnsupportedError(f"{name} continues texts; for {task} give an encoder-decoder")
    before = recommended(model, task).get("prefix", "") if prefix is None else prefix

    def prompt(text: str) -> str:
        return before + (tldr(text) if continues else text)

    def write(texts: Sequence[str]) -> list[str]:
        written = model.generate([prompt(text) for text in texts], max_new_tokens=max_new_tokens, **options)
        return [text.strip() for text in written]

    limits = [limit for limit in (model.network.max_tokens, model.tokenizer.model_max_length) if limit]
    if task != "summarization" or not limits:
        return System(name, write)
    framed, text = (model.tokenizer.encode(x, add_special_tokens=False) for x in (prompt("."), "."))
    room = min(limits) - (len(framed) - len(text)) - (max_new_tokens if continues else 0)
    if room < 1:
        raise ConfigError(
            f"{name} reads {min(limits):,} tokens; with {max_new_tokens} new ones there is no room for a text"
        )
    return System(name, ChunkAndMerge(write, model.tokenizer, room, language))
