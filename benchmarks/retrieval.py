"""Indexing a folder of documents and asking a question, compared with sentence-transformers and LanceDB in one run.

    python benchmarks/retrieval.py --documents FOLDER                  all files of a folder
    python benchmarks/retrieval.py --documents FOLDER --passages 2000  so many passages of it, each a file

Ours is timed from the files to the first answer: read, split, embedded, written with full-text index. The peer gets our
passages as they are, so neither reads nor splits: it embeds them, writes vectors and texts to a LanceDB table with a
full-text index, and answers one question. LanceDB is no dependency: pip install lancedb. BM25 is compared with bm25s,
where that is installed: milliseconds a question.
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

from _measure import environment, installed_minilm

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=Path, required=True)
    parser.add_argument("--passages", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder, documents = Path(made), arguments.documents
        if arguments.passages is not None:
            from glassformer.retrieval import index_folder

            index_folder(documents, folder / "words")
            documents = folder / "documents"
            documents.mkdir()
            for number, text in enumerate(passages_of(folder / "words")[: arguments.passages]):
                (documents / f"{number:06}.txt").write_text(text, "utf-8")
        seconds: dict[str, list[float]] = {"ours": [], "sentence-transformers + LanceDB": []}
        texts: list[str] = []
        for number in range(arguments.rounds):
            start = time.perf_counter()
            ours(documents, folder / f"store-{number}")
            seconds["ours"].append(time.perf_counter() - start)
            texts = texts or passages_of(folder / "store-0")
            if find_spec("lancedb"):
                start = time.perf_counter()
                lancedb(texts, folder / f"lance-{number}")
                seconds["sentence-transformers + LanceDB"].append(time.perf_counter() - start)
        report = {
            "passages": len(texts),
            "seconds": {name: statistics.median(taken) for name, taken in seconds.items() if taken},
            "ms_a_question": of_questions(folder / "store-0", texts),
            **environment(),
        }
    if len(report["seconds"]) == 2:
        own, theirs = report["seconds"].values()
        report["times_as_fast"] = theirs / own
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
