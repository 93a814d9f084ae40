"""Corpus search: an index of a text file by what a model makes of its tokens, and the nearest contexts of a token.

    index_corpus(model, "corpus.txt", "index/", layers=[3, 6], heads=[(4, 9)])       once, resumed after a stop
    corpus = CorpusSearch(model, "index/")
    corpus.search("time flies like an arrow", token=2, layer=6)                      where the layer holds the same
    corpus.search("time flies like an arrow", token=2, head=(4, 9))                  where the head gives the same
    corpus.neuron(3, 17)                                                             what a neuron answers to

Source: exBERT (Hoover et al. 2020), section 3.3; top activating contexts: common practice in interpretability.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from glassformer.files.lazy import LazyPackage

if TYPE_CHECKING:
    from glassformer.inspect.corpus.build import index_corpus
    from glassformer.inspect.corpus.index import CorpusIndex
    from glassformer.inspect.corpus.search import Contexts, CorpusSearch, Match

__all__ = ["Contexts", "CorpusIndex", "CorpusSearch", "Match", "index_corpus"]

_LAZY = {
    "Contexts": "glassformer.inspect.corpus.search",
    "CorpusIndex": "glassformer.inspect.corpus.index",
    "CorpusSearch": "glassformer.inspect.corpus.search",
    "Match": "glassformer.inspect.corpus.search",
    "index_corpus": "glassformer.inspect.corpus.build",
}
"""Imported when used: a command line reads options of this package without torch."""

sys.modules[__name__].__class__ = LazyPackage
