"""Find the weight files of a model folder: a single file, or an index and its shards; or an ONNX file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import WeightsError
from glassformer.files import check_link, error_reason, read_json_object, safe_repr
from glassformer.weights.header import MAX_TENSORS

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLED_SINGLE, PICKLED_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
PROGRAM_SUFFIX, PROGRAM_SUBFOLDER, PROGRAM = ".onnx", "onnx", "model.onnx"
ENCODER_PROGRAM, STEP_PROGRAM = "encoder.onnx", "step.onnx"
MAX_SHARDS = 10_000  # each is opened: an index of a damaged or hostile folder may name any number


@dataclass(frozen=True, slots=True)
class CheckpointLayout:
    """The weight files of a model folder.

    files       in the order of the index, all inside the folder
    weight_map  tensor name → the one of `files` that holds it; None where a single file holds all
    pickled     they are pickles, to be read by `pickled.py` alone
    """

    files: tuple[Path, ...]
    weight_map: Mapping[str, Path] | None
    pickled: bool


def find_weights(folder: Path, *, allow_pickle: bool = False) -> CheckpointLayout:
    """Find the weight files in `folder`: safetensors first, pickles only where they are allowed.

    Raises: WeightsError: no such folder; no weights in it (what was looked for, what is there); only
        pickles, and they are not allowed; an index that is damaged or names files outside the folder.
    """
    names = _file_names(folder)
    if SINGLE in names:
        return _single_file(folder, SINGLE, pickled=False)
    if INDEX in names:
        return _sharded(folder, INDEX, ".safetensors", pickled=False)
    pickles = sorted(name for name in names if name.endswith((".bin", ".pt", ".pth", ".ckpt")))
    if not pickles:
        raise WeightsError(
            f"{folder}: holds no weights: looked for {SINGLE} and {INDEX}; {_describe_contents(names)}"
            + foreign_weights(names)
        )
    if not allow_pickle:
        raise WeightsError(
            f"{folder}: holds only pickled weights ({safe_repr(pickles[0])}), refused because a "
            "pickle can run any code; "
            "if you trust where they come from, pass allow_pickle=True (--allow-pickle), and "
            "save_pretrained() then writes them as safetensors; else look for a safetensors copy"
        )
    if PICKLED_SINGLE in names:
        return _single_file(folder, PICKLED_SINGLE, pickled=True)
    if PICKLED_INDEX in names:
        return _sharded(folder, PICKLED_INDEX, ".bin", pickled=True)
    single = [name for name in pickles if name.endswith(".pt")]
    if len(single) == 1:
        return _single_file(folder, single[0], pickled=True)
    raise WeightsError(
        f"{folder}: which weights to read is not clear: looked for {SINGLE}, {INDEX}, {PICKLED_SINGLE}, "
        f"{PICKLED_INDEX} and a single *.pt; found {', '.join(map(safe_repr, pickles[:5]))}"
    )


def is_program(name: object) -> bool:
    """Whether a name is that of an ONNX file that is there."""
    return isinstance(name, (str, Path)) and str(name).endswith(PROGRAM_SUFFIX) and os.path.isfile(name)


def find_program(folder: Path, *, allow_pickle: bool = False) -> Path | None:
    """The ONNX file that a folder's model is to be run from; None where it holds other weights, or no such file.

    Of an encoder-decoder it is that of the encoder, with the steps of its decoder next to it.
    Raises: WeightsError: several, none of which is the usual one; a link that leads out of the folder.
    """
    own = (SINGLE, INDEX, *((PICKLED_SINGLE, PICKLED_INDEX) if allow_pickle else ()))
    if any((folder / name).is_file() for name in own):
        return None
    usual = [folder / PROGRAM, folder / PROGRAM_SUBFOLDER / PROGRAM]
    if (folder / STEP_PROGRAM).is_file():
        usual.append(folder / ENCODER_PROGRAM)
    for path in usual:
        if path.is_file() or path.is_symlink():
            check_link(folder, path)
            return path
    paths = sorted(path for place in (folder, folder / PROGRAM_SUBFOLDER) for path in place.glob(f"*{PROGRAM_SUFFIX}"))
    if len(paths) > 1:
        names = ", ".join(safe_repr(path.relative_to(folder).as_posix()) for path in paths[:5])
        raise WeightsError(f"{folder}: holds {len(paths)} ONNX files, none of them {PROGRAM}; name one of {names}")
    for path in paths:
        check_link(folder, path)
    return paths[0] if paths else None


def folder_of(location: str | Path) -> tuple[str | Path, Path | None]:
    """A model's folder, and the ONNX file in it, or in its subfolder `onnx`, where that is what was named."""
    if not is_program(location):
        return location, None
    program = Path(location)
    own, above = program.parent, program.parent.parent
    return own if (own / "config.json").is_file() or not (above / "config.json").is_file() else above, program


def _file_names(folder: Path) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except FileNotFoundError:
        raise WeightsError(f"{folder}: no such folder") from None
    except NotADirectoryError:
        raise WeightsError(f"{folder}: is a file; give the folder that holds it") from None
    except (OSError, ValueError) as problem:
        raise WeightsError(f"{folder}: cannot be listed: {error_reason(problem)}") from problem


def foreign_weights(names: Iterable[str]) -> str:
    """A hint at weights that other software reads, or ""."""
    for name in sorted(names):
        for ends, (what, remedy) in FOREIGN.items():
            if name.endswith(tuple(ends.split())):
                return f"; {safe_repr(name)} is {what}: {remedy}"
    return ""


_CONVERT = "look for a safetensors copy of the model, or convert them where they were made"
FOREIGN = {
    ".h5 .keras ckpt.index .ckpt.meta": ("TensorFlow's, which is not read", _CONVERT),
    ".msgpack": ("Flax's, which is not read", _CONVERT),
    ".gguf .ggml": ("one of several GGUF files, or an old one", "give the file itself instead of its folder"),
    ".onnx": ("an exported program", "put config.json and the tokenizer of its model next to it"),
    ".mlmodel .tflite": ("an exported program", "look for the safetensors that it was exported from"),
}
"""Ends of file names → what other software's weights are, and what to do."""


def _describe_contents(names: frozenset[str]) -> str:
    if not names:
        return "the folder is empty"
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return "the folder has " + ", ".join(map(safe_repr, sorted(names)[:8])) + more


def _single_file(folder: Path, name: str, *, pickled: bool) -> CheckpointLayout:
    check_link(folder, folder / name)
    return CheckpointLayout((folder / name,), None, pickled)


def _sharded(folder: Path, index: str, suffix: str, *, pickled: bool) -> CheckpointLayout:
    path = folder / index
    check_link(folder, path)
    weight_map = read_json_object(path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise WeightsError(f"{path}: needs a weight_map from tensor names to file names")
    if len(weight_map) > MAX_TENSORS:
        raise WeightsError(f"{path}: names {len(weight_map)} tensors; at most {MAX_TENSORS} are read")
    for tensor, shard in weight_map.items():
        if not isinstance(shard, str) or not _is_base_name(shard, suffix):
            raise WeightsError(
                f"{path}: the weight_map places tensor {safe_repr(tensor)} in {safe_repr(shard)}; "
                f"it must be a plain file name that ends in {suffix}"
            )
    shards = {shard: folder / shard for shard in weight_map.values()}
    if len(shards) > MAX_SHARDS:
        raise WeightsError(f"{path}: names {len(shards)} files; at most {MAX_SHARDS} are read")
    missing = [name for name, file in shards.items() if not file.exists()]
    if missing:
        raise WeightsError(
            f"{path}: names {len(missing)} files that are not there: "
            f"{', '.join(map(safe_repr, missing[:5]))}; fetch them again"
        )
    for file in shards.values():
        check_link(folder, file)
    return CheckpointLayout(
        tuple(shards.values()), {tensor: shards[shard] for tensor, shard in weight_map.items()}, pickled
    )


def _is_base_name(name: str, suffix: str) -> bool:
    """Whether `name` is a base name on every system: no folder, no drive, no `..`, nothing unprintable."""
    return (
        name.endswith(suffix)
        and len(name) <= 255
        and name.isprintable()
        and not name.startswith(".")
        and not any(separator in name for separator in "/\\:")
    )
