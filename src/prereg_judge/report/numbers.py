"""One place that turns metrics into text: every number with its n, its interval and its method."""

from __future__ import annotations

import math
import re

import numpy as np

from prereg_judge.study.metric import Interval, Metric

_WORDS = {
    "no_items": "no such rows",
    "nothing_scored": "no trial has a verdict",
    "empty_denominator": "nothing to count from",
    "missing_verdict": "a trial has no verdict",
    "no_labels": "no row has a known label",
    "single_pass": "needs a second pass",
    "no_probabilities": "the calls gave no such probabilities",
    "one_order": "needs both orders",
    "no_sides": "the labels do not say which answer is better",
    "no_gap": "no quality gap is known",
    "too_few_items": "too few items",
    "too_few_models": "a ranking needs two models",
    "all_tied": "every model has the same score",
    "not_connected": "some models never lose to, or never meet, the others",
    "no_types": "the marks have no types",
    "no_order": "no order of the labels is registered",
    "no_adjudication": "no adjudicator's labels are registered",
    "one_label": "every rating that has a partner is the same label",
    "single_annotator": "no item has ratings of two annotators",
    "not_in_family": "the test is not in the registered family",
    "too_few_resamples": "undefined in most resamples",
    "not_computed": "not given by this study",
}
_MOST_PLACES = 15  # a float holds no more
_METHODS = {"wilson, times n": "Wilson × n"}
# What the heading says of the registered bootstrap need not be said beside each number.
_DRAWN = re.compile(
    r"percentile (bootstrap)( over items)?( within strata)?, \d+ resamples(, seed \d+)?"
)
# Clauses of a note that a number is not shown without.
_NO_INTERVAL = re.compile(r"\bno interval\b")
_LEFT_OUT = re.compile(r"^\d+ of \d+ (?:items|rows) left out")
_CAVEAT = re.compile(r"^descriptive and selected|^P_o |Landis and Koch")
# Values that say in which direction something differs, or goes along with something else.
_SIGNED = ("difference", "slope", "delta", "margin", "interaction", "skew", "gain", "excess")


def number(value: float) -> str:
    """A value: whole numbers whole, shares to four decimals, others to two; never as a power.

    What is not whole is never rounded to 0 or 1: it reads `<0.0001` or `>0.9999`; below 0
    `>-0.0001` or `<-0.9999`.
    """
    if float(value).is_integer():
        return str(int(value))
    if abs(value) >= 1:
        return f"{value:.2f}"
    text = f"{value:.4f}".rstrip("0")
    return {"0.": "<0.0001", "1.": ">0.9999", "-0.": ">-0.0001", "-1.": "<-0.9999"}.get(text, text)


def plain(value: float) -> str:
    """A registered number with all of its digits; never as a power."""
    return str(np.format_float_positional(float(value), trim="-"))


def figures(value: float, least: int = 3, *, beside: float | None = None) -> str:
    """A finite number to so many significant digits, whole ones always kept; never as a power.

    Parameters
    ----------
    value
        What is shown.
    least
        Significant digits, at least 1; trailing zeros after the point are left out.
    beside
        A number that it is compared with: it gets the digits that it takes to lie on its own
        side of that.
    """
    if value == 0.0:
        return "0"
    places = max(0, least - 1 - math.floor(math.log10(abs(value))))
    text = _rounded(value, places, beside)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _rounded(value: float, places: int, beside: float | None) -> str:
    """A number to so many places, or to as many more as put it on its own side of another."""
    while places < _MOST_PLACES and not _same_side(round(value, places), value, beside):
        places += 1
    return f"{value:.{places}f}"


def _same_side(shown: float, value: float, bar: float | None) -> bool:
    """Whether a rounded number lies where the number itself does; what is as good as on the bar
    may read as the bar.
    """
    if bar is None or math.isclose(value, bar, rel_tol=1e-9):
        return True
    return (shown < bar) == (value < bar) and (shown > bar) == (value > bar)


def chance(value: float, *, certain: bool = False, beside: float | None = None) -> str:
    """A chance to three decimals; only one that is 0 reads 0.000, only a certain one 1.000.

    Parameters
    ----------
    value
        From 0 to 1. A chance so close to 1 that it is 1 as a float need not be certain.
    certain
        Whether nothing else can happen.
    beside
        A chance that it is compared with: it gets the digits that it takes to lie on its own
        side of that.
    """
    text = _rounded(value, 3, beside)
    if text == "1.000" and not certain:
        return ">0.999"
    return "<0.001" if text == "0.000" and value > 0.0 else text


def of_things(number_of: int, thing: str) -> str:
    """A number with its noun: `1 row`, `2 rows`; `thing` in the singular."""
    return f"{number_of} {thing}{'' if number_of == 1 else 's'}"


def signed(value: float) -> str:
    """A value with its sign, + too; 0 has none, nor has what is next to nothing."""
    text = number(value)
    return f"+{text}" if text[0].isdigit() and text != "0" else text


def interval(shown: Interval, *, with_sign: bool = False) -> str:
    """An interval with its level and method."""
    write = signed if with_sign else number
    method = _short(_METHODS.get(shown.method, shown.method))
    return f"[{write(shown.low)}, {write(shown.high)}] {shown.level:.0%} {method}"


def _short(method: str) -> str:
    """A method without what stands in the heading, and with names in capitals."""
    method = _DRAWN.sub(lambda m: m[1] + (m[3] or ""), method)
    return re.sub(r"^wilson\b", "Wilson", method)


def observed(metric: Metric) -> str:
    """A metric as it stands beside a claim: k/n, value, interval; or why it has no value."""
    if metric.value is None:
        reason = _WORDS.get(metric.undefined or "", metric.undefined or "")
        return f"undefined: {metric.note or reason}"
    base = metric.ref.base.name
    end, sign = base.rpartition(".")[2], _has_sign(metric)
    text = signed(metric.value) if sign else number(metric.value)
    side = {"ci_low": "lower", "ci_high": "upper"}.get(metric.ref.name.rpartition(".")[2])
    if side is not None:
        text += f", the {side} limit"
        text += f" of {metric.k}/{metric.n}" if metric.k is not None else ""
        text += _short(metric.method[metric.method.rfind(" (") :]) if "(" in metric.method else ""
    elif end in ("p", "p_holm"):
        text = _p_value(metric, text)
    else:
        text = _with_n(metric, text)
    if metric.interval is not None:
        text += f" {interval(metric.interval, with_sign=sign)}"
    return text


def explained(metric: Metric) -> str:
    """A metric as it stands in a list of numbers: also which two models a place stands for, why
    there is no interval, which items were left out, and what it may not be taken for.
    """
    text = observed(metric)
    if metric.value is None or metric.note is None:
        return text
    clauses = metric.note.split("; ")
    names = [c for c in clauses if "place" in dict(metric.ref.params) and " above " in c]
    why = [c for c in clauses if metric.interval is None and _NO_INTERVAL.search(c)]
    lost = [c for c in clauses if _LEFT_OUT.search(c)]
    said = [c for c in clauses if _CAVEAT.search(c)]
    return "; ".join([text, *names, *why, *lost, *said])


def _has_sign(metric: Metric) -> bool:
    base = metric.ref.base.name
    differs = base.rpartition(".")[2] in _SIGNED or base in ("shift.mean", "selection.shift")
    return metric.unit == "correlation" or differs


def _p_value(metric: Metric, text: str) -> str:
    """A p-value, and how many went one way and how many the other."""
    text = f"p {text}" if text.startswith("<") else f"p = {text}"
    if metric.n is None:
        return text
    if metric.k is None:
        return f"{text} (n = {metric.n})"
    return f"{text} ({metric.k} against {metric.n - metric.k})"


def _is_share(metric: Metric, k: int, n: int) -> bool:
    """Whether a value is k of n; a difference may name a k that only one of its sides is."""
    if not _has_sign(metric):
        return True
    return n > 0 and metric.value is not None and math.isclose(k / n, metric.value, abs_tol=1e-9)


def _with_n(metric: Metric, text: str) -> str:
    """A value with what it is out of."""
    k, n, unit = metric.k, metric.n, metric.unit
    if n is None:
        return text
    if k is not None and unit in ("share", "probability") and _is_share(metric, k, n):
        return f"{k}/{n} = {text}"
    if k is not None and unit in _COUNTED:
        things = unit.removesuffix("s") if n == 1 else unit
        return (
            f"{text} of {n}" if unit == "items" and metric.interval else f"{text} of {n} {things}"
        )
    if k is not None and metric.interval is not None:
        return f"{text} of {n}"
    return f"{text} (n = {n})" if unit in _BARE else f"{text} {unit} (n = {n})"


_COUNTED = ("items", "models", "pairs", "votes", "margins")
# Units that go without saying.
_BARE = ("share", "probability", "correlation", "F1", "coefficient", "distance")
