"""How many rows the primary claim would take, where the registration says what was wanted."""

from __future__ import annotations

from typing import Any, Literal

from prereg_judge.registration.claims import Test
from prereg_judge.registration.schema import SampleSize
from prereg_judge.report.numbers import chance, of_things
from prereg_judge.stats.planning import Bar, RowsNeeded, n_for_power, n_for_width
from prereg_judge.study.counted import LEVEL, is_rate

_WHY_NOT = {
    "wrong side": "no number of {unit}s is enough: what is expected does not clear the limits, so "
    "that with more of them the chance tends to 0",
    "on the bar": "no number of {unit}s is enough: a limit is what is expected, so that with more "
    "of them the chance tends to {tends_to:.3g}",
    "beyond the search": "more {unit}s than are looked at",
}


def sample_size(row: dict[str, Any], test: Test, wanted: SampleSize) -> dict[str, Any]:
    """Rows needed for the wanted width and the wanted power, against the rows there are.

    Parameters
    ----------
    row
        The primary claim's row of the outlook.
    test
        What it registers.
    wanted
        What the registration asks for. A width is on the scale of the metric: a share for a
        rate, rows for a count, where it means the same share of any other number of rows.

    Returns
    -------
    dict
        `n` here; `width` and `power`, each None or with `wanted`, `here`, `n_needed` and
        `why_not`; `texts`, one sentence each.
    """
    found: dict[str, Any] = {"n": row["n"], "width": None, "power": None, "texts": []}
    if wanted.width is not None:
        found["width"] = entry = _width(row, test, wanted.width)
        what = f"a 95% interval at most {wanted.width:g} wide"
        found["texts"].append(_text(row, what, entry, _width_here(row)))
    if wanted.power is not None:
        found["power"] = entry = _power(row, test, wanted.power)
        what = f"a chance of at least {wanted.power:g} to hold"
        found["texts"].append(_text(row, what, entry, _chance_here(row)))
    return found


def _width(row: dict[str, Any], test: Test, wanted: float) -> dict[str, Any]:
    if row["width"] is None:
        return _entry(wanted, None, why_not=row["why_not"] or "nothing is expected")
    n = row["n"]
    scale = 1 if is_rate(test.ref.base.name) else n
    needed = n_for_width(row["share"], width=wanted / scale, level=LEVEL)
    return _entry(wanted, row["width"], needed=needed, unit=row["unit"])


def _power(row: dict[str, Any], test: Test, wanted: float) -> dict[str, Any]:
    if row["chance"] is None:
        return _entry(wanted, None, why_not=row["why_not"])
    if row["can_count"] != row["n"]:
        rest = row["n"] - row["can_count"]
        why = f"not computed: {rest} of the {row['n']} {row['unit']}s can never be counted"
        return _entry(wanted, row["chance"], why_not=why)
    scale = 1 if is_rate(test.ref.base.name) else row["n"]
    name = test.ref.name.rpartition(".")[2]
    of: Literal["estimate", "ci_low", "ci_high"]
    of = "ci_low" if name == "ci_low" else "ci_high" if name == "ci_high" else "estimate"
    bar = Bar(of, test.low / scale, test.high / scale, test.low_open, test.high_open)
    needed = n_for_power(row["share"], bar=bar, power=wanted, level=LEVEL)
    return _entry(wanted, row["chance"], needed=needed, unit=row["unit"])


def _entry(
    wanted: float,
    here: float | None,
    *,
    needed: RowsNeeded | None = None,
    unit: str = "row",
    why_not: str | None = None,
) -> dict[str, Any]:
    if needed is not None and needed.why_not is not None:
        why_not = _WHY_NOT[needed.why_not].format(unit=unit, tends_to=needed.tends_to)
    n = None if needed is None else needed.n
    return {"wanted": wanted, "here": here, "n_needed": n, "why_not": why_not}


def _text(row: dict[str, Any], what: str, entry: dict[str, Any], here: str) -> str:
    if entry["n_needed"] is None:
        if entry["here"] is None:
            return f"{row['id']}: {what}: {entry['why_not']}."
        there = of_things(row["n"], row["unit"])
        return f"{row['id']}: {what}: {entry['why_not']}; with the {there} here {here}."
    rows = of_things(entry["n_needed"], row["unit"])
    are = "is" if row["n"] == 1 else "are"
    return f"{row['id']}: {what} takes {rows}; there {are} {row['n']}, where {here}."


def _width_here(row: dict[str, Any]) -> str:
    return "the width is not known" if row["width"] is None else f"it is {row['width']:.3g} wide"


def _chance_here(row: dict[str, Any]) -> str:
    if row["chances"] is None:
        return "the chance is not known"
    sure = sum(c > 0.0 for c in row["chances"].values()) == 1
    return f"the chance is {chance(row['chance'], certain=sure)}"
