"""Environment of a run: versions, hardware and threads, which reproducibility depends on."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from glassformer import __version__


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Versions, hardware and threads: what decides, beside the seed, whether a training is reproducible to the bit."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "glassformer": __version__,
        "torch": torch.__version__,
        "numpy": version("numpy"),
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": _processor_name(),
        "device": gpu or device.type,
        "threads": torch.get_num_threads(),
    }


def _processor_name() -> str:
    """The name of the CPU, with its model where the system knows it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
