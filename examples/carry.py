"""Make a small model that the package carries, of a run of an example.

    python examples/carry.py runs/tinyshakespeare/seed-0 shakespeare
    python examples/carry.py runs/guitar-player player plugins/glassformer-guitar/src/glassformer_guitar/checkpoints

Weights are rounded to the values of bfloat16 and stored as float32: they load as they are, and half of each is zeros,
which takes no room in a wheel or in git. How much that changes is printed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from glassformer import load
from glassformer.evaluation.runs import evaluate_model, open_run

CHECKPOINTS = Path(__file__).parents[1] / "src" / "glassformer" / "checkpoints"


def main(folder: str, name: str, checkpoints: str | Path = CHECKPOINTS) -> None:
    place, trained = Path(checkpoints) / name, Path(folder) / "model"
    model = load(trained)
    with torch.no_grad():
        for weights in model.network.parameters():
            weights.copy_(weights.to(torch.bfloat16))
    model.save_pretrained(place)

    run = open_run(folder)
    rows, config = run.read_rows(), run.config
    before, after = (
        evaluate_model(
            own, config.task, rows, ignore=config.data.ignore, options=config.task_options, baselines=False
        ).report
        for own in (trained, place)
    )
    for metric, score in before.metrics.items():
        print(f"{metric}: {score.written(4)}, rounded {after.metrics[metric].written(4)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
