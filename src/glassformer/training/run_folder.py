"""Run folder, as the trainer writes it: event log, checkpoints of the training state, and the best model so far.

config.yaml       the effective configuration        checkpoints/   training states to resume from
journal.jsonl     event log, step by step            model/         the best model so far, which anyone can load

Checkpoints are atomic: a save that a kill or a full disk cuts short never costs the one before.

    checkpoints/
        step-00000500/              complete, for only a rename gives a folder this name
            model.safetensors …     what the run wrote
            manifest.json           written last: size and sha256 of every file, and of itself
        step-00001000.tmp/          under way, or left by a kill: never read, removed by the next save

    write into .tmp → flush every file → manifest → flush the folder → rename → flush the parent → retire old ones

The latest checkpoint is the last one whose manifest is valid; no file points to it, for a pointer could be wrong. The
same goes for the best: the last of those that were saved as the best so far.

Source: Pillai et al. 2014, "All file systems are not created equal" (what has to be flushed, and in which order).
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch import Tensor

import glassformer
from glassformer.errors import ConfigError, WeightsError
from glassformer.files import MAX_FILE_BYTES, error_reason, file_sha256, open_regular_file, parse_json_object, safe_repr
from glassformer.files.atomic import atomic_file, flush_folder, remove_folder
from glassformer.files.lock import FolderLock
from glassformer.model import Model
from glassformer.runs.config import TrainingOptions
from glassformer.runs.digest import update_digest
from glassformer.runs.folder import CHECKPOINTS, MODEL, EventLog, event_log_path
from glassformer.training.distributed import Distributed
from glassformer.training.state import (
    TrainingState,
    check_same_run,
    read_state,
    write_state,
)

MANIFEST = "manifest.json"
LOCK_TIMEOUT = 60.0  # seconds that a save waits for one of another process in the same folder
_SPACE_FACTOR = 1.1  # a save needs this much more than the last one took: logs grow meanwhile

_NAME = re.compile(r"step-[0-9]{8,}(-[0-9]+)?")
_STEP = re.compile(r"[0-9]+")
_UNFINISHED = re.compile(_NAME.pattern + r"(\.old)?\.tmp")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One checkpoint of a run.

    step: optimiser steps done
    about: metadata of the run
    best: whether it was the best so far
    number: counts the saves of a run, also where it was rolled back to an earlier step
    files: name → bytes, sha256
    """

    step: int
    folder: Path
    about: Mapping[str, Any]
    best: bool
    number: int
    files: Mapping[str, tuple[int, str]]

    @property
    def bytes(self) -> int:
        return sum(size for size, _ in self.files.values())

    def verify(self) -> None:
        """Verify the size and SHA-256 of every file against the manifest.

        Raises: WeightsError: the file that is missing, cut or changed.
        """
        for name, (size, digest) in self.files.items():
            path = self.folder / name
            stream, actual = open_regular_file(path)
            with stream:
                if actual != size:
                    raise WeightsError(f"{path}: has {actual} bytes, {size} were saved; it is damaged")
                try:
                    same = file_sha256(stream) == digest
                except OSError as problem:
                    raise WeightsError(f"{path}: cannot be read: {error_reason(problem)}") from problem
            if not same:
                raise WeightsError(f"{path}: its SHA-256 is not that of the manifest; it is damaged")


class Checkpoints:
    """The checkpoints of a run, in its folder `checkpoints/`.

        saves = Checkpoints(run / "checkpoints")
        saves.save(500, lambda folder: model.save_pretrained(folder), about={"epoch": 1})
        saves.latest().folder

    Args:
        folder: made by the first save; the run's folder has to be there.
        keep: this many of the last checkpoints are kept, and the best one next to them.

    Raises: ConfigError: `keep` is not at least 1.
    """

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        if keep < 1:
            raise ConfigError(f"keep must be at least 1, got {keep}: a run needs a checkpoint to continue from")
        self.folder = Path(folder)
        self.keep = keep
        # As seen by `latest` and `best`; they do not count among those to keep.
        self._damaged: set[Path] = set()

    def save(
        self,
        step: int,
        write: Callable[[Path], object],
        *,
        about: Mapping[str, Any],
        best: bool = False,
        size: int | None = None,
    ) -> Path:
        """Save a checkpoint atomically: complete or not at all.

        Args:
            step: optimiser steps done. Saved twice, it is there twice, as `step-…` and `step-…-2`.
            write: fills the empty folder that it is handed
            about: metadata as JSON: epoch, metrics, the config's hash
            best: the best so far, which stays until a better one is saved
            size: bytes it will take; else taken to be those of the last save
        Returns: its folder.
        Raises: WeightsError: the disk refuses: full, failing, read-only, gone. All earlier saves are as they were.
            ConfigError: `about` is not JSON, or another process keeps on saving here.
        """
        try:
            json.dumps(dict(about), allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as problem:
            raise ConfigError(f"the metadata (about) of step {step} cannot be written as JSON: {problem}") from problem
        with self._report_refusal(step):
            self.folder.mkdir(exist_ok=True)
            with FolderLock(self.folder / "lock", wait=LOCK_TIMEOUT):
                # Another process that saves here would hold the lock, so these are left over.
                for name in self._names(_UNFINISHED):
                    _remove(self.folder / name)
                known = self._known()
                needed = size if size is not None else known[0].bytes if known else 0
                self._check_disk_space(int(needed * _SPACE_FACTOR))
                folder = self.folder / self._free_name(step)
                unfinished = folder.with_name(f"{folder.name}.tmp")
                try:
                    unfinished.mkdir()
                    write(unfinished)
                    number = 1 + max((c.number for c in known), default=0)
                    about = {"step": step, "best": best, "about": dict(about), "number": number}
                    write_manifest(unfinished, about)
                    os.rename(unfinished, folder)
                except BaseException:
                    _remove(unfinished)
                    raise
                flush_folder(self.folder)
                self._damaged.discard(folder)  # of a removed one that had this name
                self._retire(folder)
        return folder

    def latest(self) -> Checkpoint | None:
        """The last intact checkpoint; damaged ones are skipped with a warning. None = there is none.

        Raises: WeightsError: the folder cannot be listed.
        """
        return self._last(lambda checkpoint: True)

    def best(self) -> Checkpoint | None:
        """The last intact checkpoint that was saved as the best so far; else as `latest`."""
        return self._last(lambda checkpoint: checkpoint.best)

    def _last(self, condition: Callable[[Checkpoint], bool]) -> Checkpoint | None:
        while True:
            names = self._names(_NAME)
            for checkpoint in filter(condition, self._known(names, warn=True)):
                try:
                    checkpoint.verify()
                    return checkpoint
                except WeightsError as problem:
                    if checkpoint.folder.exists():
                        self._skip_damaged(checkpoint.folder, problem)
            if all((self.folder / name).exists() for name in names):
                return None
            # A process that saves meanwhile has retired one, so there are newer ones.

    def _known(self, names: Sequence[str] | None = None, *, warn: bool = False) -> list[Checkpoint]:
        """The checkpoints with a valid manifest, the last one first."""
        checkpoints: list[Checkpoint] = []
        for name in self._names(_NAME) if names is None else names:
            try:
                checkpoints.append(read_manifest(self.folder / name))
            except WeightsError as problem:
                if warn and (self.folder / name).exists():
                    self._skip_damaged(self.folder / name, problem)
        return sorted(checkpoints, key=lambda checkpoint: checkpoint.number, reverse=True)

    def _skip_damaged(self, folder: Path, problem: WeightsError) -> None:
        self._damaged.add(folder)
        warnings.warn(f"{problem}; the checkpoint {folder.name} is skipped", stacklevel=5)

    def _names(self, pattern: re.Pattern[str]) -> list[str]:
        try:
            return sorted(filter(pattern.fullmatch, os.listdir(self.folder)))
        except FileNotFoundError:
            return []
        except OSError as problem:
            raise WeightsError(f"{self.folder}: cannot be listed: {error_reason(problem)}") from problem

    def _free_name(self, step: int) -> str:
        taken, name = set(self._names(_NAME)), f"step-{step:08d}"
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        return next(name for name in names if name not in taken)

    def _check_disk_space(self, needed: int) -> None:
        free = shutil.disk_usage(self.folder).free
        if free < needed:
            raise WeightsError(
                f"it needs about {needed:,} bytes and {free:,} are free; free disk space, or keep fewer checkpoints"
            )

    def _retire(self, new: Path) -> None:
        """Remove what need not stay, when the new one is seen to be whole."""
        known = [checkpoint for checkpoint in self._known() if checkpoint.folder not in self._damaged]
        best = [checkpoint for checkpoint in known if checkpoint.best][:1]
        stay = {new, *(checkpoint.folder for checkpoint in known[: self.keep] + best)}
        obsolete = [path for name in self._names(_NAME) if (path := self.folder / name) not in stay]
        if obsolete:
            read_manifest(new).verify()
        for path in obsolete:
            renamed = path.with_name(f"{path.name}.old.tmp")
            try:
                os.rename(path, renamed)  # half removed, it would look like a damaged checkpoint
            except OSError as problem:
                warnings.warn(f"{path}: cannot be removed: {error_reason(problem)}", stacklevel=3)
            else:
                _remove(renamed)

    @contextmanager
    def _report_refusal(self, step: int) -> Iterator[None]:
        """Turn an error of the disk into one that names the step."""
        try:
            yield
        except (OSError, WeightsError) as problem:
            raise WeightsError(
                f"{self.folder}: step {step} cannot be saved: {error_reason(problem)}; the earlier "
                "checkpoints are intact"
            ) from problem


def write_manifest(folder: Path, about: Mapping[str, Any]) -> None:
    """Flush every file, write the manifest (size and SHA-256 of each, and of itself), and flush that.

    Args:
        about: step, best, number and about, as in `Checkpoint`
    """
    files: dict[str, dict[str, Any]] = {}
    folders = [folder]
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            raise WeightsError(f"{path}: is a symbolic link; a checkpoint must hold its files itself")
        if path.is_dir():
            folders.append(path)
            continue
        with open(path, "rb+") as stream:
            os.fsync(stream.fileno())
            digest = file_sha256(stream)
        files[path.relative_to(folder).as_posix()] = {"bytes": path.stat().st_size, "sha256": digest}
    if not files:
        raise WeightsError("the checkpoint is empty: `write` has written no file")
    versions = {"glassformer": glassformer.__version__, "torch": str(torch.__version__)}
    versions["python"] = platform.python_version()
    with open(folder / MANIFEST, "xb") as stream:
        stream.write(_with_digest({**about, "versions": versions, "files": files}))
        stream.flush()
        os.fsync(stream.fileno())
    for path in reversed(folders):
        flush_folder(path)


def _with_digest(content: Mapping[str, Any]) -> bytes:
    """The bytes of a manifest, with its own SHA-256 at the end."""
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return json.dumps({**content, "sha256": digest}, indent=1).encode() + b"\n"


def read_manifest(folder: Path) -> Checkpoint:
    """Read the manifest of a checkpoint, a folder whose name has the step: `step-00000500`, `checkpoint-500`.

    Raises: WeightsError: there is none, it is of another step, or it is not, to the byte, one that was written here.
    """
    path = folder / MANIFEST
    stream, _ = open_regular_file(path)
    with stream:
        try:
            data = stream.read(MAX_FILE_BYTES)
        except OSError as problem:
            raise WeightsError(f"{path}: cannot be read: {error_reason(problem)}") from problem
    content = parse_json_object(data, str(path))
    content.pop("sha256", None)
    if _with_digest(content) != data:
        raise WeightsError(f"{path}: its SHA-256 is not that of the manifest; it is damaged")
    try:
        checkpoint = Checkpoint(
            step=content["step"],
            folder=folder,
            about=dict(content["about"]),
            best=bool(content["best"]),
            number=content["number"],
            files={name: (int(file["bytes"]), str(file["sha256"])) for name, file in content["files"].items()},
        )
        of_another = int(_STEP.findall(folder.name)[0]) != checkpoint.step or not isinstance(checkpoint.number, int)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise WeightsError(f"{path}: is no manifest of a checkpoint") from None
    if of_another:
        raise WeightsError(f"{path}: is of step {safe_repr(checkpoint.step)}; it belongs to another checkpoint")
    for name in checkpoint.files:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise WeightsError(f"{path}: names {safe_repr(name)}, which is not in its folder")
    return checkpoint


def _remove(folder: Path) -> None:
    """Remove a folder that no reader looks at; a disk that refuses is a warning, not an error."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        pass
    except OSError as problem:
        warnings.warn(f"{folder}: cannot be removed: {error_reason(problem)}", stacklevel=3)


SUMS = "SHA256SUMS"
"""Digests of the files of the best model, in its folder, as `sha256sum --check` reads them."""
_SUM = re.compile(r"([0-9a-f]{64})  (.+)")


def check_run_folder(path: Path) -> None:
    """Raises: ConfigError: a file, where a run's folder is to be."""
    if path.exists() and not path.is_dir():
        raise ConfigError(f"{path}: is a file; give a folder for the run")


class RunFolder:
    """The folder of a run, for the process that writes; the others only read its checkpoints and keep a log.

    Args:
        path: None = nothing is kept but the trained model in memory
        distributed: the processes that train
    """

    def __init__(self, path: Path | None, options: TrainingOptions, distributed: Distributed) -> None:
        if path is not None:
            check_run_folder(path)
        self.path, self.options, self.distributed = path, options, distributed
        self.checkpoints = None if path is None else Checkpoints(path / CHECKPOINTS, keep=options.keep)
        self.event_log: EventLog | None = None
        self._failed_saves = 0

    @contextmanager
    def open(self) -> Iterator[None]:
        """Lock the folder and open the event log, while the block runs; another run in it is an error."""
        if self.path is None:
            yield
            return
        with ExitStack() as stack:
            if self.distributed.is_main:
                try:
                    self.path.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    reason = error_reason(error)
                    raise ConfigError(f"{self.path}: the folder cannot be made: {reason}") from error
                stack.enter_context(FolderLock(self.path / "lock"))
                old, model = self.path / f".{MODEL}.old", self.path / MODEL
                if old.exists() and not model.exists():
                    old.rename(model)  # a kill came between the two renames of `save_best_model`
            self.distributed.all_reduce_max(0)  # a barrier: the others wait until the folder exists
            self.event_log = stack.enter_context(EventLog(event_log_path(self.path, self.distributed.rank)))
            try:
                yield
            finally:
                update_digest(self.event_log.path)
                self.event_log = None

    def log_event(self, event: str, **values: Any) -> None:
        """Write a line of the event log."""
        if self.event_log is not None:
            self.event_log.write(event, **values)

    def log_offset(self) -> int:
        """Length of the event log in bytes, once it is on the disk."""
        if self.event_log is None:
            return 0
        self.event_log.sync()
        update_digest(self.event_log.path)
        return self.event_log.offset

    def truncate_log(self, offset: int) -> None:
        """Drop what the event log says beyond an offset in bytes."""
        if self.event_log is not None:
            self.event_log.truncate(offset)

    def load_state(self, identity: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The newest intact training state of this very run, as tensors and values; None where there is none."""
        checkpoint = None if self.checkpoints is None else self.checkpoints.latest()
        if checkpoint is None:
            return None
        check_same_run(dict(checkpoint.about.get("run", {})), identity, self.path)
        return read_state(checkpoint.folder)

    def try_save(
        self, step: int, tensors: Mapping[str, Tensor], values: Mapping[str, Any], identity: Mapping[str, Any]
    ) -> tuple[bool, Path | None]:
        """Save a checkpoint by the main process; a disk that refuses is an error after `max_failed_saves` in a row.

        Returns: whether it is saved, which all processes know, and where.
        """
        error, path = None, None
        if self.distributed.is_main and self.checkpoints is not None:
            try:
                path = self.checkpoints.save(
                    step, lambda folder: write_state(folder, tensors, values), about={"run": dict(identity)}
                )
            except WeightsError as problem:
                error = problem
        self._failed_saves = self.distributed.all_reduce_max(self._failed_saves + 1 if error else 0)
        if not self._failed_saves:
            self.log_event("checkpoint", step=step)
            return True, path
        self.log_event("not saved", step=step, reason=str(error))
        if self._failed_saves > self.options.max_failed_saves:
            raise error or WeightsError("the main process could not save")
        if error:
            warnings.warn(f"step {step} is not saved: {error}", stacklevel=3)
        return False, None

    def save_best_model(self, model: Model) -> None:
        """Write next to the old model, then swap by renaming: a kill leaves one of them intact."""
        if self.path is None:
            return
        new, old, path = (self.path / name for name in (f".{MODEL}.new", f".{MODEL}.old", MODEL))
        try:
            for left in (new, old):
                remove_folder(left)
            model.save_pretrained(new)
            # A sentence encoder has folders too, of its pooling.
            files = sorted(file for file in new.rglob("*") if file.is_file())
            sums = "".join(f"{file_sha256(file)}  {file.relative_to(new).as_posix()}\n" for file in files)
            with atomic_file(new / SUMS) as stream:
                stream.write(sums.encode())
            if path.exists():
                path.rename(old)
            new.rename(path)
            shutil.rmtree(old, ignore_errors=True)
        except OSError as error:
            raise WeightsError(f"{path}: the model cannot be written: {error_reason(error)}") from error

    def best_model_is_damaged(self, state: TrainingState) -> bool:
        """Whether a file of the best model is missing, or not as it was written; then a warning says so.

        A model without digests is one of an earlier release; it is taken as it is.
        """
        folder = (self.path or Path()) / MODEL
        damaged = _damaged_file(folder)
        if damaged is None and folder.is_dir():
            return False
        what = f"{folder} is gone" if damaged is None else f"{damaged} is damaged: its SHA-256 is not that of {SUMS}"
        if damaged == folder / SUMS:
            what = f"{damaged} is damaged: it holds no digests"
        warnings.warn(
            f"{what}; the best weights, of step {state.best_step}, are lost, and the last ones, of step {state.step}, "
            "take their place",
            stacklevel=4,
        )
        return True


def _damaged_file(folder: Path) -> Path | None:
    """The first file that its digest does not fit, or the file of digests where that is damaged; None = all is well."""
    sums = folder / SUMS
    if not sums.is_file():
        return None
    lines = [_SUM.fullmatch(line) for line in sums.read_text("utf-8", "replace").splitlines()]
    entries = [(folder / line[2], line[1]) for line in lines if line is not None]
    outside = any(folder not in file.parents or ".." in file.parts for file, _ in entries)
    if not entries or len(entries) < len(lines) or outside:
        return sums
    return next((file for file, digest in entries if not file.is_file() or file_sha256(file) != digest), None)
