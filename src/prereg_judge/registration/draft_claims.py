"""The claims of a draft: how they are written, and an example of each that fits the study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prereg_judge.registration.draft_yaml import flow, scalar

SECTIONS = ("bands", "predictions", "refuters", "stop", "decisions")

_BAND_NOTE = "Intervals in which metrics must lie, limits included; outside is FAIL. `expected`,"
_BAND_NOTE += " your own guess, is optional: the lock then says how likely a pass is."
_NOTES = {
    "bands": _BAND_NOTE,
    "predictions": "Expectations: exactly one of at_least, at_most, between; `failed` is FAIL.",
    "refuters": "Conditions (lt le gt ge eq between; all, any) that refute the account if true.",
    "stop": "Conditions on counts of calls that end collection; in_every: a window of calls.",
    "decisions": "What will be done, decided now: if the condition is true, then this.",
}
_NO_CLAIM = "TODO: write at least one band, as below, or remove this line and write a prediction"

_HANGS = {
    "id": "hangs", "when": {"metric": "calls.hangs", "ge": 1}, "in_every": 20, "over_first": 40
}  # fmt: skip


def _of_rows(role: str) -> dict[str, dict[str, Any]]:
    agreement = f"{role}.agreement.count"
    unstable = {"metric": agreement, "lt": 50}
    return {
        "bands": {"id": "agree", "metric": agreement, "between": [58, 68], "expected": 63},
        "predictions": {"id": "few-flips", "metric": f"{role}.flips.count", "at_most": 14},
        "refuters": {"id": "unstable", "when": unstable, "means": "too unstable to floor anything"},
        "decisions": {"id": "give-up", "when": unstable, "then": "report it and stop"},
    }


def _of_paths(role: str) -> dict[str, dict[str, Any]]:
    same = {"metric": f"{role}.fidelity.rate"}
    return {
        "bands": {"id": "same", **same, "between": [0.9, 1], "expected": 0.97},
        "predictions": {"id": "bar", "metric": f"{role}.fidelity.rate.ci_low", "at_least": 0.9},
        "refuters": {"id": "other", "when": {**same, "lt": 0.5}, "means": "it is another judge"},
        "decisions": {"id": "slow", "when": {**same, "lt": 0.9}, "then": "use the first arm"},
    }


def _of_pairs(role: str) -> dict[str, dict[str, Any]]:
    reversed_ = {"metric": f"{role}.order.reversal.rate", "pass": 1}
    consistent = {"metric": f"{role}.order.consistent.rate", "pass": 1}
    slot = {"metric": f"{role}.order.slot.rate", "pass": 1, "gt": 0.9}
    return {
        "bands": {"id": "reversals", **reversed_, "between": [0.05, 0.25], "expected": 0.15},
        "predictions": {"id": "consistent", **consistent, "at_least": 0.6},
        "refuters": {"id": "slot", "when": slot, "means": "it follows the place, not the answer"},
        "decisions": {
            "id": "give-up",
            "when": {**consistent, "lt": 0.5},
            "then": "compare no answers with it",
        },
    }


def _of_pools() -> dict[str, dict[str, Any]]:
    return {
        "bands": {
            "id": "changed", "metric": "changed.rate", "between": [0.2, 0.4], "expected": 0.3
        },
        "predictions": {"id": "opposite", "metric": "opposite.rate", "at_most": 0.15},
        "refuters": {
            "id": "alike",
            "when": {"metric": "changed.rate.ci_high", "lt": 0.05},
            "means": "the two pools label alike",
        },
        "decisions": {
            "id": "both-golds",
            "when": {"metric": "changed.rate.ci_low", "gt": 0.1},
            "then": "report every result under both pools",
        },
    }  # fmt: skip


def _of_judge(judge: str) -> dict[str, dict[str, Any]]:
    lean = {"metric": "lean.difference", "judge": judge}
    low = {**lean, "metric": "lean.difference.ci_low"}
    return {
        "bands": {"id": "lean", **lean, "between": [0.02, 0.1], "expected": 0.05},
        "predictions": {"id": "bar", **low, "at_least": 0},
        "refuters": {
            "id": "other-side", "when": {**lean, "lt": 0}, "means": "it sides with the other pool"
        },
        "decisions": {
            "id": "replicated", "when": {**low, "gt": 0}, "then": "call the lean replicated"
        },
    }  # fmt: skip


def _of_board() -> dict[str, dict[str, Any]]:
    return {
        "bands": {"id": "tau", "metric": "tau", "between": [0.6, 1], "expected": 0.9},
        "predictions": {"id": "few-displaced", "metric": "displaced.count", "at_most": 2},
        "refuters": {
            "id": "another-board", "when": {"metric": "tau", "lt": 0.2},
            "means": "the pools give another order altogether",
        },
        "decisions": {
            "id": "kill",
            "when": {"all": [{"metric": "tau", "gt": 0.9}, {"metric": "tau.ci_low", "gt": 0.9}]},
            "then": "report the null and stop; do not enlarge the model set",
        },
    }  # fmt: skip


def _of_references(output: str) -> dict[str, dict[str, Any]]:
    delta = {"metric": "delta", "output": output}
    return {
        "bands": {"id": "delta", **delta, "between": [0, 0.1], "expected": 0.05},
        "predictions": {"id": "margin-moves", "metric": "interaction.ci_low", "at_least": 0},
        "refuters": {
            "id": "other-way", "when": {**delta, "metric": "delta.ci_high", "lt": 0},
            "means": "the delivered reference does not favour it",
        },
        "decisions": {
            "id": "both-references",
            "when": {"metric": "reversals.count", "gt": 0},
            "then": "report every ranking under each reference",
        },
    }  # fmt: skip


def _of_annotators() -> dict[str, dict[str, Any]]:
    agreed = {"metric": "agreement.rate"}
    return {
        "bands": {
            "id": "alpha", "metric": "alpha", "level": "nominal", "between": [0.5, 0.9],
            "expected": 0.7,
        },
        "predictions": {"id": "agreed", **agreed, "at_least": 0.6},
        "refuters": {
            "id": "no-common-view", "when": {"metric": "kappa.fleiss.ci_low", "lt": 0},
            "means": "the guideline gives no common view",
        },
        "decisions": {
            "id": "write-anew", "when": {**agreed, "lt": 0.5},
            "then": "write the guideline anew before anything is scored against these labels",
        },
    }  # fmt: skip


def _of_markers() -> dict[str, dict[str, Any]]:
    relaxed, strict = ({"metric": "f1", "match": match} for match in ("relaxed", "strict"))
    return {
        "bands": {"id": "places", **relaxed, "between": [0.5, 0.9], "expected": 0.7},
        "predictions": {"id": "with-types", **strict, "at_least": 0.4},
        "refuters": {
            "id": "no-common-view", "when": {**relaxed, "lt": 0.3},
            "means": "the guideline gives no common view of what is marked",
        },
        "decisions": {
            "id": "write-anew", "when": {**relaxed, "lt": 0.5},
            "then": "write the guideline anew before anything is scored against these spans",
        },
    }  # fmt: skip


def examples(
    study: str, *, role: str, judge: str, output: str = "A", spans: bool = False
) -> dict[str, dict[str, Any]]:
    """One claim of each section that a study could register.

    Parameters
    ----------
    study
        The kind of study; an unknown one gets the examples of self-agreement.
    role
        The item set that they are about, where the study has item sets.
    judge
        The judge that they are about, where the study compares judges with pools.
    output
        The output that they are about, where references are exchanged.
    spans
        Whether annotators marked spans, where the study is of annotators.

    Returns
    -------
    dict
        Section -> claim, as the file holds it; without `stop` where nothing is called.
    """
    match study:
        case "path-fidelity":
            return {**_of_paths(role), "stop": _HANGS}
        case "pairwise":
            return {**_of_pairs(role), "stop": _HANGS}
        case "pools":
            return _of_pools()
        case "judge-pools":
            return _of_judge(judge)
        case "leaderboard":
            return _of_board()
        case "reference-swap":
            return _of_references(output)
        case "annotators":
            return _of_markers() if spans else _of_annotators()
    return {**_of_rows(role), "stop": _HANGS}


def as_expression(band: Mapping[str, Any]) -> str:
    """A band as the command line takes it: `METRIC[key=value]=LO..HI`, without its id."""
    params = [
        f"{k}={v}" for k, v in band.items() if k not in ("id", "metric", "between", "expected")
    ]
    low, high = band["between"]
    inside = f"[{','.join(params)}]" if params else ""
    return f"{band['metric']}{inside}={low}..{high}"


def section(
    name: str,
    claims: Sequence[Mapping[str, Any]],
    *,
    example: Mapping[str, Any] | None,
    needed: bool = False,
) -> str:
    """A section of claims under its comment; where it is empty, its example as a comment.

    Parameters
    ----------
    name, claims
        The section and what stands in it.
    example
        A claim to show where there is none; None = the section has no place in this study and is
        written only where it has claims.
    needed
        Whether a placeholder stands where there is no claim.
    """
    note = _NOTES[name]
    if claims:
        return f"# {note}\n{name}:\n" + "".join(map(_claim, claims))
    if example is None:
        return ""
    lines = [f"# {name}:", *(f"# {line}" for line in _claim(example).splitlines())]
    gap = f"{name}: {flow(_NO_CLAIM)}\n" if needed else ""
    return f"# {'' if needed else 'Optional. '}{note}\n{gap}" + "\n".join(lines) + "\n"


def _claim(claim: Mapping[str, Any]) -> str:
    """One claim: in one line where it is short and holds no sentence, else a key a line."""
    line = f"  - {flow(claim)}\n"
    if len(line) <= 100 and not claim.keys() & {"means", "then"}:
        return line
    keys = [f"{scalar(k)}: {flow(v)}" for k, v in claim.items()]
    return "  - " + "\n    ".join(keys) + "\n"
