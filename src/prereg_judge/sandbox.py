"""Templates of others, rendered so that they can neither reach out nor go on for ever.

Judge files and models bring their own jinja2 templates. Beside jinja2's sandbox: nothing in them
is random (a prompt must come out the same at lock and at run), arithmetic cannot blow up, and
rendering has a time limit.
"""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

RENDER_LIMIT_S = 20.0
_LARGEST = 2**64  # of a number that is made by `*` or `**`
_LONGEST = 1_000_000  # of a text or list that is made at one stroke
# What makes a text longer than what it is made of, as a filter or as a method of a text.
_LENGTHENING = (
    *("center", "ljust", "rjust", "zfill", "expandtabs", "indent", "wordwrap"),
    *("format", "format_map", "replace", "join"),
)
_FORMATTING = ("format", "format_map", "%")
# In a format: a field of a hundred thousand characters or more, or one that a value gives.
_WIDTH = re.compile(r"%[^%a-zA-Z]*\d{6,}|\{[^{}]*:[^{}]*\d{6,}")
_OPEN_WIDTH = re.compile(r"%[^%a-zA-Z]*\*|\{[^{}]*:[^{}]*\{")


class Sandbox(ImmutableSandboxedEnvironment):
    """A jinja2 environment for templates of others; options as for `jinja2.Environment`."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.filters.pop("random")
        self.globals.pop("lipsum")
        for name in _LENGTHENING:
            if name in self.filters:
                self.filters[name] = _measured(name, self.filters[name])

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """A text's `format`, which jinja2 replaces by its own, measured like the others."""
        made = super().wrap_str_format(value)
        if made is None:
            return None

        @wraps(made)
        def formatted(*args: Any, **kwargs: Any) -> str:
            _refuse_long("format", (value.__self__, *args, *kwargs.values()))
            return made(*args, **kwargs)

        return formatted

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A call, where it is safe and makes no text of an insane size.

        Raises
        ------
        jinja2.exceptions.SecurityError
            Where it is not, or does.
        """
        name, text = getattr(obj, "__name__", ""), getattr(obj, "__self__", None)
        if isinstance(text, str) and name in _LENGTHENING:
            _refuse_long(name, (text, *args, *kwargs.values()))
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """`*`, `**` and `%` where the result is of a sane size.

        Raises
        ------
        jinja2.exceptions.SecurityError
            Where it is not.
        """
        if operator == "%" and isinstance(left, str):
            _refuse_long(operator, (left, right))
        elif operator != "%" and _size(operator, left, right) > 1:
            raise SecurityError(f"the template computes something too large with `{operator}`")
        return super().call_binop(context, operator, left, right)


def _measured(name: str, made: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that is asked for its result's size first."""

    @wraps(made)
    def filtered(*args: Any, **kwargs: Any) -> Any:
        _refuse_long(name, (*args, *kwargs.values()))
        return made(*args, **kwargs)

    return filtered


def _refuse_long(name: str, parts: Sequence[Any]) -> None:
    """Refuse what would make a text of over a million characters out of these parts.

    Raises
    ------
    jinja2.exceptions.SecurityError
        If it would, by an estimate from above.
    """
    texts = [part for part in parts if isinstance(part, str | list | tuple)]
    sizes = [_length(part) for part in texts]
    if name == "replace" and len(sizes) > 2:
        made = sizes[0] * (1 + sizes[2]) / max(sizes[1], 1)
    elif name == "join":
        made = sizes[0] * (1 + max(sizes[1:], default=0)) if sizes else 0
    elif name in _FORMATTING:
        form = texts[0] if texts and isinstance(texts[0], str) else ""
        open_width = max(_numbers(parts), default=0) if _OPEN_WIDTH.search(form) else 0
        made = _LONGEST + 1 if _WIDTH.search(form) else open_width
    else:
        made = max(_numbers(parts), default=0)
    if made > _LONGEST:
        raise SecurityError(f"the template makes something too large with `{name}`")


def _numbers(parts: Sequence[Any]) -> Iterator[float]:
    """The sizes of all numbers among parts and inside them."""
    for part in parts:
        if isinstance(part, int | float):
            yield abs(part)
        elif isinstance(part, list | tuple):
            yield from _numbers(part)
        elif isinstance(part, dict):
            yield from _numbers(list(part.values()))


def _length(part: Any) -> int:
    """Characters of a text, or of all that a list holds; at least 1 an entry."""
    if isinstance(part, list | tuple):
        return sum(max(_length(each), 1) for each in part)
    return len(part) if isinstance(part, str) else 0


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
