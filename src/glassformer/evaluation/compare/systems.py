"""Systems by name (lead-3, a model that generates texts), and the rows of a CSV or JSONL file to compare them on.

rows.csv      article,highlights                       rows.jsonl   {"article": "…", "highlights": "…"}
              "A long text …","What it says."                       {"article": "…", "highlights": ["one", "another"]}

An encoder-decoder answers a text. A decoder continues it, so behind a text to be summarised stands "TL;DR:".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from glassformer.data.lines import LineFile
from glassformer.data.rows import EXTENSIONS, data_extension, make_format
from glassformer.data.sequence import check_column
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.evaluation.compare.texts import Row, System, check_names
from glassformer.files import safe_repr
from glassformer.model import Model, load
from glassformer.tasks.generate.long import ChunkAndMerge
from glassformer.tasks.generate.prompts import tldr
from glassformer.tasks.generate.settings import recommended
from glassformer.tasks.seq2seq.baselines import Lead

FORMATS = ("csv", "tsv", "jsonl")
LONGEST = 100_000_000  # bytes of a row: whole books are summarised too
_LEAD = re.compile(r"lead-(\d{1,4})")


def read_rows(path: Path, text: str, reference: str, limit: int | None = None) -> Iterator[Row]:
    """The rows of a file in UTF-8, one by one.

    Args:
        text, reference: the names of the two columns (CSV, TSV) or keys (JSONL). In JSONL a text may be a list of its
            sentences, and a reference a list of several.
        limit: no more than so many.
    Raises: DataError: what is wrong, with the line.
    """
    kind = EXTENSIONS.get(data_extension(path))
    if kind not in FORMATS:
        ends = ", ".join(end for end, kind in EXTENSIONS.items() if kind in FORMATS)
        raise DataError(f"{path}: rows come as CSV, TSV or JSONL; its name must end in {ends} (.gz)")
    if limit is not None and limit < 1:
        raise DataError(f"the limit is {limit} rows; take at least 1")
    empty = True
    for raw in islice(LineFile(path, make_format(kind, {})).parse(limit=LONGEST), limit):
        empty = False
        where = f"{path}: line {raw.line}"
        references = _texts(raw.row, reference, where)
        yield Row(raw.line, " ".join(_texts(raw.row, text, where)), references)
    if empty:
        raise DataError(f"{path}: holds no row")


def _texts(row: Mapping[str, Any], name: str, where: str) -> list[str]:
    check_column(where, name, row)
    value = row[name]
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise DataError(f"{where}: {name!r} is {safe_repr(value)}; it must be a text that is not blank")
    return texts


def named_systems(
    names: Sequence[str], task: str, *, language: str = "en", loading: Any = None, **options_of_model: Any
) -> list[System]:
    """The systems of these names, models loaded; a model's folder is shown by its own name where that is enough.

    Args:
        names: "lead-N", folders, or names on the Hub · loading: options of `load`
        options_of_model: as in `model_system`
    Raises: ConfigError: a name twice, or no such task. Else as `load` and `model_system`.
    """
    ends = [Path(name).name for name in names]
    shown = [end if end and ends.count(end) == 1 else name for name, end in zip(names, ends, strict=True)]
    check_names(shown, task)
    systems = []
    for name, short in zip(names, shown, strict=True):
        if (lead := _LEAD.fullmatch(name)) is None:
            model = load(name, **(loading or {}))
            systems.append(model_system(model, task, short, language=language, **options_of_model))
        elif task != "summarization":
            raise ConfigError(f"{name} is a baseline for summaries; it cannot do {task}")
        else:
            systems.append(System(name, Lead(int(lead[1]), language)))
    return systems


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
