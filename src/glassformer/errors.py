"""Every error a caller can cause, in one place.

Each message says four things: what is wrong, what was got, what is allowed, and what to do.
The command line prints the message alone; a traceback appears only with `--debug`.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice


class GlassformerError(Exception):
    """The base of all errors raised on purpose; catch it to catch them all.

    exit_code: with which the command line ends
    """

    exit_code = 2


class ConfigError(GlassformerError):
    """A size, shape or option that does not fit the others."""


class WeightsError(GlassformerError):
    """A checkpoint that is damaged, incomplete, unsafe, or of another model."""


class DataError(GlassformerError):
    """Text, ids, audio, images or files that a model cannot take."""


class UnsupportedError(GlassformerError):
    """Something well-formed that Glassformer does not do (yet): a family, a head, a config key."""


class MissingExtraError(GlassformerError, ImportError):
    """An optional package is not installed; the message gives the install command."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package '{package}', which is not installed; "
            f"install it with: pip install 'glassformer[{extra}]'"
        )


def nearest(name: str, names: Iterable[str], count: int = 3) -> str:
    """A hint such as `; nearest: 'a', 'b'` with the names most like `name`, or nothing."""
    if len(name) > 200:  # comparing takes time that grows with length × length × number
        return ""
    matches = get_close_matches(name, islice(names, 2_000), n=count, cutoff=0.5)
    return "; nearest: " + ", ".join(repr(match) for match in matches) if matches else ""
