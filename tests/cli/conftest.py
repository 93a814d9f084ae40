"""Command lines run in this process: as a user types them, without the seconds that a new interpreter takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest

from glassformer.cli.app import main


class Done(NamedTuple):
    """What a command did, under the names of `subprocess.CompletedProcess`."""

    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Done]


def run_here(capsys: pytest.CaptureFixture[str], *arguments: object) -> Done:
    """Run a command line in this process."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert ended.value.code is None or isinstance(ended.value.code, int)
    return Done(ended.value.code or 0, *capsys.readouterr())


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command line: `command("info", folder)`."""
    for name, value in (("NO_COLOR", "1"), ("COLUMNS", "100"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)

    return partial(run_here, capsys)
