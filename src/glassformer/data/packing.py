"""Documents of any length as blocks of one: end to end, an end-of-text id after each, cut wherever a block is full.

    documents   a a a a · b b · c c c c c c c                       · ends a text
    blocks      a a a a ·   b b · c c   c c c c c   ·               of 5; the last is the rest
    isolated    5           3 + 2       5           1               which stretches see themselves alone
    joined      5           5           5           1               or everything before them in the block

Source: blocks that run on across documents: Radford et al. 2018, section 4.1; Brown et al. 2020, appendix B.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from glassformer.errors import ConfigError

RESTS = ("keep", "drop")


def pack(
    documents: Iterable[Sequence[int] | np.ndarray],
    block: int,
    *,
    end: int | None = None,
    isolated: bool = True,
    rest: str = "keep",
) -> Iterator[dict[str, np.ndarray]]:
    """Blocks of exactly `block` ids, as they fill up; it ends where the documents do, and loses less than a block.

    Memory holds one block and one document. A document that a block cuts goes on in the next.

    Args:
        documents: ids of each; an empty one leaves no trace.
        block: in ids.
        end: the id that ends a text; one that a document brings is not doubled; None = nothing marks it.
        isolated: each document sees itself alone (as Llama 3); False = all before it in its block (as GPT-3).
        rest: the last block, which is shorter: "keep" or "drop" it.
    Returns: examples: `input_ids` [block] and `documents`, the lengths of the stretches that see each other.
    Raises: ConfigError: a block of less than two ids, in which nothing could be predicted; an unknown `rest`.
    """
    if block < 2:
        raise ConfigError(f"block is {block}; it must hold at least 2 tokens: one to read, one to say")
    if rest not in RESTS:
        raise ConfigError(f"rest is {rest!r}; allowed: {', '.join(map(repr, RESTS))}")
    return _blocks(documents, block, end, isolated, rest == "keep")


def _blocks(
    documents: Iterable[Sequence[int] | np.ndarray], block: int, end: int | None, isolated: bool, keep: bool
) -> Iterator[dict[str, np.ndarray]]:
    stretches: list[np.ndarray] = []
    room = block
    for document in documents:
        ids = np.asarray(document, dtype=np.int32)
        if ids.size and end is not None and ids[-1] != end:
            ids = np.append(ids, np.int32(end))
        while ids.size:
            stretches.append(ids[:room])
            ids = ids[room:]
            room -= len(stretches[-1])
            if not room:
                yield _block(stretches, isolated)
                stretches, room = [], block
    if stretches and keep:
        yield _block(stretches, isolated)


def _block(stretches: list[np.ndarray], isolated: bool) -> dict[str, np.ndarray]:
    ids = np.concatenate(stretches)
    lengths = [len(stretch) for stretch in stretches] if isolated else [len(ids)]
    return {"input_ids": ids, "documents": np.array(lengths, dtype=np.int32)}


def starts(documents: np.ndarray) -> np.ndarray:
    """Where each stretch of a block begins, from their lengths."""
    begun: np.ndarray = np.cumsum(documents) - documents
    return begun
