"""Passages with and without the path of headings before them: nDCG@10 of each search method, and paired differences.

    python benchmarks/headings.py                            the pages of this repository, 52 questions
    python benchmarks/headings.py --xquad xquad.en.json.gz   articles of Wikipedia, whose headings are their titles

Passages are cut at the same places in both stores; with headings a passage is embedded and indexed below them. Of a
question a passage is relevant that contains the text of its answer.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from _measure import environment, installed_minilm

import glassformer
import glassformer.retrieval.indexing as indexing
from glassformer.data.rows import read_rows
from glassformer.retrieval.evaluation import DEPTH, ndcg
from glassformer.retrieval.options import RetrievalOptions
from glassformer.retrieval.passage import Passage
from glassformer.retrieval.queries import LabelledQuery, read_queries
from glassformer.retrieval.retriever import Rankings, Retriever
from glassformer.tasks.metrics.metric import BootstrapMeans, resampled

HERE = Path(__file__).parent
METHODS = ("bm25", "dense", "fusion")
split = indexing.split


def split_without_headings(*arguments: Any, **keywords: Any) -> Iterator[Passage]:
    return (replace(passage, headings=()) for passage in split(*arguments, **keywords))


def write_articles(source: Path, folder: Path) -> None:
    """A Markdown file for each article of a file of SQuAD's format."""
    texts: dict[str, list[str]] = {}
    for row in read_rows(source, records="data.paragraphs"):
        texts.setdefault(str(row["title"]), []).append(str(row["context"]))
    for number, (title, paragraphs) in enumerate(texts.items()):
        heading = title.replace("_", " ")
        (folder / f"{number}.md").write_text("\n\n".join([f"# {heading}", *paragraphs]), "utf-8")


def score(ranked: Rankings, method: str, query: LabelledQuery) -> float:
    ids = [id for id, _ in ranked.scores[method][:DEPTH]]
    ranks = [
        next((rank for rank, id in enumerate(ids, 1) if relevant.matches(ranked.passages[id])), np.inf)
        for relevant in query.relevant
    ]
    return ndcg(ranks, DEPTH)


def scores(documents: Path, store: Path, queries: list[LabelledQuery]) -> dict[str, list[float]]:
    """nDCG@10 of each query by each method."""
    model = glassformer.load(installed_minilm())
    report = indexing.index_folder(documents, store, model)
    print(f"{report.document_count} documents, {report.passage_count} passages", flush=True)
    retriever, options = Retriever.open(store), RetrievalOptions(candidates=100)
    ranked = [retriever.rankings(query.question, options) for query in queries]
    return {m: [score(x, m, query) for x, query in zip(ranked, queries, strict=True)] for m in METHODS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--xquad", type=Path, default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder, documents = Path(made), HERE.parent / "docs"
        if arguments.xquad is not None:
            documents = folder / "articles"
            documents.mkdir()
            write_articles(arguments.xquad, documents)
        queries = read_queries(arguments.xquad or HERE / "docs_questions.csv")
        with_them = scores(documents, folder / "with", queries)
        indexing.split = split_without_headings
        without = scores(documents, folder / "without", queries)
    values = {f"{m} with": np.array(with_them[m]) for m in METHODS}
    values |= {f"{m} without": np.array(without[m]) for m in METHODS}
    results = resampled(BootstrapMeans(values, dict.fromkeys(values, "mean over queries")))
    report = {
        "queries": len(queries),
        **{name: result.interval.written(3) for name, result in results.items()},
        **{
            f"{m}, difference": results[f"{m} with"].minus(results[f"{m} without"]).interval.written(3, signed=True)
            for m in METHODS
        },
        **environment(),
    }
    print(json.dumps(report, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
