"""Values of variables as JSON, and whether two are the same at 1e-4."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import datasets
import numpy as np
import torch

UNSTEADY = (
    r"'?\w*(runtime|preparation_time|per_second|flos)'?: '?[\d.e+-]+'?,?"  # times,
    r"|[\d.]+ ?(ms|s|seconds|MB|it/s)\b|\d+:\d+(:\d+)?"
    r"|0x[0-9a-fA-F]+|/tmp/\S+"  # addresses, and files that every run has anew
)
NUMBER = r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?"


def plain(value: Any, depth: int = 0) -> Any:
    """What JSON can hold of a value: tensors and tables as shape and numbers, objects as None."""
    if depth > 6 or value is None or isinstance(value, bool | str | int | float):
        return value if depth <= 6 else None
    if isinstance(value, torch.Tensor):
        value = value.detach().float().numpy() if value.is_floating_point() else value.detach().numpy()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "numbers": plain(value.reshape(-1)[:3000].tolist(), depth + 1)}
    if isinstance(value, datasets.Dataset):
        first = [plain(value.with_format(None)[i], depth + 1) for i in range(min(4, len(value)))]
        return {"columns": sorted(value.column_names), "rows": len(value), "first": first}
    if type(value).__module__.startswith("pandas") and hasattr(value, "head"):
        return plain(value.head(30).to_dict(), depth + 1)
    if isinstance(value, Mapping) and not type(value).__name__.endswith("Config"):
        kept = [key for key in list(value)[:200] if not re.search("runtime|preparation_time|per_second|flos", str(key))]
        return {str(key): plain(value[key], depth + 1) for key in kept}
    if isinstance(value, list | tuple):
        return [plain(each, depth + 1) for each in value[:200]] + [len(value)] * (len(value) > 200)
    return sorted(map(str, value))[:200] if isinstance(value, set | frozenset) else None


def same(ours: Any, theirs: Any) -> bool:
    """Equal, fractions at 1e-4; in texts also without times, addresses and temporary files."""
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return ours is theirs
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=1e-4, abs_tol=1e-4) or (math.isnan(ours) and math.isnan(theirs))
    if isinstance(ours, str) and isinstance(theirs, str):
        one, other = _steady(ours), _steady(theirs)
        numbers = zip(re.findall(NUMBER, one), re.findall(NUMBER, other), strict=False)
        return re.sub(NUMBER, "#", one) == re.sub(NUMBER, "#", other) and all(
            a == b or ("." in a and "." in b and same(float(a), float(b))) for a, b in numbers
        )
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in theirs)
    return bool(ours == theirs)


def _steady(text: str) -> str:
    text = re.sub(r"<class '\S*?\.(\w+)'>", r"<class '\1'>", text.replace("glassformer.hf", "transformers"))
    return re.sub(r"\s+", " ", re.sub(UNSTEADY, "", text)).strip()
