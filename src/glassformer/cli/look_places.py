"""What a path is that `glassformer look` is given: a line for each kind, with the function that shows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from glassformer.reports.kinds import is_report
from glassformer.retrieval.options import is_store_folder
from glassformer.retrieval.postgres_database import is_address
from glassformer.runs.folder import CONFIG, PROGRESS, RESULTS, iterate_runs

DATA_FILE = re.compile(r".+\.(csv|tsv|jsonl|ndjson|json|parquet|conllu?|txt)(\.gz)?", re.IGNORECASE)


def _has_results(path: str) -> bool:
    """Whether a study or a search wrote its results or its progress to a folder."""
    return any((Path(path) / name).is_file() for name in (*RESULTS.values(), PROGRESS))


class Place(NamedTuple):
    """A kind of path.

    what: it is, for messages
    is_one: whether a path is one; what no file or folder has as its path is a model of the Hub
    shown_by: "module:function" that shows it: (path, texts, options of the page, of loading, json=)
    has_model: with a text, it is the model of that path which is looked at
    """

    what: str
    is_one: Callable[[str], bool]
    shown_by: str
    has_model: bool = False


PLACES = (
    Place("a store of documents", lambda x: is_address(x) or is_store_folder(Path(x).expanduser()),
          "glassformer.cli.look_documents:look_at_store"),
    Place("a run", lambda x: (Path(x) / CONFIG).is_file(), "glassformer.cli.look_reports:look_at_run",
          has_model=True),
    Place("a study or a search", _has_results, "glassformer.cli.look_reports:look_at_results"),
    Place("a report", lambda x: is_report(Path(x)), "glassformer.cli.look_reports:look_at_report"),
    Place("a data file", lambda x: Path(x).is_file() and DATA_FILE.fullmatch(x) is not None,
          "glassformer.cli.look_reports:look_at_data"),
    Place("a folder of runs", lambda x: next(iterate_runs(Path(x)), None) is not None,
          "glassformer.cli.look_reports:look_at_runs", has_model=True),
)  # fmt: skip
"""In the order in which they are asked."""


def place_of(path: str, texts: Sequence[str] = ()) -> Place | None:
    """What a path is; None = a model, or nothing that is known.

    Args:
        texts: to be looked at in it
    """
    return next((place for place in PLACES if not (texts and place.has_model) and place.is_one(path)), None)
