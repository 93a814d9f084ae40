"""Make golden files with the reference library: `python -m tests.golden.make [FAMILY …]` in the repository's root.

Needs the extra `reference`. Numbers are computed in fp64, so that they do not depend on the order in
which a processor adds. Do it when a family is added; a number that changes for an old family is a bug of one side.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers
from torch import Tensor

from glassformer.evaluation.reference import fp64_arithmetic
from tests.golden.closed_form import FOLDER, inputs, write_folder
from tests.parity.families import BY_FAMILY, FP64
from tests.parity.sides import lifted, unround_waves
from tests.senses import CODE_MODELS, CODECS


def numbers(x: Tensor) -> list[float]:
    return [round(value, 12) for value in x.tolist()]


def written(family: str, task: str, taps: dict[str, list[float]], within: float = FP64) -> dict[str, Any]:
    """The content of a golden file. within: the tolerance, absolute and relative"""
    made_with = f"transformers {transformers.__version__}"
    return {"family": family, "task": task, "made_with": made_with, "within": within, "taps": taps}


def wide(given: dict[str, Tensor]) -> dict[str, Tensor]:
    """Inputs with pictures and sounds in fp64."""
    return {name: x.double() if x.is_floating_point() else x for name, x in given.items()}


def golden(family: str) -> dict[str, Any]:
    """What the reference makes of a closed-form checkpoint, at the last position."""
    if family in CODECS:
        return golden_codec(family)
    if family in CODE_MODELS:
        return golden_codes(family)
    row = BY_FAMILY[family]
    task = row.record.architectures[row.main]
    with TemporaryDirectory() as name:
        folder = Path(name)
        config = write_folder(family, task, folder)
        with lifted(row, torch.float64):
            model, report = getattr(transformers, row.main).from_pretrained(
                folder,
                local_files_only=True,
                dtype=torch.float64,
                attn_implementation="eager",
                experts_implementation="eager",
                output_loading_info=True,
            )
    unround_waves(model)
    missing = {name for name in report.pop("missing_keys") if not name.endswith(tuple(row.computed))}
    assert not missing and not any(report.values()), (missing, report)
    given = wide(inputs(config))
    with torch.no_grad(), lifted(row, torch.float64):
        output = model.eval()(**given, output_hidden_states=True, output_attentions=True)
    states, maps = heard(output, row.final_is_last)
    taps = {tap: numbers(state[0, -1, :6]) for tap, state in states.items()}
    taps |= {tap: numbers(layer[0, 1, -1]) for tap, layer in maps.items()}
    fields = [name for name in ("text_embeds", "image_embeds") if name in output] or [row.logits]
    for field in (field for field in fields if field != "last_hidden_state"):  # which is the tap `final`
        taps[field] = numbers(output[field][0].reshape(-1, output[field].shape[-1])[-1, :8])
    return written(family, task, taps, row.fp64)


def golden_codec(family: str) -> dict[str, Any]:
    """The same of a codec: its last frame and the beginning of its reconstruction."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        config = write_folder(family, "audio-codec", folder)
        cls, fp64 = getattr(transformers, config["architectures"][0]), torch.float64
        wave = wide(inputs(config))["input_values"][:, None]
        with torch.no_grad(), fp64_arithmetic(fp64):
            model = cls.from_pretrained(folder, local_files_only=True, dtype=fp64).eval()
            if family == "encodec":
                output, z = model(wave, bandwidth=config["target_bandwidths"][-1]), model.encoder(wave)
                quantized = model.quantizer.decode(output.audio_codes[0].transpose(0, 1))
            else:
                output, z = model(wave), model.encoder(wave)
                quantized = output.quantized_representation
    taps = {"encoder.out": z.mT, "quantizer.out": quantized.mT, "audio_values": output.audio_values}
    ends = {tap: numbers(x[0].reshape(-1, x.shape[-1])[-1, :8]) for tap, x in taps.items()}
    # The weights of an EnCodec file are lengths and directions, which are multiplied in the precision of the file.
    return written(family, "audio-codec", ends, 2e-6 if family == "encodec" else FP64)


def golden_codes(family: str) -> dict[str, Any]:
    """The same of a model of codes, which reads each codebook in a row of its own."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        config = write_folder(family, "text-to-audio", folder)
        cls, fp64 = getattr(transformers, config["architectures"][0]), torch.float64
        with fp64_arithmetic(fp64):
            model = cls.from_pretrained(folder, local_files_only=True, dtype=fp64, attn_implementation="eager")
    unround_waves(model)
    ids = inputs(config)["input_ids"]
    with torch.no_grad(), fp64_arithmetic(fp64):
        output = model.eval()(ids[0].mT, output_hidden_states=True, output_attentions=True)
    states, maps = heard(output, True)
    taps = {tap: numbers(state[0, -1, :6]) for tap, state in states.items()}
    taps |= {tap: numbers(layer[0, 1, -1]) for tap, layer in maps.items()}
    taps["logits"] = numbers(output.logits[-1, -1, :8])
    return written(family, "text-to-audio", taps)


def heard(output: Any, final_is_last: bool) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """States and attention, by the names of our taps."""
    if "language_hidden_states" in output:
        return of_two_sides(output)
    states: dict[str, Tensor] = {}
    maps: dict[str, Tensor] = {}
    for path, last, hidden, attention in stacks(output):
        last = last if final_is_last else f"{path}blocks.{len(hidden) - 2}.out"
        states |= {f"{path}embed.out": hidden[0], last: hidden[-1]}
        states |= {f"{path}blocks.{i}.out": state for i, state in enumerate(hidden[1:-1])}
        maps |= {f"{path}{tap.format(i)}": x for tap, layers in attention.items() for i, x in enumerate(layers)}
    return states, maps


def of_two_sides(output: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The same where each side goes through blocks of its own, and then through some that read the other."""
    states: dict[str, Tensor] = {}
    crossing = output.cross_encoder_attentions
    maps = {f"text.crossed.{i}.cross.probs": layer for i, layer in enumerate(crossing) if i}  # all alike in the first
    for path, side in (("text", "language"), ("vision", "vision")):
        alone, hidden = output[f"{side}_attentions"], output[f"{side}_hidden_states"]
        maps |= {f"{path}.blocks.{i}.attn.probs": layer for i, layer in enumerate(alone)}
        states |= {f"{path}.blocks.{i}.out": state for i, state in enumerate(hidden[: len(alone)])}
        states |= {f"{path}.crossed.{i}.out": state for i, state in enumerate(hidden[len(alone) :])}
    return states, maps


def stacks(output: Any) -> list[tuple[str, str, Any, dict[str, Any]]]:
    """Of each stack: its path, the tap of its last state, its states, and its attention by the name of the tap."""
    maps = "blocks.{}.attn.probs"
    if "encoder_hidden_states" in output:
        crossing = {maps: output.decoder_attentions, "blocks.{}.cross.probs": output.cross_attentions}
        return [
            ("encoder.", "memory", output.encoder_hidden_states, {maps: output.encoder_attentions}),
            ("decoder.", "final", output.decoder_hidden_states, crossing),
        ]
    if "text_model_output" in output:
        towers = {"text.": output.text_model_output, "vision.": output.vision_model_output}
        return [(path, "", side.hidden_states, {maps: side.attentions}) for path, side in towers.items()]
    return [("", "final", output.hidden_states, {maps: output.attentions})]


if __name__ == "__main__":
    for family in sys.argv[1:] or [*BY_FAMILY, *CODECS, *CODE_MODELS]:
        (FOLDER / f"{family}.json").write_text(json.dumps(golden(family), indent=1) + "\n")
        print(f"{family}.json")
