"""What a command says where Ctrl-C or SIGTERM stops it: what is left, and which command goes on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from glassformer.cli.screen import say

CONTINUED = "stopped; the same command continues"
UNSAVED = (
    "stopped while evaluating: this command has saved nothing, and what was saved before is as it was; the same "
    "command begins again"
)
SEEDS_STOPPED = (
    "stopped while evaluating: seeds that are done are saved; the same command continues, and with --data or --limit "
    "begins again"
)


def pages_stopped(page: Path) -> str:
    """What is left where the explorer's pages of a page's rows are stopped."""
    return (
        f"stopped: {page} is saved, with links to those explorer's pages of its worst rows that were written; the same "
        "command writes all"
    )


@contextmanager
def saying_where_stopped(sentence: str) -> Iterator[None]:
    """Say a sentence where a signal stops the block."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as end:
        if isinstance(end, KeyboardInterrupt) or end.code == 128 + signal.SIGTERM:
            say(sentence, err=True)
        raise
