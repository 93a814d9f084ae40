"""Entry point of the command line, of the script and of `python -m glassformer`: no signal ends it with a traceback.

Ctrl-C is a KeyboardInterrupt and SIGTERM a SystemExit, so whatever is written meanwhile is removed; a second signal
that comes with the first, as from a terminal and from the program that started this one, is the same request.
"""

from __future__ import annotations

import signal
import sys
import time
from types import FrameType

INTERRUPTED = 130
AT_ONCE = 0.5
"""Seconds between two signals that are one request: enough to remove the file that was being written."""


class Interruption:
    """Handler of SIGINT and SIGTERM."""

    def __init__(self) -> None:
        self._last = -AT_ONCE

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self._last < AT_ONCE:
            return
        self._last = now
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    def install(self) -> None:
        """Handle the signals, unless the program that started this one has them ignored."""
        for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
            if signal.getsignal(number) is usual:
                signal.signal(number, self)


def main() -> None:
    """Run the command line and exit."""
    code: int | str | None = 0
    try:
        Interruption().install()
        from glassformer.cli.app import main as run  # may take a second, in which Ctrl-C is pressed too

        run()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except SystemExit as ended:
        code = ended.code
    # What ends now is the interpreter, which would print a traceback of each function that a signal interrupts.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(code)


if __name__ == "__main__":
    main()
