"""Baselines of generated texts: the first sentences (lead-N), a word-by-word lexicon, the nearest training pair."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.errors import ConfigError, import_optional
from glassformer.text.sentences import sentence_spans

ROUNDS = 5
"""Rounds of expectation maximisation, as usual for IBM Model 1."""
MOST_LINKS = 10_000_000
"""Pairs are learnt from as long as there are no more links between their words: each takes some thirty bytes."""
_WORD = re.compile(r"\w+|[^\w\s]")
_BEFORE = re.compile(r" (?=[.,;:!?)])")


@dataclass(frozen=True)
class Lead:
    """Summarises texts by their first sentences: news puts what matters first, so three are hard to beat there.

        Lead(3)(["One. Two. Three. Four."])        ["One. Two. Three."]

    Args:
        sentences: how many
        language: of the texts
    """

    sentences: int = 3
    language: str = "en"

    def __post_init__(self) -> None:
        if self.sentences < 1:
            raise ConfigError(f"a summary of {self.sentences} sentences says nothing; take at least 1")

    def __call__(self, texts: Sequence[str]) -> list[str]:
        spans = (sentence_spans(text, self.language)[: self.sentences] for text in texts)
        return [text[: first[-1][1]].strip() if first else "" for text, first in zip(texts, spans, strict=True)]


class Lexicon:
    """The most likely translation of each word, learnt by word alignment (IBM model 1).

        das Haus    the house     1.  any word of a target may come from any of its source, or from none: all as likely
        das Buch    the book      2.  count each such link as often as it is likely, and divide: t(the | das) rises,
        ein Buch    a book            since both are in two pairs; so t(house | das) falls
                                  3.  again, a few times

    Args:
        pairs: (source, target)
        rounds: of EM
    Source: Brown et al. 1993, "The mathematics of statistical machine translation", model 1.
    """

    def __init__(self, pairs: Sequence[tuple[str, str]], rounds: int = ROUNDS) -> None:
        self._sources = {"": 0}  # the word that words without origin come from
        self._targets: dict[str, int] = {}
        reads: list[np.ndarray] = []
        says: list[np.ndarray] = []
        links = 0
        for source, target in pairs:
            source_words, target_words = _WORD.findall(source.lower()), _WORD.findall(target)
            links += (1 + len(source_words)) * len(target_words)
            if links > MOST_LINKS:
                break
            reads.append(np.array([0, *(_number(self._sources, word) for word in source_words)]))
            says.append(np.array([_number(self._targets, word) for word in target_words], dtype=np.int64))
        # All links of all pairs, each with its kind (a word, and what it becomes) and the target word that it explains.
        kinds = [(r[:, None] * len(self._targets) + s).ravel() for r, s in zip(reads, says, strict=True)]
        firsts = np.cumsum([0, *map(len, says)])
        places = [np.tile(np.arange(len(s)) + first, len(r)) for r, s, first in zip(reads, says, firsts, strict=False)]
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
        target_words = [self._best.get(self._sources.get(word.lower(), -1), word) for word in _WORD.findall(text)]
        return _BEFORE.sub("", " ".join(target_words))


def _number(known: dict[str, int], word: str) -> int:
    return known.setdefault(word, len(known))


def nearest_targets(pairs: Sequence[tuple[str, str]], sources: Sequence[str]) -> list[str]:
    """The target whose source is most like each of these.

    Raises: MissingExtraError: without scikit-learn.
    """
    text = import_optional("sklearn.feature_extraction.text", "scikit-learn", "evaluate", "the nearest pair")
    vectors = text.TfidfVectorizer(token_pattern=r"(?u)\w+|[^\w\s]", sublinear_tf=True, dtype=np.float32)
    known = vectors.fit_transform([source for source, _ in pairs])
    targets: list[str] = []
    for start in range(0, len(sources), 128):
        alike = vectors.transform(sources[start : start + 128]) @ known.T  # unit vectors: their cosines
        targets += [pairs[int(i)][1] for i in np.asarray(alike.argmax(axis=1)).ravel()]
    return targets
