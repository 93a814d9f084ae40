"""Which files of a folder hold the weights: one file, or an index and the shards it names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import WeightsError
from glassformer.files import check_link, reason, shown
from glassformer.files.strict_json import read_object
from glassformer.weights.header import MAX_TENSORS

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLED_SINGLE, PICKLED_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
MAX_SHARDS = 10_000


@dataclass(frozen=True, slots=True)
class Layout:
    """The files that hold a folder's weights.

    files       in the order in which they were found, all inside the folder
    weight_map  tensor name → the one of `files` that holds it; None where a single file holds all
    pickled     they are pickles, to be read by `pickled.py` alone
    """

    files: tuple[Path, ...]
    weight_map: Mapping[str, Path] | None
    pickled: bool


def find_weights(folder: Path, *, allow_pickle: bool = False) -> Layout:
    """Find the weights in `folder`: safetensors first, pickles only where they are allowed.

    Raises: WeightsError: no such folder; no weights in it (what was looked for, what is there); only
        pickles, and they are not allowed; an index that is damaged or names files outside the folder.
    """
    names = _names(folder)
    if SINGLE in names:
        return _one(folder, SINGLE, pickled=False)
    if INDEX in names:
        return _many(folder, INDEX, ".safetensors", pickled=False)
    pickles = sorted(name for name in names if name.endswith((".bin", ".pt", ".pth", ".ckpt")))
    if not pickles:
        raise WeightsError(f"{folder}: holds no weights: looked for {SINGLE} and {INDEX}; {_contents(names)}")
    if not allow_pickle:
        raise WeightsError(
            f"{folder}: holds only pickled weights ({shown(pickles[0])}), refused because a pickle can run any code; "
            "if you trust where they come from, pass allow_pickle=True (--allow-pickle), and "
            "save_pretrained() then writes them as safetensors; else look for a safetensors copy"
        )
    if PICKLED_SINGLE in names:
        return _one(folder, PICKLED_SINGLE, pickled=True)
    if PICKLED_INDEX in names:
        return _many(folder, PICKLED_INDEX, ".bin", pickled=True)
    single = [name for name in pickles if name.endswith(".pt")]
    if len(single) == 1:
        return _one(folder, single[0], pickled=True)
    raise WeightsError(
        f"{folder}: which weights to read is not clear: looked for {SINGLE}, {INDEX}, {PICKLED_SINGLE}, "
        f"{PICKLED_INDEX} and a single *.pt; found {', '.join(map(shown, pickles[:5]))}"
    )


def _names(folder: Path) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except FileNotFoundError:
        raise WeightsError(f"{folder}: no such folder") from None
    except NotADirectoryError:
        raise WeightsError(f"{folder}: is a file; give the folder that holds it") from None
    except (OSError, ValueError) as problem:
        raise WeightsError(f"{folder}: cannot be listed: {reason(problem)}") from problem


def _contents(names: frozenset[str]) -> str:
    if not names:
        return "the folder is empty"
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return "the folder has " + ", ".join(map(shown, sorted(names)[:8])) + more


def _one(folder: Path, name: str, *, pickled: bool) -> Layout:
    check_link(folder, folder / name)
    return Layout((folder / name,), None, pickled)


def _many(folder: Path, index: str, suffix: str, *, pickled: bool) -> Layout:
    path = folder / index
    check_link(folder, path)
    weight_map = read_object(path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise WeightsError(f"{path}: needs a weight_map from tensor names to file names")
    if len(weight_map) > MAX_TENSORS:
        raise WeightsError(f"{path}: names {len(weight_map)} tensors; at most {MAX_TENSORS} are read")
    for tensor, shard in weight_map.items():
        if not isinstance(shard, str) or not _is_plain(shard, suffix):
            raise WeightsError(
                f"{path}: tensor {shown(tensor)} is said to be in {shown(shard)}; "
                f"it must be a plain file name that ends in {suffix}"
            )
    shards = {shard: folder / shard for shard in weight_map.values()}
    if len(shards) > MAX_SHARDS:
        raise WeightsError(f"{path}: names {len(shards)} files; at most {MAX_SHARDS} are read")
    missing = [shard for shard, place in shards.items() if not place.exists()]
    if missing:
        raise WeightsError(
            f"{path}: names {len(missing)} files that are not there: "
            f"{', '.join(map(shown, missing[:5]))}; fetch them again"
        )
    for place in shards.values():
        check_link(folder, place)
    return Layout(
        tuple(shards.values()), {tensor: shards[shard] for tensor, shard in weight_map.items()}, pickled
    )


def _is_plain(name: str, suffix: str) -> bool:
    """Whether `name` is a basename on every system: no folder, no drive, no `..`, nothing unprintable."""
    return (
        name.endswith(suffix)
        and len(name) <= 255
        and name.isprintable()
        and not name.startswith(".")
        and not any(separator in name for separator in "/\\:")
    )
