"""Stores of passages: what an index writes and a search reads, whichever database holds it.

    documents   tower.md ──┐
                copy.md ───┴─> content 3fa1…md ──> passages ──> vectors, words

A document is a name, and a content is the bytes that it has, named by their hash. So a renamed file moves and files of
one content are embedded once; a changed file is a name that points to another content, switched in one transaction when
all of its passages are there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from glassformer.files.schema import Schema
from glassformer.retrieval.passage import Passage, PassageMatch

VERSION = 1
"""Of what a store holds; raised where a table or key gets another meaning."""
SAME_COSINE = 0.9999
"""Least cosine of two probes of one model: 32-bit numbers differ by some 1e-6, a precision of 8 bits by 1e-3."""


@dataclass(frozen=True, kw_only=True)
class StoreSettings(Schema):
    """What all passages of a store were made with.

    model: a folder or a name on the Hub; None = passages have no vectors
    revision: of the Hub's model
    width: dimensions of a vector
    similarity: how vectors are compared; those compared by cosine are stored with unit length
    prompt: put before a passage
    probe: the vector of a fixed sentence: another model, revision, pooling or prompt gives another one
    size, overlap, language: of `PassageOptions`
    """

    model: str | None = None
    revision: str | None = None
    width: int = 0
    similarity: Literal["cosine", "dot"] = "cosine"
    prompt: str = ""
    probe: list[float] = field(default_factory=list)
    size: int = 256
    overlap: int = 32
    language: str = "en"

    def continues(self, other: StoreSettings) -> bool:
        """Whether passages of both may be in one store: those of one model, wherever its folder is now.

        The probe tells models apart; of one model it differs by rounding between machines.
        """
        if replace(self, model=other.model, revision=other.revision, probe=other.probe) != other:
            return False
        if self.model is None or other.model is None:
            return self.model is other.model
        one, two = np.array(self.probe), np.array(other.probe)
        lengths = float(np.linalg.norm(one) * np.linalg.norm(two))
        return one.shape == two.shape and float(one @ two) >= SAME_COSINE * lengths


class ContentBatch(NamedTuple):
    """Passages of a content, or the last of them, that are written together.

    content: its hash and the suffix of its files
    passages: behind those that were written before
    vectors: of the passages; None = the store has none. [n, D] float16
    complete: these are the last: the content can be searched
    names: documents that have this content, from when it is complete
    title, metadata: of the document
    problem: why the file could not be read, or a part of it; "" = all of it was
    """

    content: str
    passages: Sequence[Passage] = ()
    vectors: np.ndarray | None = None
    complete: bool = True
    names: Sequence[str] = ()
    title: str = ""
    metadata: Mapping[str, Any] = {}
    problem: str = ""


class Filter(NamedTuple):
    """Which passages are searched.

    folder: of the store, or one file
    where: metadata of the document or the passage: name → value as text
    """

    folder: str | None = None
    where: Mapping[str, str] = {}


EVERYTHING = Filter()


class Counts(NamedTuple):
    """How much a store holds."""

    documents: int
    passages: int
    vectors: int


Scored = list[tuple[int, float]]
"""Ids of passages with their scores, the best first."""


class Store(ABC):
    """Passages with their places, words and vectors. Many may read while one writes.

    settings: what its passages were made with
    """

    settings: StoreSettings

    @abstractmethod
    def close(self) -> None:
        """Close the database."""

    # ------------------------------------------------------------------------------------------------- writing

    @abstractmethod
    def write(self, batches: Sequence[ContentBatch]) -> None:
        """Add passages, complete contents and point documents to them, in one transaction.

        A content to which no document points any more is not shown, and goes with `finish`.
        """

    @abstractmethod
    def remove(self, names: Iterable[str]) -> None:
        """Remove documents, and the contents that only they had, in one transaction."""

    @abstractmethod
    def set_problems(self, problems: Iterable[tuple[str, str]]) -> None:
        """Replace the list of names that were not read, each with the reason."""

    @abstractmethod
    def finish(self) -> None:
        """Make what is derived from the passages again where it is stale, such as an approximate index."""

    # ------------------------------------------------------------------------------------------------- reading

    @property
    @abstractmethod
    def edition(self) -> int:
        """A number that is another one after each change of passages."""

    @abstractmethod
    def documents(self) -> dict[str, str]:
        """Each document and its content."""

    @abstractmethod
    def contents(self) -> dict[str, int]:
        """Contents, with how many passages of an incomplete one are there; -1 = it is complete."""

    @abstractmethod
    def problems(self) -> list[tuple[str, str]]:
        """Names that were not read, or not all of them, each with the reason."""

    @abstractmethod
    def counts(self) -> Counts:
        """How much there is to search."""

    @abstractmethod
    def search_words(self, question: str, limit: int, only: Filter = EVERYTHING) -> Scored:
        """BM25: passages by the words that they share with a question."""

    @abstractmethod
    def search_vectors(self, query: np.ndarray, limit: int, only: Filter = EVERYTHING) -> Scored:
        """Dense search: passages by the similarity of their vectors with that of a question. [D]"""

    @abstractmethod
    def matches(self, ids: Sequence[int]) -> list[PassageMatch]:
        """Passages by id, with their documents; without those that are gone. Scores are to be set."""

    @abstractmethod
    def vectors(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Vectors of passages; a row of NaN = it is gone. [n, D] float16"""
