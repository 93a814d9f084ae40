"""Train, validation and test splits: stratified by label or kept apart by group; cross-validation; leaks.

    rows ──split──> train | validation | test        random · stratified by label · no group in two parts · both
    rows ──slices─> 8 ⊂ 16 ⊂ 32 ⊂ …                  nested subsets for learning curves
    rows ──sample─> 1,000                            random, each sample within all larger ones of its seed
    rows ──folds──> (rest, held out) × k

Everything here takes counts, labels and texts, and returns row indices.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from glassformer.data.order import ShuffledOrder
from glassformer.data.sequence import RowSequence, check_column, labels_of
from glassformer.errors import ConfigError, DataError

MAX_STRATIFIED_LABELS = 600
"""Stratification takes more than quadratic time in the number of labels: seconds for this many."""
SWAP_CANDIDATES = 256  # of each of two parts; all pairs of thousands of kinds take minutes, and come out no better


def too_many_labels(labels: Sequence[Any]) -> bool:
    """Whether there are more distinct labels than can be stratified, as where they are numbers."""
    return len({name for value in labels for name in labels_of(value)}) > MAX_STRATIFIED_LABELS


def column_values(rows: RowSequence, name: str, role: str | None = None) -> list[Any]:
    """The values of one column, None where a row has none.

    Args:
        role: what it is for, such as label

    Raises: DataError: no such column, with the names of all.
    """
    check_column(rows.file(0), name, rows.columns, role)
    return [row.get(name) for row in rows]


# ── splits ────────────────────────────────────────────────────────────────────────────────────────────────


def split(
    count: int,
    fractions: Sequence[float] = (0.8, 0.1, 0.1),
    *,
    seed: int = 0,
    labels: Sequence[Any] | None = None,
    groups: Sequence[Hashable] | None = None,
) -> list[np.ndarray]:
    """Split `count` rows at random; the same seed makes the same split.

        train, validation, test = split(len(rows), labels=column_values(rows, "label"), seed=1)

    Args:
        fractions: of the rows, a number above 0 for each part; their sum is 1.
        labels: one for each row, or a collection of them: stratify, each part has each label in its share.
        groups: one for each row, such as the speaker: no group is in two parts, so sizes are approximate; with labels,
            so are their shares.

    Returns: the row indices of each part, ascending.
    Raises: ConfigError: invalid fractions · DataError: too few rows or groups for this many parts.

    Source: with labels, Sechidis et al. 2011, "On the stratification of multi-label data", figure 1.
    """
    _check_fractions(fractions)
    for what, values in (("labels", labels), ("groups", groups)):
        if values is not None:
            _check_length(what, values, count)
    kinds, kind_of = _kinds([()] * count if labels is None else labels)
    if groups is not None:
        return _part_indices(_by_groups(groups, kinds, kind_of, fractions, seed), len(fractions))
    sizes = _sizes(count, fractions)
    if labels is None:
        shuffled = _shuffled(count, seed)
        return [np.sort(part) for part in np.split(shuffled, np.cumsum(sizes)[:-1])]
    target = np.outer(np.array(sizes) / count, _label_counts(kinds, kind_of))
    return _part_indices(_stratified(kinds, kind_of, np.array(sizes), target, seed), len(sizes))


def sample(count: int, size: int, *, seed: int = 0) -> np.ndarray:
    """Sample `size` of `count` rows without replacement; a smaller sample of the same seed is a subset of a larger one.

    Returns: row indices, ascending.
    Raises: DataError: more than there are · ConfigError: none.
    """
    if size < 1:
        raise ConfigError(f"a sample has 1 row or more; got {size}")
    if size > count:
        raise DataError(f"a sample of {size:,} rows cannot be had of {count:,}; ask for fewer")
    return np.sort(_shuffled(count, seed)[:size])


def slices(labels: Sequence[Any], sizes: Sequence[int], *, seed: int = 0) -> list[np.ndarray]:
    """Nested stratified subsets of growing size, for learning curves.

        slices(labels, (8, 16, 32, 64, 128, 220))

    Each label occurs within one row of its share, where rows allow it.

    Raises: ConfigError: sizes that do not grow · DataError: more than there are rows.
    """
    if not sizes or min(sizes) < 1 or any(a >= b for a, b in pairwise(sizes)):
        raise ConfigError(f"sizes must grow, from 1 on; got {', '.join(map(str, sizes))}")
    count = len(labels)
    if sizes[-1] > count:
        raise DataError(f"a slice of {sizes[-1]} rows cannot be had of {count}; ask for fewer")
    kinds, kind_of = _kinds(labels)
    total = _label_counts(kinds, kind_of)
    subsets: list[np.ndarray] = []
    outer = np.arange(count)  # from the largest down, so that each is taken from the one around it
    for number, size in enumerate(reversed(sizes)):
        if size < len(outer):
            share = total * (size / count)
            target = np.stack([share, _label_counts(kinds, kind_of[outer]) - share])
            room = np.array([size, len(outer) - size])
            outer = outer[_stratified(kinds, kind_of[outer], room, target, seed + number) == 0]
        subsets.append(outer)
    return subsets[::-1]


def folds(
    count: int,
    parts: int,
    *,
    seed: int = 0,
    labels: Sequence[Any] | None = None,
    groups: Sequence[Hashable] | None = None,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Cross-validation folds: each row is held out once. Returns: for each fold (training rows, held-out rows)."""
    if parts < 2:
        raise ConfigError(f"cross-validation takes 2 folds or more; got {parts}")
    held_out = split(count, [1 / parts] * parts, seed=seed, labels=labels, groups=groups)
    return [(np.setdiff1d(np.arange(count), part), part) for part in held_out]


def _check_fractions(fractions: Sequence[float]) -> None:
    listed = ", ".join(f"{fraction:g}" for fraction in fractions)
    if len(fractions) < 2 or not all(0 < fraction < 1 for fraction in fractions):
        raise ConfigError(f"fractions are two or more numbers between 0 and 1; got {listed or 'none'}")
    if not math.isclose(sum(fractions), 1, abs_tol=1e-6):
        raise ConfigError(f"fractions must make 1 together; {listed} make {sum(fractions):g}")


def _check_length(what: str, values: Sequence[Any], count: int) -> None:
    if len(values) != count:
        raise DataError(f"there are {count:,} rows and {len(values):,} {what}; give one for each row")


def _sizes(count: int, fractions: Sequence[float]) -> list[int]:
    """Part sizes that sum to `count`, by the largest remainder method."""
    exact = [count * fraction for fraction in fractions]
    sizes = [math.floor(size + 1e-9) for size in exact]
    order = sorted(range(len(exact)), key=lambda part: sizes[part] - exact[part])
    for part in order[: count - sum(sizes)]:
        sizes[part] += 1
    if 0 in sizes:
        raise DataError(
            f"of {count:,} rows, {fractions[sizes.index(0)]:g} is none at all; take other fractions, or more rows"
        )
    return sizes


def _shuffled(count: int, seed: int) -> np.ndarray:
    if seed < 0:
        raise ConfigError(f"a seed is a whole number from 0 on; got {seed}")
    return ShuffledOrder(count, seed=seed).at(0, range(count))


def _part_indices(part_of: np.ndarray, parts: int) -> list[np.ndarray]:
    return [np.flatnonzero(part_of == part) for part in range(parts)]


def _by_groups(
    groups: Sequence[Hashable], kinds: np.ndarray, kind_of: np.ndarray, fractions: Sequence[float], seed: int
) -> np.ndarray:
    """The part of each row, the same one for all rows of a group.

    Groups are assigned greedily, the heaviest first, each to the part that lacks most of what the group has: rows, and
    rows of each label, as shares of all. Then groups of two parts are swapped as long as that brings shares nearer.

    Args:
        kinds, kind_of: see `_kinds`
    """
    try:
        names = {name: number for number, name in enumerate(dict.fromkeys(groups))}
    except TypeError as error:
        raise DataError(f"a group is a text or a number, one for each row: {error}") from error
    if len(names) < len(fractions):
        raise DataError(f"{len(names)} groups cannot fill {len(fractions)} parts; each part needs one")
    group_of = np.array([names[name] for name in groups], dtype=np.int64)
    shares = _shares(group_of, kinds, kind_of)
    deficit = np.outer(fractions, shares.sum(0))
    weights = (shares * shares).sum(1)
    shuffled = _shuffled(len(names), seed)
    part_of = np.full(len(names), -1)
    empty = set(range(len(fractions)))
    ordered = shuffled[np.argsort(-weights[shuffled], kind="stable")]
    for position, group in enumerate(ordered):
        left = len(ordered) - position
        # The last groups fill the parts that are empty.
        candidates = sorted(empty) if left == len(empty) else range(len(fractions))
        part = max(candidates, key=(deficit @ shares[group]).__getitem__)
        part_of[group] = part
        deficit[part] -= shares[group]
        empty.discard(part)
    counts = (part_of[:, None] == np.arange(len(fractions))).astype(np.int64)
    _exchange(counts, shares, deficit, close=0)
    parts: np.ndarray = counts.argmax(axis=1)[group_of]
    return parts


def _shares(group_of: np.ndarray, kinds: np.ndarray, kind_of: np.ndarray) -> np.ndarray:
    """What each group has of all rows, and of those of each label. [groups, 1 + labels]"""
    counts = np.zeros((group_of.max() + 1, 1 + kinds.shape[1]))
    counts[:, 0] = np.bincount(group_of)
    pairs, times = np.unique(group_of * len(kinds) + kind_of, return_counts=True)
    np.add.at(counts[:, 1:], pairs // len(kinds), times[:, None] * kinds[pairs % len(kinds)])
    shares: np.ndarray = counts / counts.sum(0)
    return shares


# ── stratification ───────────────────────────────────────────────────────────────────────────────


def _kinds(labels: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Group rows by their set of labels (kind). Returns: labels of each kind [K, L] 0 or 1, kind of each row [N]"""
    try:
        sets = [frozenset(labels_of(value)) for value in labels]
    except TypeError as error:
        raise DataError(f"a label is a text, a number or a list of them: {error}") from error
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys(sets))}
    names: dict[Hashable, int] = {}
    for kind in numbers:
        for name in sorted(kind, key=str):  # a set has no order of its own
            names.setdefault(name, len(names))
    if len(names) > MAX_STRATIFIED_LABELS:
        raise DataError(
            f"there are {len(names):,} different labels, such as {next(iter(names))!r}; at most "
            f"{MAX_STRATIFIED_LABELS} can be stratified: is the column a number or a text? then leave the labels out"
        )
    kinds = np.zeros((len(numbers), len(names)), dtype=np.int64)
    for kind, number in numbers.items():
        kinds[number, [names[name] for name in kind]] = 1
    return kinds, np.array([numbers[kind] for kind in sets], dtype=np.int64)


def _label_counts(kinds: np.ndarray, kind_of: np.ndarray) -> np.ndarray:
    """Rows of each label. [L]"""
    counts: np.ndarray = np.bincount(kind_of, minlength=len(kinds)) @ kinds
    return counts


def _stratified(kinds: np.ndarray, kind_of: np.ndarray, sizes: np.ndarray, target: np.ndarray, seed: int) -> np.ndarray:
    """Iterative stratification: the part of each row.

    The rarest remaining label goes first, as it has the least freedom; each of its rows goes to the part with the
    largest deficit of the label, then of rows. Then rows of two parts are swapped as long as that brings label
    counts nearer to the target.

    Args:
        kinds, kind_of: see `_kinds`
        sizes: rows of each part, kept exactly. [P]
        target: of each label. [P, L]
    """
    left = np.bincount(kind_of, minlength=len(kinds))
    room, deficit = sizes.copy(), target.astype(np.float64).copy()
    counts = np.zeros((len(kinds), len(sizes)), dtype=np.int64)  # rows of each kind in each part
    remaining = left @ kinds  # rows of each label that are not assigned yet. [L]
    while remaining.any():
        label = int(np.argmin(np.where(remaining > 0, remaining, remaining.max() + 1)))
        for kind in map(int, np.flatnonzero(kinds[:, label] * left)):
            for _ in range(left[kind]):
                part = max(np.flatnonzero(room).tolist(), key=lambda part: (deficit[part, label], room[part]))
                counts[kind, part] += 1
                room[part] -= 1
                deficit[part] -= kinds[kind]
            remaining -= left[kind] * kinds[kind]
            left[kind] = 0
    for kind in map(int, np.flatnonzero(left)):  # rows without a label fill the rest
        for part in range(len(sizes)):
            counts[kind, part] = min(left[kind], room[part])
            left[kind] -= counts[kind, part]
            room[part] -= counts[kind, part]
    _exchange(counts, kinds, deficit)
    shuffled = _shuffled(len(kind_of), seed)
    # Which rows of a kind go to which part is random.
    by_kind = shuffled[np.argsort(kind_of[shuffled], kind="stable")]
    part_of = np.empty(len(kind_of), dtype=np.int64)
    part_of[by_kind] = np.repeat(np.tile(np.arange(len(sizes)), len(kinds)), counts.ravel())
    return part_of


def _exchange(counts: np.ndarray, kinds: np.ndarray, deficit: np.ndarray, close: float = 1) -> None:
    """Local search: swap rows of two parts where the sum of squared deficits shrinks most, until none does.

    Args:
        counts: of each kind in each part, changed in place. [K, P]
        kinds: labels of each, or shares of them. [K, L]
        deficit: of each part and label, changed in place. [P, L]
        close: deficits below this are near enough

    A swap moves step = labels of the one − labels of the other, and saves 2 step·(deficit_to − deficit_from) − 2 step².
    That is a score of the one, a score of the other, and a product of both, which is small on average where labels are
    centred: of many kinds, pairs are made of those with the best scores of their own.
    """
    kinds = kinds.astype(np.float64)  # products of whole numbers in floating point are exact here, and much faster
    lengths, centred = (kinds * kinds).sum(1), kinds - kinds.mean(0)
    spread = (centred * centred).sum(1)
    while np.abs(deficit).max(initial=0) >= close:
        part = int(np.argmax(np.abs(deficit).max(axis=1)))
        best, swap = 1e-9, None
        for other in sorted(set(range(len(deficit))) - {part}):
            pull = centred @ (deficit[other] - deficit[part])
            own = _most_promising(np.flatnonzero(counts[:, part]), pull - spread)
            other_kinds = _most_promising(np.flatnonzero(counts[:, other]), -pull - spread)
            gain = kinds @ (deficit[other] - deficit[part])
            squares = lengths[own][:, None] + lengths[other_kinds] - 2 * kinds[own] @ kinds[other_kinds].T
            saved = 2 * (gain[own][:, None] - gain[other_kinds]) - 2 * squares  # [own, other_kinds]
            index = int(np.argmax(saved))
            if saved.flat[index] > best:
                best = float(saved.flat[index])
                swap = own[index // len(other_kinds)], other_kinds[index % len(other_kinds)], other
        if swap is None:
            return
        one, another, other = swap
        counts[[one, another], [part, other]] -= 1
        counts[[one, another], [other, part]] += 1
        step = kinds[one] - kinds[another]
        deficit[part] += step
        deficit[other] -= step


def _most_promising(candidates: np.ndarray, score: np.ndarray) -> np.ndarray:
    """The kinds with the best scores, at most `SWAP_CANDIDATES`, ascending."""
    if len(candidates) <= SWAP_CANDIDATES:
        return candidates
    best = np.argpartition(score[candidates], -SWAP_CANDIDATES)[-SWAP_CANDIDATES:]
    return np.sort(candidates[best])


# ── duplicates and leaks ─────────────────────────────────────────────────────────────────────────────


def normalise_text(text: str) -> str:
    """Normalise a text for comparison: NFKC, case folding, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def text_digest(text: str) -> bytes:
    """A 16-byte digest of a normalised text."""
    return hashlib.blake2b(normalise_text(text).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def leaks(known: Iterable[str], test: Iterable[str]) -> list[tuple[int, int]]:
    """Leaks: texts of one part that another has too, on which a score measures memorisation.

        leaks(["Time flies."], ["Fruit flies.", "time  FLIES."])        [(0, 1)]

    Returns: for each such text its first index in `known`, and its index in `test`.
    """
    seen = _first_occurrences(known)
    return [(seen[key], number) for number, key in enumerate(map(text_digest, test)) if key in seen]


def deduplicate(texts: Iterable[str], pairs: Iterable[str] | None = None) -> list[int]:
    """The indices of the first occurrence of each normalised text; of rows with second texts, of each pair.

    Args:
        pairs: the second texts, such as the contexts of questions
    """
    if pairs is not None:
        texts = (f"{text} \0 {pair}" for text, pair in zip(texts, pairs, strict=True))
    return list(_first_occurrences(texts).values())


def _first_occurrences(texts: Iterable[str]) -> dict[bytes, int]:
    """Digest of each normalised text → index of its first occurrence."""
    first: dict[bytes, int] = {}
    for number, text in enumerate(texts):
        first.setdefault(text_digest(text), number)
    return first
