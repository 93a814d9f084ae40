"""Make the golden files again, with the reference library: `python -m tests.golden.make` in the repository's root.

Needs the extra `reference`. Do it when a family is added; a number that changes for an old family is a bug of one side.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers
from torch import Tensor

from glassformer.models import FAMILIES
from tests.golden.closed_form import FOLDER, IDS, write_folder


def numbers(x: Tensor) -> list[float]:
    return [round(value, 7) for value in x.tolist()]


def golden(family: str, task: str) -> dict[str, Any]:
    """What the reference makes of a closed-form checkpoint, at the last position."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        config = write_folder(family, task, folder)
        kind = getattr(transformers, config["architectures"][0])  # type: ignore[index]
        model, report = kind.from_pretrained(
            folder, local_files_only=True, attn_implementation="eager", output_loading_info=True
        )
    assert not any(report.values()), report
    with torch.no_grad():
        output = model.eval()(torch.tensor(IDS), output_hidden_states=True, output_attentions=True)
    states = {"embed.out": output.hidden_states[0], "final": output.hidden_states[-1]}
    states |= {f"blocks.{i}.out": state for i, state in enumerate(output.hidden_states[1:-1])}
    taps = {tap: numbers(state[0, -1, :6]) for tap, state in states.items()}
    taps |= {f"blocks.{i}.attn.probs": numbers(probs[0, 1, -1]) for i, probs in enumerate(output.attentions)}
    taps["logits"] = numbers(output.logits[0, -1, :8])
    return {
        "family": family,
        "task": task,
        "made_with": f"transformers {transformers.__version__}",
        "taps": taps,
    }


if __name__ == "__main__":
    for family, record in FAMILIES.items():
        task = next(task for task in ("text-generation", "fill-mask") if task in record.tasks)
        if hasattr(transformers, record.architecture(task)):
            text = json.dumps(golden(family, task), indent=1)
            (FOLDER / f"{family}.json").write_text(text + "\n")
            print(f"{family}.json")
