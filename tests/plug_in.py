"""The plug-in of docs/plugins.md, and broken ones, installed as a user gets them; gone after the test."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from glassformer.plugins import GROUPS, installed, registry_of

DOCS = (Path(__file__).parents[1] / "docs" / "plugins.md").read_text("utf-8")
MODULE = "glassformer_poems"
ENTRIES = {group: f"glassformer.{group}" for group in GROUPS}


def block(language: str) -> str:
    """The first block of the page in a language."""
    found = re.search(rf"```{language}\n(.*?)```", DOCS, re.S)
    assert found is not None
    return found[1]


def install(folder: Path) -> Path:
    """Build the plug-in of the page and install it with pip into a folder for packages, which is returned."""
    source, site = folder / "source", folder / "site"
    source.mkdir()
    (source / "pyproject.toml").write_text(block("toml"), "utf-8")
    (source / f"{MODULE}.py").write_text(block("python"), "utf-8")
    how = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--target", str(site)]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *how, str(source)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return site


def write(site: Path, name: str, entries: str, *, module: str = "", version: str = "1.0", requires: str = "") -> None:
    """Write a package into a folder for packages, as an installer leaves it."""
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: A plug-in for a test.\n{needs}"
    (info / "METADATA").write_text(about, "utf-8")
    (info / "entry_points.txt").write_text(entries, "utf-8")
    (site / f"{name}.py").write_text(module, "utf-8")


@contextmanager
def on_path(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within the block, the packages of a folder are installed in this process."""
    before = {group: dict(registry_of(group)._parts) for group in GROUPS}
    modules = set(sys.modules)
    with monkeypatch.context() as patch:
        patch.syspath_prepend(site)
        installed.cache_clear()
        try:
            yield
        finally:
            for group, parts in before.items():
                registry_of(group)._parts = parts
                registry_of(group)._warned.clear()
            for name in set(sys.modules) - modules:
                if getattr(sys.modules[name], "__file__", None) and str(site) in str(sys.modules[name].__file__):
                    del sys.modules[name]
    installed.cache_clear()
