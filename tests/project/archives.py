"""Check what is in a built wheel and source archive, for `make package`: all that is needed, and nothing else."""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path

NEEDED = (
    "glassformer/py.typed",
    "glassformer/explorer/static/index.html",
    "glassformer/reports/static/report.js",
    "glassformer/checkpoints/shakespeare/model.safetensors",
    "glassformer/checkpoints/induction/model.safetensors",
    "glassformer/checkpoints/agreement/model.safetensors",
    "glassformer/checkpoints/guitar_codec/model.safetensors",
    "glassformer/evaluation/published_scores.yaml",
    "glassformer/hf/config_defaults.yaml",
)
UNWANTED = re.compile(r"__pycache__|\.pyc$|\.ipynb_checkpoints|node_modules|/\.|~$")
MACHINE_PATH = re.compile(rb"(?<![\w./])/(?:home|root|Users)/\w+/")
MAX_WHEEL_BYTES = 20_000_000


def main(folder: Path) -> None:
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        problems = [f"the wheel lacks {name}" for name in NEEDED if name not in names]
        problems += [f"the wheel holds {name}" for name in names if UNWANTED.search(name)]
        problems += [
            f"the wheel holds {name}" for name in names if name.split("/")[0].partition("-")[0] != "glassformer"
        ]
        texts = [name for name in names if name.endswith((".py", ".yaml", ".json", ".html", ".js", ".css"))]
        problems += [f"{name} names a path of a machine" for name in texts if MACHINE_PATH.search(opened.read(name))]
        if not any(name.endswith("/LICENSE") for name in names):
            problems.append("the wheel lacks the licence")
    if wheel.stat().st_size > MAX_WHEEL_BYTES:
        problems.append(f"the wheel has {wheel.stat().st_size:,} bytes; at most {MAX_WHEEL_BYTES:,} are allowed")
    with tarfile.open(archive) as sources:
        names = [name.partition("/")[2] for name in sources.getnames()]
    wanted = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "src/glassformer/__init__.py")
    problems += [f"the source archive lacks {name}" for name in wanted if name not in names]
    problems += [f"the source archive holds {name}" for name in names if UNWANTED.search(name) and name != ".gitignore"]
    if problems:
        sys.exit("\n".join(problems))
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, {archive.name}: {archive.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
