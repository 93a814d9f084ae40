"""Approximate vector search over a million sentence vectors: build time, file size, memory, query time and recall@10.

    python benchmarks/retrieval_vectors.py --texts DATA --folder VECTORS           all systems, 1,000,000 vectors
    python benchmarks/retrieval_vectors.py --texts DATA --folder VECTORS --count 100000 --systems clusters usearch

`--texts` is a folder of text files (.txt, .tsv, .csv, .json, .jsonl, packed by gzip or not); their sentences are
embedded by the installed all-MiniLM-L6-v2, and the other vectors made from these: `_made_vectors.py` says how. Queries
are 1,000 sentences that are not among them. `--folder` keeps the vectors and the indices.

usearch and faiss are no dependencies: pip install usearch faiss-cpu. Each system searches in a process of its own, on
one thread, one query at a time; the candidates of all are re-scored by the vectors in 16 bits, which are mapped. Times
are of the processor and of the clock: other work on the machine changes the second more.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _made_vectors import made_vectors, passages
from _measure import installed_minilm

K, CANDIDATES, QUERIES = 10, 40, 1_000
SETTINGS = {
    "clusters": (120, 240, 320, 400, 800),
    "usearch": (40, 64, 128, 256, 512),
    "faiss-ivf": (60, 120, 240, 400, 800),
    "faiss-hnsw": (40, 64, 128, 256, 512),
}
"""Systems, and values of what trades recall for time: clusters probed, or the candidates of a graph's search (ef)."""
Candidates = Callable[[np.ndarray, int], np.ndarray]


def make(folder: Path, texts: Path, count: int, real: int) -> None:
    """Write vectors, queries, and the true neighbours of these, where they are missing."""
    import glassformer
    from glassformer.retrieval.vectors import ExactVectors

    if not (folder / f"vectors-{count}.npy").exists():
        model = glassformer.load(installed_minilm())
        embedded = model.encode(passages(texts, real), normalize_embeddings=True, compute="int8")
        np.save(folder / f"queries-{count}.npy", embedded[-QUERIES:])
        np.save(folder / f"vectors-{count}.npy", made_vectors(embedded[:-QUERIES], count))
    if not (folder / f"exact-{count}.npz").exists():
        vectors, queries = load(folder, count)
        exact = ExactVectors(np.arange(count), vectors).search(queries, 100)
        np.savez(folder / f"exact-{count}.npz", **exact._asdict())


def load(folder: Path, count: int) -> tuple[np.ndarray, np.ndarray]:
    return np.load(folder / f"vectors-{count}.npy", mmap_mode="r"), np.load(folder / f"queries-{count}.npy")


def build(system: str, path: Path, vectors: np.ndarray) -> None:
    """Write the index of a system."""
    if system == "clusters":
        from glassformer.retrieval.approximate import write_approximate

        write_approximate(path, np.arange(len(vectors)), vectors)
    elif system == "usearch":
        graph = usearch_graph(vectors.shape[1])
        for start in range(0, len(vectors), 20_000):
            block = vectors[start : start + 20_000].astype(np.float32)
            graph.add(np.arange(start, start + len(block)), block, threads=2)
        graph.save(path)
    else:
        import faiss

        faiss.omp_set_num_threads(2)
        clusters = 4 * int(len(vectors) ** 0.5)
        index = faiss.index_factory(
            vectors.shape[1],
            f"IVF{clusters},SQ8" if system == "faiss-ivf" else "HNSW16_SQ8",
            faiss.METRIC_INNER_PRODUCT,
        )
        if system == "faiss-ivf":
            index.cp.niter = 8  # as many rounds of k-means as ours
        index.train(vectors[np.random.default_rng(0).permutation(len(vectors))[: 64 * clusters]].astype(np.float32))
        for start in range(0, len(vectors), 20_000):
            index.add(vectors[start : start + 20_000].astype(np.float32))
        faiss.write_index(index, str(path))


def usearch_graph(dimension: int) -> Any:
    """HNSW of int8 vectors: 16 links a node, 128 candidates where a node is added."""
    from usearch.index import Index

    return Index(
        ndim=dimension, metric="cos", dtype="i8", connectivity=16, expansion_add=128, enable_key_lookups=False
    )  # fmt: skip


def candidates_of(system: str, path: Path, dimension: int) -> Candidates:
    """Open the index of a system, mapped: a function of a query and the setting → numbers of vectors."""
    if system == "usearch":
        graph = usearch_graph(dimension)
        graph.view(path)

        def of_graph(query: np.ndarray, value: int) -> np.ndarray:
            graph.expansion_search = value
            return np.asarray(graph.search(query, CANDIDATES, threads=1).keys.astype(np.int64))

        return of_graph
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)

    def of_faiss(query: np.ndarray, value: int) -> np.ndarray:
        kind = faiss.SearchParametersIVF if system == "faiss-ivf" else faiss.SearchParametersHNSW
        chosen = kind(nprobe=value) if system == "faiss-ivf" else kind(efSearch=value)
        numbers = index.search(query[None], CANDIDATES, params=chosen)[1][0]
        return np.asarray(numbers[numbers >= 0])

    return of_faiss


def searcher(system: str, path: Path, vectors: np.ndarray) -> Callable[[np.ndarray, int], np.ndarray]:
    """A function of a query and the setting → ids of its neighbours."""
    if system == "clusters":
        from glassformer.retrieval.approximate import ApproximateVectors

        search = ApproximateVectors(path, lambda ids: vectors[ids])

        def ours(query: np.ndarray, value: int) -> np.ndarray:
            search.n_probe = value
            return search.search(query[None], K).ids[0]

        return ours
    candidates = candidates_of(system, path, vectors.shape[1])

    def theirs(query: np.ndarray, value: int) -> np.ndarray:
        numbers = np.sort(candidates(query, value))
        scores = vectors[numbers].astype(np.float32) @ query
        return numbers[np.argsort(-scores, kind="stable")[:K]]

    return theirs


def resident_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(system: str, folder: Path, count: int) -> dict[str, Any]:
    """Open the index and search it: its figures, and a row for each setting."""
    vectors, queries = load(folder, count)
    exact = np.load(folder / f"exact-{count}.npz")["ids"][:, :K]
    path = folder / f"{system}-{count}.index"
    searcher(system, path, vectors)  # imports what it needs
    before, began = resident_mb(), time.perf_counter()
    search = searcher(system, path, vectors)
    opened = time.perf_counter() - began
    rows = []
    for value in SETTINGS[system]:
        hits, clock, processor = 0, [], []
        for query, true in zip(queries, exact, strict=True):
            start = time.perf_counter(), time.process_time()
            ids = search(query, value)
            clock.append(time.perf_counter() - start[0])
            processor.append(time.process_time() - start[1])
            hits += len(np.intersect1d(ids, true))
        times = [float(np.median(processor)), float(np.median(clock)), float(np.quantile(clock, 0.95))]
        rows.append([value, hits / exact.size, *(1e3 * seconds for seconds in times)])
    return {"mb": path.stat().st_size / 1e6, "open_s": opened, "ram_mb": resident_mb() - before, "rows": rows}


def run(step: str, system: str, options: argparse.Namespace, threads: int) -> dict[str, Any]:
    """A step in a process of its own: its result, and the time and the memory that it took."""
    command = [sys.executable, __file__, "--step", step, "--systems", system]
    command += ["--folder", str(options.folder), "--count", str(options.count)]
    used, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return result | {"clock_s": time.perf_counter() - began, "processor_s": processor}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--real", type=int, default=82_000)
    parser.add_argument("--systems", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--step", choices=("build", "measure"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    system = options.systems[0]
    path = options.folder / f"{system}-{options.count}.index"
    if options.step == "build":
        build(system, path, load(options.folder, options.count)[0])
        print("{}")
        return
    if options.step == "measure":
        print(json.dumps(measure(system, options.folder, options.count)))
        return
    options.folder.mkdir(exist_ok=True)
    make(options.folder, options.texts, options.count, options.real)
    for system in options.systems:
        path = options.folder / f"{system}-{options.count}.index"
        if not path.exists():
            built = run("build", system, options, threads=2)
            print(
                f"{system}: built in {built['processor_s']:.0f} s of processor, {built['clock_s']:.0f} s of clock time"
            )
        result = run("measure", system, options, threads=1)
        print(f"{system}: {result['mb']:.0f} MB, opened in {result['open_s']:.3f} s, {result['ram_mb']:.0f} MB in RAM")
        print("  setting  recall@10  ms CPU  ms p50  ms p95")
        for value, recall, processor, p50, p95 in result["rows"]:
            print(f"  {value:7d}  {recall:9.4f}  {processor:6.2f}  {p50:6.2f}  {p95:6.2f}", flush=True)


if __name__ == "__main__":
    main()
