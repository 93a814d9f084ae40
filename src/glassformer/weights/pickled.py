"""Pickled checkpoints (`.bin`, `.pt`): converted to safetensors in a sandboxed child process.

A pickle is a program. torch's `weights_only` unpickler runs a small, safe part of its language, but such
sandboxes have had holes. So the file is read by a child process that has nothing to gain:

    this process ── file name ──>  child: no secrets in its environment, bounded memory, time and output;
                                          no network, no process, no file but the one it writes
    header.py    <── safetensors ──┘      (torch.load, weights_only=True, always)

What comes back is a safetensors file, validated like any other untrusted one.

Both formats of `torch.save` are read: the zip archive (torch 1.6 on), and the plain pickle before it, which
`weights_only` covers as well. The tar format of torch 0.1 and TorchScript archives are refused.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import WeightsError
from glassformer.files import child as sandboxed
from glassformer.files import error_reason, open_regular_file, parse_json_object, safe_repr
from glassformer.weights.header import DTYPE_NAMES, MAX_TENSORS
from glassformer.weights.write import write_tensors

_TIES, _SETTINGS = "glassformer.ties", "glassformer.settings"
_MAX_SETTINGS_BYTES = 1 << 20  # as JSON, in the header; larger ones are left out
_ZIP = b"PK\x03\x04"
_LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # magic number of files before torch 1.6, pickled
_STATE_KEYS = ("state_dict", "model_state_dict", "model")
_MAX_RATIO = 20  # of a zip member's size to its compressed size: weights hardly compress, zip bombs do
_HEADROOM_BYTES = 512 << 20  # of address space, beyond what the process uses and three times the file
_BOOTSTRAP = "from glassformer.weights.pickled import main; main(*sys.argv[1:])"


def convert(source: Path, target: Path, *, timeout_s: float | None = None) -> None:
    """Convert the pickle `source` to the safetensors file `target`, in a sandboxed child process.

    Args:
        source: a file written by `torch.save`: a state dict, or a dict that holds one under `state_dict`,
            `model_state_dict` or `model`.
        target: a name in a folder of the caller's own, where nothing is yet.
        timeout_s: seconds the child may take; by default a minute, and more for large files.

    Raises: WeightsError: the file and the reason, whatever went wrong in the child.

    Source: torch, "Serialization semantics", weights_only; CVE-2025-32434 and CVE-2026-24747 for its holes.
    """
    stream, file_bytes = open_regular_file(source)
    stream.close()
    if timeout_s is None:
        timeout_s = 60 + file_bytes / 10e6
    paths = (os.path.abspath(source), os.path.abspath(target))
    command = sandboxed.command(_BOOTSTRAP, *paths, str(int(timeout_s) + 1))
    try:
        child = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=timeout_s,
            env=sandboxed.environment(),
            cwd=os.path.abspath(target.parent),
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise WeightsError(f"{source}: was not read within {timeout_s:.0f} s; given up") from None
    except (OSError, ValueError) as problem:
        raise WeightsError(f"{source}: the process to read it cannot be started: {error_reason(problem)}") from problem
    if child.returncode != 0 or not target.exists():
        raise WeightsError(f"{source}: {_failure(child.returncode, child.stderr)}")


def read_ties(metadata: Mapping[str, str], source: Path) -> dict[str, str]:
    """Tied tensors of a converted file: name → the name under which the shared tensor is stored.

    Raises: WeightsError: the child wrote invalid metadata.
    """
    if _TIES not in metadata:
        return {}
    ties = parse_json_object(metadata[_TIES].encode("utf-8", "replace"), f"{source}: ties")
    if len(ties) > MAX_TENSORS or not all(isinstance(first, str) for first in ties.values()):
        raise WeightsError(f"{source}: its ties are damaged")
    return ties


def read_settings(metadata: Mapping[str, str], source: Path) -> dict[str, Any]:
    """Numbers and texts that a pickle holds besides its state dict, such as the sizes of a network.

    Raises: WeightsError: the child wrote invalid metadata.
    """
    return parse_json_object(metadata.get(_SETTINGS, "{}").encode("utf-8", "replace"), f"{source}: settings")


def _failure(code: int, output: bytes) -> str:
    """Why the child failed, in one line: its own message, else the signal that stopped it."""
    lines = output[-4096:].decode("utf-8", "replace").strip().splitlines()
    reasons = [line.removeprefix("reason: ") for line in lines if line.startswith("reason: ")]
    if reasons:
        return "".join(char if char.isprintable() else "?" for char in reasons[-1])[:500]
    if code < 0:
        return f"the process that read it was stopped by signal {-code}, as by a limit on time or memory; it is refused"
    return f"the process that read it failed with code {code}; it is refused"


# ── in the child ──────────────────────────────────────────────────────────────────────────────────────────


def main(source: str, target: str, seconds: str) -> None:
    """Entry point of the child: enter the sandbox, read, write, and on any failure print the reason in one line."""
    try:
        torch.set_num_threads(1)
        torch.empty(0)
        _sandbox(Path(source), Path(target), int(seconds))
        _convert_in_child(Path(source), Path(target))
    except BaseException as problem:  # every failure, also of memory or recursion, becomes the one line
        text = str(problem) if isinstance(problem, WeightsError) else _explain(problem)
        print("reason: " + " ".join(text.split()), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)  # nothing a pickle left behind is run on the way out


def _explain(problem: BaseException) -> str:
    if isinstance(problem, MemoryError) or "can't allocate memory" in str(problem):
        return "it needs far more memory than its size explains; refused"
    # torch's own message runs over pages and advises to turn weights_only off; only what it stopped at matters.
    refused = re.search(r"GLOBAL (\S+)|Unsupported (?:operand|class|type) (\S+)", str(problem))
    if refused:
        return f"is refused: it asks for {refused[1] or refused[2]}, which plain tensors do not need"
    first_line = str(problem).strip().splitlines()[:1] or [""]
    return f"cannot be read as plain tensors, so it is refused ({type(problem).__name__}: {first_line[0][:200]})"


def _sandbox(source: Path, target: Path, seconds: int) -> None:
    """Enter the sandbox, with limits by the size of the file."""
    size = source.stat().st_size
    sandboxed.enter_sandbox(
        memory_bytes=3 * size + _HEADROOM_BYTES, file_bytes=4 * size + (64 << 20), cpu_s=seconds, writable=target
    )


def _convert_in_child(source: Path, target: Path) -> None:
    with source.open("rb") as stream:
        start = stream.read(len(_LEGACY))
    if start.startswith(_ZIP):
        mapped = _check_archive(source)
    elif start == _LEGACY:
        mapped = False
    elif start == b"version https://"[: len(_LEGACY)]:
        raise WeightsError("is a Git LFS pointer, not the weights themselves; fetch them with: git lfs pull")
    else:
        raise WeightsError("is not a file that torch.save writes; refused")
    loaded = torch.load(source, map_location="cpu", weights_only=True, mmap=mapped)
    tensors = _state_dict(loaded)
    firsts, ties = _split_ties(tensors)
    _check_written_size(firsts, source)
    metadata = {_TIES: json.dumps(ties)} if ties else {}
    settings = json.dumps(_plain(loaded))
    if len(settings) <= _MAX_SETTINGS_BYTES:
        metadata[_SETTINGS] = settings
    with open(target, "xb") as out:
        write_tensors(out, firsts, metadata)


def _check_archive(source: Path) -> bool:
    """Refuse zip bombs: read the archive's table of contents, and compare declared with stored sizes.

    Returns: whether all is stored uncompressed, as torch does, so that it can be memory-mapped.
    """
    try:
        with zipfile.ZipFile(source) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as problem:
        raise WeightsError(f"its archive is damaged ({problem}); fetch it again") from problem
    declared = sum(member.file_size for member in members)
    for member in members:
        if member.file_size > _MAX_RATIO * max(member.compress_size, 1):
            raise WeightsError(
                f"its member {safe_repr(member.filename)} declares {member.file_size} bytes and stores "
                f"{member.compress_size}: it would swell when read; refused"
            )
        if os.path.basename(member.filename) == "constants.pkl":
            raise WeightsError(
                "is a TorchScript program, not weights alone: refused; where it was made, write its weights with "
                "torch.save(model.state_dict(), file), or take the model's folder in the Hugging Face layout"
            )
    if declared > 2 * source.stat().st_size:
        raise WeightsError(
            f"its members declare {declared} bytes, the file has {source.stat().st_size}: "
            "it would swell when read; refused"
        )
    return all(member.compress_type == zipfile.ZIP_STORED for member in members)


def _state_dict(loaded: object) -> dict[str, Tensor]:
    """The state dict in a loaded object, at the top or one level down."""
    if isinstance(loaded, Mapping):
        for key in _STATE_KEYS:
            if isinstance(loaded.get(key), Mapping):
                loaded = loaded[key]
                break
    if not isinstance(loaded, Mapping) or not loaded:
        raise WeightsError(f"must hold a dict of tensors, holds {type(loaded).__name__}")
    others = [name for name, value in loaded.items() if not isinstance(name, str) or not isinstance(value, Tensor)]
    if others:
        raise WeightsError(
            f"must hold tensors by name; {len(others)} entries are something else: "
            + ", ".join(map(safe_repr, others[:5]))
        )
    if len(loaded) > MAX_TENSORS:
        raise WeightsError(f"holds {len(loaded)} tensors; at most {MAX_TENSORS} are read")
    for name, tensor in loaded.items():
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
            raise WeightsError(f"tensor {safe_repr(name)} is sparse, quantised or without numbers; refused")
        if tensor.dtype not in DTYPE_NAMES:
            raise WeightsError(
                f"tensor {safe_repr(name)} is {tensor.dtype}; allowed: {', '.join(DTYPE_NAMES.values())}"
            )
    return {name: tensor.detach() for name, tensor in loaded.items()}


def _plain(loaded: object, depth: int = 3) -> Any:
    """The numbers and texts of nested dicts; whatever else they hold is left out."""
    if isinstance(loaded, Mapping) and depth:
        plain = {name: _plain(value, depth - 1) for name, value in loaded.items() if isinstance(name, str)}
        return {name: value for name, value in plain.items() if value is not None}
    finite = isinstance(loaded, float) and math.isfinite(loaded)
    return loaded if finite or isinstance(loaded, (bool, int, str)) else None


def _split_ties(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Deduplicate tensors that share memory: the first of each, and name → name of the first for the others."""
    first_of: dict[tuple[object, ...], str] = {}
    firsts: dict[str, Tensor] = {}
    ties: dict[str, str] = {}
    for name, tensor in tensors.items():
        same = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        if tensor.numel() and same in first_of:
            ties[name] = first_of[same]
        else:
            first_of[same] = name
            firsts[name] = tensor
    return firsts, ties


def _check_written_size(tensors: Mapping[str, Tensor], source: Path) -> None:
    """Refuse views that repeat the same few bytes without end: the output must stay near the size of the input."""
    total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    if total > 2 * source.stat().st_size:
        raise WeightsError(
            f"its tensors spread {source.stat().st_size} bytes over {total}: it would swell when written; refused"
        )
