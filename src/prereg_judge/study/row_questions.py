"""What each `{set}.*` metric asks of a row: which rows are in n, and which of them in k.

One builder a metric, in `QUESTIONS`; `row_metrics` applies them and knows what to do about
missing verdicts. A row given to these predicates may lack verdicts: None equals no verdict and
no label, which is what `missing: disagree` means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prereg_judge.study.metric import Undefined
from prereg_judge.study.outcomes import EarlierRun, StudyInput
from prereg_judge.study.rows import Row

RowTest = Callable[[Row], bool]


@dataclass(frozen=True)
class Refusal:
    """Why a metric cannot be asked for with these parameters or these records."""

    reason: Undefined
    note: str


@dataclass(frozen=True)
class Question:
    """Numerator and denominator of a metric over rows.

    Attributes
    ----------
    hit
        Whether a row of the denominator is in the numerator.
    uses
        The passes whose verdicts the metric looks at; a missing verdict in any of them is what
        the registered `missing` speaks of.
    within
        Which rows are looked at, known before the run (a label, an earlier verdict).
    eligible
        Which of those are in the denominator by this run's own verdicts.
    by_first
        Whether it is the first pass that says so; then the later passes alone decide `hit`.
    labelled
        Whether only rows with a known label are looked at.
    earlier
        The earlier run and its pass, where the metric compares with one.
    reads_missing
        What `missing: disagree` makes of a trial without a verdict, for the reader.
    """

    hit: RowTest
    uses: tuple[int, ...]
    within: RowTest = lambda _row: True
    eligible: RowTest = lambda _row: True
    by_first: bool = False
    labelled: bool = False
    earlier: tuple[EarlierRun, int] | None = None
    reads_missing: str = "counted as disagreement"


Params = Mapping[str, str]
Builder = Callable[[StudyInput, Params], Question | Refusal]


def every_pass(data: StudyInput) -> tuple[int, ...]:
    """The numbers of all passes, from 1."""
    return tuple(range(1, data.passes + 1))


def _pass(text: str, passes: int, *, name: str) -> int | Refusal:
    if text.isascii() and text.isdigit() and 1 <= int(text) <= passes:
        return int(text)
    return Refusal("not_computed", f"{name} {text} is not one of 1..{passes}")


def _off_list(data: StudyInput, params: Params) -> Refusal | None:
    for name in ("verdict", "to"):
        if name in params and params[name] not in data.verdicts:
            return Refusal("not_computed", f"{params[name]} is not one of the judge's verdicts")
    return None


def _needs_two(data: StudyInput) -> Refusal | None:
    if data.passes < 2:
        return Refusal("single_pass", "the run has one pass; nothing to compare it with")
    return None


def _wrong(row: Row, pass_no: int) -> bool:
    return row.at(pass_no) != row.item.label


def _agreement(data: StudyInput, _params: Params) -> Question | Refusal:
    return _needs_two(data) or Question(lambda row: row.same, every_pass(data))


def _flips(data: StudyInput, params: Params) -> Question | Refusal:
    if refusal := _needs_two(data) or _off_list(data, params):
        return refusal
    verdict, to = params.get("verdict"), params.get("to")
    if verdict is None:
        if to is not None:
            return Refusal("not_computed", "`to` needs `verdict`")
        return Question(lambda row: not row.same, every_pass(data))
    if to == verdict:
        return Refusal("not_computed", "`to` is `verdict`: no row changes to what it was")

    def changed(row: Row) -> bool:
        later = row.verdicts[1:]
        return to in later if to is not None else any(v != verdict for v in later)

    return Question(
        changed,
        every_pass(data),
        eligible=lambda row: row.at(1) == verdict,
        by_first=True,
    )


def _fidelity(data: StudyInput, params: Params) -> Question | Refusal:
    """As agreement, or, with `verdict`, of the rows to which arm 1 gave it."""
    if refusal := _needs_two(data) or _off_list(data, params):
        return refusal
    verdict = params.get("verdict")
    if verdict is None:
        return Question(lambda row: row.same, every_pass(data))
    return Question(
        lambda row: row.same,
        every_pass(data),
        eligible=lambda row: row.at(1) == verdict,
        by_first=True,
    )


def _verdict(data: StudyInput, params: Params) -> Question | Refusal:
    pass_no = _pass(params["pass"], data.passes, name="pass")
    if isinstance(pass_no, Refusal):
        return pass_no
    return _off_list(data, params) or Question(
        lambda row: row.at(pass_no) == params["verdict"],
        (pass_no,),
        reads_missing="counted as another verdict",
    )


def _wrong_in(data: StudyInput, params: Params) -> Question | Refusal:
    pass_no = _pass(params["pass"], data.passes, name="pass")
    if isinstance(pass_no, Refusal):
        return pass_no
    verdict = params.get("verdict")

    def hit(row: Row) -> bool:
        return _wrong(row, pass_no) and (verdict is None or row.at(pass_no) == verdict)

    return _off_list(data, params) or Question(
        hit,
        (pass_no,),
        labelled=True,
        reads_missing="counted as wrong" if verdict is None else "counted as another verdict",
    )


_NOTHING_SHIPS = Refusal("not_computed", "no verdict of this judge ships")


def _wrong_ships(data: StudyInput, params: Params) -> Question | Refusal:
    if data.ships is None:
        return _NOTHING_SHIPS
    return _wrong_in(data, {"verdict": data.ships, **params})


def _wrong_repeated(data: StudyInput, _params: Params) -> Question | Refusal:
    uses = every_pass(data)
    return _needs_two(data) or Question(
        lambda row: row.same and _wrong(row, 1),
        uses,
        labelled=True,
        reads_missing="a row without one of its verdicts is not repeated",
    )


def _wrong_found(data: StudyInput, _params: Params) -> Question | Refusal:
    uses = every_pass(data)

    def hit(row: Row) -> bool:
        given = {v for v in row.verdicts if v is not None}
        return len(given) > 1

    return _needs_two(data) or Question(
        hit,
        uses,
        labelled=True,
        reads_missing="only verdicts that were given are compared",
    )


def _ships(how: Callable[[int, int], bool], *, two: bool = False) -> Builder:
    """Builder of a metric on how many of the passes gave the verdict that ships."""

    def build(data: StudyInput, _params: Params) -> Question | Refusal:
        refusal = _needs_two(data) if two else None
        if data.ships is None:
            return _NOTHING_SHIPS
        return refusal or Question(
            lambda row: how(row.verdicts.count(data.ships), data.passes),
            every_pass(data),
            reads_missing="counted as not shipping",
        )

    return build


def _from_earlier(how: Callable[[int, int], bool]) -> Builder:
    """Builder of a metric on how many passes repeat the verdict of an earlier run."""

    def build(data: StudyInput, params: Params) -> Question | Refusal:
        if refusal := _off_list(data, params):
            return refusal
        run = data.earlier.get(params["from_run"])
        if run is None:
            return Refusal("not_computed", f"no earlier run {params['from_run']} was locked in")
        if "from_pass" not in params and run.passes > 1:
            return Refusal("not_computed", f"{run.name} has {run.passes} passes; say which")
        number = _pass(params.get("from_pass", "1"), run.passes, name="from_pass")
        if isinstance(number, Refusal):
            return number
        verdict = params["verdict"]
        return Question(
            lambda row: how(row.verdicts.count(verdict), data.passes),
            every_pass(data),
            within=lambda row: earlier_verdict(run, number, row) == verdict,
            earlier=(run, number),
            reads_missing="counted as another verdict",
        )

    return build


def earlier_verdict(run: EarlierRun, pass_no: int, row: Row) -> str | None:
    """What an earlier run said of a row's item; None where it said nothing or lacks the item."""
    return run.verdicts.get((row.item.set, row.item.id, pass_no))


QUESTIONS: dict[str, Builder] = {
    "agreement": _agreement,
    "fidelity": _fidelity,
    "flips": _flips,
    "verdict": _verdict,
    "wrong": _wrong_in,
    "wrong_ships": _wrong_ships,
    "wrong_repeated": _wrong_repeated,
    "wrong_found": _wrong_found,
    "ships.any": _ships(lambda k, _n: k > 0),
    "ships.all": _ships(lambda k, n: k == n),
    "ships.some": _ships(lambda k, n: 0 < k < n, two=True),
    "ships.none": _ships(lambda k, _n: k == 0),
    "flips_from": _from_earlier(lambda k, n: k < n),
    "flips_from_every": _from_earlier(lambda k, _n: k == 0),
    "stays_from": _from_earlier(lambda k, n: k == n),
}
