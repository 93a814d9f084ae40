"""Linked tables of an n-gram model from lists of n-grams, and back; fewer n-grams by entropy pruning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glassformer.errors import DataError
from glassformer.ngram.counts import key_of
from glassformer.ngram.model import NgramTable

Ngrams = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Word ids [N, n], ln P of the last word [N], ln of the back-off weight [N]."""


def linked(where: str, orders: Sequence[Ngrams]) -> list[NgramTable]:
    """The tables of n-grams of 1, 2, … words; the first has every word, by id.

    The beginning and the end of an n-gram are n-grams too; those that are missing are added.

    Raises: DataError: an n-gram is there twice.
    """
    complete = _complete([ids for ids, _, _ in orders])
    tables: list[NgramTable] = []
    for n, (ids, (given, log_probs, backoffs)) in enumerate(zip(complete, orders, strict=True)):
        prefixes, places = _places(tables, ids[:, :-1]), _places(tables, ids[:, 1:])
        keys = key_of(prefixes, ids[:, -1])
        order = np.argsort(keys)
        keys, suffixes, prefixes = keys[order], places[order].astype(np.int32), prefixes[order]
        if len(keys) > 1 and (np.diff(keys) == 0).any():
            raise DataError(f"{where}: a {n + 1}-gram is there twice")
        own = np.argsort(order)[: len(given)]  # where those that were given went
        if n:
            below = tables[-1]
            all_log_probs = below.backoffs[prefixes].astype(np.float64) + below.log_probs[suffixes]
        else:
            all_log_probs = np.zeros(len(keys))
        all_backoffs = np.zeros(len(keys))
        all_log_probs[own], all_backoffs[own] = log_probs, backoffs
        tables.append(NgramTable(keys, all_log_probs.astype(np.float32), all_backoffs.astype(np.float32), suffixes))
    return tables


def _complete(orders: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The ids of each order, and behind them the missing beginnings and ends of longer n-grams."""
    complete = list(orders)
    for n in range(len(orders) - 1, 0, -1):
        needed = np.unique(np.concatenate([complete[n][:, :-1], complete[n][:, 1:]]), axis=0)
        both = np.concatenate([complete[n - 1], needed])
        _, first, seen = np.unique(both, axis=0, return_index=True, return_inverse=True)
        missing = np.unique(seen[len(complete[n - 1]) :])
        missing = missing[first[missing] >= len(complete[n - 1])]
        complete[n - 1] = np.concatenate([complete[n - 1], both[first[missing]]])
    return complete


def _places(tables: Sequence[NgramTable], ids: np.ndarray) -> np.ndarray:
    """The place of n-grams among those of their length. [N, n] → [N]"""
    places = np.zeros(len(ids), dtype=np.int64)
    for n in range(ids.shape[1]):
        places = tables[n].find(places, ids[:, n])
    return places
