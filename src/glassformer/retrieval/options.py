"""Options of retrieval: which files are read, how passages are made, what a store has, and how it is searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from glassformer.errors import ConfigError
from glassformer.files.schema import Count, Doc, NonNegativeInt, Positive, Schema, at_least

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
NO_MODEL = "none"
INDEX_FILE, DATABASES = "store.json", "passages-*.sqlite"
"""In the folder of a store: which database in it answers, and the names of databases."""

EVALUATION = "A store of documents"
WRITTEN = "Written answers"

DENSE_WEIGHT = 0.5
"""Of dense search in the fusion, where none was chosen on queries."""
PASSAGE_TOKENS = 256
"""Default passage size: what the usual embedding models were trained with, or more."""


@dataclass(frozen=True, kw_only=True)
class DocumentOptions(Schema):
    """Which files of a folder are read, and how much of each."""

    exclude: Annotated[
        Sequence[str], Doc("Leave out files and folders that match, by the rules of .gitignore; repeatable.")
    ] = ()
    gitignore: Annotated[bool, Doc("Leave out what the folder's .gitignore files name.")] = True
    hidden: Annotated[bool, Doc("Read files and folders whose names begin with a dot as well.")] = False
    max_bytes: Annotated[Count, Doc("Largest file to read, in bytes; larger ones are listed as not read.")] = 50_000_000
    seconds: Annotated[Positive, Doc("Longest time to read a PDF or DOCX, in seconds.")] = 60.0


@dataclass(frozen=True, kw_only=True)
class PassageOptions(Schema):
    """How documents are cut into passages."""

    size: Annotated[
        Count | None,
        Doc(
            "Passage size in tokens of the model, its headings and special tokens included. "
            f"Default: {PASSAGE_TOKENS}, or what the model reads where that is less."
        ),
    ] = None
    overlap: Annotated[NonNegativeInt, Doc("Tokens that neighbouring passages of a section share, at most.")] = 32
    language: Annotated[str, Doc("Language of the documents, whose rules tell where sentences end, such as en.")] = "en"

    def validate(self) -> None:
        if self.size is not None and self.overlap >= self.size:
            raise ConfigError(f"overlap={self.overlap} must be less than size={self.size}: passages would never end")


@dataclass(frozen=True, kw_only=True)
class StoreOptions(PassageOptions):
    """What a store is made with: another model, size or language makes all passages again."""

    model: Annotated[
        str | None,
        Doc(f"Sentence encoder: a folder or Hub name; none = search by words alone. Default: {DEFAULT_MODEL}."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class WorkerOptions(Schema):
    """Where passages are embedded."""

    workers: Annotated[
        Count | None,
        Doc("Embed in N processes, each with the model and one thread (needs the package ray). Default: this one."),
    ] = None
    ray: Annotated[
        str | None, Doc("Embed on the machines of this cluster of Ray: its address; auto = that of this machine.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class RetrievalOptions(Schema):
    """How passages are searched."""

    top: Annotated[Count, Doc("Number of passages.", "Search")] = 5
    method: Annotated[
        Literal["fusion", "bm25", "dense"] | None,
        Doc("Search by words (bm25), by meaning (dense), or both (fusion). Default: what the store has.", "Search"),
    ] = None
    folder: Annotated[str | None, Doc("Search in this folder or file of the store alone.", "Search")] = None
    where: Annotated[
        dict[str, str] | None,
        Doc("Search passages with this metadata alone, as NAME=VALUE; can be repeated.", "Search"),
    ] = None
    model: Annotated[
        str | None, Doc("Where the model of the store is now, if it was moved: a folder or Hub name.", "Search")
    ] = None
    candidates: Annotated[
        Count, Doc("Passages of each method that are fused, re-ranked or made diverse.", "Search")
    ] = 100
    dense_weight: Annotated[
        Annotated[float, at_least(0.0, 1.0)] | None,
        Doc(
            "Weight of dense search in the fusion, 0 to 1. "
            f"Default: what `evaluate --tune` chose for the store, else {DENSE_WEIGHT}.",
            "Search",
        ),
    ] = None
    rerank: Annotated[
        str | None, Doc("Cross-encoder that scores the candidates again: a folder or Hub name.", "Search")
    ] = None
    late_interaction: Annotated[
        NonNegativeInt,
        Doc(
            "Rank this many of the best candidates again by late interaction (MaxSim over token vectors of the store's "
            "model), which embeds them token by token; 0 = none.",
            "Search",
        ),
    ] = 0
    diversity: Annotated[
        Annotated[float, at_least(0.0, 1.0)],
        Doc("Maximal marginal relevance: 0 = by score alone, 1 = as different as can be.", "Search"),
    ] = 0.0

    def validate(self) -> None:
        if self.late_interaction and self.rerank is not None:
            raise ConfigError("late_interaction= and rerank= both rank the candidates again; give one of them")


@dataclass(frozen=True, kw_only=True)
class QueryOptions(Schema):
    """What the search of a store is evaluated on."""

    queries: Annotated[
        str | None,
        Doc(
            "Evaluate the search of a store on a CSV, JSON Lines or SQuAD file of questions, each with a file or an "
            "answer that is to be retrieved.",
            EVALUATION,
        ),
    ] = None
    tune: Annotated[
        bool,
        Doc(
            "Choose the weight of dense search in the fusion by these queries, and store it for find and ask.",
            EVALUATION,
        ),
    ] = False
    reader: Annotated[
        str | None,
        Doc(
            "Evaluate the answers of this reader too, a folder or Hub name: after the search, and given the right "
            "passage.",
            EVALUATION,
        ),
    ] = None
    html: Annotated[Path | None, Doc("Write the report to this HTML file (self-contained) as well.", EVALUATION)] = None


@dataclass(frozen=True, kw_only=True)
class AskOptions(RetrievalOptions):
    """How a question is answered."""

    reader: Annotated[
        str | None,
        Doc(
            "Reader, a folder or Hub name: a question-answering model finds the words that answer, a language model or "
            "an encoder-decoder writes an answer and cites passages. Default: the sentence nearest to the question."
        ),
    ] = None
    entailment: Annotated[
        str | None,
        Doc(
            "Model for natural language inference that checks whether a passage says what a written sentence says. "
            "Default: overlap of words.",
            WRITTEN,
        ),
    ] = None
    support: Annotated[
        Annotated[float, at_least(0.0, 1.0)],
        Doc("Least score of a passage that supports a written sentence; others are left out.", WRITTEN),
    ] = 0.6
    answer_tokens: Annotated[
        Count | None,
        Doc("Longest written answer. Default: 256 tokens, and at most a quarter of the model's window.", WRITTEN),
    ] = None


def is_store_folder(folder: Path) -> bool:
    """Whether a folder is a store: it has a database; without the file that names it, too."""
    return (folder / INDEX_FILE).is_file() or next(folder.glob(DATABASES), None) is not None
