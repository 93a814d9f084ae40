"""Locks of folders that one process at a time may write: held by `flock`, or by the name of a file that is renamed."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from glassformer.errors import ConfigError
from glassformer.files import append_handle

if sys.platform != "win32":
    import fcntl

# What file systems without flock answer.
_NO_FLOCK_ERRNOS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_POLL_SECONDS = 0.01  # seconds between two attempts
_FREE = "free"


class FolderLock:
    """A lock that one process holds at a time, released when that process ends, however it ends; a context manager.

        lock      held by `flock`, where the file system has it: the system releases it when the process ends
        lock.d/   elsewhere: a folder of one file, whose name says who holds it, or `free`

    That file is acquired, released, and taken over from a process that is gone, by renaming it. No two holders have the
    same name, so of all processes that rename the file they saw, one succeeds: the others do not find it any more.
    Forked child processes do not hold it: it is released with its holder even where they live on.

    Args:
        path: the file; its folder must be there. It stays when the lock is free: removing it would be a race.
        wait: timeout in seconds, while another process holds it
    Raises: ConfigError: on entering: another process holds it; which one, where, and since when. OSError: on entering:
        as the system refuses (no such folder, read-only).
    """

    def __init__(self, path: Path, *, wait: float = 0.0) -> None:
        self.path = Path(path)
        self.wait = wait
        self._folder = self.path.with_name(f"{self.path.name}.d")
        self._holder: int | None = None  # the process that took it; a fork of it is another
        self._handle: int | None = None  # of the file that is flocked
        self._name: Path | None = None  # or the file that bears our name

    def __enter__(self) -> Self:
        if self._holder == os.getpid():
            raise ConfigError(f"{self.path}: this lock is held already by this very process")
        until = time.monotonic() + self.wait
        while not (self._try_rename() if (flocked := self._try_flock()) is None else flocked):
            if time.monotonic() >= until:
                raise ConfigError(self._holder_message())
            time.sleep(_POLL_SECONDS)
        self._holder = os.getpid()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._holder != os.getpid():
            return
        self._holder = None
        if self._handle is not None:
            with suppress(OSError):  # its content is for error messages only; the lock is that of the system
                os.ftruncate(self._handle, 0)
            _handles.discard(self._handle)
            os.close(self._handle)
            self._handle = None
        elif self._name is not None:
            with suppress(FileNotFoundError):  # a run folder may be moved away under its run
                os.rename(self._name, self._folder / _FREE)
            self._name = None

    def _try_flock(self) -> bool | None:
        """Whether `flock` acquired it; None where there are no such locks."""
        if sys.platform == "win32":
            return None
        handle = append_handle(self.path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            os.close(handle)
            if problem.errno in _NO_FLOCK_ERRNOS:
                return None
            if problem.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return False
            raise
        self._handle = handle
        _handles.add(handle)
        with suppress(OSError):  # a full disk: the lock is held all the same
            os.ftruncate(handle, 0)
            os.write(handle, _own_name().encode())
        return True

    def _try_rename(self) -> bool:
        """Whether renaming the file in the folder acquired it."""
        if not self._folder.exists():
            self._make_folder()
        names = self._names()
        if len(names) != 1 or not _is_free(names[0]):  # none or two: it is being renamed right now
            return False
        own = self._folder / _own_name()
        with suppress(FileNotFoundError):  # another was quicker
            os.rename(self._folder / names[0], own)
        if not own.exists():
            return False
        self._name = own
        return True

    def _make_folder(self) -> None:
        """Make the folder with its file in it, atomically: of several processes one succeeds."""
        new = Path(tempfile.mkdtemp(prefix=f".{self._folder.name}.", dir=self._folder.parent))
        (new / _FREE).touch()
        try:
            os.rename(new, self._folder)
        except OSError:
            shutil.rmtree(new)
            if not self._folder.exists():
                raise

    def _names(self) -> list[str]:
        return [name for name in os.listdir(self._folder) if name == _FREE or _NAME.fullmatch(name)]

    def _holder_message(self) -> str:
        """The error message: who holds it."""
        by_name = self._folder.exists()
        holder = self._names() if by_name else [self.path.read_text("utf-8", "replace")]
        match = re.fullmatch(_NAME, holder[0]) if len(holder) == 1 else None
        who = f"process {match['pid']} on {match['host']} since {match['since']}" if match else "another process"
        return f"{self.path.parent}: is in use by {who}; wait for it to end, stop it, or use another folder" + (
            f"; if it is gone, delete {self._folder}" if by_name else ""
        )


def holder_lives(path: Path) -> bool | None:
    """Whether the process that holds a lock lives; read only: to try the lock would keep another from taking it.

    Args:
        path: as of `FolderLock`
    Returns: None: not known: the process is on another machine, or there is no such lock.
    """
    folder = path.with_name(f"{path.name}.d")
    try:
        names = os.listdir(folder) if folder.exists() else [path.read_text("utf-8", "replace")]
    except OSError:
        return None
    holders = [match for name in names if (match := _NAME.fullmatch(name))]
    if any(holder["host"] != _host() for holder in holders):
        return None
    return any(not _is_free(holder[0]) for holder in holders)


_handles: set[int] = set()


def _close_after_fork() -> None:
    """Close the copies of the parent's handles in a forked child: a lock is held as long as one of them is open."""
    while _handles:
        os.close(_handles.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_after_fork)

# The holder, so that others can look whether that process still exists; and four random bytes, which make it unique.
_NAME = re.compile(r"(?P<host>[^~]*)~(?P<pid>[0-9]+)~(?P<started>[^~]*)~(?P<since>[^~]*)~[0-9a-f]{8}")


def _own_name() -> str:
    since = time.strftime("%Y-%m-%d %H.%M.%S")
    return f"{_host()}~{os.getpid()}~{_started(os.getpid())}~{since}~{secrets.token_hex(4)}"


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "_", socket.gethostname())


def _is_free(name: str) -> bool:
    """Whether it is free, or held by a process that has ended; one on another host counts as alive."""
    holder = _NAME.fullmatch(name)
    if holder is None:
        return True
    if holder["host"] != _host():
        return False
    started = _started(int(holder["pid"]))
    return started is None or (started != "" and started != holder["started"])


def _started(pid: int) -> str | None:
    """The start time of a process, which tells it from a later one of the same pid; "" = unknown, None = it is gone."""
    if not Path("/proc/self/stat").exists():
        if os.name == "posix":
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return None
            except PermissionError:  # it exists, and belongs to someone else
                return ""
        return ""
    try:
        # After the name in brackets: field 3 is the state, field 22 the ticks since the machine started.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] in "ZX":  # a zombie: it ended, and its parent has not waited for it yet
        return None
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {fields[19]}"
