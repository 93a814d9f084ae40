"""The saves of a run: a save that a kill, a full disk or a failing one cuts short never costs the one before.

    checkpoints/
        step-00000500/              whole, for only a rename gives a folder this name
            model.safetensors …     what the run wrote
            manifest.json           written last: size and sha256 of every file, and of itself
        step-00001000.tmp/          under way, or what a kill left: never read, cleared by the next save

    write into .tmp → flush every file → manifest → flush the folder → rename → flush the parent → retire old ones

Which save is the latest is computed, the last one whose manifest holds true, and not noted anywhere: a note could be
wrong. The same goes for the best: the last of those that were saved as the best so far.

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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import torch

import glassformer
from glassformer.errors import ConfigError, WeightsError
from glassformer.files import open_regular, reason, shown
from glassformer.files.strict_json import MAX_JSON_BYTES, parse_object
from glassformer.runs.lock import Lock
from glassformer.weights.write import flush_folder

MANIFEST = "manifest.json"
PATIENCE = 60.0  # seconds that a save waits for one of another process in the same folder
_ROOM = 1.1  # a save needs this much more than the last one took: logs grow meanwhile

_NAME = re.compile(r"step-[0-9]{8,}(-[0-9]+)?")
_UNFINISHED = re.compile(_NAME.pattern + r"(\.old)?\.tmp")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One save of a run.

    step: optimiser steps done · about: what the run said of it · best: whether it was the best so far
    number: counts the saves of a run, on and on, also where it went back to an earlier step
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
        """Read every file and compare it with the manifest.

        Raises: WeightsError: the file that is missing, cut or changed.
        """
        for name, (size, digest) in self.files.items():
            path = self.folder / name
            stream, found = open_regular(path)
            with stream:
                if found != size:
                    raise WeightsError(f"{path}: has {found} bytes, {size} were saved; it is damaged")
                try:
                    same = hashlib.file_digest(stream, "sha256").hexdigest() == digest
                except OSError as problem:
                    raise WeightsError(f"{path}: cannot be read: {reason(problem)}") from problem
            if not same:
                raise WeightsError(f"{path}: is not what was saved: its sha256 is another; it is damaged")


class Checkpoints:
    """The folder `checkpoints/` of a run.

        saves = Checkpoints(run / "checkpoints")
        saves.save(500, lambda folder: model.save_pretrained(folder), about={"epoch": 1})
        saves.latest().folder

    Args:
        folder: made by the first save; the run's folder has to be there.
        keep: so many of the last saves stay, and the best one beside them.

    Raises: ConfigError: `keep` is not at least 1.
    """

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        if keep < 1:
            raise ConfigError(f"keep must be at least 1, got {keep}: a run needs a checkpoint to go on from")
        self.folder = Path(folder)
        self.keep = keep
        self._damaged: set[Path] = set()  # as `latest` or `best` found them: not worth keeping

    def save(
        self,
        step: int,
        write: Callable[[Path], object],
        *,
        about: Mapping[str, Any],
        best: bool = False,
        size: int | None = None,
    ) -> Path:
        """Save, whole or not at all.

        Args:
            step: optimiser steps done. Saved twice, it stands there twice, as `step-…` and `step-…-2`.
            write: fills the empty folder that it is handed.
            about: what else is to be known of it, as JSON: epoch, figures, the config's hash.
            best: the best so far, which stays until a better one is saved.
            size: bytes it will take; else taken to be those of the last save.

        Returns: its folder.

        Raises:
            WeightsError: the disk refuses: full, failing, read-only, gone. All earlier saves are as they were.
            ConfigError: `about` is not JSON, or another process keeps on saving here.
        """
        seal = _Seal(step, about, best)
        with self._clear_refusal(step):
            self.folder.mkdir(exist_ok=True)
            with Lock(self.folder / "lock", wait=PATIENCE):
                # Whoever else saves here holds the lock, so these belong to nobody any more.
                for name in self._names(_UNFINISHED):
                    _remove(self.folder / name)
                known = self._known()
                needed = size if size is not None else known[0].bytes if known else 0
                self._check_room(int(needed * _ROOM))
                folder = self.folder / self._free_name(step)
                unfinished = folder.with_name(f"{folder.name}.tmp")
                try:
                    unfinished.mkdir()
                    write(unfinished)
                    seal.close(unfinished, number=1 + max((c.number for c in known), default=0))
                    os.rename(unfinished, folder)
                except BaseException:
                    _remove(unfinished)
                    raise
                flush_folder(self.folder)
                self._retire(folder)
        return folder

    def latest(self, *, verify: bool = True) -> Checkpoint | None:
        """The last save that is whole; damaged ones are named in a warning and passed over. None: there is none.

        Args:
            verify: read every byte; else the manifest alone.
        Raises: WeightsError: the folder cannot be listed.
        """
        return self._last(lambda checkpoint: True, verify)

    def best(self, *, verify: bool = True) -> Checkpoint | None:
        """The last save that was saved as the best so far; else as `latest`."""
        return self._last(lambda checkpoint: checkpoint.best, verify)

    def _last(self, wanted: Callable[[Checkpoint], bool], verify: bool) -> Checkpoint | None:
        while True:
            retired = False  # by a process that saves while we look: then there are newer ones
            for checkpoint in filter(wanted, self._known(tell=True)):
                try:
                    if verify:
                        checkpoint.verify()
                    return checkpoint
                except WeightsError as problem:
                    if checkpoint.folder.exists():
                        self._pass_over(checkpoint.folder, problem)
                    else:
                        retired = True
            if not retired:
                return None

    def _known(self, *, tell: bool = False) -> list[Checkpoint]:
        """Those with a sound manifest, the last one first."""
        found: list[Checkpoint] = []
        for name in self._names(_NAME):
            try:
                found.append(_opened(self.folder / name))
            except WeightsError as problem:
                if tell and (self.folder / name).exists():
                    self._pass_over(self.folder / name, problem)
        return sorted(found, key=lambda checkpoint: checkpoint.number, reverse=True)

    def _pass_over(self, folder: Path, problem: WeightsError) -> None:
        self._damaged.add(folder)
        warnings.warn(f"{problem}; the checkpoint {folder.name} is passed over", stacklevel=5)

    def _names(self, pattern: re.Pattern[str]) -> list[str]:
        try:
            return sorted(filter(pattern.fullmatch, os.listdir(self.folder)))
        except FileNotFoundError:
            return []
        except OSError as problem:
            raise WeightsError(f"{self.folder}: cannot be listed: {reason(problem)}") from problem

    def _free_name(self, step: int) -> str:
        taken, name, times = set(self._names(_NAME)), f"step-{step:08d}", 1
        while name in taken:
            times += 1
            name = f"step-{step:08d}-{times}"
        return name

    def _check_room(self, needed: int) -> None:
        free = shutil.disk_usage(self.folder).free
        if free < needed:
            raise WeightsError(
                f"it needs about {needed:,} bytes and {free:,} are free; make room on this disk, or keep fewer"
            )

    def _retire(self, new: Path) -> None:
        """Remove what need not stay, when the new one is seen to be whole."""
        known = [checkpoint for checkpoint in self._known() if checkpoint.folder not in self._damaged]
        best = [checkpoint for checkpoint in known if checkpoint.best][:1]
        stay = {checkpoint.folder for checkpoint in known[: self.keep] + best}
        leave = [path for name in self._names(_NAME) if (path := self.folder / name) not in stay]
        if leave:
            _opened(new).verify()
        for path in leave:
            gone = path.with_name(f"{path.name}.old.tmp")
            try:
                os.rename(path, gone)  # half removed, it would look damaged
            except OSError as problem:
                warnings.warn(f"{path}: cannot be removed: {reason(problem)}", stacklevel=3)
            else:
                _remove(gone)

    @contextmanager
    def _clear_refusal(self, step: int) -> Iterator[None]:
        try:
            yield
        except (OSError, WeightsError) as problem:
            raise WeightsError(
                f"{self.folder}: step {step} cannot be saved: {reason(problem)}; the earlier checkpoints are intact"
            ) from problem


class _Seal:
    """What makes a folder a checkpoint: a manifest that holds for every file in it, and for itself."""

    def __init__(self, step: int, about: Mapping[str, Any], best: bool) -> None:
        try:
            json.dumps(dict(about), allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as problem:
            raise ConfigError(
                f"what is said about step {step} cannot be written as JSON: {problem}"
            ) from problem
        self.content = {"step": step, "best": best, "about": dict(about)}

    def close(self, folder: Path, *, number: int) -> None:
        """Flush every file of `folder`, write the manifest, and flush that."""
        files: dict[str, dict[str, Any]] = {}
        folders = [folder]
        for path in sorted(folder.rglob("*")):
            if path.is_symlink():
                raise WeightsError(f"{path}: is a link; a checkpoint holds its files itself")
            if path.is_dir():
                folders.append(path)
                continue
            with open(path, "rb+") as stream:
                os.fsync(stream.fileno())
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            files[path.relative_to(folder).as_posix()] = {"bytes": path.stat().st_size, "sha256": digest}
        if not files:
            raise WeightsError("nothing was written, so there is nothing to keep")
        versions = {
            "glassformer": glassformer.__version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        }
        content = {**self.content, "number": number, "versions": versions, "files": files}
        with open(folder / MANIFEST, "xb") as stream:
            stream.write(_sealed(content))
            stream.flush()
            os.fsync(stream.fileno())
        for place in reversed(folders):
            flush_folder(place)


def _sealed(content: Mapping[str, Any]) -> bytes:
    """A manifest as it stands in its file, with its own digest at its end."""
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return json.dumps({**content, "sha256": digest}, indent=1).encode() + b"\n"


def _opened(folder: Path) -> Checkpoint:
    """What the manifest of `folder` says.

    Raises: WeightsError: there is none, or it is not, to the byte, one that was written here.
    """
    path = folder / MANIFEST
    stream, _ = open_regular(path)
    with stream:
        try:
            data = stream.read(MAX_JSON_BYTES)
        except OSError as problem:
            raise WeightsError(f"{path}: cannot be read: {reason(problem)}") from problem
    content = parse_object(data, str(path))
    content.pop("sha256", None)
    if _sealed(content) != data:
        raise WeightsError(f"{path}: is not what was saved: its sha256 is another; it is damaged")
    for name in content["files"]:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise WeightsError(f"{path}: names {shown(name)}, which is not in its folder")
    return Checkpoint(
        step=content["step"],
        folder=folder,
        about=content["about"],
        best=content["best"],
        number=content["number"],
        files={name: (file["bytes"], file["sha256"]) for name, file in content["files"].items()},
    )


def _remove(folder: Path) -> None:
    """Remove a folder that no reader looks at; where the disk refuses, it stays, and is said to."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        pass
    except OSError as problem:
        warnings.warn(f"{folder}: cannot be removed: {reason(problem)}", stacklevel=3)
