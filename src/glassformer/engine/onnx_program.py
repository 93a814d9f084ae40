"""An ONNX file in ONNX Runtime: what it reads, what it gives, and its call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import cached_property
from io import StringIO
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import UnsupportedError, WeightsError, import_optional
from glassformer.files import safe_repr
from glassformer.weights.onnx_files import OnnxWeight

DTYPES = {
    "tensor(int64)": torch.int64,
    "tensor(int32)": torch.int32,
    "tensor(bool)": torch.bool,
    "tensor(float)": torch.float32,
    "tensor(float16)": torch.float16,
    "tensor(double)": torch.float64,
}
"""The types of a program's inputs."""


class OnnxProgram:
    """An ONNX file in ONNX Runtime, on the CPU; a copy or a pickle of it opens the same file again.

    path: the file
    weights: the tensors that it holds
    """

    def __init__(self, path: Path, weights: list[OnnxWeight]) -> None:
        self.path, self.weights = path, weights

    @property
    def files(self) -> list[Path]:
        """The file, and those that hold weights of it."""
        return [self.path, *(self.path.parent / name for name in sorted({x.file for x in self.weights} - {""}))]

    @cached_property
    def session(self) -> Any:
        """Raises: WeightsError, UnsupportedError: the runtime cannot run the file, and why."""
        runtime = import_optional("onnxruntime", "onnxruntime", "onnx", "running ONNX files")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 4  # what is wrong is raised as well
        try:
            with redirect_stdout(StringIO()):  # where it tells of an error that it raises as well
                return runtime.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])
        except Exception as problem:  # the runtime's errors have no base class of their own
            raise self._refusal(runtime, problem) from problem

    def _refusal(self, runtime: Any, problem: Exception) -> WeightsError | UnsupportedError:
        reason = _reason(problem)
        damaged = type(problem).__name__ in ("InvalidProtobuf", "InvalidGraph", "NoModel", "UnicodeDecodeError")
        if damaged:
            return WeightsError(f"{self.path}: is damaged, or no ONNX file: {reason}; export the model again")
        return UnsupportedError(
            f"{self.path}: onnxruntime {runtime.__version__} cannot run it: {reason}; a newer onnxruntime may, or "
            "export the model again"
        )

    @cached_property
    def inputs(self) -> dict[str, torch.dtype]:
        """The names of what it reads. Raises: UnsupportedError: an input of a type that no network reads."""
        types = {entry.name: entry.type for entry in self.session.get_inputs()}
        if other := next((name for name, kind in types.items() if kind not in DTYPES), None):
            raise UnsupportedError(f"{self.path}: reads {safe_repr(other)} as {types[other]}, which is not given here")
        return {name: DTYPES[kind] for name, kind in types.items()}

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The names of what it gives."""
        return tuple(entry.name for entry in self.session.get_outputs())

    def width(self, output: str) -> int | None:
        """The last size of an output; None = it gives no such one, or the size is free."""
        shapes = {entry.name: entry.shape for entry in self.session.get_outputs()}
        last = shapes[output][-1] if shapes.get(output) else None
        return last if isinstance(last, int) else None

    def shape(self, name: str) -> list[int | str]:
        """The shape of an input; a name where a size is free."""
        return next(list(entry.shape) for entry in self.session.get_inputs() if entry.name == name)

    def __call__(self, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run it. Raises: UnsupportedError: the runtime refuses these inputs."""
        arrays = {name: given[name].to(dtype).contiguous().numpy() for name, dtype in self.inputs.items()}
        try:
            results = self.session.run(None, arrays)
        except Exception as problem:
            shapes = ", ".join(f"{name} {list(x.shape)}" for name, x in given.items())
            reason = _reason(problem)
            raise UnsupportedError(f"{self.path}: cannot run {shapes}: {reason}") from problem
        return dict(zip(self.outputs, map(torch.from_numpy, results), strict=True))

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "weights": self.weights}

    def __deepcopy__(self, memo: dict[int, Any]) -> OnnxProgram:
        return self  # it changes nothing that it holds


def _reason(problem: Exception) -> str:
    """What the runtime says, without its codes and the places in its source."""
    text = " ".join(str(problem).split()).rpartition("failed:")[2]
    return shorten(re.sub(r"^.*onnxruntime_src\S+ .*?\) (?=[A-Z])", "", text), 300, placeholder=" …")
