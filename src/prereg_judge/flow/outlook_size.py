"""How many rows the primary claim would take, where the registration says what was wanted."""

from __future__ import annotations

from typing import Any, Literal

from prereg_judge.registration.claims import Test
from prereg_judge.registration.schema import SampleSize
from prereg_judge.report.numbers import chance, figures, of_things, plain
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
        `n` here; `width` and `power`, each None or with `wanted`, `here`, `n_needed`, and why
        there is no such number: `why_not` in words, its `reason`, and what the chance `tends_to`
        where that is the reason; `texts`, one sentence each.
    """
    found: dict[str, Any] = {"n": row["n"], "width": None, "power": None, "texts": []}
    if wanted.width is not None:
        found["width"] = entry = _width(row, test, wanted.width)
        what = f"a {LEVEL:.0%} interval at most {_scaled(row, test, wanted.width)} wide"
        met = row["width"] is not None and row["width"] <= wanted.width
        found["texts"].append(_text(row, what, entry, here=_width_here(row, wanted.width), met=met))
    if wanted.power is not None:
        found["power"] = entry = _power(row, test, wanted.power)
        what = f"a chance of at least {plain(wanted.power)} to hold"
        met = row["chance"] is not None and row["chance"] >= wanted.power
        found["texts"].append(
            _text(row, what, entry, here=_chance_here(row, wanted.power), met=met)
        )
    return found


def size_warnings(row: dict[str, Any], test: Test, wanted: SampleSize) -> list[str]:
    """What is odd about the wanted width, as sentences: most likely it is meant on another scale.

    Parameters
    ----------
    row, test, wanted
        As for `sample_size`.

    Returns
    -------
    list of str
        Empty where there is no width, or n is open.
    """
    width, n = wanted.width, row["n"]
    if width is None:
        return []
    if is_rate(test.ref.base.name):
        if width < 1:
            return []
        return [
            f"the wanted width ({plain(width)}) is read as a share, and no share's interval is "
            "that wide, so that it asks for nothing"
        ]
    if n is None:
        return []
    unit = row["unit"]
    read = f"the wanted width ({plain(width)}) is read in {unit}s, of {n}"
    if width >= n:
        return [f"{read}: no interval is that wide, so that it asks for nothing"]
    if width < 1:
        meant = figures(width * n, 4)
        return [f"{read}, and is less than one {unit}; if a share was meant, write {meant}"]
    return []


def _scaled(row: dict[str, Any], test: Test, width: float) -> str:
    """A wanted width with its scale."""
    if is_rate(test.ref.base.name):
        return f"{plain(width)} (share)"
    unit = row["unit"] if width == 1 else f"{row['unit']}s"
    of = "" if row["n"] is None else f" of {row['n']}"
    return f"{plain(width)} {unit}{of}"


def _width(row: dict[str, Any], test: Test, wanted: float) -> dict[str, Any]:
    if row["width"] is None:
        return _entry(wanted, None, why_not=row["why_not"], reason=row["reason"])
    n = row["n"]
    scale = 1 if is_rate(test.ref.base.name) else n
    needed = n_for_width(row["share"], width=wanted / scale, level=LEVEL)
    return _entry(wanted, row["width"], needed=needed, unit=row["unit"])


def _power(row: dict[str, Any], test: Test, wanted: float) -> dict[str, Any]:
    if row["chance"] is None:
        return _entry(wanted, None, why_not=row["why_not"], reason=row["reason"])
    if row["can_count"] != row["n"]:
        rest = row["n"] - row["can_count"]
        why = f"not computed: {rest} of the {row['n']} {row['unit']}s can never be counted"
        return _entry(wanted, row["chance"], why_not=why, reason="rows never counted")
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
    reason: str | None = None,
) -> dict[str, Any]:
    n, tends_to = None, None
    if needed is not None:
        n, reason, tends_to = needed.n, needed.why_not, needed.tends_to
        if needed.why_not is not None:
            why_not = _WHY_NOT[needed.why_not].format(unit=unit, tends_to=tends_to)
    found = {"wanted": wanted, "here": here, "n_needed": n}
    return {**found, "why_not": why_not, "reason": reason, "tends_to": tends_to}


def _text(row: dict[str, Any], what: str, entry: dict[str, Any], *, here: str, met: bool) -> str:
    if entry["n_needed"] is None:
        if entry["here"] is None:
            return f"{row['id']}: {what}: {entry['why_not']}."
        there = of_things(row["n"], row["unit"])
        return f"{row['id']}: {what}: {entry['why_not']}; with the {there} here {here}."
    rows = of_things(entry["n_needed"], row["unit"])
    are = "is" if row["n"] == 1 else "are"
    enough = f"takes {rows}, every larger number being enough, too"
    # The number below the one that is needed is the last that falls short.
    luck = met and entry["n_needed"] > row["n"]
    but = f", but not with every number above {row['n']}" if luck else ""
    return f"{row['id']}: {what} {enough}; there {are} {row['n']}, where {here}{but}."


def _width_here(row: dict[str, Any], wanted: float) -> str:
    if row["width"] is None:
        return "the width is not known"
    return f"it is {figures(row['width'], beside=wanted)} wide"


def _chance_here(row: dict[str, Any], wanted: float) -> str:
    if row["chances"] is None:
        return "the chance is not known"
    sure = sum(c > 0.0 for c in row["chances"].values()) == 1
    return f"the chance is {chance(row['chance'], certain=sure, beside=wanted)}"
