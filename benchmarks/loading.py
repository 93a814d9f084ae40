"""Loading a checkpoint compared with the reference library: seconds and memory, a process each, in turn.

    python benchmarks/loading.py                    124M (GPT-2, fp32) and 1B (Llama 3.2's shape, bf16), random weights
    python benchmarks/loading.py --shape gpt2
    python benchmarks/loading.py --json

Seconds are those of the load alone, after all imports, and those of load and first pass over eight tokens: a file that
is mapped is only read when its numbers are used. Memory is the largest resident size of the process above what it had
after the imports, in multiples of the weights' own bytes: resident is every page that is in memory for this process,
copies as well as pages of the file that are mapped and were touched, though the system can take those back at any time.
A ratio is ours / theirs: smaller is better. The file is in the system's cache: a first run warms it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from _measure import environment, rows_as_dicts

SHAPES = {
    "gpt2": (
        "float32",
        {
            "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 50257, "n_positions": 1024,
            "n_embd": 768, "n_layer": 12, "n_head": 12,
        },
    ),
    "llama-1b": (
        "bfloat16",
        {
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 2048,
            "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
            "max_position_embeddings": 8192, "rope_theta": 500000.0, "tie_word_embeddings": True,
        },
    ),
}  # fmt: skip

LOADS = {
    "glassformer": ("import glassformer.model as library", "library.load(FOLDER)"),
    "transformers": (
        "from transformers import AutoModelForCausalLM as library",
        "library.from_pretrained(FOLDER, dtype='auto')",
    ),
}

# Libraries import some of their modules when they are asked for a family, so a tiny model of it comes before the clock.
PROGRAM = """
import json, resource, sys, time
import torch
{imports}
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
def use(model):
    with torch.inference_mode():
        return model(input_ids=torch.arange(8)[None]).logits
FOLDER = {tiny!r}
use({load})
FOLDER, before, start = {folder!r}, peak(), time.perf_counter()
model = {load}
loaded, held = time.perf_counter() - start, peak()
use(model)
print(json.dumps([loaded, time.perf_counter() - start, held - before, peak() - before]))
"""

WRITER = """
import json, sys, torch
from glassformer.model import Model
config, dtype = json.loads(sys.argv[2]), getattr(torch, sys.argv[3])
torch.set_default_dtype(dtype)
Model.from_config(config).to(dtype).save_pretrained(sys.argv[1])
"""


@dataclass(frozen=True)
class Row:
    """One library on one checkpoint: medians over the rounds."""

    shape: str
    library: str
    load_seconds: float
    first_pass_seconds: float  # load and first pass together
    load_peak: float  # in multiples of the weights
    first_pass_peak: float
    load_ratio_of_ours: float
    first_pass_ratio_of_ours: float
    peak_ratio_of_ours: float  # after the first pass


def write(folder: Path, config: dict[str, object], dtype: str) -> None:
    """A random checkpoint, written by a process that ends, so that its memory does not count here."""
    subprocess.run([sys.executable, "-c", WRITER, str(folder), json.dumps(config), dtype], check=True)


def measured(library: str, folder: Path, tiny: Path) -> list[float]:
    """[load seconds, with first pass, peak of the load, peak with first pass], of one fresh process."""
    imports, load = LOADS[library]
    program = PROGRAM.format(imports=imports, load=load, folder=str(folder), tiny=str(tiny))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{library} failed:\n{done.stderr}")
    return [float(number) for number in json.loads(done.stdout.splitlines()[-1])]


def compare(shape: str, rounds: int) -> list[Row]:
    """Every library on one checkpoint, in turn."""
    dtype, config = SHAPES[shape]
    small = {key: value for key, value in config.items() if key not in ("n_layer", "num_hidden_layers")}
    small |= {"vocab_size": 128, "n_layer": 1} if "n_layer" in config else {"vocab_size": 128, "num_hidden_layers": 1}
    with tempfile.TemporaryDirectory() as place:
        folder, tiny = Path(place) / "model", Path(place) / "tiny"
        write(folder, config, dtype)
        write(tiny, small, dtype)
        weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
        runs: dict[str, list[list[float]]] = {library: [] for library in LOADS}
        for number in range(rounds + 1):
            for library in LOADS:
                found = measured(library, folder, tiny)
                if number > 0:
                    runs[library].append(found)
    medians = {
        library: [statistics.median(column) for column in zip(*found, strict=True)] for library, found in runs.items()
    }
    ours = medians["glassformer"]
    return [
        Row(
            shape, library, round(load, 3), round(used, 3), round(held / weights, 3), round(peak / weights, 3),
            round(ours[0] / load, 2), round(ours[1] / used, 2), round(ours[3] / peak, 2),
        )
        for library, (load, used, held, peak) in medians.items()
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, help="[default: each]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    shapes = [options.shape] if options.shape else list(SHAPES)
    rows = [row for shape in shapes for row in compare(shape, options.rounds)]
    if options.json:
        print(json.dumps({"environment": environment("transformers"), "rows": rows_as_dicts(rows)}, indent=2))
        return
    print(f"{'load':<24}{'seconds':>10}{'+ a pass':>10}{'peak':>10}{'+ a pass':>10}   ours / this: load, pass, peak")
    for row in rows:
        print(
            f"{row.shape + ' ' + row.library:<24}{row.load_seconds:>10.3f}{row.first_pass_seconds:>10.3f}"
            f"{row.load_peak:>9.2f}×{row.first_pass_peak:>9.2f}×"
            f"{row.load_ratio_of_ours:>10.2f}{row.first_pass_ratio_of_ours:>8.2f}{row.peak_ratio_of_ours:>8.2f}"
        )
    print("peak: resident pages above those after the imports, as multiples of the weights; mapped pages count too")


if __name__ == "__main__":
    main()
