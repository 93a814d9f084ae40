"""Make the small model that the package carries, of a run of examples/tinyshakespeare.yaml.

    python examples/carry.py runs/tinyshakespeare/seed-0

Weights are rounded to the values of bfloat16 and stored as float32: they load as they are, and half of each is zeros,
which takes no room in a wheel or in git. How much that changes is printed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from glassformer import load
from glassformer.evaluation.runs import evaluate_model, open_run

PLACE = Path(__file__).parents[1] / "src" / "glassformer" / "checkpoints" / "shakespeare"


def main(folder: str) -> None:
    trained = Path(folder) / "model"
    model = load(trained)
    with torch.no_grad():
        for weights in model.network.parameters():
            weights.copy_(weights.to(torch.bfloat16))
    model.save_pretrained(PLACE)

    rows = open_run(folder).read_rows()
    before, after = (evaluate_model(place, "generate", rows, baselines=False).report for place in (trained, PLACE))
    for name, figure in before.metrics.items():
        print(f"{name}: {figure.written(4)}, rounded {after.metrics[name].written(4)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
