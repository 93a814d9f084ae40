"""Fixtures of the tests of the package that those of the plug-in use too."""

from tests.cli.conftest import command

__all__ = ["command"]
