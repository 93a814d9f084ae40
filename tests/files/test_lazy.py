"""Lazy packages: names at first use, functions that are called as their module is, names that there are not."""

from __future__ import annotations

import subprocess
import sys

import pytest

import glassformer.explorer
import glassformer.inspect
import glassformer.inspect.corpus
import glassformer.tasks
import glassformer.text

LAZY = [glassformer.inspect, glassformer.inspect.corpus, glassformer.explorer, glassformer.tasks, glassformer.text]


@pytest.mark.parametrize("package", LAZY, ids=lambda package: package.__name__)
def test_every_name_is_there_and_listed(package: object) -> None:
    names = package.__all__  # type: ignore[attr-defined]
    assert set(names) <= set(dir(package))
    assert all(getattr(package, name).__name__ for name in names if name != "PIPELINES")
    with pytest.raises(AttributeError, match="has no attribute 'sezes'"):
        getattr(package, "sezes")  # noqa: B009 # as a name that no type checker knows


def test_a_function_is_not_replaced_by_the_module_of_its_name() -> None:
    code = (
        "import sys, glassformer.inspect.sizes, glassformer.explorer.look, glassformer.inspect as inspect\n"
        "from glassformer.explorer import look\n"
        "assert inspect.sizes.__name__ == 'sizes' and callable(inspect.sizes) and callable(look)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_package_brings_no_torch() -> None:
    names = ", ".join(package.__name__ for package in LAZY)
    subprocess.run([sys.executable, "-c", f"import sys, {names}; assert 'torch' not in sys.modules"], check=True)


def test_requests_of_views_bring_neither_torch_nor_numpy() -> None:
    code = "import sys, glassformer.explorer.requests; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
