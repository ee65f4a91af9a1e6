"""What a rehearsal assumes of a judge: `KEY=VALUE` texts, read against a registration (pure).

The list of keys is closed, every value has its range, and every problem is named at once.
Nothing has a hidden default: what is not stated is listed as such.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prereg_judge.engine.simulated import Faults, drawn_as_stated, leading_chance
from prereg_judge.errors import Problem, UsageError
from prereg_judge.flow.prepare import Inputs
from prereg_judge.flow.settings import decoding_of, every_setting
from prereg_judge.wording import listed
from prereg_judge.words import SetRole

# Of rows, and so with a set before them if need be; of calls, whatever is judged.
OF_ROWS = ("agreement", "accuracy", "lean", "repeat")
OF_CALLS = ("hang", "crash", "unreadable", "position")
KEYS = (*OF_ROWS, *OF_CALLS)
_ROUNDING = 1e-9  # 0.33 + 0.56 + 0.11 is above 1 as floats
_NEXT = re.compile(r",(?=\s*[A-Za-z_.]+\s*=)")  # a verdict may hold a comma


@dataclass(frozen=True)
class SlotPull:
    """How a judge of pairs is drawn to a place, whatever the answers are that stand there.

    Attributes
    ----------
    position
        Its size is the chance that a call prefers the answer in that place, and its sign the
        place: above 0 the answer shown first, below 0 the one shown second; in [-1, 1].
    given
        What such a call says: for each place that a row's leading verdict can have among the
        verdicts, the place of the verdict that is given instead (`slot_verdicts`).
    """

    position: float
    given: tuple[int, ...]


def slot_verdicts(
    verdicts: Sequence[str], sides: Mapping[str, int], *, first: bool
) -> tuple[int, ...]:
    """What a call says that prefers a place and not an answer.

    Parameters
    ----------
    verdicts
        The judge's list, V names.
    sides
        The side of each, as `judge_file.Pair.sides` has it: symmetric, each side once.
    first
        Whether the answer shown first is preferred, or the one shown second.

    Returns
    -------
    tuple of int
        V places among the verdicts: for a leading verdict that prefers an answer, the verdict
        that prefers this place as strongly; for a tie, the one that prefers it most strongly.
    """
    place, strongest = {sides[v]: i for i, v in enumerate(verdicts)}, max(sides.values())
    sign = 1 if first else -1
    return tuple(place[sign * (abs(sides[v]) or strongest)] for v in verdicts)


@dataclass(frozen=True)
class RowAssumptions:
    """What is assumed of the rows of a set.

    All of it but `accuracy` is about what the judge says; of a pair that is said of the answers as
    they are shown.

    Attributes
    ----------
    agreement
        Chance that two independent draws on a row give the same verdict, before any lean and
        position.
    accuracy
        Chance that a row's leading verdict is its label; None = not stated.
    lean
        A verdict and the chance with which a call gives it whatever the row; None = not stated.
    repeat
        Chance that a call of a later pass repeats the first pass's verdict of the row (of a pair,
        in the same order).
    pull
        How a judge of pairs is drawn to a place; None = not stated.
    """

    agreement: float
    accuracy: float | None
    lean: tuple[str, float] | None
    repeat: float
    pull: SlotPull | None = None

    def chances(self, leading: int, verdicts: Sequence[str]) -> tuple[float, ...]:
        """The chance of each verdict on a row whose leading verdict is the one at `leading`.

        A call is pulled to a place with chance s; else it leans with its chance; else it is drawn
        from the row's own chances.
        """
        n = len(verdicts)
        top = leading_chance(self.agreement, n)
        rest = min(top, (1 - top) / (n - 1))  # rounding must not put another before the leading
        own = [top if i == leading else rest for i in range(n)]
        if self.lean is not None:
            verdict, share = self.lean
            own = _mixed(own, verdicts.index(verdict), share)
        if self.pull is not None:
            own = _mixed(own, self.pull.given[leading], abs(self.pull.position))
        return tuple(own)

    def alike(self, verdicts: Sequence[str]) -> tuple[float, float]:
        """Least and largest chance, over leading verdicts, that two independent draws agree."""
        each = [
            math.fsum(p * p for p in self.chances(leading, verdicts))
            for leading in range(len(verdicts))
        ]
        return min(each), max(each)


def _mixed(chances: Sequence[float], place: int, share: float) -> list[float]:
    """Chances of which a share goes to one verdict, whatever it was."""
    return [(1 - share) * p + (share if i == place else 0.0) for i, p in enumerate(chances)]


@dataclass(frozen=True)
class Assumptions:
    """Everything that a rehearsal assumes.

    Attributes
    ----------
    rows
        By item set.
    faults
        Chances per call.
    stated
        Keys and values as they were given.
    unstated
        Keys that were not given, with what that means.
    """

    rows: Mapping[SetRole, RowAssumptions]
    faults: Faults
    stated: Mapping[str, str]
    unstated: tuple[str, ...]


def split_assumptions(texts: Sequence[str], *, option: str) -> dict[str, str]:
    """`KEY=VALUE` texts, each one or several with commas between, as a mapping.

    Raises
    ------
    UsageError
        Where a text is no such pair, a key is not on the list or is stated twice.
    """
    stated: dict[str, str] = {}
    problems = []
    for text in (part.strip() for whole in texts for part in _NEXT.split(whole)):
        key, equals, value = (part.strip() for part in text.partition("="))
        name = key.rpartition(".")[2]
        if not equals or not value:
            remedy = f"write {option} KEY=VALUE, as in agreement=0.8"
            problems.append(Problem("is no assumption", option, found=repr(text), remedy=remedy))
        elif name not in KEYS or (key != name and key not in _with_set()):
            remedy = f"there are: {', '.join(KEYS)}; of rows also as in sentinel.agreement"
            problems.append(Problem("is not known", option, found=repr(key), remedy=remedy))
        elif key in stated:
            problems.append(Problem("is stated twice", option, found=key, remedy="state it once"))
        else:
            stated[key] = value
    _raise(problems)
    return stated


def _with_set() -> set[str]:
    return {f"{role}.{key}" for role in ("sentinel", "real") for key in OF_ROWS}


def instead(stated: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """The first assumptions with the others in their place.

    A key without a set takes the place of those with one, too.
    """
    kept = {k: v for k, v in stated.items() if k.rpartition(".")[2] not in others}
    return {**kept, **others}


def read_assumptions(stated: Mapping[str, str], inputs: Inputs) -> Assumptions:
    """What stated keys and values come to for a registration.

    Raises
    ------
    UsageError
        With every problem: a value that is no number in its range, a set that is not registered,
        a key that means nothing for this registration, `agreement` not stated, a chance that the
        registered truncation does not leave.
    """
    reading = _Reading(stated, inputs)
    reading.fits()
    faults, pull = reading.faults(), reading.pull()
    rows = {s.role: reading.of_rows(s.role, pull) for s in inputs.sets}
    _raise(reading.problems)
    found = {role: row for role, row in rows.items() if row is not None}
    _raise(_cut_off(found, inputs))
    return Assumptions(found, faults, dict(stated), reading.unstated())


class _Reading:
    """Reads the values of one scenario, collecting what is wrong."""

    def __init__(self, stated: Mapping[str, str], inputs: Inputs) -> None:
        self._stated, self._inputs = stated, inputs
        self.problems: list[Problem] = []
        self._verdicts, self._pair = inputs.judge.spec.verdicts, inputs.judge.spec.pair
        self._chances: dict[str, float | None] = {}

    def _wrong(self, key: str, what: str, remedy: str) -> None:
        found = self._stated.get(key)
        self.problems.append(Problem(what, where=key, found=found, remedy=remedy))

    def fits(self) -> None:
        """Keys that mean nothing here."""
        protocol, sets = self._inputs.model.protocol, {s.role: s for s in self._inputs.sets}
        alike = protocol.decoding.mode != "sampled"
        for key in self._stated:
            role, _, name = key.rpartition(".")
            asked = [s for r, s in sets.items() if not role or r == role]
            if not asked:
                what, remedy = "no such items are registered", f"there are: {', '.join(sets)}"
                self._wrong(key, what, remedy)
            elif name == "position" and self._pair is None:
                what = "the judge is not one of pairs, so that no answer is shown first"
                self._wrong(key, what, "leave it out")
            elif name == "accuracy" and all(i.label is None for s in asked for i in s.items):
                self._wrong(key, "no row has a label", "leave it out")
            elif name == "repeat" and (alike or protocol.passes < 2):
                why = f"`{protocol.decoding.mode}` decoding repeats itself anyway"
                why = why if alike else "there is one pass"
                self._wrong(key, f"has nothing to repeat: {why}", "leave it out")
            elif name == "unreadable" and any(
                s.path == "choice" for s in every_setting(self._inputs.model)
            ):
                what = "the path `choice` writes every reply itself, so none is unreadable"
                self._wrong(key, what, "leave it out")

    def _chance(self, key: str, *, least: float = 0.0) -> float | None:
        """A stated chance; None where it is not stated or wrong, which is noted once."""
        if key not in self._stated:
            return None
        if key not in self._chances:
            self._chances[key] = value = _number(self._stated[key])
            if value is None or not least <= value <= 1:
                self._chances[key] = None
                more = f", 1 in {len(self._verdicts)} verdicts being the least" if least else ""
                # Rounded up: 0.3333 would itself be refused for three verdicts.
                remedy = f"state a number from {math.ceil(least * 1e4 - 1e-6) / 1e4:g} to 1{more}"
                self._wrong(key, "is no such chance", remedy)
        return self._chances[key]

    def faults(self) -> Faults:
        """Chances per call."""
        hang, crash, spoilt = (self._chance(k) or 0.0 for k in ("hang", "crash", "unreadable"))
        if hang + crash + spoilt > 1 + _ROUNDING:
            what = f"hang, crash and unreadable are {hang + crash + spoilt:g} together"
            self.problems.append(Problem(what, remedy="together they are at most 1"))
        return Faults(hang, crash, spoilt, self._inputs.model.protocol.hang.call_timeout_s)

    def pull(self) -> SlotPull | None:
        """How the judge is drawn to a place; None where it is not stated or wrong."""
        text = self._stated.get("position")
        if text is None or self._pair is None:
            return None
        value = _number(text)
        if value is None or not -1 <= value <= 1:
            remedy = "state a number from -1 to 1: above 0 the answer shown first is preferred, "
            self._wrong("position", "is no such chance", f"{remedy}below 0 the one shown second")
            return None
        sides: Mapping[str, int] = self._pair.sides
        return SlotPull(value, slot_verdicts(self._verdicts, sides, first=value > 0))

    def _key(self, role: str, name: str) -> str:
        return f"{role}.{name}" if f"{role}.{name}" in self._stated else name

    def of_rows(self, role: SetRole, pull: SlotPull | None) -> RowAssumptions | None:
        """What is assumed of the rows of a set; None where something is wrong with it."""
        least = 1 / len(self._verdicts)
        key = self._key(role, "agreement")
        if key not in self._stated:
            what = f"agreement of the {role} rows is not stated"
            remedy = "state it: --assume agreement=0.8 (there is no default)"
            self.problems.append(Problem(what, remedy=remedy))
        agreement = self._chance(key, least=least)
        accuracy = self._chance(self._key(role, "accuracy"))
        repeat = self._chance(self._key(role, "repeat")) or 0.0
        lean = self._lean(self._key(role, "lean"))
        if agreement is None:
            return None
        return RowAssumptions(agreement, accuracy, lean, repeat, pull)

    def _lean(self, key: str) -> tuple[str, float] | None:
        if key not in self._stated:
            return None
        verdict, _, text = self._stated[key].rpartition(":")
        share = _number(text)
        if verdict in self._verdicts and share is not None and 0 <= share <= 1:
            return verdict, share
        remedy = f"write VERDICT:CHANCE, as in {self._verdicts[0]}:0.1; verdicts: "
        remedy += listed(list(self._verdicts))
        if not any(p.where == key for p in self.problems):
            self._wrong(key, "is no verdict with a chance from 0 to 1", remedy)
        return None

    def unstated(self) -> tuple[str, ...]:
        """Keys that were not given, with what that means."""
        meaning = {
            "accuracy": "each verdict is as likely as another to lead on a row",
            "lean": "none",
            "repeat": "0",
            "hang": "0",
            "crash": "0",
            "unreadable": "0",
        }
        if self._pair is not None:
            meaning["position"] = "0"
        roles = [s.role for s in self._inputs.sets]
        told = []
        for key, means in meaning.items():
            lacking = [r for r in roles if self._key(r, key) not in self._stated]
            whole = len(lacking) == len(roles)
            names = [key] if whole else [f"{r}.{key}" for r in lacking if key in OF_ROWS]
            told += [f"{name} ({means})" for name in names if key not in self._stated]
        return tuple(told)


def _number(text: str) -> float | None:
    """A plain number; None for what is none, and for what is not finite."""
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _cut_off(rows: Mapping[SetRole, RowAssumptions], inputs: Inputs) -> list[Problem]:
    """Assumptions that the registered truncation does not leave on the path `choice`."""
    verdicts, decoding = inputs.judge.spec.verdicts, decoding_of(inputs.model)
    fidelity = bool(inputs.model.protocol.arms)  # each arm is sure there, and nothing is cut
    if fidelity or all(s.path != "choice" for s in every_setting(inputs.model)):
        return []
    return [
        Problem(
            f"the {role} rows cannot agree so under the registered truncation: it drops the less "
            "likely verdicts",
            where="agreement",
            found=f"{row.agreement:g}",
            remedy="state 1, or less, or register a decoding that truncates less",
        )
        for role, row in rows.items()
        if not all(
            drawn_as_stated(row.chances(leading, verdicts), decoding)
            for leading in range(len(verdicts))
        )
    ]


def _raise(problems: Sequence[Problem]) -> None:
    if problems:
        raise UsageError(*problems)
