"""Indexing a folder of documents and asking a question, compared with two peers in one run, in turn.

    python benchmarks/retrieval.py --documents FOLDER                  all files of a folder
    python benchmarks/retrieval.py --documents FOLDER --passages 2000  so many passages of it, each a file
    python benchmarks/retrieval.py --texts DATA --passages 20000       each of three sentences of data sets, likewise

Ours is timed from the files to the first answer: read, split, embedded, written with full-text index. The peers get our
passages as they are, so they neither read nor split. sentence-transformers + LanceDB embeds them, writes vectors and
texts to a table with a full-text index, and answers one question; Haystack's pipeline of an embedder and a writer holds
them in memory, and another one answers. Neither is a dependency: pip install lancedb haystack-ai
sentence-transformers-haystack. BM25 is compared with bm25s, where that is installed: milliseconds a question.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from _made_vectors import passages
from _measure import environment, installed_minilm

SENTENCES = 3
"""Of a passage that is made of data sets: about 90 tokens."""
SETS = ("us_speeches", "wikitext2", "ag_news", "xquad", "multi30k", "snli")
"""Data sets with sentences, those with long ones first."""
QUESTIONS = ("How is attention computed?", "Which loss is used in distillation?", "What is a causal mask?")


def passages_of(store: Path) -> list[str]:
    """What a model reads of each passage of a store."""
    from glassformer.retrieval import open_store

    opened = open_store(store)
    texts = [match.text for match in opened.matches(range(1, opened.counts().passages + 1))]
    opened.close()
    return texts


def ours(documents: Path, store: Path) -> Any:
    import glassformer
    from glassformer.retrieval import Retriever, index_folder

    model = glassformer.load(installed_minilm())
    index_folder(documents, store, model)
    return Retriever.open(store).search(QUESTIONS[0])


def lancedb(texts: list[str], folder: Path) -> Any:
    import lancedb as lance
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(installed_minilm()), device="cpu")
    vectors = model.encode(texts, batch_size=32, normalize_embeddings=True)
    rows = [{"vector": vector, "text": text} for vector, text in zip(vectors, texts, strict=True)]
    table = lance.connect(str(folder)).create_table("passages", rows)
    table.create_fts_index("text")
    return table.search(model.encode(QUESTIONS[0])).limit(10).to_list()


def haystack(texts: list[str], folder: Path) -> Any:
    from haystack import Document, Pipeline
    from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
    from haystack.components.writers import DocumentWriter
    from haystack.document_stores.in_memory import InMemoryDocumentStore
    from haystack.utils import ComponentDevice
    from haystack_integrations.components.embedders.sentence_transformers import (
        SentenceTransformersDocumentEmbedder,
        SentenceTransformersTextEmbedder,
    )

    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    model = {"model": str(installed_minilm()), "device": ComponentDevice.from_str("cpu"), "progress_bar": False}
    indexing, asking = Pipeline(), Pipeline()
    indexing.add_component("embed", SentenceTransformersDocumentEmbedder(**model))
    indexing.add_component("write", DocumentWriter(store))
    indexing.connect("embed.documents", "write.documents")
    indexing.run({"embed": {"documents": [Document(content=text) for text in texts]}})
    asking.add_component("embed", SentenceTransformersTextEmbedder(**model))
    asking.add_component("retrieve", InMemoryEmbeddingRetriever(store, top_k=10))
    asking.connect("embed.embedding", "retrieve.query_embedding")
    return asking.run({"embed": {"text": QUESTIONS[0]}})["retrieve"]["documents"]


PEERS = {
    "sentence-transformers + LanceDB": ("lancedb", lancedb),
    "Haystack, in memory": ("haystack_integrations", haystack),
}
"""Name → the module that has to be installed, and what runs it."""


def milliseconds(answer: Callable[[str], Any], rounds: int = 20) -> float:
    """The median time of a question."""
    taken = []
    for number in range(rounds + 3):
        start = time.perf_counter()
        answer(QUESTIONS[number % len(QUESTIONS)])
        taken.append(1000 * (time.perf_counter() - start))
    return statistics.median(taken[3:])


def of_questions(store: Path, texts: list[str]) -> dict[str, float]:
    """Milliseconds a question."""
    from glassformer.retrieval import Retriever
    from glassformer.retrieval.options import RetrievalOptions

    start = time.perf_counter()
    retriever = Retriever.open(store)
    result = {"open, with the model": 1000 * (time.perf_counter() - start)}
    for method in ("bm25", "dense", "fusion"):
        options = RetrievalOptions(method=method, top=10)
        result[method] = milliseconds(lambda question, options=options: retriever.search(question, options))  # type: ignore[misc]
    if find_spec("bm25s"):
        import bm25s

        index = bm25s.BM25()
        index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
        result["bm25s"] = milliseconds(
            lambda question: index.retrieve(
                bm25s.tokenize([question], show_progress=False), k=min(100, len(texts)), show_progress=False
            )
        )
    return result


def write_passages(texts: list[str], folder: Path) -> Path:
    """A file for each passage."""
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"{number:06}.txt").write_text(text, "utf-8")
    return folder


def documents_of(arguments: argparse.Namespace, folder: Path) -> Path:
    """The folder that is indexed."""
    if arguments.texts is not None:
        wanted = SENTENCES * arguments.passages
        listed = [x for name in SETS for x in passages(arguments.texts / name, wanted)][:wanted]
        joined = [" ".join(listed[i : i + SENTENCES]) for i in range(0, len(listed), SENTENCES)]
        return write_passages(joined, folder / "documents")
    if arguments.passages is None:
        return arguments.documents
    from glassformer.retrieval import index_folder

    index_folder(arguments.documents, folder / "words")
    return write_passages(passages_of(folder / "words")[: arguments.passages], folder / "documents")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--documents", type=Path)
    source.add_argument("--texts", type=Path)
    parser.add_argument("--passages", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.texts is not None and arguments.passages is None:
        parser.error("--texts needs --passages")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        documents = documents_of(arguments, folder)
        peers = {name: run for name, (module, run) in PEERS.items() if find_spec(module)}
        seconds: dict[str, list[float]] = {name: [] for name in ("ours", *peers)}
        texts: list[str] = []
        for number in range(arguments.rounds):
            start = time.perf_counter()
            ours(documents, folder / f"store-{number}")
            seconds["ours"].append(time.perf_counter() - start)
            texts = texts or passages_of(folder / "store-0")
            for name, run in peers.items():
                start = time.perf_counter()
                run(texts, folder / f"{name}-{number}")
                seconds[name].append(time.perf_counter() - start)
        medians = {name: statistics.median(taken) for name, taken in seconds.items()}
        report = {
            "passages": len(texts),
            "characters": sum(map(len, texts)),
            "seconds": medians,
            "times_as_fast": {name: medians[name] / medians["ours"] for name in peers},
            "ms_a_question": of_questions(folder / "store-0", texts),
            **environment(),
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
