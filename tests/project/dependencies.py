"""Which installed distributions a plain install of a package stands on."""

from __future__ import annotations

from importlib.metadata import Distribution, distribution

from packaging.requirements import Requirement


def required_distributions(name: str, deep: bool = True) -> list[Distribution]:
    """The distributions that `name` requires on this machine without any extra, sorted by name, itself left out.

    Args:
        name: an installed distribution.
        deep: also what those require, to the last one.
    """
    found: dict[str, Distribution] = {}
    ask: list[tuple[str, frozenset[str]]] = [(name, frozenset())]
    while ask:
        package, extras = ask.pop()
        for text in distribution(package).requires or []:
            requirement = Requirement(text)
            wanted = any(
                requirement.marker is None or requirement.marker.evaluate({"extra": extra}) for extra in ({""} | extras)
            )
            if wanted and requirement.name.lower() not in found:
                found[requirement.name.lower()] = distribution(requirement.name)
                if deep:
                    ask.append((requirement.name, frozenset(requirement.extras)))
    return [found[key] for key in sorted(found)]
