"""Reads the short forms of claims on the command line into the mappings that the YAML holds.

Grammar, with `ID:: ` before any claim as an option::

    METRIC      NAME | NAME[key=value,key=value]
    band        METRIC=LO..HI | METRIC in LO..HI
    prediction  METRIC >= N | METRIC <= N | METRIC=LO..HI
    refuter     CONDITION: what it means
    stop        TEST [in W over M]
    decision    CONDITION => what is done
    member      METRIC, a test of the family
    CONDITION   TEST [and TEST ...] | TEST [or TEST ...]
    TEST        METRIC (< | <= | > | >= | = | ==) N | METRIC=LO..HI | METRIC in LO..HI

Knows nothing of catalogues: whether a metric exists is `lint`'s question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import count
from typing import Any, get_args

from prereg_judge.registration.scanner import NAME, NUMBER, Scanner, whole
from prereg_judge.registration.schema_claims import MetricParams

_ID = re.compile(r"\s*([a-z0-9][a-z0-9-]{0,63})::\s*")
_PARAM = re.compile(r"\s*([a-z_]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^,\]\"']*))")
_OPERATOR = re.compile(r"<=|>=|==|=(?!>)|<|>|in\b")
_LIMIT = re.compile(r"\.ci_(?:low|high)\b")
_NAMES = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
# Names of parameters as the file has them, each with the type of its value.
_PARAMS = {
    field.alias or name: field.annotation
    for name, field in MetricParams.model_fields.items()
    if name != "metric"
}
_WHOLE_PARAMS = {name for name, kind in _PARAMS.items() if int in get_args(kind)}

_BAND_EXAMPLE = "sentinel.agreement.count=58..68"
_PREDICTION_EXAMPLE = "real.flips_from.count[from_run=x,verdict=KEEP] >= 8"
_REFUTER_EXAMPLE = "sentinel.agreement.count < 50: too unstable to floor anything"
_STOP_EXAMPLE = "calls.hangs >= 1 in 20 over 40"
_MEMBER_EXAMPLE = "delta[output=A]"
_DECISION_EXAMPLE = "sentinel.agreement.count < 50 => stop and report"


def parse_band(text: str, *, taken: Iterable[str] = (), option: str = "--band") -> dict[str, Any]:
    """`sentinel.agreement.count=58..68` as an entry of `bands`.

    Parameters
    ----------
    text
        The option's value; `ID:: ` before it gives the claim's id.
    taken
        Ids that a generated id must not repeat.
    option
        Name of the option, for messages.

    Raises
    ------
    UsageError
        With the option, the position and an example of the right form.
    """
    scan = Scanner(text, option=option, example=_BAND_EXAMPLE)
    given = _given_id(scan)
    metric = _metric(scan)
    if not (scan.word("in") or scan.word("=")):
        scan.fail("expected `=` or `in` and two limits")
    entry = {**metric, "between": scan.limits()}
    scan.end()
    return {"id": _id(given, metric["metric"], taken), **entry}


def parse_prediction(
    text: str, *, taken: Iterable[str] = (), option: str = "--predict"
) -> dict[str, Any]:
    """`METRIC >= 8` as an entry of `predictions`; otherwise like `parse_band`."""
    scan = Scanner(text, option=option, example=_PREDICTION_EXAMPLE)
    given = _given_id(scan)
    metric = _metric(scan)
    start = scan.at
    operator = scan.take(_OPERATOR)
    sign = operator.group() if operator else ""
    if sign in ("<", ">"):
        scan.at = start
        scan.fail(f"a prediction includes its limit, so `{sign}`", f"write {sign}=")
    limit: dict[str, Any]
    if sign in (">=", "<="):
        limit = {"at_least" if sign == ">=" else "at_most": scan.number()}
    elif sign in ("=", "in"):
        limit = {"between": scan.limits()}
    else:
        scan.at = start
        scan.fail("expected >=, <= or =LO..HI")
    scan.end()
    return {"id": _id(given, metric["metric"], taken), **metric, **limit}


def parse_refuter(
    text: str, *, taken: Iterable[str] = (), option: str = "--refute"
) -> dict[str, Any]:
    """`CONDITION: what it means` as an entry of `refuters`; otherwise like `parse_band`."""
    scan = Scanner(text, option=option, example=_REFUTER_EXAMPLE)
    given = _given_id(scan)
    when = _condition(scan)
    if not scan.word(":"):
        scan.fail("expected `and`, `or`, or `:` and what it means")
    means = scan.rest("what it means")
    return {"id": given or _numbered("refute", taken), "when": when, "means": means}


def parse_decision(
    text: str, *, taken: Iterable[str] = (), option: str = "--decide"
) -> dict[str, Any]:
    """`CONDITION => what is done` as an entry of `decisions`; otherwise like `parse_band`."""
    scan = Scanner(text, option=option, example=_DECISION_EXAMPLE)
    given = _given_id(scan)
    when = _condition(scan)
    if not scan.word("=>"):
        scan.fail("expected `and`, `or`, or `=>` and what is done")
    then = scan.rest("what is done")
    return {"id": given or _numbered("decide", taken), "when": when, "then": then}


def parse_stop(text: str, *, taken: Iterable[str] = (), option: str = "--stop") -> dict[str, Any]:
    """`calls.hangs >= 1 in 20 over 40` as an entry of `stop`; otherwise like `parse_band`."""
    scan = Scanner(text, option=option, example=_STOP_EXAMPLE)
    given = _given_id(scan)
    when = _test(scan)
    window: dict[str, Any] = {}
    if scan.word("in"):
        window["in_every"] = _calls(scan)
        if not scan.word("over"):
            scan.fail("expected `over` and how many first calls")
        window["over_first"] = _calls(scan)
    scan.end()
    return {"id": _id(given, when["metric"], taken), "when": when, **window}


def parse_member(text: str, *, option: str = "--family") -> dict[str, Any]:
    """`delta[output=A]` as an entry of `family`; a test has no id and no limit."""
    scan = Scanner(text, option=option, example=_MEMBER_EXAMPLE)
    metric = _metric(scan)
    scan.end()
    return metric


def _given_id(scan: Scanner) -> str | None:
    match = scan.take(_ID)
    return match.group(1) if match else None


def _id(given: str | None, metric: str, taken: Iterable[str]) -> str:
    """The given id, or one made of the metric's name that is not taken."""
    if given is not None:
        return given
    name = re.sub(r"^(?:sentinel|real)\.", "", metric)
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:56].strip("-") or "claim"
    used, number, name = set(taken), 1, slug
    while name in used:
        number += 1
        name = f"{slug}-{number}"
    return name


def _numbered(word: str, taken: Iterable[str]) -> str:
    """`refute-1`, or the next that is not taken: a metric's name is that of the band on it."""
    used = set(taken)
    return next(name for n in count(1) if (name := f"{word}-{n}") not in used)


def _metric(scan: Scanner) -> dict[str, Any]:
    name = scan.take(NAME)
    if name is None:
        scan.fail("expected the name of a metric")
    entry: dict[str, Any] = {"metric": name.group()}
    if not scan.word("["):
        return entry
    while True:
        start = scan.at
        pair = scan.take(_PARAM)
        if pair is None:
            scan.fail("expected key=value")
        key = pair.group(1)
        quoted = pair.group(2) if pair.group(2) is not None else pair.group(3)
        value = quoted if quoted is not None else pair.group(4).strip()
        if key not in _PARAMS or key in entry or not value:
            scan.at = start
            scan.fail(f"expected one of {', '.join(_PARAMS)}, once and with a value,")
        entry[key] = int(value) if key in _WHOLE_PARAMS and value.isdecimal() else value
        if key in _WHOLE_PARAMS and not isinstance(entry[key], int):
            scan.at = start
            scan.fail(f"`{key}` must be a whole number")
        if key == "temperature":
            if not NUMBER.fullmatch(value):
                scan.at = start
                scan.fail("`temperature` must be a number")
            entry[key] = float(value)
        if scan.word("]"):
            # A limit may stand behind the brackets, where people look for it.
            limit = scan.take(_LIMIT)
            if limit is not None:
                entry["metric"] += limit.group()
            return entry
        if not scan.word(","):
            scan.fail("expected `,` or `]`")


def _test(scan: Scanner) -> dict[str, Any]:
    metric = _metric(scan)
    operator = scan.take(_OPERATOR)
    if operator is None:
        scan.fail("expected <, <=, >, >=, = or `in`")
    sign = operator.group()
    if sign in _NAMES:
        return {**metric, _NAMES[sign]: scan.number()}
    if sign == "in":
        return {**metric, "between": scan.limits()}
    start = scan.at
    value = scan.number()
    if not scan.word(".."):
        return {**metric, "eq": value}
    scan.at = start
    return {**metric, "between": scan.limits()}


def _condition(scan: Scanner) -> dict[str, Any]:
    parts = [_test(scan)]
    how = ""
    while True:
        start = scan.at
        joint = "and" if scan.word("and") else "or" if scan.word("or") else ""
        if not joint:
            break
        if how and joint != how:
            scan.at = start
            scan.fail("`and` and `or` cannot be mixed", "write the nested form in the file")
        how = joint
        parts.append(_test(scan))
    if not how:
        return parts[0]
    return {"all" if how == "and" else "any": parts}


def _calls(scan: Scanner) -> int:
    start = scan.at
    value = whole(scan)
    if value < 1:
        scan.at = start
        scan.fail("expected a number of calls")
    return value
