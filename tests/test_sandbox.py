"""Templates of others: no chance, no blow-up, no endless rendering."""

from __future__ import annotations

import signal
import time

import jinja2
import pytest
from jinja2.exceptions import SecurityError

from prereg_judge import sandbox
from prereg_judge.sandbox import Sandbox, time_limit


def render(template: str, **values: object) -> str:
    """Render under the time limit."""
    with time_limit():
        return Sandbox().from_string(template).render(**values)


@pytest.mark.parametrize(
    ("template", "result"),
    [
        ("{{ 6 * 7 }}", "42"),
        ("{{ 2 ** 10 }}", "1024"),
        ("{{ '=' * 40 }}", "=" * 40),
        ("{{ 3 * [1] }}", "[1, 1, 1]"),
        ("{{ 0.5 * 4 }}", "2.0"),
        ("{{ 0.5 ** 2 }}", "0.25"),
        ("{{ -1 * x }}", "-5"),
    ],
)
def test_ordinary_arithmetic_works(template: str, result: str) -> None:
    """What templates compute is computed."""
    assert render(template, x=5) == result


@pytest.mark.parametrize(
    "template",
    ["{{ 9 ** 9 ** 9 }}", "{{ 10 ** 1000 }}", "{{ 'a' * 10 ** 9 }}", "{{ [x] * x * x }}"],
)
def test_what_would_blow_up_is_refused_at_once(template: str) -> None:
    """Huge powers and repetitions are an error, not a wait."""
    started = time.monotonic()
    with pytest.raises(SecurityError, match="too large"):
        render(template, x=10_000)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("template", ["{{ [1, 2] | random }}", "{{ lipsum() }}"])
def test_nothing_is_random(template: str) -> None:
    """The filter and the function that draw by chance do not exist."""
    with pytest.raises(jinja2.TemplateError):
        render(template)


def test_rendering_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A template that goes on is stopped; the alarm that was set before goes on."""
    monkeypatch.setattr(sandbox, "RENDER_LIMIT_S", 0.2)
    before = signal.getsignal(signal.SIGALRM)
    rest = signal.getitimer(signal.ITIMER_REAL)[0]
    with pytest.raises(jinja2.TemplateRuntimeError, match=r"does not end within 0\.2 s"):
        render("{% for a in range(9999) %}" * 4 + "{% endfor %}" * 4)
    assert signal.getsignal(signal.SIGALRM) is before
    assert (signal.getitimer(signal.ITIMER_REAL)[0] > 0) == (rest > 0)
    assert render("{{ 1 }}") == "1"
