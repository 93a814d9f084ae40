"""Run folder: the names of its files, its configuration, and the runs of several seeds in one folder.

config.yaml       the effective configuration        checkpoints/   training states to resume from
journal.jsonl     event log, a line a step           model/         the best model so far, which anyone can load
lock              held by the process that trains    seed-N/        the run of a seed, in a folder of several
"""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import ConfigError, DataError, GlassformerError
from glassformer.files import as_path, nearest_path, read_bytes, safe_repr
from glassformer.version import __version__

if TYPE_CHECKING:
    import torch

    from glassformer.runs.config import RunConfig

CHECKPOINTS, MODEL, CONFIG, CARD, METRICS = "checkpoints", "model", "config.yaml", "README.md", "metrics.json"
DATA_SUFFIXES = {".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".conll", ".conllu", ".txt", ".gz"}


def seed_folder(folder: str | Path, seed: int) -> Path:
    """The folder of one seed, in the folder of several."""
    return as_path(folder, "folder") / f"seed-{seed}"


def seed_of(folder: Path) -> int | None:
    """The seed that a folder is named after; None where it is not `seed-N`."""
    number = folder.name.removeprefix("seed-")
    return int(number) if number.isdigit() and number != folder.name else None


def seed_folders(folder: str | Path) -> list[Path]:
    """The run folders of several seeds in a folder, in the order of the seeds; an empty list where there are none."""
    folders = {
        seed: path
        for path in as_path(folder, "folder").glob("seed-*")
        if (seed := seed_of(path)) is not None and (path / CONFIG).is_file()
    }
    return [folders[seed] for seed in sorted(folders)]


def run_name(folder: str | Path) -> str:
    """The display name of a run: `mood` in runs/mood, `mood, seed 1` in runs/mood/seed-1."""
    path = as_path(folder, "folder").absolute()
    seed = seed_of(path)
    return path.name if seed is None else f"{path.parent.name}, seed {seed}"


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Versions, hardware and threads: what decides, besides the seed, whether a training is reproducible to the bit."""
    import torch

    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "glassformer": __version__,
        "torch": torch.__version__,
        "numpy": version("numpy"),
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": _processor_name(),
        "device": gpu or device.type,
        "threads": torch.get_num_threads(),
    }


def _processor_name() -> str:
    """The name of the CPU, with its model where the system knows it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def no_run(folder: str | Path, problem: str) -> str:
    """The message for a folder that is no run: what is wrong, with the runs in it; or no such folder, the nearest."""
    path = as_path(folder, "folder")
    if not path.exists():
        return f"{folder}: no such folder{nearest_path(path)}"
    inside = sorted(str(config.parent) for config in path.glob(f"*/{CONFIG}"))
    more = f" and {len(inside) - 5} more" if len(inside) > 5 else ""
    return f"{folder}: {problem}" + (f"; name one of those in it: {', '.join(inside[:5])}{more}" if inside else "")


def read_config(path: Path, error: type[GlassformerError] = ConfigError) -> dict[str, Any]:
    """Read a YAML or JSON file.

    Raises: ConfigError, or another `error`: no such file, a data file, invalid YAML, or not a mapping.
    """
    if path.suffix.lower() in DATA_SUFFIXES:  # whose first line YAML would call a wrong mapping
        raise error(f"{path}: is a data file, and a configuration was expected; give rows with --data {path}")
    from glassformer.files.yaml_text import MAX_BYTES, parse_yaml  # imported late: few read YAML

    values = parse_yaml(read_bytes(path, error, MAX_BYTES), str(path), error)
    if not isinstance(values, dict):
        raise error(f"{path}: must hold names and values, such as `task: classify`; got {safe_repr(values)}")
    return values


def run_config(path: Path) -> RunConfig:
    """The configuration of a run, from its file. Raises: ConfigError: it is none, with the file."""
    from glassformer.runs.config import parse_config  # imported late: most who ask for folders train nothing

    values = read_config(path)
    try:
        return parse_config(values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def seen_from_here(config: RunConfig, folder: Path) -> RunConfig:
    """The configuration of a run with its relative paths as they are from the working directory.

    They are relative to the directory in which it was trained: the run's folder, without its path `output`.

        output: runs/mood, folder: ../project/runs/mood        train.csv is ../project/train.csv
    """
    own, output = folder.resolve().parts, Path(config.output).parts
    base = Path(*own[: -len(output)])
    if Path(config.output).is_absolute() or own[-len(output) :] != output or base == Path.cwd():
        return config
    here, data = os.path.relpath(base), config.data
    if data.folder is not None or not data.fetch:  # else it is the folder of fetched data sets
        data = replace(data, folder=os.path.join(here, data.folder or ""))
    model = config.model
    if model is not None and os.path.exists(os.path.join(here, model)):  # else it is a name on the Hub
        model = os.path.join(here, model)
    return replace(config, data=data, model=model)


def stored_config(folder: Path) -> dict[str, Any]:
    """The effective configuration of a run folder; empty where it has none.

    Raises: DataError: invalid YAML.
    """
    path = folder / CONFIG
    return read_config(path, DataError) if path.is_file() else {}
