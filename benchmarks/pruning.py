"""Pruning benchmark: from which sparsity compressed rows pay, how fast smaller models are, and what fewer heads cost.

    python benchmarks/pruning.py rows                       compressed sparse rows against dense ones, in bytes and time
    python benchmarks/pruning.py speed MODEL                texts a second without half of the heads, neurons, layers
    python benchmarks/pruning.py heads MODEL ROWS --format kind=emotion     a score for each share of the heads
    python benchmarks/pruning.py … --json

rows      the product with one vector or with 64, of torch (dense, sparse CSR), the least of many rounds in turn
speed     `encode` of the same texts by all models in turn
heads     the importance of heads is that of the first rows, the score that of the others; nothing is trained again
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from _measure import environment, in_turn

SHARES = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99)
SHAPES = ((384, 384), (1536, 384), (768, 768), (3072, 768))


def measure_rows(rounds: int) -> list[dict[str, Any]]:
    """Bytes and seconds of dense and of sparse rows, and from which sparsity the sparse ones pay."""
    import torch

    from glassformer.compression.sparse import CompressedRows, break_even

    results = []
    for rows, width in SHAPES:
        for columns, share in product((1, 64), SHARES):
            x = torch.randn(width) if columns == 1 else torch.randn(width, columns)
            matrix = torch.randn(rows, width) * (torch.rand(rows, width) >= share)
            sparse = CompressedRows.of(matrix)
            parts = sparse.pointers.long(), sparse.columns.long(), sparse.values
            compiled = torch.sparse_csr_tensor(*parts, size=(rows, width), check_invariants=False)
            timings = in_turn(
                {"dense": partial(torch.matmul, matrix, x), "sparse": partial(torch.matmul, compiled, x)}, rounds
            )
            results.append(
                {
                    "rows": rows,
                    "width": width,
                    "vectors": columns,
                    "sparsity": share,
                    "bytes": sparse.bytes,
                    "dense_bytes": matrix.numel() * 4,
                    "break_even_bytes": break_even(rows, width),
                    "seconds": {name: min(timing.seconds) for name, timing in timings.items()},
                }
            )
    return results


def measure_speed(folder: Path, rounds: int) -> dict[str, Any]:
    """How many times as fast a model is without half of its heads, neurons, layers."""
    from glassformer import load
    from glassformer.compression.structure import Parts, keep_layers, keep_neurons, only_stack, remove_heads

    texts = [f"{word} flies like an arrow, and fruit flies like a banana" for word in ("time", "a bird", "he")] * 16
    models = {}
    for name in ("whole", "heads", "neurons", "layers"):
        model = load(folder)
        stack = only_stack(model.network)
        parts = Parts.of(model)
        if name == "heads":
            parts = remove_heads(parts, {i: range(stack[i].attn.spec.K // 2) for i in range(len(stack))})
        elif name == "neurons":
            parts = keep_neurons(parts, [range(block.ffn.down.in_features // 2) for block in stack])
        elif name == "layers":
            parts = keep_layers(parts, range(0, len(stack), 2))
        parts.put_into(model)
        models[name] = model.prepare()
    timings = in_turn({name: partial(model.encode, texts) for name, model in models.items()}, rounds)
    size = {name: sum(p.numel() for p in model.network.parameters()) for name, model in models.items()}
    return {
        name: {"parameters": size[name], "seconds": timing.median, "speed": timing.ratio(timings["whole"])}
        for name, timing in timings.items()
    }


def measure_heads(
    folder: Path, file: Path, fields: dict[str, Any], first: int, limit: int, shares: list[float]
) -> list[dict[str, Any]]:
    """The score of a classifier without a growing share of its heads."""
    import numpy as np

    from glassformer.compression.structure import Parts, least_important, remove_heads
    from glassformer.data.rows import read_rows
    from glassformer.evaluation.runs import trained_task
    from glassformer.progress import no_bar
    from glassformer.runs.config import parse_config
    from glassformer.studies.pruning_ways import importance_of_units
    from glassformer.studies.ways import Source

    every = read_rows([str(file)], **fields)
    calibration, rest = every[:first], every[first : first + limit]
    config = parse_config({"task": "classify", "model": str(folder), "output": "none", "data": {"train": str(file)}})
    source = Source(folder, config, None, calibration, rest)
    importance = importance_of_units(source, "heads", no_bar).heads
    total = sum(map(len, importance))
    results = []
    for share in shares:
        task = trained_task(folder, "classify").for_evaluation()
        units = least_important(importance, min(round(share * total), total - len(importance)))
        remove_heads(Parts.of(task.model), units).put_into(task.model)
        scores = task.metrics(list(task.predict(rest))).scores(np.ones((1, len(rest))))
        left = total - sum(map(len, units.values()))
        results.append({"share": share, "heads": left, **{name: float(x[0]) for name, x in scores.items()}})
        print(json.dumps(results[-1]), flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("rows", "speed", "heads"))
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--format", action="append", default=[], help="KEY=VALUE, as data.format of a configuration")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--first", type=int, default=500, help="rows that importance is computed on")
    parser.add_argument("--limit", type=int, default=1500, help="rows that are scored")
    parser.add_argument("--shares", type=float, nargs="*", default=[i / 10 for i in range(9)], help="of heads that go")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.what == "rows":
        result: Any = measure_rows(options.rounds)
    elif options.what == "speed":
        result = measure_speed(options.files[0], options.rounds)
    else:
        fields = dict(pair.split("=", 1) for pair in options.format)
        result = measure_heads(*options.files[:2], fields, options.first, options.limit, options.shares)
    if options.json:
        print(json.dumps({"environment": environment(), options.what: result}, indent=1))
    else:
        for line in result.items() if isinstance(result, dict) else result:
            print(line)


if __name__ == "__main__":
    main()
