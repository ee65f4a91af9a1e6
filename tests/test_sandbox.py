"""Templates of others: no chance, no blow-up, no endless rendering."""

from __future__ import annotations

import signal

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
    with pytest.raises(SecurityError, match="too large"):
        render(template, x=10_000)


@pytest.mark.parametrize(
    "template",
    [
        '{{ "%1000000000d" | format(1) }}',
        '{{ "%9999999d" % 1 }}',
        '{{ "%*d" % (10000000, 1) }}',
        '{{ "{:>10000000}".format(1) }}',
        '{{ "{:{w}}".format(1, w=10000000) }}',
        '{{ "{:{w}}".format_map({"w": 10000000}) }}',
        "{{ text | center(3000000000) }}",
        "{{ text.ljust(9999999) }}",
        '{{ text | replace("e", "e" * 9000) | replace("e", "e" * 9000) }}',
        '{{ text.replace("e", "e" * 9000).replace("e", "e" * 9000) }}',
        "{{ range(90000) | list | join(text) }}",
        "{{ text.join(range(90000) | map('string') | list) }}",
        "{{ text | indent(9999999) }}",
    ],
)
def test_no_filter_or_method_makes_a_huge_text(template: str) -> None:
    """What lengthens a text is asked for its size first, before the memory is taken."""
    with pytest.raises(SecurityError, match="too large"):
        render(template, text="hello there" * 50)


@pytest.mark.parametrize(
    ("template", "length"),
    [
        ('{{ text.replace("e", "ea") }}', 700),
        ('{{ rules | join(", ") }}', 88),
        ('{{ rules | map("upper") | join(",") }}', 59),
        ("{{ text | indent(4) }}", 550),
        ('{{ "%-10s|%d" | format("a", 3000000) }}', 18),
        ('{{ "{:,}".format(25000000) }}', 10),
        ('{{ "order 1234567: {}".format(1) }}', 16),
        ("{{ 7 % 3 }}", 1),
        ('{{ "%s" % text }}', 550),
        ("{{ text | center(600) }}", 600),
    ],
)
def test_ordinary_lengthening_works(template: str, length: int) -> None:
    """Large numbers as values, joins and replacements of a sane size are left alone."""
    assert len(render(template, text="hello there" * 50, rules=["a"] * 30)) == length


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
