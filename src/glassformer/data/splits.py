"""Which rows train, which choose, which judge: parts that share nothing and hold labels in like shares.

    rows ──split──> train | validation | test        by chance · each label in its share · no group in two parts
    rows ──slices─> 8 ⊂ 16 ⊂ 32 ⊂ …                  for curves of quality over the number of labelled rows
    rows ──sample─> 1,000                            by chance, each sample within all larger ones of its seed
    rows ──folds──> (rest, held out) × k

Everything here takes numbers of rows, labels and texts, and answers with numbers of rows.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from glassformer.data.order import Order
from glassformer.data.schema import missing
from glassformer.data.sequence import Rows
from glassformer.errors import ConfigError, DataError

MOST_LABELS = 600
"""Keeping shares takes time that grows with the square of the labels, and more: seconds for so many."""


def are_many(labels: Sequence[Any]) -> bool:
    """Are there more different labels than can be kept in their shares, as where they are numbers?"""
    return len({name for value in labels for name in _as_set(value)}) > MOST_LABELS


def column(rows: Rows, name: str) -> list[Any]:
    """The values of one column, None where a row has none.

    Raises: DataError: there is no such column; which there are.
    """
    if name not in rows.columns:
        raise DataError(f"{rows.file(0)}: {missing(name, rows.columns)}")
    return [row.get(name) for row in rows]


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────


def split(
    count: int,
    fractions: Sequence[float] = (0.8, 0.1, 0.1),
    *,
    seed: int = 0,
    labels: Sequence[Any] | None = None,
    groups: Sequence[Hashable] | None = None,
) -> list[np.ndarray]:
    """Share `count` rows out into parts; the same seed makes the same parts.

        train, validation, test = split(len(rows), labels=column(rows, "label"), seed=1)

    Args:
        fractions: of the rows, a number above 0 for each part, 1 together.
        labels: one for each row, or a collection of them: each part then has each label in its share.
        groups: one for each row, such as who spoke: no group is in two parts, so the sizes are only near.

    Returns: the numbers of the rows of each part, in rising order.
    Raises: ConfigError: fractions that do not fit · DataError: too few rows or groups for so many parts.

    Source: with labels, Sechidis et al. 2011, "On the stratification of multi-label data", figure 1.
    """
    _check_fractions(fractions)
    if labels is not None and groups is not None:
        raise ConfigError("parts are made by labels or by groups, not by both; leave one out")
    if groups is not None:
        _check_length("groups", groups, count)
        return _numbers(_by_groups(groups, fractions, seed), len(fractions))
    sizes = _sizes(count, fractions)
    if labels is None:
        shuffled = _shuffled(count, seed)
        return [np.sort(part) for part in np.split(shuffled, np.cumsum(sizes)[:-1])]
    _check_length("labels", labels, count)
    kinds, kind_of = _kinds(labels)
    shares = np.array(sizes) / count
    wanted = np.outer(shares, np.bincount(kind_of, minlength=len(kinds)) @ kinds)
    return _numbers(_stratified(kinds, kind_of, np.array(sizes), wanted, seed), len(sizes))


def sample(count: int, size: int, *, seed: int = 0) -> np.ndarray:
    """So many of `count` rows by chance; a smaller sample of the same seed lies within a larger one.

    Returns: the numbers of the rows, in rising order.
    Raises: DataError: more than there are · ConfigError: none.
    """
    if size < 1:
        raise ConfigError(f"a sample has 1 row or more; got {size}")
    if size > count:
        raise DataError(f"a sample of {size:,} rows cannot be had of {count:,}; ask for fewer")
    return np.sort(_shuffled(count, seed)[:size])


def slices(labels: Sequence[Any], sizes: Sequence[int], *, seed: int = 0) -> list[np.ndarray]:
    """Samples of growing size, each within the next, that have each label as often as all rows have.

        slices(labels, (8, 16, 32, 64, 128, 220))

    In each, a label is there within one row of its share, where rows allow it.

    Raises: ConfigError: sizes that do not grow · DataError: more than there are rows.
    """
    if not sizes or min(sizes) < 1 or any(a >= b for a, b in pairwise(sizes)):
        raise ConfigError(f"sizes must grow, from 1 on; got {', '.join(map(str, sizes))}")
    count = len(labels)
    if sizes[-1] > count:
        raise DataError(f"a slice of {sizes[-1]} rows cannot be had of {count}; ask for fewer")
    kinds, kind_of = _kinds(labels)
    often = np.bincount(kind_of, minlength=len(kinds)) @ kinds
    found: list[np.ndarray] = []
    outer = np.arange(count)  # from the largest down, so that each is taken from the one around it
    for number, size in enumerate(reversed(sizes)):
        if size < len(outer):
            inside = np.bincount(kind_of[outer], minlength=len(kinds)) @ kinds
            wanted = np.stack([often * (size / count), inside - often * (size / count)])
            room = np.array([size, len(outer) - size])
            outer = outer[_stratified(kinds, kind_of[outer], room, wanted, seed + number) == 0]
        found.append(outer)
    return found[::-1]


def folds(
    count: int,
    parts: int,
    *,
    seed: int = 0,
    labels: Sequence[Any] | None = None,
    groups: Sequence[Hashable] | None = None,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Cross-validation: each row is held out once. Returns: for each fold what trains, and what is held out."""
    if parts < 2:
        raise ConfigError(f"cross-validation takes 2 folds or more; got {parts}")
    held_out = split(count, [1 / parts] * parts, seed=seed, labels=labels, groups=groups)
    return [(np.setdiff1d(np.arange(count), part), part) for part in held_out]


def _check_fractions(fractions: Sequence[float]) -> None:
    said = ", ".join(f"{fraction:g}" for fraction in fractions)
    if len(fractions) < 2 or not all(0 < fraction < 1 for fraction in fractions):
        raise ConfigError(f"fractions are two or more numbers between 0 and 1; got {said or 'none'}")
    if not math.isclose(sum(fractions), 1, abs_tol=1e-6):
        raise ConfigError(f"fractions must make 1 together; {said} make {sum(fractions):g}")


def _check_length(what: str, values: Sequence[Any], count: int) -> None:
    if len(values) != count:
        raise DataError(f"there are {count:,} rows and {len(values):,} {what}; give one for each row")


def _sizes(count: int, fractions: Sequence[float]) -> list[int]:
    """Whole numbers nearest to the fractions that make `count` together: the largest remainders get one more."""
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
    return Order(count, seed=seed).at(0, range(count))


def _numbers(part_of: np.ndarray, parts: int) -> list[np.ndarray]:
    return [np.flatnonzero(part_of == part) for part in range(parts)]


def _by_groups(groups: Sequence[Hashable], fractions: Sequence[float], seed: int) -> np.ndarray:
    """The largest groups first, each to the part that lacks most."""
    names = {name: number for number, name in enumerate(dict.fromkeys(groups))}
    group_of = np.array([names[name] for name in groups], dtype=np.int64)
    if len(names) < len(fractions):
        raise DataError(f"{len(names)} groups cannot fill {len(fractions)} parts; each part needs one")
    sizes = np.bincount(group_of)
    shuffled = _shuffled(len(names), seed)
    lacking = np.array(fractions) * len(groups)
    part_of = np.full(len(names), -1)
    empty = set(range(len(fractions)))
    ordered = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
    for place, group in enumerate(ordered):
        left = len(ordered) - place
        # The last groups fill the parts that are empty.
        among = sorted(empty) if left == len(empty) else range(len(fractions))
        part = max(among, key=lambda part: lacking[part])
        part_of[group] = part
        lacking[part] -= sizes[group]
        empty.discard(part)
    return part_of[group_of]


# ── labels in their shares ───────────────────────────────────────────────────────────────────────────────


def _kinds(labels: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Rows with the same labels are of one kind. Returns: labels of each kind [K, L] 0 or 1, kind of each row [N]"""
    try:
        sets = [_as_set(value) for value in labels]
    except TypeError as error:
        raise DataError(f"a label is a text, a number or a list of them: {error}") from error
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys(sets))}
    names: dict[Hashable, int] = {}
    for kind in numbers:
        for name in sorted(kind, key=str):  # a set has no order of its own
            names.setdefault(name, len(names))
    if len(names) > MOST_LABELS:
        raise DataError(
            f"there are {len(names):,} different labels, such as {next(iter(names))!r}; at most {MOST_LABELS} can be "
            "kept in their shares: is the column a number or a text? then leave the labels out"
        )
    kinds = np.zeros((len(numbers), len(names)), dtype=np.int64)
    for kind, number in numbers.items():
        kinds[number, [names[name] for name in kind]] = 1
    return kinds, np.array([numbers[kind] for kind in sets], dtype=np.int64)


def _as_set(value: Any) -> frozenset[Hashable]:
    single = isinstance(value, (str, bytes)) or not isinstance(value, Collection)
    return frozenset([value] if single else value)


def _stratified(
    kinds: np.ndarray, kind_of: np.ndarray, sizes: np.ndarray, wanted: np.ndarray, seed: int
) -> np.ndarray:
    """The part of each row.

    The rarest label that is left goes first, for later ones can mend less; each of its rows goes to the part
    that lacks the label most, then to the one that lacks rows most. Then kinds of rows change places between
    parts, as long as that brings labels nearer to what is wanted.

    Args:
        kinds, kind_of: see `_kinds` · sizes: rows of each part, kept exactly. [P] · wanted: of each label. [P, L]
    """
    left = np.bincount(kind_of, minlength=len(kinds))
    room, lacking = sizes.copy(), wanted.astype(np.float64).copy()
    given = np.zeros((len(kinds), len(sizes)), dtype=np.int64)  # how many of a kind each part gets
    while (often := left @ kinds).any():
        label = int(np.argmin(np.where(often > 0, often, often.max() + 1)))
        for kind in map(int, np.flatnonzero(kinds[:, label] * left)):
            for _ in range(left[kind]):
                part = max(np.flatnonzero(room).tolist(), key=lambda part: (lacking[part, label], room[part]))
                given[kind, part] += 1
                room[part] -= 1
                lacking[part] -= kinds[kind]
            left[kind] = 0
    for kind in map(int, np.flatnonzero(left)):  # rows without a label fill what is free
        for part in range(len(sizes)):
            given[kind, part] = min(left[kind], room[part])
            left[kind] -= given[kind, part]
            room[part] -= given[kind, part]
    _exchange(given, kinds, lacking)
    shuffled = _shuffled(len(kind_of), seed)
    by_kind = shuffled[
        np.argsort(kind_of[shuffled], kind="stable")
    ]  # which of a kind go where is left to chance
    part_of = np.empty(len(kind_of), dtype=np.int64)
    part_of[by_kind] = np.repeat(np.tile(np.arange(len(sizes)), len(kinds)), given.ravel())
    return part_of


def _exchange(given: np.ndarray, kinds: np.ndarray, lacking: np.ndarray) -> None:
    """Swap rows of two parts where the squares of what is lacking shrink most, until none does.

    A swap moves step = labels of the one − labels of the other, and saves 2 step·(lacking_to − lacking_from) − 2 step².
    """
    sums = (kinds * kinds).sum(1)
    while np.abs(lacking).max(initial=0) >= 1:
        part = int(np.argmax(np.abs(lacking).max(axis=1)))
        mine = np.flatnonzero(given[:, part])
        best, swap = 1e-9, None
        for other in sorted(set(range(len(lacking))) - {part}):
            theirs = np.flatnonzero(given[:, other])
            gain = kinds @ (lacking[other] - lacking[part])
            squares = sums[mine][:, None] + sums[theirs] - 2 * kinds[mine] @ kinds[theirs].T
            saved = 2 * (gain[mine][:, None] - gain[theirs]) - 2 * squares  # [mine, theirs]
            place = int(np.argmax(saved))
            if saved.flat[place] > best:
                best = float(saved.flat[place])
                swap = mine[place // len(theirs)], theirs[place % len(theirs)], other
        if swap is None:
            return
        one, another, other = swap
        given[[one, another], [part, other]] -= 1
        given[[one, another], [other, part]] += 1
        step = kinds[one] - kinds[another]
        lacking[part] += step
        lacking[other] -= step


# ── what stands in two parts ─────────────────────────────────────────────────────────────────────────────


def normal(text: str) -> str:
    """A text as it is compared: compatible characters made one, capitals small, any white space one space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def digest(text: str) -> bytes:
    """16 bytes that stand for a text as it is compared: two texts with the same are the same."""
    return hashlib.blake2b(normal(text).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def leaks(known: Iterable[str], judged: Iterable[str]) -> list[tuple[int, int]]:
    """Texts of one part that another has too: a score on them says what was learned by heart.

        leaks(["Time flies."], ["Fruit flies.", "time  FLIES."])        [(0, 1)]

    Returns: for each such text its first number in `known`, and its number in `judged`.
    """
    seen: dict[bytes, int] = {}
    for number, text in enumerate(known):
        seen.setdefault(digest(text), number)
    return [(seen[key], number) for number, key in enumerate(map(digest, judged)) if key in seen]


def distinct(texts: Iterable[str]) -> list[int]:
    """The numbers of the texts that did not stand before, as they are compared."""
    seen: set[bytes] = set()
    found = []
    for number, text in enumerate(texts):
        key = digest(text)
        if key not in seen:
            seen.add(key)
            found.append(number)
    return found
