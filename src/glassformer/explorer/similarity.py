"""Similarity view: two texts, each encoded by itself, as a token × token map whose cells sum to the cosine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from glassformer.errors import DataError, UnsupportedError
from glassformer.explorer.registry import Reading, frame_of
from glassformer.explorer.session_runs import SessionRuns
from glassformer.inspect.similarity import SimilarityMap

if TYPE_CHECKING:
    from glassformer.explorer.scene import Scene


def similarity(scene: Scene) -> SimilarityMap:
    """The similarity of the two texts of the session. Raises: as `similarity_of`."""
    return similarity_of(scene.runs, scene.run.texts)


def similarity_of(runs: SessionRuns, texts: Sequence[str]) -> SimilarityMap:
    """The similarity of two texts, distributed over their tokens. [A, B]

    Raises: UnsupportedError: the model makes no vectors of texts. DataError: one text.
    """
    explain = runs.factory.explain_similarity
    if explain is None:
        raise UnsupportedError(f"this {runs.facts.family!r} model makes no vectors of texts that could be compared")
    if len(texts) != 2:
        raise DataError("a similarity is that of two texts; write a second text")
    return explain(*texts)


def similarity_readings(runs: SessionRuns, texts: Sequence[str]) -> list[Reading]:
    """What a standalone page has of it: nothing, where there are no two texts, or no vectors of them."""
    if runs.factory.explain_similarity is None or len(texts) != 2:
        return []
    return [Reading("similarity", {}, frame_of("similarity", similarity_of(runs, texts)))]
