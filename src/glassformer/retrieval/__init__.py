"""Search and question answering over documents: a store of passages, retrievers, readers, and answers with sources.

    index_folder("notes", "notes.store", model)                 read, split, embed, and store in SQLite
    retriever = Retriever.open("notes.store")                   BM25 and vectors
    ask("When was the lighthouse built?", retriever)            an answer, its passage, and its place in the file

Read in this order:

    formats/         a file → Document, one module a format; folder.py: which files; document.py
    splitter.py      Document → passages; passage.py
    store.py         what a store does; sqlite_store.py: one SQLite file; words.py: its full-text terms
    postgres_store.py  a PostgreSQL database with pgvector; postgres_database.py: connections, errors, the one writer
    indexing.py      folder → store, or what changed in it; embedder.py: passages and questions → vectors
    ray_embedding.py passages → vectors by several processes or machines
    vectors.py       exact search over vectors; clusters.py: k-means
    retriever.py     question → passages: BM25, dense, fusion, re-ranking, diversity
    reader.py        question, passages → the words that answer it
    generative.py    question, passages → written sentences with citations
    support.py       sentence, passages → which of them says it
    answer.py        question → answer with its source
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from glassformer.files.lazy import LazyPackage

if TYPE_CHECKING:
    from glassformer.retrieval.answer import Answer, ask
    from glassformer.retrieval.generative import GenerativeReader
    from glassformer.retrieval.indexing import index_folder
    from glassformer.retrieval.opening import open_store
    from glassformer.retrieval.reader import Reader
    from glassformer.retrieval.retriever import Retriever
    from glassformer.retrieval.store import Store

__all__ = ["Answer", "GenerativeReader", "Reader", "Retriever", "Store", "ask", "index_folder", "open_store"]

_LAZY = {
    "Answer": "glassformer.retrieval.answer",
    "GenerativeReader": "glassformer.retrieval.generative",
    "Reader": "glassformer.retrieval.reader",
    "Retriever": "glassformer.retrieval.retriever",
    "Store": "glassformer.retrieval.store",
    "ask": "glassformer.retrieval.answer",
    "index_folder": "glassformer.retrieval.indexing",
    "open_store": "glassformer.retrieval.opening",
}

sys.modules[__name__].__class__ = LazyPackage
