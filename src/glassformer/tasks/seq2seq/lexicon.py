"""Word alignment (IBM model 1): a word-by-word translation lexicon, learnt from pairs of sentences.

    das Haus    the house        1.  any word of a target may come from any of its source, or from none: all as likely
    das Buch    the book         2.  count each such link as often as it is likely, and divide: t(the | das) rises,
    ein Buch    a book               since both are in two pairs; so t(house | das) falls
                                 3.  again, a few times

Source: Brown et al. 1993, "The mathematics of statistical machine translation", model 1; fitted by EM.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

ROUNDS = 5
MOST_LINKS = 10_000_000
"""Pairs are learnt from as long as there are no more links between their words: each takes some thirty bytes."""
_WORD = re.compile(r"\w+|[^\w\s]")
_BEFORE = re.compile(r" (?=[.,;:!?)])")


class Lexicon:
    """The likeliest translation of each word. Args: pairs: (source, target) · rounds: of EM"""

    def __init__(self, pairs: Sequence[tuple[str, str]], rounds: int = ROUNDS) -> None:
        self._sources = {"": 0}  # the word that words without origin come from
        self._targets: dict[str, int] = {}
        reads: list[np.ndarray] = []
        says: list[np.ndarray] = []
        links = 0
        for source, target in pairs:
            source_words, target_words = words(source.lower()), words(target)
            links += (1 + len(source_words)) * len(target_words)
            if links > MOST_LINKS:
                break
            reads.append(np.array([0, *(_number(self._sources, word) for word in source_words)]))
            says.append(np.array([_number(self._targets, word) for word in target_words], dtype=np.int64))
        # All links of all pairs, each with its kind (a word, and what it becomes) and the target word that it explains.
        kinds = [(r[:, None] * len(self._targets) + s).ravel() for r, s in zip(reads, says, strict=True)]
        firsts = np.cumsum([0, *map(len, says)])
        places = [
            np.tile(np.arange(len(s)) + first, len(r))
            for r, s, first in zip(reads, says, firsts, strict=False)
        ]
        links_seen, kind = np.unique(np.concatenate([np.zeros(0, np.int64), *kinds]), return_inverse=True)
        place = np.concatenate([np.zeros(0, np.int64), *places])
        origin = links_seen // max(len(self._targets), 1)
        t = np.ones(len(links_seen))
        for _ in range(rounds if len(links_seen) else 0):
            share = t[kind] / np.bincount(place, t[kind])[place]  # of a target word, each origin its share
            count = np.bincount(kind, share, len(links_seen))
            t = count / np.bincount(origin, count)[origin]
        names = list(self._targets)
        order = np.lexsort((t, origin))  # by origin, of each the likeliest last
        last = order[np.flatnonzero(np.diff(origin[order], append=-1))]
        self._best = {int(origin[index]): names[links_seen[index] % len(names)] for index in last}

    def __call__(self, text: str) -> str:
        """A text, its words one for one; one that is not known stays."""
        target_words = [self._best.get(self._sources.get(word.lower(), -1), word) for word in words(text)]
        return _BEFORE.sub("", " ".join(target_words))


def words(text: str) -> list[str]:
    """Words and signs."""
    return _WORD.findall(text)


def _number(known: dict[str, int], word: str) -> int:
    return known.setdefault(word, len(known))
