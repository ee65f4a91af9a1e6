"""Templates of others, rendered so that they can neither reach out nor go on for ever.

Judge files and models bring their own jinja2 templates. Beside jinja2's sandbox: nothing in them
is random (a prompt must come out the same at lock and at run), arithmetic cannot blow up, and
rendering has a time limit.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

RENDER_LIMIT_S = 20.0
_LARGEST = 2**64  # of a number that is made by `*` or `**`
_LONGEST = 1_000_000  # of a text or list that is made by `*`


class Sandbox(ImmutableSandboxedEnvironment):
    """A jinja2 environment for templates of others; options as for `jinja2.Environment`."""

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.filters.pop("random")
        self.globals.pop("lipsum")

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """`*` and `**` where the result is of a sane size.

        Raises
        ------
        jinja2.exceptions.SecurityError
            Where it is not.
        """
        if _size(operator, left, right) > 1:
            raise SecurityError(f"the template computes something too large with `{operator}`")
        return super().call_binop(context, operator, left, right)


def _size(operator: str, left: Any, right: Any) -> float:
    """How large a result is, as a share of what is allowed; an estimate from above."""
    if operator == "**":
        bits = max(abs(left).bit_length(), 1) if isinstance(left, int) else 1
        return bits * right / 64 if isinstance(right, int) and isinstance(left, int) else 0.0
    for thing, times in ((left, right), (right, left)):
        if isinstance(times, int) and isinstance(thing, str | list | tuple | bytes):
            return len(thing) * times / _LONGEST
    whole = isinstance(left, int) and isinstance(right, int)
    return abs(left * right) / _LARGEST if whole else 0.0


@contextmanager
def time_limit() -> Iterator[None]:
    """Stop what goes on longer than `RENDER_LIMIT_S`; in the main thread only.

    An alarm that was set before goes on afterwards.

    Raises
    ------
    jinja2.TemplateRuntimeError
        Out of the body, when the time is over.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(_signal: int, _frame: FrameType | None) -> None:
        raise jinja2.TemplateRuntimeError(f"the template does not end within {RENDER_LIMIT_S:g} s")

    handler = signal.signal(signal.SIGALRM, over)
    started = time.monotonic()
    left, every = signal.setitimer(signal.ITIMER_REAL, RENDER_LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left:
            rest = max(left - (time.monotonic() - started), 0.001)
            signal.setitimer(signal.ITIMER_REAL, rest, every)
