"""Machine code of the kernels: compiled once a machine in a process of its own, kept on disk, loaded by LLVM.

    cold    child process: import Numba, compile, try it out ──> ~/.cache/glassformer/kernels-<digest>      some 5 s
    warm    read, check, load                                                                              0.1 s

The digest is that of the formulas, the compiler's version and the processor. Loading takes neither Numba nor memory
for a compiler; what is broken in an installation breaks in the child. Where anything fails, one warning says so, and
the network runs as it does without these kernels.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import stat
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from glassformer.core import processor
from glassformer.engine import program
from glassformer.files.atomic import atomic_file
from glassformer.files.child import command
from glassformer.progress import spinner

Kernel = Callable[[int, int], None]
"""(address of a job, number of threads): runs its program; see `MEMBER` for what a job is."""

COMPILE_SECONDS = 300
"""Seconds that compiling may take, and waiting for another process that compiles; without kernels torch computes."""
_SOURCES = (
    "program.py",
    "kernels/memory.py",
    "kernels/formulas.py",
    "kernels/levels.py",
    "kernels/four_bits.py",
    "kernels/tiles.py",
    "kernels/many_tokens.py",
    "kernels/run.py",
)
_MARK = b"glassformer kernels\n"

MEMBER = """
declare i32 @usleep(i32)
define void @member(i8* %given) {{
  %job = bitcast i8* %given to i64*
  %result = alloca i64
  %exception = alloca i8*
  %scratch_place = getelementptr i64, i64* %job, i64 1
  %stride_place = getelementptr i64, i64* %job, i64 2
  %next_place = getelementptr i64, i64* %job, i64 3
  %state = load i64, i64* %job
  %scratch = load i64, i64* %scratch_place
  %stride = load i64, i64* %stride_place
  %number = atomicrmw add i64* %next_place, i64 1 seq_cst
  %offset = mul i64 %number, %stride
  %mine = add i64 %scratch, %offset
  %kernel = inttoptr i64 {kernel} to i32 (i64*, i8**, i64, i64)*
  br label %again
again:
  %code = call i32 %kernel(i64* %result, i8** %exception, i64 %state, i64 %mine)
  %value = load i64, i64* %result
  %waiting = icmp eq i64 %value, 1
  br i1 %waiting, label %sleep, label %done
sleep:
  %ignored = call i32 @usleep(i32 20)
  br label %again
done:
  ret void
}}
"""
"""A thread of a team: it takes the next number, and calls the kernel with its scratch memory until that is finished.

A job is four 64-bit integers: the addresses of state and scratch memory, bytes of it a thread, threads that have begun.
Numba's calling convention: places for the result and for an exception, then the arguments.
"""

_lock = threading.Lock()
if hasattr(os, "register_at_fork"):  # a thread that held it in the parent is not in the child
    os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.Lock()))
_kernel: list[Kernel | None] = []  # once known: one, or None where there is none
_alive: list[Any] = []  # what holds the machine code


def kernel() -> Kernel | None:
    """The compiled kernel, loaded or compiled now if it has not been; None where there is none."""
    if not _kernel:
        with _lock:
            if not _kernel:
                _kernel.append(_build_kernel())
    return _kernel[0]


def preload() -> None:
    """Begin to load the kernel, alongside what this thread does meanwhile."""
    if not _kernel and not _lock.locked():
        threading.Thread(target=kernel, name="glassformer-kernels", daemon=True).start()


def available() -> bool:
    """Whether there can be a kernel here: Numba is installed, and system and processor are such as it was tried on."""
    tried = sys.platform == "linux" and platform.machine() == "x86_64" and processor.has("avx2")
    return tried and all(map(_installed, ("numba", "llvmlite"))) and _openmp() is not None


@cache
def _openmp() -> Callable[[int, int, int, int], None] | None:
    """The function by which torch's OpenMP runs another one in all its threads; None where torch has another OpenMP."""
    try:
        lines = Path("/proc/self/maps").read_text("utf-8", "replace").splitlines()
        paths = {line.split(maxsplit=5)[-1] for line in lines if "libgomp" in line}
        parallel = ctypes.CDLL(min(paths, key=lambda path: "/torch/" not in path)).GOMP_parallel
    except (OSError, ValueError, AttributeError):
        return None
    parallel.argtypes, parallel.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
    return parallel


@cache
def _installed(package: str) -> bool:
    return find_spec(package) is not None


def _build_kernel() -> Kernel | None:
    if not available():
        return None
    try:
        path = _cache_folder() / f"kernels-{_digest()}"
        try:
            if not os.path.lexists(path):
                check_writable(path.parent)
                with spinner("Compiling kernels for this processor, once"), _one_at_a_time(path.parent):
                    if not os.path.lexists(path):  # another process may have made it meanwhile
                        _compile(path)
            data = read_private(path)
        except NotPrivateError as problem:
            warnings.warn(f"{problem}; until then, each process compiles its own kernels", stacklevel=2)
            with spinner("Compiling kernels for this process"), TemporaryDirectory(prefix="glassformer-") as folder:
                _compile(Path(folder) / path.name)
                data = read_private(Path(folder) / path.name)
        return load(data)
    except Exception as problem:  # whatever is broken there, there is another way
        warnings.warn(
            f"the compiled kernels cannot be used ({str(problem).strip() or type(problem).__name__}); the "
            "network takes its slower path, with the same results; uninstall numba to silence this",
            stacklevel=2,
        )
        return None


class NotPrivateError(OSError):
    """A cache that someone else may have written, so that what it holds is not run, or that cannot be written here."""


def check_writable(folder: Path) -> None:
    """Before minutes of compiling. Raises: NotPrivateError: the folder cannot be made or written."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        writable = False
    if not writable:
        raise NotPrivateError(f"{folder}: cannot be written; set XDG_CACHE_HOME to a folder of yours")


def read_private(path: Path) -> bytes:
    """The content of a file that only this user, or the system, can have written.

    Folder and file are opened once, and what was opened is checked: a name may mean another file a moment later.

    Raises: NotPrivateError: a link, a pipe, of another user, or writable for others; so for its folder. OSError: as the
        system refuses.
    """
    if path.is_symlink():
        raise NotPrivateError(f"{path}: is a link; remove it")
    with (
        _open_private(path.parent, stat.S_ISDIR, "a folder") as folder,
        _open_private(path, stat.S_ISREG, "a regular file", dir_fd=folder) as handle,
        open(handle, "rb", closefd=False) as stream,
    ):
        return stream.read()


@contextmanager
def _open_private(path: Path, kind: Callable[[int], bool], named: str, dir_fd: int | None = None) -> Iterator[int]:
    """A handle of a file or folder.

    Args:
        dir_fd: its folder; no link is followed then, and no pipe waited for.
    """
    flags = sum(getattr(os, name, 0) for name in (() if dir_fd is None else ("O_NOFOLLOW", "O_NONBLOCK")))
    handle = os.open(path if dir_fd is None else path.name, os.O_RDONLY | flags, dir_fd=dir_fd)
    try:
        status = os.fstat(handle)
        if not kind(status.st_mode):
            raise NotPrivateError(f"{path}: is not {named}; remove it")
        if status.st_uid not in (0, os.getuid()):
            raise NotPrivateError(f"{path}: belongs to another user; set XDG_CACHE_HOME to a folder of yours")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise NotPrivateError(f"{path}: others can write to it; run chmod go-w on it once you trust what it holds")
        yield handle
    finally:
        os.close(handle)


def _cache_folder() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "glassformer"


def _digest() -> str:
    from llvmlite import binding

    digest = hashlib.sha256()
    for source in _SOURCES:
        digest.update((Path(__file__).parent / source).read_bytes())
    versions = version("numba"), version("llvmlite"), platform.python_version()
    digest.update(repr((binding.get_host_cpu_name(), _features(), binding.get_process_triple(), versions)).encode())
    return digest.hexdigest()[:20]


def _features() -> str:
    """What the processor has. LLVM prefers short vectors for some that have long ones, which read weights faster."""
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    if not processor.has("avx512"):
        features.update({name: False for name in features if name.startswith(processor.BEYOND_AVX2)})
    return f"{features.flatten()},-prefer-256-bit"


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Of several processes that start at once one compiles; the others wait for it, and no longer than it may take."""
    import fcntl  # which Windows does not have; there is no kernel there

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, until = os.open(folder, os.O_RDONLY), time.monotonic() + COMPILE_SECONDS
    try:
        while time.monotonic() < until:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.05)
            except OSError:  # a file system without it: each compiles, and the last one's file stays
                break
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)  # closing it would not do where a fork has it too
        os.close(handle)


def _compile(path: Path) -> None:
    """Compile in a child process, which writes the file once it has tried the code out."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    program = "from glassformer.engine.native import compile_to; compile_to(sys.argv[1])"
    done = subprocess.run(
        command(program, str(path)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=COMPILE_SECONDS,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C is this process's: another thread may be compiling
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise OSError(f"compiling them failed: {lines[-1] if lines else f'exit code {done.returncode}'}")


def compile_to(path: str) -> None:
    """In the child: compile, try it out, and write the file."""
    os.environ["NUMBA_CPU_FEATURES"] = _features()  # which Numba reads when it is imported
    from glassformer.engine.kernels.run import compiled

    code, name = compiled()  # type: ignore[no-untyped-call]
    body = name.encode() + b"\n" + code
    data = _MARK + hashlib.sha256(body).digest() + body
    _try_out(load(data))
    os.umask(0o077)  # machine code must not be writable by other users
    with atomic_file(Path(path)) as stream:
        stream.write(data)


def load(data: bytes) -> Kernel:
    """The function in the bytes of a file.

    Raises: OSError: they are damaged.
    """
    from llvmlite import binding

    start = len(_MARK) + hashlib.sha256().digest_size
    body = data[start:]
    if data[:start] != _MARK + hashlib.sha256(body).digest():
        raise OSError("their file is damaged; remove the folder ~/.cache/glassformer")
    name, code = body.split(b"\n", 1)
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(codemodel="jitdefault", jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _alive.append(engine)
    engine.add_module(binding.parse_assembly(MEMBER.format(kernel=engine.get_function_address(name.decode()))))
    engine.finalize_object()
    _alive.append(engine)
    member = engine.get_function_address("member")
    alone = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(member)

    def run(job: int, threads: int) -> None:
        parallel = _openmp() if threads > 1 else None
        if parallel is None:
            alone(job)
        else:
            parallel(member, job, threads, 0)

    return run


def _try_out(run: Kernel) -> None:
    """Run a small product.

    Raises: OSError: it is wrong.
    """
    W, x, y = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones(4, np.float32), np.zeros(3, np.float32)
    scratch = np.zeros(64, np.float32)
    instructions = np.zeros(1, program.INSTRUCTION)
    values = {"chunks": 3, "block": 1, "rows": 1, "inputs": 4, "outputs": 3, "spare": 16}
    for field, value in (values | {"weight": W.ctypes.data, "x": x.ctypes.data, "y": y.ctypes.data}).items():
        instructions[field] = value
    state = program.state_of(instructions)
    job = np.array([state.ctypes.data, scratch.ctypes.data, 0, 0], np.int64)
    run(job.ctypes.data, 1)
    if not np.array_equal(y, W @ x):
        raise OSError("they compute something else on this processor")
