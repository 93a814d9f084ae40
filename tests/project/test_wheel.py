"""The built wheel works where there is nothing but it and what it requires.

The clean environment is a new `venv` into which pip installs the wheel. Installing torch again would take minutes,
so the required distributions (and theirs, to the last one) are linked in one by one from the environment of the tests.
The source tree, the tests' tools and the packages of the extras are out of its sight: a module that was not packed,
or an import that was not declared, fails here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import glassformer
from tests.project.dependencies import required_distributions

ROOT = Path(__file__).parents[2]

END_TO_END = """
import sys
import numpy as np
import glassformer

assert "site-packages" in glassformer.__file__, glassformer.__file__
model = glassformer.load(sys.argv[1], offline=True)
texts = ["a cat sits on the mat", "a kitten rests on the rug", "the share price fell"]
vectors = model.encode(texts)
assert vectors.shape == (3, 384) and vectors.dtype == np.float32, (vectors.shape, vectors.dtype)
assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
alike = vectors @ vectors.T
assert alike[0, 1] > 0.4 > alike[0, 2], alike
assert "transformers" not in sys.modules
print("encoded", *vectors.shape)
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of an environment that holds the wheel and what it requires, and nothing else."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    paths = sysconfig.get_paths("venv", vars={"base": str(folder), "platbase": str(folder)})
    python = Path(paths["scripts"]) / "python"
    link_requirements(Path(paths["purelib"]))
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--no-deps",
        "--no-index",
        str(wheel),
    ]
    done = subprocess.run(install, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    check = [sys.executable, "-m", "pip", "--python", str(python), "check"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(paths["scripts"])


def link_requirements(site_packages: Path) -> None:
    """Link the top-level files and folders of every required distribution into `site_packages`."""
    for package in required_distributions("glassformer"):
        files = package.files
        assert files, f"{package.name} does not list its files"
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            here = Path(str(package.locate_file(top)))
            if not (site_packages / top).exists():
                (site_packages / top).symlink_to(here, target_is_directory=here.is_dir())


def run(clean: Path, program: str, *arguments: str, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
    environment |= {"HF_HUB_OFFLINE": "1", "PYTHONNOUSERSITE": "1", "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    done = subprocess.run(
        [str(clean / program), *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_wheel_carries_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    info = {name for name in names if ".dist-info/" in name}
    package = {name for name in names if name.startswith("glassformer/")}
    assert set(names) == info | package
    source = ROOT / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in (source / "glassformer").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert package == wanted
    assert "glassformer/py.typed" in package
    assert any(name.endswith("licenses/LICENSE") for name in info)


def test_wheel_holds_no_path_of_this_machine(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    for name in archive.namelist():
        assert str(ROOT).encode() not in archive.read(name), name


def test_commands_work(clean: Path, tmp_path: Path) -> None:
    assert run(clean, "glassformer", "--version", cwd=tmp_path) == f"glassformer {glassformer.__version__}\n"
    assert "Usage: glassformer" in run(clean, "glassformer", "--help", cwd=tmp_path)
    assert "Usage: glassformer" in run(clean, "python", "-m", "glassformer", "--help", cwd=tmp_path)


def test_every_module_imports_without_the_extras(clean: Path, tmp_path: Path) -> None:
    code = (
        "import glassformer, importlib, pkgutil\n"
        "found = [m.name for m in pkgutil.walk_packages(glassformer.__path__, 'glassformer.')]\n"
        # Each imports the client that it is named after; kernels are imported by the process that compiles them.
        "clients = ('glassformer.integrations.', 'glassformer.engine.kernels.')\n"
        "own = [name for name in found if not name.startswith(clients) and not name.endswith('__main__')]\n"
        "[importlib.import_module(name) for name in own]\n"
        "print(len(found))\n"
    )
    assert int(run(clean, "python", "-c", code, cwd=tmp_path)) > 5


def test_a_real_model_end_to_end(clean: Path, minilm: Path, tmp_path: Path) -> None:
    assert run(clean, "python", "-c", END_TO_END, str(minilm), cwd=tmp_path) == "encoded 3 384\n"
    assert "384" in run(clean, "glassformer", "info", str(minilm), cwd=tmp_path)


def test_the_page_comes_with_the_wheel(clean: Path, minilm: Path, tmp_path: Path) -> None:
    """Neither Node nor a network: nothing but the environment's own programs is on the path."""
    page = tmp_path / "page.html"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", str(clean))
        run(clean, "glassformer", "look", str(minilm), "time flies", "--html", str(page), cwd=tmp_path)
    text = page.read_text(encoding="utf-8")
    assert 'id="session"' in text and "Content-Security-Policy" in text
    for frame in ("overview", "layer"):  # thumbnails and exact numbers of six layers
        assert text.count(f'class="frame" data-key="{frame}/self/') == 6
