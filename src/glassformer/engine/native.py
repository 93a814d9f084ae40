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
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.engine import program
from glassformer.files.atomic import atomic_file
from glassformer.files.child import command
from glassformer.progress import spinner

Kernel = Callable[[int, int], int]
"""(address of the program's state, address of the thread's scratch memory) → `program.FINISHED` or `WAITING`."""

COMPILE_SECONDS = 300
_SOURCES = ("program.py", "kernels/memory.py", "kernels/formulas.py", "kernels/run.py")
_MARK = b"glassformer kernels\n"

_lock = threading.Lock()
_kernel: list[Kernel | None] = []  # once known: one, or None where there is none
_alive: list[Any] = []  # what holds the machine code


def kernel() -> Kernel | None:
    """The compiled kernel, loaded or compiled now if it has not been; None where there is none."""
    if not _kernel:
        with _lock:
            if not _kernel:
                _kernel.append(_found())
    return _kernel[0]


def preload() -> None:
    """Begin to load the kernel, beside what this thread does meanwhile."""
    if not _kernel and not _lock.locked():
        threading.Thread(target=kernel, name="glassformer-kernels", daemon=True).start()


def available() -> bool:
    """Whether there can be a kernel here: Numba is installed, and the processor is of a kind that it was tried on."""
    return platform.machine().lower() in ("x86_64", "amd64") and all(map(_installed, ("numba", "llvmlite")))


@cache
def _installed(package: str) -> bool:
    return find_spec(package) is not None


def _found() -> Kernel | None:
    if not available():
        return None
    try:
        path = _cache_folder() / f"kernels-{_digest()}"
        if not path.exists():
            with spinner("Compiling kernels for this processor, once"):
                _compile(path)
        return load(path.read_bytes())
    except Exception as problem:  # whatever is broken there, there is another way
        warnings.warn(
            f"the kernels for single tokens cannot be used ({str(problem).strip() or type(problem).__name__}); the "
            "network takes its slower path, with the same results; uninstall numba to silence this",
            stacklevel=2,
        )
        return None


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
    features = binding.get_host_cpu_features().flatten()
    versions = version("numba"), version("llvmlite"), platform.python_version()
    digest.update(repr((binding.get_host_cpu_name(), features, binding.get_process_triple(), versions)).encode())
    return digest.hexdigest()[:20]


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
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise OSError(f"compiling them failed: {lines[-1] if lines else f'exit code {done.returncode}'}")


def compile_to(path: str) -> None:
    """In the child: compile, try it out, and write the file."""
    from glassformer.engine.kernels.run import compiled

    code, name = compiled()  # type: ignore[no-untyped-call]
    body = name.encode() + b"\n" + code
    data = _MARK + hashlib.sha256(body).digest() + body
    _try_out(load(data))
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
    # Numba's calling convention: places for the result and for an exception, then the arguments.
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    entry = kind(engine.get_function_address(name.decode()))
    _alive.append(engine)

    def run(state: int, scratch: int) -> int:
        result, exception = ctypes.c_int64(), ctypes.c_void_p()
        entry(ctypes.addressof(result), ctypes.addressof(exception), state, scratch)
        return result.value

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
    run(state.ctypes.data, scratch.ctypes.data)
    if not np.array_equal(y, W @ x):
        raise OSError("they compute something else on this processor")
