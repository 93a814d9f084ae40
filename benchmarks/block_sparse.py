"""Block-sparse attention on long texts compared with full attention, ours and the reference library's: memory and time.

    python benchmarks/block_sparse.py                      BigBird-base width, 2 layers: 1k, 2k, 4k and 8k tokens
    python benchmarks/block_sparse.py --tokens 1024 2048   shorter
    python benchmarks/block_sparse.py --train              a forward and a backward pass instead of a forward pass
    python benchmarks/block_sparse.py --json

Each system runs in a process of its own, with random weights and one text. Memory is the peak of the process above what
it held before the first pass: all that a pass needs besides weights and libraries. Seconds are the median over the
rounds after it. A ratio is ours / this.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from _measure import environment, rows_as_dicts

OURS = "glassformer block-sparse"
SYSTEMS = {
    OURS: ("glassformer", "block_sparse"),
    "glassformer full": ("glassformer", "original_full"),
    "transformers block-sparse": ("transformers", "block_sparse"),
    "transformers full": ("transformers", "original_full"),
}

CHILD = """
import json, resource, sys, time, torch
library, kind, tokens, rounds, train = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
config = {
    "model_type": "big_bird", "architectures": ["BigBirdModel"], "attention_type": kind, "vocab_size": 1000,
    "hidden_size": 768, "num_hidden_layers": 2, "num_attention_heads": 12, "intermediate_size": 3072,
    "max_position_embeddings": 16384, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}
if library == "glassformer":
    import glassformer
    model = glassformer.Model.from_config(config)
else:
    import transformers
    transformers.utils.logging.set_verbosity_error()
    model = transformers.BigBirdModel(transformers.BigBirdConfig(**config))
model.train(bool(train))
ids = torch.randint(1, 1000, (1, tokens))

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

def run():
    start = time.perf_counter()
    with torch.set_grad_enabled(bool(train)):
        states = model(ids).last_hidden_state
        if train:
            states.square().mean().backward()
    return time.perf_counter() - start

before = peak()
run()
held = peak() - before
print(json.dumps([held, [run() for _ in range(rounds)]]))
"""


@dataclass(frozen=True)
class Row:
    """One system on one length of text."""

    tokens: int
    system: str
    megabytes: float
    kilobytes_per_token: float
    seconds: float
    memory_ratio_of_ours: float
    time_ratio_of_ours: float


def measured(system: str, tokens: int, rounds: int, train: bool) -> tuple[int, float]:
    """Bytes that a pass needs, and its seconds, of one fresh process."""
    arguments = [*SYSTEMS[system], str(tokens), str(rounds), str(int(train))]
    done = subprocess.run([sys.executable, "-c", CHILD, *arguments], check=True, capture_output=True, text=True)
    held, seconds = json.loads(done.stdout)
    return held, statistics.median(seconds)


def measure(tokens: int, rounds: int, train: bool) -> list[Row]:
    found = {system: measured(system, tokens, rounds, train) for system in SYSTEMS}
    return [
        Row(
            tokens=tokens,
            system=system,
            megabytes=round(held / 1e6, 1),
            kilobytes_per_token=round(held / 1e3 / tokens, 1),
            seconds=round(seconds, 3),
            memory_ratio_of_ours=round(found[OURS][0] / held, 3),
            time_ratio_of_ours=round(found[OURS][1] / seconds, 3),
        )
        for system, (held, seconds) in found.items()
    ]


def show(rows: list[Row]) -> None:
    print(
        f"\n{f'{rows[0].tokens:,} tokens':<28}{'MB':>10}{'kB a token':>12}{'seconds':>10}   ours / this: memory, time"
    )
    for row in rows:
        print(
            f"  {row.system:<26}{row.megabytes:>10,.0f}{row.kilobytes_per_token:>12.1f}{row.seconds:>10.2f}"
            f"{row.memory_ratio_of_ours:>16.2f}{row.time_ratio_of_ours:>10.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", nargs="+", type=int, default=[1024, 2048, 4096, 8192])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--train", action="store_true", help="a forward and a backward pass")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows: list[Row] = []
    for tokens in options.tokens:
        found = measure(tokens, options.rounds, options.train)
        rows += found
        if not options.json:
            show(found)
    if options.json:
        about: dict[str, Any] = environment("transformers")
        print(json.dumps({"environment": about, "rows": rows_as_dicts(rows)}, indent=2))


if __name__ == "__main__":
    main()
