"""ONNX files: checked before an engine opens them.

    model.onnx · onnx/model.onnx        as `glassformer export`, optimum and sentence-transformers write them
      └ model.onnx.data                 weights of large models: inside the folder, and as long as the file says

Source: the ONNX standard, "ONNX IR", external tensor data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from glassformer.errors import WeightsError, import_optional
from glassformer.files import check_link, is_int, read_bytes, safe_repr

MAX_BYTES = 2**31
"""A protocol buffer holds no more."""
PACKED_VALUES = {"INT4": 2, "UINT4": 2, "FLOAT4E2M1": 2, "INT2": 4, "UINT2": 4}
"""Types of which several values share a byte."""


@dataclass(frozen=True)
class OnnxWeight:
    """A tensor that an ONNX file holds.

    dtype: its name in NumPy, such as "float32" or "int8"
    is_table: whether rows of it are looked up, as those of an embedding
    file: next to the ONNX file, where its numbers are there; "" = they are in the ONNX file itself
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_table: bool
    file: str = ""


def checked_weights(path: Path) -> list[OnnxWeight]:
    """The weights of an ONNX file, none of which is read outside of its folder.

    Raises: WeightsError: it is damaged or cut off, or names data that are not there, too short, or elsewhere.
        MissingExtraError: the package onnx is not installed.
    """
    onnx = import_optional("onnx", "onnx", "onnx", "loading ONNX files")
    decode_error = import_optional("google.protobuf.message", "onnx", "onnx", "loading ONNX files").DecodeError
    data = read_bytes(path, WeightsError, MAX_BYTES)
    try:
        model = onnx.load_model_from_string(data)
    except decode_error as problem:
        raise WeightsError(f"{path}: is no ONNX file, or a damaged one: {problem}; copy it again") from problem
    if not model.HasField("graph") or not model.graph.node or not model.opset_import:
        raise WeightsError(f"{path}: holds no program: the file is cut off, or is no ONNX file; copy it again")
    files = {
        tensor.name: _check_external(path, tensor, _bytes_of(onnx, tensor))
        for tensor in _tensors(model)
        if tensor.data_location == onnx.TensorProto.EXTERNAL
    }
    tables = _looked_up(model.graph)
    return [
        OnnxWeight(
            x.name, tuple(x.dims), _numpy_dtype(onnx, x), x.name in tables and len(x.dims) == 2, files.get(x.name, "")
        )
        for x in model.graph.initializer
    ]


def _tensors(model: Any) -> Iterator[Any]:
    """All tensors of a file: weights, and constants of operations, also in the branches of an `If`."""
    yield from _tensors_of(model.graph)
    for function in model.functions:
        yield from _constants(function.node)


def _tensors_of(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _constants(graph.node)


def _constants(nodes: Iterable[Any]) -> Iterator[Any]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                yield from _tensors_of(graph)


def _looked_up(graph: Any) -> set[str]:
    """The names of tensors that no operation reads but a lookup of rows."""
    read = {name for node in graph.node for name in node.input[node.op_type == "Gather" :]}
    return {node.input[0] for node in graph.node if node.op_type == "Gather" and node.input} - read


def _numpy_dtype(onnx: Any, tensor: Any) -> str:
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
    except KeyError as problem:
        raise WeightsError(
            f"{safe_repr(tensor.name)} of an ONNX file has the data type {tensor.data_type}, which there is not; the "
            "file is damaged, or newer than the installed package onnx"
        ) from problem


def _bytes_of(onnx: Any, tensor: Any) -> int:
    """The bytes that a tensor takes by its shape."""
    name = onnx.TensorProto.DataType.Name(tensor.data_type)
    count = prod(tensor.dims)
    if name in PACKED_VALUES:
        return int(-(-count // PACKED_VALUES[name]))
    return int(count) * int(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)


def _check_external(path: Path, tensor: Any, size: int) -> str:
    """The file that the data of a tensor are in. Raises: WeightsError: out of the folder, not there, or too short."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    where, what = entries.get("location", ""), f"{path}: the data of {safe_repr(tensor.name)}"
    parts = {*PurePosixPath(where).parts, *PureWindowsPath(where).parts}
    absolute = PurePosixPath(where).is_absolute() or bool(PureWindowsPath(where).anchor)
    if not where or absolute or ".." in parts or "\0" in where:
        raise WeightsError(f"{what} lie in {safe_repr(where)}; they must lie in a file next to it")
    file = path.parent / where
    if not file.is_file():
        raise WeightsError(f"{what} are in {safe_repr(where)}, which is not there; copy that file next to it")
    check_link(path.parent, file)
    offset, length = (entries.get(name, default) for name, default in (("offset", "0"), ("length", str(size))))
    numbers = [int(text) if text.isdecimal() and len(text) < 20 else -1 for text in (offset, length)]
    have = file.stat().st_size
    if not all(is_int(number, 0) for number in numbers) or numbers[1] != size or sum(numbers) > have:
        raise WeightsError(
            f"{what} are {size:,} bytes by its shape, and the file says {safe_repr(length)} at {safe_repr(offset)} of "
            f"{safe_repr(where)}, which has {have:,}; one of the two files is damaged, or of another export"
        )
    return str(where)
