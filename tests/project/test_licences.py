"""What a plain `pip install glassformer` brings is permissive, all the way down."""

from __future__ import annotations

import re
from importlib.metadata import Distribution, distribution

from tests.project.dependencies import required_distributions

PERMISSIVE = re.compile(r"\b(MIT|BSD|Apache|ISC|PSF|Python Software Foundation|Unlicense|0BSD|Zlib|HPND)", re.I)
# Weak copyleft, file by file: fine below us, though we add none ourselves.
WEAK = re.compile(r"\bMPL|Mozilla Public License", re.I)
STRONG = re.compile(r"\b(?<!L)A?GPL|GNU (Affero )?General Public", re.I)


def licence_of(package: Distribution) -> str:
    """SPDX expression, else classifiers, else the beginning of the licence field."""
    metadata = package.metadata.json
    classifiers = [text for text in metadata.get("classifier", []) if text.startswith("License ::")]
    return str(metadata.get("license_expression") or "; ".join(classifiers) or metadata.get("license", ""))[:200]


def test_required_dependencies_are_permissive() -> None:
    packages = required_distributions("glassformer")
    assert len(packages) > 10, "the walk over the requirements found too few to be right"
    for package in packages:
        licence = licence_of(package)
        print(f"{package.name} {package.version}: {licence}")
        assert PERMISSIVE.search(licence) or WEAK.search(licence), f"{package.name}: {licence!r} is not known"
        assert not STRONG.search(licence), f"{package.name}: {licence!r} is copyleft"


def test_direct_dependencies_have_no_weak_copyleft_either() -> None:
    for package in required_distributions("glassformer", deep=False):
        assert PERMISSIVE.search(licence_of(package)), package.name


def test_our_own_licence_is_in_the_metadata() -> None:
    assert licence_of(distribution("glassformer")) == "MIT"
