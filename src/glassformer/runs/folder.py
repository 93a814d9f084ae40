"""The folder of a run: which files it has, and the runs of several seeds below one folder.

config.yaml       the effective configuration        checkpoints/   training states to resume from
journal.jsonl     event log, a line a step           model/         the best model so far, which anyone can load
"""

from __future__ import annotations

from pathlib import Path

CHECKPOINTS, MODEL, CONFIG, CARD, METRICS = "checkpoints", "model", "config.yaml", "README.md", "metrics.json"


def seed_folder(folder: str | Path, seed: int) -> Path:
    """Where the run of a seed is, of several."""
    return Path(folder) / f"seed-{seed}"


def seed_of(folder: Path) -> int | None:
    """The seed that a folder is named for; None where it is not one of several."""
    number = folder.name.removeprefix("seed-")
    return int(number) if number.isdigit() and number != folder.name else None


def seed_folders(folder: str | Path) -> list[Path]:
    """The runs of several seeds in a folder, in the order of their seeds; none where it is something else."""
    found = {
        seed: path
        for path in Path(folder).glob("seed-*")
        if (seed := seed_of(path)) is not None and (path / CONFIG).is_file()
    }
    return [found[seed] for seed in sorted(found)]


def name_of_run(folder: str | Path) -> str:
    """What a run is called: `mood` in runs/mood, `mood, seed 1` in runs/mood/seed-1."""
    path = Path(folder).absolute()
    seed = seed_of(path)
    return path.name if seed is None else f"{path.parent.name}, seed {seed}"
