"""Corpus index benchmark: indexing compared with plain encoding of the same windows, size on disk, and query time.

    python benchmarks/corpus.py --file wikitext-2/valid.txt              MiniLM, layers 3 and 6, one head, all neurons
    python benchmarks/corpus.py --file corpus.txt --model FOLDER --layers 6 12 --json

Processor time, not wall time, so that other work on the machine changes it little.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from _measure import environment, installed_minilm

import glassformer
from glassformer.inspect.corpus import CorpusSearch, index_corpus

QUERIES = 7


def measure(model: Any, file: Path, layers: list[int], head: tuple[int, int], folder: Path) -> dict[str, float]:
    """Tokens a second of each way, bytes, and seconds of a query."""
    figures: dict[str, float] = {}
    for name, neurons in (("states and a head", False), ("and neurons", True)):
        start = time.process_time()
        index = index_corpus(model, file, folder / name, layers=layers, heads=[head], neurons=neurons)
        figures[f"{name}: tokens a second"] = len(index) / (time.process_time() - start)
    figures |= {"tokens": len(index), "bytes": index.nbytes}
    windows = [index.window(number, model.tokenizer).text for number in range(index.progress.windows)]
    start = time.process_time()
    model.encode(windows)
    figures["plain encode: tokens a second"] = len(index) / (time.process_time() - start)
    corpus = CorpusSearch(model, index)
    for name, options, width in (
        ("layer", {"layer": layers[-1]}, index.settings.width),
        ("head", {"head": head}, index.settings.head_width),
    ):
        seconds = []
        for _ in range(QUERIES):
            start = time.process_time()
            index.nearest(torch.randn(width), **options)
            seconds.append(time.process_time() - start)
        figures[f"query by {name}: seconds"] = statistics.median(seconds)
    start = time.process_time()
    corpus.search("time flies like an arrow", token=2, layer=layers[-1], attention=head)
    figures["20 contexts with attention: seconds"] = time.process_time() - start
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--model", default=None, help="default: the installed MiniLM")
    parser.add_argument("--layers", type=int, nargs="+", default=[3, 6])
    parser.add_argument("--head", type=int, nargs=2, default=[4, 9])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = glassformer.load(options.model or installed_minilm())
    model.prepare("fp32")
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(model, options.file, options.layers, tuple(options.head), Path(folder))
    if options.json:
        print(json.dumps({"environment": environment(), "metrics": figures}, indent=2))
        return
    for name, value in figures.items():
        print(f"{value:>14,.3f}  {name}")


if __name__ == "__main__":
    main()
