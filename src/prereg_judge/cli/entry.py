"""Where the console commands start: loads the rest, and can be interrupted while it does.

Loading takes a second or two. Nothing has begun by then, so Ctrl-C ends the process at once, with
the exit code of an interruption and without a traceback.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

INTERRUPTED = 130


def main() -> None:
    """Load the command and run it; exits the process."""
    _quit_on_interrupt()
    # First, since it puts a handler of its own in place of Python's when it is loaded: what is
    # loaded afterwards could not be interrupted.
    import polars  # noqa: F401

    _quit_on_interrupt()
    from prereg_judge.cli.main import main as command

    command()


def _quit_on_interrupt() -> None:
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else _quit)


def _quit(_signal: int, _frame: FrameType | None) -> None:
    # Not an exception: extension modules turn one that is raised inside them into another.
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
