"""Reads the short forms of claims on the command line into the mappings that the YAML holds.

Grammar, with `ID:: ` before any claim as an option::

    METRIC      NAME | NAME[key=value,key=value]
    band        METRIC=LO..HI | METRIC in LO..HI
    prediction  METRIC >= N | METRIC <= N | METRIC=LO..HI
    refuter     CONDITION: what it means
    stop        TEST [in W over M]
    decision    CONDITION => what is done
    CONDITION   TEST [and TEST ...] | TEST [or TEST ...]
    TEST        METRIC (< | <= | > | >= | = | ==) N | METRIC=LO..HI | METRIC in LO..HI

Knows nothing of catalogues: whether a metric exists is `lint`'s question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NoReturn

from prereg_judge.errors import Problem, UsageError
from prereg_judge.strict_yaml import MAX_INT

_ID = re.compile(r"\s*([a-z0-9][a-z0-9-]{0,63})::\s*")
_NAME = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*")
_PARAM = re.compile(r"\s*([a-z_]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^,\]\"']*))")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?(?![\w])")
_OPERATOR = re.compile(r"<=|>=|==|=(?!>)|<|>|in\b")
_LIMIT = re.compile(r"\.ci_(?:low|high)\b")
_NAMES = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_DOTS = re.compile(r"\.\.(?!\.)")  # 0...5 could mean two things
_PARAMS = (
    "kind", "stratum", "verdict", "to", "pass", "from_run", "from_pass", "reason", "temperature",
)  # fmt: skip
_WHOLE_PARAMS = {"pass", "from_pass"}
_DRAWN = ("temperature", "top_k", "top_p", "min_p")
_MODE_KEYS = {"sampled": _DRAWN, "seeded": ("seed", *_DRAWN), "greedy": ()}
_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60}

_BAND_EXAMPLE = "sentinel.agreement.count=58..68"
_PREDICTION_EXAMPLE = "real.flips_from.count[from_run=x,verdict=KEEP] >= 8"
_REFUTER_EXAMPLE = "sentinel.agreement.count < 50: too unstable to floor anything"
_STOP_EXAMPLE = "calls.hangs >= 1 in 20 over 40"
_DECISION_EXAMPLE = "sentinel.agreement.count < 50 => stop and report"
_DECODING_EXAMPLE = "sampled,temperature=0.8,top_k=40,top_p=0.95,min_p=0.05"
_HANG_EXAMPLE = "120s,retries=1,heartbeat=30s"
_ARM_EXAMPLE = "path=choice,prefix=shared,parallel=4"
_ARM_WORDS = ("path", "prefix")
_ARM_NUMBERS = ("parallel", "n_gpu_layers", "n_threads", "n_batch")


class _Scanner:
    """A cursor over one option's text that says where reading failed."""

    def __init__(self, text: str, *, option: str, example: str) -> None:
        self.text = text
        self.at = 0
        self.option = option
        self.example = example

    def fail(self, what: str, remedy: str | None = None) -> NoReturn:
        rest = self.text[self.at :]
        place = f"at position {self.at + 1}, `{rest}`" if rest else "at the end"
        right = f"for example {self.option} '{self.example}'"
        remedy = f"{remedy}; {right}" if remedy else right
        problem = Problem(f"{what} {place}", where=self.option, found=f"'{self.text}'",
                          remedy=remedy)  # fmt: skip
        raise UsageError(problem)

    def space(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Read `pattern` after white space, or stay where it does not stand."""
        self.space()
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def word(self, word: str) -> bool:
        tail = r"\b" if word.isalpha() else ""
        return self.take(re.compile(re.escape(word) + tail)) is not None

    def number(self) -> int | float:
        self.space()
        start = self.at
        match = self.take(_NUMBER)
        if match is None:
            self.fail("expected a number")
        text = match.group()
        value: int | float = int(text) if re.fullmatch(r"[-+]?[0-9]+", text) else float(text)
        if abs(value) > MAX_INT:
            self.at = start
            self.fail("the number is beyond 2**53")
        return value

    def limits(self) -> list[int | float]:
        start = self.at
        low = self.number()
        if not self.take(_DOTS):
            self.fail("expected `..` and the upper limit")
        high = self.number()
        if low > high:
            self.at = start
            self.fail("the limits are reversed", "write the smaller limit first")
        return [low, high]

    def end(self) -> None:
        self.space()
        if self.at < len(self.text):
            self.fail("did not expect more")

    def rest(self, what: str) -> str:
        text = self.text[self.at :].strip()
        if not text:
            self.fail(f"expected {what}")
        return text


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
    scan = _Scanner(text, option=option, example=_BAND_EXAMPLE)
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
    scan = _Scanner(text, option=option, example=_PREDICTION_EXAMPLE)
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
    scan = _Scanner(text, option=option, example=_REFUTER_EXAMPLE)
    given = _given_id(scan)
    when = _condition(scan)
    if not scan.word(":"):
        scan.fail("expected `and`, `or`, or `:` and what it means")
    means = scan.rest("what it means")
    return {"id": _id(given, _first_metric(when), taken), "when": when, "means": means}


def parse_decision(
    text: str, *, taken: Iterable[str] = (), option: str = "--decide"
) -> dict[str, Any]:
    """`CONDITION => what is done` as an entry of `decisions`; otherwise like `parse_band`."""
    scan = _Scanner(text, option=option, example=_DECISION_EXAMPLE)
    given = _given_id(scan)
    when = _condition(scan)
    if not scan.word("=>"):
        scan.fail("expected `and`, `or`, or `=>` and what is done")
    then = scan.rest("what is done")
    return {"id": _id(given, _first_metric(when), taken), "when": when, "then": then}


def parse_stop(text: str, *, taken: Iterable[str] = (), option: str = "--stop") -> dict[str, Any]:
    """`calls.hangs >= 1 in 20 over 40` as an entry of `stop`; otherwise like `parse_band`."""
    scan = _Scanner(text, option=option, example=_STOP_EXAMPLE)
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


def parse_decoding(text: str, *, option: str = "--decoding") -> dict[str, Any]:
    """`greedy`, or `sampled,temperature=0.8,...`, as the mapping under `decoding`."""
    scan = _Scanner(text, option=option, example=_DECODING_EXAMPLE)
    mode = scan.take(_NAME)
    if mode is None or mode.group() not in _MODE_KEYS:
        scan.at = 0
        scan.fail("expected sampled, seeded or greedy")
    known = _MODE_KEYS[mode.group()]
    settings: dict[str, Any] = {"mode": mode.group()}
    while scan.word(","):
        key, start = scan.take(_NAME), scan.at
        if key is None or key.group() not in known or key.group() in settings:
            scan.at = start - (len(key.group()) if key else 0)
            takes = f"takes each of {', '.join(known)} once" if known else "takes no settings"
            scan.fail(f"{mode.group()} {takes}, not what stands")
        if not scan.word("="):
            scan.fail("expected `=`")
        settings[key.group()] = scan.number()
    scan.end()
    missing = [k for k in known if k not in settings]
    if missing:
        scan.fail(f"{mode.group()} also needs {', '.join(missing)}")
    return settings


def parse_hang(text: str, *, option: str = "--hang") -> dict[str, Any]:
    """`120s,retries=1[,heartbeat=30s]` as the mapping under `hang`; s and m are known units."""
    scan = _Scanner(text, option=option, example=_HANG_EXAMPLE)
    settings: dict[str, Any] = {"call_timeout_s": _duration(scan)}
    while scan.word(","):
        start = scan.at
        key = scan.take(_NAME)
        name = key.group() if key else ""
        if name not in ("retries", "heartbeat") or {name, f"{name}_s"} & settings.keys():
            scan.at = start
            scan.fail("expected retries or heartbeat, each once")
        if not scan.word("="):
            scan.fail("expected `=`")
        if name == "retries":
            settings["retries"] = _whole(scan)
        else:
            settings["heartbeat_s"] = _duration(scan)
    scan.end()
    if "retries" not in settings:
        scan.fail("also needs retries=N")
    return settings


def parse_arm(text: str, *, option: str = "--arm") -> dict[str, Any]:
    """`path=choice,prefix=shared,parallel=4` as one entry under `arms`; each key at most once."""
    scan = _Scanner(text, option=option, example=_ARM_EXAMPLE)
    settings: dict[str, Any] = {}
    while True:
        start = scan.at
        key = scan.take(_NAME)
        name = key.group() if key else ""
        if name not in (*_ARM_WORDS, *_ARM_NUMBERS) or name in settings:
            scan.at = start
            scan.fail(f"expected one of {', '.join((*_ARM_WORDS, *_ARM_NUMBERS))}, each once")
        if not scan.word("="):
            scan.fail("expected `=`")
        if name in _ARM_NUMBERS:
            settings[name] = _number(scan)
        else:
            word = scan.take(_NAME)
            settings[name] = word.group() if word else scan.fail("expected a word")
        if not scan.word(","):
            scan.end()
            return settings


def _given_id(scan: _Scanner) -> str | None:
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


def _first_metric(condition: dict[str, Any]) -> str:
    parts = condition.get("all") or condition.get("any")
    return str(parts[0]["metric"] if parts else condition["metric"])


def _metric(scan: _Scanner) -> dict[str, Any]:
    name = scan.take(_NAME)
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
            if not _NUMBER.fullmatch(value):
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


def _test(scan: _Scanner) -> dict[str, Any]:
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


def _condition(scan: _Scanner) -> dict[str, Any]:
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


def _number(scan: _Scanner) -> int:
    """A whole number that may be below 0, as in `n_gpu_layers=-1`."""
    start = scan.at
    value = scan.number()
    if not isinstance(value, int):
        scan.at = start
        scan.fail("expected a whole number")
    return value


def _whole(scan: _Scanner) -> int:
    start = scan.at
    value = scan.number()
    if not isinstance(value, int) or value < 0:
        scan.at = start
        scan.fail("expected a whole number")
    return value


def _calls(scan: _Scanner) -> int:
    start = scan.at
    value = _whole(scan)
    if value < 1:
        scan.at = start
        scan.fail("expected a number of calls")
    return value


_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|min|m)?(?![\w.])")


def _duration(scan: _Scanner) -> int | float:
    match = scan.take(_DURATION)
    if match is None:
        scan.fail("expected seconds, such as 120s or 2m")
    text, unit = match.groups()
    value = (float(text) if "." in text else int(text)) * _SECONDS[unit or ""]
    if not 0 < value <= MAX_INT:
        scan.at = match.start()
        scan.fail("expected a time above 0")
    return value
