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
from tests.golden.closed_form import FOLDER, inputs, write_folder


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
    missing = {name for name in report.pop("missing_keys") if not name.endswith("embed_positions.weight")}
    assert not missing and not any(report.values()), (missing, report)  # waves are computed
    with torch.no_grad():
        output = model.eval()(**inputs(task), output_hidden_states=True, output_attentions=True)
    sides = {"encoder": "encoder.", "decoder": "decoder."} if task == "translation" else {"": ""}
    taps: dict[str, list[float]] = {}
    for side, path in sides.items():
        hidden = output[f"{side}_hidden_states".removeprefix("_")]
        last = "memory" if side == "encoder" else "final"
        states = {f"{path}embed.out": hidden[0], last: hidden[-1]}
        states |= {f"{path}blocks.{i}.out": state for i, state in enumerate(hidden[1:-1])}
        taps |= {tap: numbers(state[0, -1, :6]) for tap, state in states.items()}
        probs = {f"{path}blocks.{{}}.attn.probs": output[f"{side}_attentions".removeprefix("_")]}
        if side == "decoder":
            probs["decoder.blocks.{}.cross.probs"] = output.cross_attentions
        for tap, layers in probs.items():
            taps |= {tap.format(i): numbers(layer[0, 1, -1]) for i, layer in enumerate(layers)}
    taps["logits"] = numbers(output.logits[0, -1, :8])
    return {
        "family": family,
        "task": task,
        "made_with": f"transformers {transformers.__version__}",
        "taps": taps,
    }


if __name__ == "__main__":
    for family, record in FAMILIES.items():
        task = next(task for task in ("text-generation", "translation", "fill-mask") if task in record.tasks)
        if hasattr(transformers, record.architecture(task)):
            text = json.dumps(golden(family, task), indent=1)
            (FOLDER / f"{family}.json").write_text(text + "\n")
            print(f"{family}.json")
