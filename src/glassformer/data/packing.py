"""Packing documents into blocks of fixed length: concatenated, an end-of-text id after each, cut where a block is full.

    documents   a a a a · b b · c c c c c c c                       · ends a text
    blocks      a a a a ·   b b · c c   c c c c c   ·               of 5; the last is the rest
    isolated    5           3 + 2       5           1               attention within a document only
    joined      5           5           5           1               or over everything before in the block

Source: blocks that run on across documents: Radford et al. 2018, section 4.1; Brown et al. 2020, appendix B.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from glassformer.errors import ConfigError
from glassformer.files import safe_repr

RESTS = ("keep", "drop")


def pack(
    documents: Iterable[Sequence[int] | np.ndarray],
    block: int,
    *,
    end: int | None = None,
    isolated: bool = True,
    rest: str = "keep",
) -> Iterator[dict[str, np.ndarray]]:
    """Pack documents into blocks of exactly `block` ids, lazily; at most the last, shorter block is lost.

    RAM holds one block and one document. A document that does not fit continues in the next block.

    Args:
        documents: token ids of each; empty ones are skipped.
        block: block length in tokens.
        end: the end-of-text id; one that a document has already is not doubled; None = none is added.
        isolated: each document attends to itself alone (as Llama 3); False = to all before in its block (as GPT-3).
        rest: the last block, which is shorter: "keep" or "drop" it.
    Returns: examples: `input_ids` [block] and `documents`, the lengths of the parts that attend to each other.
    Raises: ConfigError: a block of fewer than two ids, in which nothing could be predicted; an unknown `rest`.
    """
    if block < 2:
        raise ConfigError(f"block is {block}; it must hold at least 2 tokens: one to read, one to predict")
    if rest not in RESTS:
        raise ConfigError(f"rest is {safe_repr(rest)}; allowed: {', '.join(map(repr, RESTS))}")
    return _blocks(documents, block, end, isolated, rest == "keep")


def _blocks(
    documents: Iterable[Sequence[int] | np.ndarray], block: int, end: int | None, isolated: bool, keep: bool
) -> Iterator[dict[str, np.ndarray]]:
    parts: list[np.ndarray] = []
    room = block
    for document in documents:
        ids = np.asarray(document, dtype=np.int32)
        if ids.size and end is not None and ids[-1] != end:
            ids = np.append(ids, np.int32(end))
        while ids.size:
            parts.append(ids[:room])
            ids = ids[room:]
            room -= len(parts[-1])
            if not room:
                yield _block(parts, isolated)
                parts, room = [], block
    if parts and keep:
        yield _block(parts, isolated)


def _block(parts: list[np.ndarray], isolated: bool) -> dict[str, np.ndarray]:
    ids = np.concatenate(parts)
    lengths = [len(part) for part in parts] if isolated else [len(ids)]
    return {"input_ids": ids, "documents": np.array(lengths, dtype=np.int32)}


def document_starts(documents: np.ndarray) -> np.ndarray:
    """Where each document of a block begins, from their lengths."""
    starts: np.ndarray = np.cumsum(documents) - documents
    return starts
