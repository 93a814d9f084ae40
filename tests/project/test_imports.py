"""`import glassformer` is quick, quiet and complete; the layers keep their distance from each other."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import glassformer

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "glassformer"

# Fails on any attempt to reach another machine, at the level of the interpreter.
NO_CONNECTION = """
import sys
def refuse(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.__new__"):
        raise SystemExit(f"a socket was used: {event} {arguments}")
sys.addaudithook(refuse)
"""


def run_python(code: str) -> str:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def seconds(*arguments: str) -> float:
    """Processor time, the best of five: what the work takes when the machine does nothing else."""
    best = float("inf")
    for _ in range(5):
        before = os.times()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, timeout=300)
        after = os.times()
        spent = after.children_user - before.children_user + after.children_system - before.children_system
        best = min(best, spent)
    return best


def test_the_package_knows_none_of_its_plug_ins() -> None:
    """It finds them by entry points; a name of a package of plugins/ in its code would need that to be installed."""
    names = [path.name for path in (ROOT / "plugins").glob("*/src/*") if path.is_dir()]
    assert "glassformer_guitar" in names
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            modules = [node.module] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not {(module or "").partition(".")[0] for module in modules} & set(names), path


IN_CIRCLES = frozenset("explorer generation hf hub inspect studies training".split())
"""Packages that have modules which import each other; this may only shrink."""


def test_circles_of_imports_stay_within_a_package() -> None:
    """Of all imports: those in functions and for annotations alone lead a reader in a circle too."""
    names = {path: path.relative_to(SOURCE.parent).with_suffix("").parts for path in SOURCE.rglob("*.py")}
    modules = {".".join(parts).removesuffix(".__init__"): path for path, parts in names.items()}
    graph = {name: imported_modules(path, modules) - {name} for name, path in modules.items()}
    circles = [circle for circle in strongly_connected(graph) if len(circle) > 1]
    assert circles, "there is none: IN_CIRCLES should be empty"
    for circle in circles:
        packages = {name.split(".")[1] for name in circle if "." in name}
        assert len(packages) == 1 and packages <= IN_CIRCLES, f"these import each other: {sorted(circle)}"


def imported_modules(path: Path, modules: dict[str, Path]) -> set[str]:
    """The modules of the package that a file imports anywhere."""
    imported = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            parts = {f"{node.module}.{alias.name}" for alias in node.names}
            imported |= {part if part in modules else node.module for part in parts}
    return imported & modules.keys()


def strongly_connected(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules of which each reaches each other. Source: Tarjan (1972)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[set[str]] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in graph[name]:
            if other not in number:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], number[other])
        if low[name] == number[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            groups.append(set(group))

    for name in graph:
        if name not in number:
            visit(name)
    return groups


def test_import_takes_less_than_300_ms() -> None:
    assert seconds("-c", "import glassformer") - seconds("-c", "") <= 0.3


def test_version_takes_less_than_400_ms() -> None:
    assert seconds("-m", "glassformer", "--version") - seconds("-c", "") <= 0.4


@pytest.mark.parametrize("name", ["glassformer", "glassformer.errors", "glassformer.cli.app"])
def test_import_brings_no_torch_and_opens_no_socket(name: str) -> None:
    loaded = run_python(f"{NO_CONNECTION}\nimport {name}\nprint(*sys.modules)").split()
    heavy = {"torch", "numpy", "tokenizers", "safetensors", "huggingface_hub", "transformers"}
    assert heavy.isdisjoint(loaded)


def test_the_face_opens_no_socket_when_torch_is_imported() -> None:
    loaded = run_python(f"{NO_CONNECTION}\nimport glassformer\nglassformer.load\nprint(*sys.modules)").split()
    assert "torch" in loaded
    assert {"transformers", "sentence_transformers"}.isdisjoint(loaded)


def test_every_public_name_is_there_and_listed() -> None:
    assert set(glassformer.__all__) <= set(dir(glassformer))
    for name in glassformer.__all__:
        assert getattr(glassformer, name) is not None


def test_dir_lists_the_names_before_their_first_use() -> None:
    listed = run_python("import glassformer\nprint(*dir(glassformer))").split()
    assert {"load", "Model", "Tape", "Flow", "ConfigError"} <= set(listed)


def test_an_unknown_name_is_an_attribute_error_that_lists_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'pipelines'.*load"):
        _ = glassformer.pipelines  # type: ignore[attr-defined]


def test_core_imports_torch_alone() -> None:
    allowed = {*sys.stdlib_module_names, "torch"}
    for path in (SOURCE / "core").rglob("*.py"):
        for module in imported_at_run_time(ast.parse(path.read_text("utf-8"))):
            inside = module.startswith(("glassformer.core", "glassformer.errors"))
            assert inside or module.split(".")[0] in allowed, f"{path.relative_to(ROOT)} imports {module}"


def imported_at_run_time(tree: ast.AST) -> list[str]:
    """Full names of the modules that `tree` imports, but for those under `if TYPE_CHECKING`."""
    found: list[str] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: absolute imports read better"
            found.append(node.module or "")
        found += imported_at_run_time(node)
    return found


def test_no_module_of_text_imports_one_that_imports_it() -> None:
    """Imports in functions and for types count too: a circle of modules can only be read at once."""
    modules = {name: path_of(name) for name in every_module() if name.startswith("glassformer.text.")}
    imported = {name: set(every_import(path)) & modules.keys() - {name} for name, path in modules.items()}
    assert imported["glassformer.text.train"] >= {"glassformer.text.tokenizer", "glassformer.text.untrained"}
    while leaves := [name for name, others in imported.items() if not others & imported.keys()]:
        for name in leaves:
            del imported[name]
    assert not imported, f"modules that import each other: {sorted(imported)}"


def path_of(module: str) -> Path:
    path = SOURCE.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def every_import(path: Path) -> list[str]:
    """Full names of what a file imports, anywhere in it: modules, and names in them."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
    return [name for x in nodes for name in (x.module or "", *(f"{x.module}.{alias.name}" for alias in x.names))]


def every_module() -> list[str]:
    names = [path.relative_to(SOURCE.parent).with_suffix("") for path in sorted(SOURCE.rglob("*.py"))]
    # An integration imports the client that it is named after: tests/integrations, by `make test-clients`.
    own = [name for name in names if name.parts[1:2] != ("integrations",) or name.name == "__init__"]
    return [".".join(name.parts).removesuffix(".__init__") for name in own]


@pytest.mark.parametrize("name", every_module())
def test_every_module_can_be_imported(name: str) -> None:
    importlib.import_module(name)


def test_every_test_file_has_a_source_file() -> None:
    """tests/ mirrors src/glassformer; only tests of the whole have folders of their own."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        inside = path.relative_to(ROOT / "tests")
        if inside.parts[0] in {"project", "parity", "golden", "e2e"} or "browser" in inside.parts:
            continue
        module = inside.with_name(inside.name.removeprefix("test_"))
        package = inside.parent if inside.parent != Path() else module.with_suffix("")
        sources = (SOURCE / module, SOURCE / package / "__init__.py")
        assert any(source.exists() for source in sources), f"tests/{inside} mirrors no module and no package"
