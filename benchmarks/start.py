"""How long the first vector takes, and how much memory: a whole process each, in turn.

    python benchmarks/start.py --minilm FOLDER
    python benchmarks/start.py --minilm FOLDER --json

Every system is a fresh Python that imports, loads the folder, turns one sentence into a vector, and ends. Seconds are
of the whole process; memory is its largest resident size. A ratio is ours / theirs: smaller is better.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from _measure import environment, installed_minilm, rows_as_dicts

PROGRAMS = {
    "python alone": "pass",
    "import torch": "import torch",
    "import glassformer": "import glassformer",
    "glassformer": "import glassformer; print(glassformer.load(FOLDER).encode('time flies').shape)",
    "transformers": (
        "import torch; from transformers import AutoModel, AutoTokenizer\n"
        "tokenizer, model = AutoTokenizer.from_pretrained(FOLDER), AutoModel.from_pretrained(FOLDER)\n"
        "with torch.inference_mode():\n"
        "    print(model(**tokenizer('time flies', return_tensors='pt')).last_hidden_state.mean(1).shape)"
    ),
    "sentence-transformers": (
        "from sentence_transformers import SentenceTransformer\n"
        "print(SentenceTransformer(FOLDER, device='cpu').encode('time flies').shape)"
    ),
}


@dataclass(frozen=True)
class Row:
    """A program: medians over the rounds."""

    program: str
    seconds: float
    megabytes: float
    seconds_ratio_of_ours: float
    megabytes_ratio_of_ours: float


def run(program: str, folder: Path) -> tuple[float, float]:
    """Seconds and megabytes of one process, by the operating system's own account."""
    start = time.perf_counter()
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", f"FOLDER = {str(folder)!r}\n{program}"],
        os.environ | {"HF_HUB_OFFLINE": "1"},
        file_actions=[(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)],
    )
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"this program failed:\n{program}")
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kibibytes elsewhere
    return time.perf_counter() - start, usage.ru_maxrss * unit / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minilm", type=Path, default=installed_minilm(), help="a folder [default: the installed one]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.minilm is None:
        parser.error("no MiniLM is installed (requirements/minilm.txt); name a folder with --minilm")
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in PROGRAMS}
    for number in range(options.rounds + 1):
        for name, program in PROGRAMS.items():
            measured = run(program, options.minilm)
            if number > 0:  # the first warms the file cache
                runs[name].append(measured)
    medians = {name: [statistics.median(values) for values in zip(*pairs, strict=True)] for name, pairs in runs.items()}
    ours = medians["glassformer"]
    rows = [
        Row(name, round(s, 2), round(mb, 1), round(ours[0] / s, 2), round(ours[1] / mb, 2))
        for name, (s, mb) in medians.items()
    ]
    if options.json:
        packages = ("transformers", "sentence-transformers")
        print(json.dumps({"environment": environment(*packages), "rows": rows_as_dicts(rows)}, indent=2))
        return
    print(f"{'one vector, whole process':<28}{'seconds':>9}{'MB':>8}{'ours / this':>18}")
    for row in rows:
        print(
            f"  {row.program:<26}{row.seconds:>9.2f}{row.megabytes:>8.0f}"
            f"{row.seconds_ratio_of_ours:>9.2f} s{row.megabytes_ratio_of_ours:>5.2f} MB"
        )


if __name__ == "__main__":
    main()
