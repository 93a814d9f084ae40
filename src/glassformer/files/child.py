"""Sandboxed child processes for untrusted programs: bounded memory, time and output, no network, no file writes.

A pickle or a chat template is a program by the author of the folder. What runs it has nothing to gain:

    this process ── request ──>  child: no secrets in its environment, limits kept by the kernel, an audit hook that
                 <── answer ───         refuses the network, other processes and files

`enter_sandbox` is for children that do one job; a `Worker` is a child that stays, and answers request after request.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_REFUSED = (
    *("socket.", "subprocess.", "shutil.", "ctypes.", "webbrowser.", "urllib.", "ftplib.", "smtplib."),
    *("os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.startfile", "os.system", "os.kill", "os.putenv"),
    *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown"),
)
"""Beginnings of the audit events that a sandboxed child may not cause."""

_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "TEMP", "TMP", "TZ")


def environment() -> dict[str, str]:
    """The environment variables of a child: what it needs to run; keys, tokens and switches of this process stay."""
    inherited = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # One thread: the child may start none once it is in the sandbox.
    return inherited | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def command(program: str, *arguments: str) -> list[str]:
    """The command line of a child that runs a line of Python with this process's import path.

    Isolated mode (-I) drops PYTHONPATH and the current folder: the child gets this process's import path instead.
    """
    import_path = [os.path.abspath(folder) for folder in sys.path if folder]
    start = f"import os, sys; sys.path[:] = sys.argv.pop(1).split(os.pathsep); {program}"
    compiled = ["-B"] if sys.dont_write_bytecode else []  # -I does not read PYTHONDONTWRITEBYTECODE
    return [sys.executable, "-I", *compiled, "-c", start, os.pathsep.join(import_path), *arguments]


# ── in the child ──────────────────────────────────────────────────────────────────────────────────────────


def enter_sandbox(
    *,
    memory_bytes: int,
    file_bytes: int = 0,
    cpu_s: int | None = None,
    writable: Path | None = None,
    reads: bool = True,
    allowed_events: tuple[str, ...] = (),
) -> None:
    """Give up what the job does not need; the limits hold for the rest of the process's life.

    Args:
        memory_bytes: of address space, beyond what the process uses already.
        file_bytes: the most that a file it writes may have.
        cpu_s: seconds of processor time; None: no limit.
        writable: the one file that it may write; None: none.
        reads: whether it may open files for reading.
        allowed_events: beginnings of audit events that are not refused, such as "ctypes.", by which some packages work.
    """
    if sys.platform != "win32":
        import resource

        bounds = {
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_FSIZE: file_bytes,
            resource.RLIMIT_NOFILE: 64,
            resource.RLIMIT_NPROC: 0,
        }
        if cpu_s is not None:
            bounds[resource.RLIMIT_CPU] = cpu_s
        used = _address_space_bytes()
        if used is not None:
            bounds[resource.RLIMIT_AS] = used + memory_bytes
        for kind, bound in bounds.items():
            _, hard = resource.getrlimit(kind)
            bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
            resource.setrlimit(kind, (bound, bound))
    refused = tuple(event for event in _REFUSED if event not in allowed_events)
    allowed = None if writable is None else os.fspath(writable)

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            name, mode, flags = arguments
            writes = isinstance(mode, str) and any(char in mode for char in "wax+")
            writes = writes or bool(isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            if (writes and (allowed is None or name != allowed)) or not (writes or reads):
                raise PermissionError(f"it tried to {'write' if writes else 'read'} a file")
        elif event.startswith(refused):
            raise PermissionError(f"it tried {event}")

    sys.addaudithook(refuse)


def _address_space_bytes() -> int | None:
    """Size of this process's address space in bytes; None where the system (other than Linux) does not report it."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[0]
    except OSError:
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def serve(answer: Callable[[Any], Any], *, cpu_s: float) -> None:
    """Answer requests from standard input until it ends; the kernel stops a request that takes more than `cpu_s`."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while (request := _receive(source)) is not None:
        _limit_cpu(cpu_s)
        data = json.dumps(answer(json.loads(request))).encode()
        _limit_cpu(0)
        _send(target, data)


def _limit_cpu(seconds: float) -> None:
    """Processor time until the signal SIGPROF ends this process; 0: no limit (nor is there one on Windows)."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


# ── in the parent ─────────────────────────────────────────────────────────────────────────────────────────


class ChildFailure(Exception):
    """A child process took too long or was stopped, or it cannot be started."""


class Worker:
    """A child process that stays, and is started when needed: it answers request after request, JSON in, JSON out.

    A child that fails on a request is replaced. Threads wait for each other; a forked process gets a child of its own.
    """

    def __init__(self, program: str, *arguments: str, timeout_s: float) -> None:
        """
        Args:
            program: a line of Python that calls `serve`
            arguments: its command line
            timeout_s: seconds that a request may take by the clock, waiting included; the processor time is the
                child's.
        """
        self._program, self._arguments, self._timeout_s = program, arguments, timeout_s
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def ask(self, request: Any) -> Any:
        """The answer to a request. Raises: ChildFailure: none came; ValueError: the request is not JSON."""
        data = json.dumps(request).encode()
        with self._lock:
            try:
                answer = self._exchange(self._started(), data)
            except BaseException:  # Ctrl-C as well: half an answer in the pipe would be read as the next one
                self.close()
                raise
        return json.loads(answer)

    def _exchange(self, child: subprocess.Popen[bytes], data: bytes) -> bytes:
        assert child.stdin is not None and child.stdout is not None
        start = time.monotonic()
        timer = threading.Timer(self._timeout_s, child.kill)
        timer.daemon = True
        timer.start()
        try:
            _send(child.stdin, data)
            answer = _receive(child.stdout)
        except OSError:
            answer = None
        finally:
            timer.cancel()
        if answer is None:
            code = child.wait()
            late = time.monotonic() - start >= self._timeout_s or code == -getattr(signal, "SIGPROF", 0) != 0
            raise ChildFailure("it runs too long" if late else f"the process that ran it failed with code {code}")
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None or self._child.poll() is not None:
            try:
                self._child = subprocess.Popen(
                    command(self._program, *self._arguments),
                    bufsize=0,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=environment(),
                    start_new_session=True,  # Ctrl-C is this process's
                )
            except (OSError, ValueError) as problem:
                raise ChildFailure(f"the process to run it in cannot be started: {problem}") from problem
        return self._child

    def close(self) -> None:
        """Stop the child; the next request starts another."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            _close_pipes(child)

    def _forget(self) -> None:
        """In a forked process: leave the child to the process that started it."""
        child, self._child = self._child, None
        self._lock = threading.Lock()
        if child is not None:
            child.returncode = 0  # so that it is not waited for
            _close_pipes(child)


def _close_pipes(child: subprocess.Popen[bytes]) -> None:
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            stream.close()


def _send(stream: Any, data: bytes) -> None:
    """Write a message: its length in eight bytes, and itself."""
    view = memoryview(len(data).to_bytes(8, "big") + data)
    while view:
        view = view[stream.write(view) :]
    stream.flush()


def _receive(stream: Any) -> bytes | None:
    """Read a message; None where the stream has ended."""
    head = _read_exactly(stream, 8)
    return None if head is None else _read_exactly(stream, int.from_bytes(head, "big"))


def _read_exactly(stream: Any, count: int) -> bytes | None:
    parts: list[bytes] = []
    while count:
        part = stream.read(min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
