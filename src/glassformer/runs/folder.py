"""Run folder: the names of its files, and the runs of several seeds in one folder.

config.yaml       the effective configuration        checkpoints/   training states to resume from
journal.jsonl     event log, a line a step           model/         the best model so far, which anyone can load
"""

from __future__ import annotations

from pathlib import Path

CHECKPOINTS, MODEL, CONFIG, CARD, METRICS = "checkpoints", "model", "config.yaml", "README.md", "metrics.json"


def seed_folder(folder: str | Path, seed: int) -> Path:
    """The folder of one seed, in the folder of several."""
    return Path(folder) / f"seed-{seed}"


def seed_of(folder: Path) -> int | None:
    """The seed that a folder is named after; None where it is not `seed-N`."""
    number = folder.name.removeprefix("seed-")
    return int(number) if number.isdigit() and number != folder.name else None


def seed_folders(folder: str | Path) -> list[Path]:
    """The run folders of several seeds in a folder, in the order of the seeds; an empty list where there are none."""
    folders = {
        seed: path
        for path in Path(folder).glob("seed-*")
        if (seed := seed_of(path)) is not None and (path / CONFIG).is_file()
    }
    return [folders[seed] for seed in sorted(folders)]


def run_name(folder: str | Path) -> str:
    """The display name of a run: `mood` in runs/mood, `mood, seed 1` in runs/mood/seed-1."""
    path = Path(folder).absolute()
    seed = seed_of(path)
    return path.name if seed is None else f"{path.parent.name}, seed {seed}"
