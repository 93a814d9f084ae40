"""."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from glassformer import __version__

if TYPE_CHECKING:
    pass


def environment(device: torch.device) -> dict[str, Any]:
    """What decides, beside the seed, whether a training gives the same bits again."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "glassformer": __version__,
        "torch": torch.__version__,
        "numpy": version("numpy"),
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": _processor(),
        "device": gpu or device.type,
        "threads": torch.get_num_threads(),
    }


def _processor() -> str:
    """What the machine computes with, in its maker's words where the system knows them."""
    known = Path("/proc/cpuinfo")
    if known.is_file():
        for line in known.read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
