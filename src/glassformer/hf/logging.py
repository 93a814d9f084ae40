"""How much Glassformer says, by the names of `transformers.utils.logging`: its logger, warnings and progress bars."""

from __future__ import annotations

import logging
import warnings

from glassformer import progress

CRITICAL, ERROR, WARNING, INFO, DEBUG = (getattr(logging, name) for name in "CRITICAL ERROR WARNING INFO DEBUG".split())


def get_logger(name: str | None = None) -> logging.Logger:
    """A logger; without a name, Glassformer's own."""
    return logging.getLogger(name or "glassformer")


def get_verbosity() -> int:
    """The level below which nothing is logged."""
    return get_logger().getEffectiveLevel()


def set_verbosity(level: int) -> None:
    """Log from this level on; above WARNING, Glassformer's warnings are not shown either."""
    get_logger().setLevel(level)
    warnings.filterwarnings("ignore" if level > WARNING else "default", module=r"glassformer\.")


def set_verbosity_error() -> None:
    """Log errors only."""
    set_verbosity(ERROR)


def set_verbosity_warning() -> None:
    """Warnings and errors: the default."""
    set_verbosity(WARNING)


def set_verbosity_info() -> None:
    """Log progress too."""
    set_verbosity(INFO)


def set_verbosity_debug() -> None:
    """Log everything."""
    set_verbosity(DEBUG)


def disable_progress_bar() -> None:
    progress.enabled = False


def enable_progress_bar() -> None:
    """Progress bars where standard error is a terminal: the default."""
    progress.enabled = True
