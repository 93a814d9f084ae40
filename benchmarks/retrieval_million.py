"""Asking a store of a million passages: time to open, time of a question by each method, memory and disk.

    python benchmarks/retrieval_million.py --texts DATA --folder FOLDER                    makes the store, and asks it
    python benchmarks/retrieval_million.py --texts DATA --folder FOLDER --count 100000

`--texts` is a folder of data sets (`_made_vectors.py` reads their strings). The first passages are their sentences, cut
at 300 characters; each of the others is a sentence with two random ones behind it. Vectors are the sentences' by the
installed all-MiniLM-L6-v2, and others made from these. Questions are the English ones of XQuAD. The store is written
once and stays in `--folder`; each method asks in a process of its own, on one thread, one question at a time, and is
timed from the text to the ten best passages, the embedding included. bm25s gets the terms of the same passages, where
that is installed: pip install bm25s.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from _made_vectors import made_vectors, passages
from _measure import environment, installed_minilm

SETS = ("wikitext2", "us_speeches", "snli", "ag_news", "xquad")
TOGETHER = 500
"""Passages of a file, which are written in one transaction."""
METHODS = ("bm25", "dense", "fusion", "bm25s")


def questions(data: Path) -> list[str]:
    """The English questions of XQuAD."""
    articles = json.loads(gzip.decompress((data / "xquad" / "xquad.en.shared.json.gz").read_bytes()))["data"]
    return [row["question"] for article in articles for part in article["paragraphs"] for row in part["qas"]]


def texts_of(data: Path, count: int) -> Iterator[str]:
    """Sentences, and then three of them together."""
    sentences = [text for name in SETS for text in passages(data / name, 60_000)]
    draw = np.random.default_rng(0)
    for number in range(count):
        own = sentences[number % len(sentences)]
        others = [sentences[i] for i in draw.integers(0, len(sentences), 2)] if number >= len(sentences) else []
        yield " ".join([own, *others])


def make(folder: Path, data: Path, count: int, real: int) -> None:
    """Write the store, where it is missing."""
    import glassformer
    from glassformer.retrieval.embedder import settings_of
    from glassformer.retrieval.options import StoreOptions
    from glassformer.retrieval.passage import Passage
    from glassformer.retrieval.sqlite_store import writing_folder
    from glassformer.retrieval.store import ContentBatch

    model, named = glassformer.load(installed_minilm()), folder / f"vectors-{count}.npy"
    if not named.exists():
        sentences = [text for name in SETS for text in passages(data / name, 60_000)][:real]
        np.save(named, made_vectors(model.encode(sentences, normalize_embeddings=True, compute="int8"), count))
    vectors = np.load(named, mmap_mode="r")
    settings = settings_of(StoreOptions(model=str(installed_minilm())), model)
    with writing_folder(folder / f"store-{count}", settings) as store:
        start, there, waiting = time.perf_counter(), store.counts().passages, []
        for number, text in enumerate(texts_of(data, count), 1):
            waiting.append(Passage(text=text, start=0, stop=len(text), line=1))
            if number % TOGETHER == 0 or number == count:
                first = number - len(waiting)
                if first >= there:
                    names = [f"d{first // 50_000}/f{first}.txt"]
                    store.write([ContentBatch(f"h{first}.txt", waiting, vectors[first:number], names=names)])
                waiting = []
        print(f"written in {time.perf_counter() - start:.0f} s", file=sys.stderr)
        start = time.perf_counter()
        store.finish()
        print(f"indexed in {time.perf_counter() - start:.0f} s", file=sys.stderr)


def asker(method: str, folder: Path, data: Path, count: int) -> Callable[[str], Any]:
    """A function of a question: its ten best passages."""
    if method == "bm25s":
        import bm25s

        from glassformer.retrieval.words import query_terms, terms

        index = bm25s.BM25(k1=1.2, b=0.75)
        index.index([terms(text, "en") for text in texts_of(data, count)], show_progress=False)
        return lambda question: index.retrieve([query_terms(question, "en")], k=100, show_progress=False)
    from glassformer.retrieval import Retriever
    from glassformer.retrieval.options import RetrievalOptions

    retriever = Retriever.open(folder / f"store-{count}", method=method)
    options = RetrievalOptions(method=method, top=10)
    return lambda question: retriever.search(question, options)


def measure(method: str, folder: Path, data: Path, count: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of a question by a method, and the memory of the process."""
    ask, listed = asker(method, folder, data, count), questions(data)
    start = time.perf_counter()
    ask(listed[0])
    first, clock, processor = time.perf_counter() - start, [], []
    for question in listed[1 : rounds + 1]:
        begun = time.perf_counter(), time.process_time()
        ask(question)
        clock.append(time.perf_counter() - begun[0])
        processor.append(time.process_time() - begun[1])
    named = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return {
        "first_ms": round(1e3 * first, 1),
        **{name: round(1e3 * float(np.quantile(clock, at)), 2) for name, at in named.items()},
        **{f"processor_{name}": round(1e3 * float(np.quantile(processor, at)), 2) for name, at in named.items()},
        "ram_mb": largest_mb(),
    }


def largest_mb() -> int:
    """The most memory that this process had; `getrusage` begins with that of the process which started it."""
    with open("/proc/self/status", encoding="ascii") as file:
        return round(next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1e3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--real", type=int, default=64_000, help="sentences that are embedded")
    parser.add_argument("--questions", type=int, default=900)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--step", choices=METHODS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(measure(options.step, options.folder, options.texts, options.count, options.questions)))
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    make(options.folder, options.texts, options.count, min(options.real, options.count))
    store = options.folder / f"store-{options.count}"
    texts = sum(len(text.encode()) for text in texts_of(options.texts, options.count))
    vectors = (options.folder / f"vectors-{options.count}.npy").stat().st_size
    sizes = {path.suffix: path.stat().st_size / 1e6 for path in store.iterdir()}
    report: dict[str, Any] = {
        "mb": sizes, "vectors_and_texts_mb": (vectors + texts) / 1e6,
        "disk": sum(sizes.values()) * 1e6 / (vectors + texts), "load": os.getloadavg()[0],
    }  # fmt: skip
    for method in options.methods:
        if method != "bm25s" or find_spec("bm25s"):
            command = [sys.executable, __file__, "--step", method, "--count", str(options.count)]
            command += ["--texts", str(options.texts), "--folder", str(options.folder)]
            command += ["--questions", str(options.questions)]
            threads = {**os.environ, "OMP_NUM_THREADS": "1"}
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=threads).stdout
            report[method] = json.loads(output.splitlines()[-1]) | {"load": os.getloadavg()[0]}
    print(json.dumps(report | environment(), indent=2))


if __name__ == "__main__":
    main()
