"""Rehearsals end to end: what is planted is found again, and what is not there does not show.

Each figure is compared with a second computation: exact distributions, or a brute-force play.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from flow.rehearsals import draft, metrics, outcomes, played, rare, totals
from prereg_judge.report.rehearsal import Scenario, verdict_shares, warnings
from prereg_judge.stats.heterogeneous import central_range, poisson_binomial
from support import JUDGE, make_workspace, new

TIMES, N, N_REAL = 160, 30, 20
RANGE = central_range([0.8] * N, level=0.95)
REAL_RANGE = central_range([0.95] * N_REAL, level=0.95)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """Two sets of different agreement, with bands that hold 95% of what is to be expected."""
    root = draft(
        tmp_path_factory.mktemp("planted") / "w",
        n=N,
        n_real=N_REAL,
        band=[
            f"one:: sentinel.agreement.count={RANGE[0]}..{RANGE[1]}",
            f"other:: real.agreement.count={REAL_RANGE[0]}..{REAL_RANGE[1]}",
        ],
        predict=[
            "rate:: sentinel.agreement.rate >= 0.5",
            "wrong:: sentinel.wrong.rate[pass=1] <= 0.5",
        ],
        refute=[
            "never:: real.agreement.count < 10: it cannot be",
            "seldom:: real.agreement.count < 18: it is rare",
        ],
    )
    assumed = ["agreement=0.8", "real.agreement=0.95", "accuracy=0.7"]
    assumed[2] = f"sentinel.{assumed[2]}"
    return played(root, *assumed, times=TIMES)


def test_a_true_band_is_hit_as_often_as_it_should(planted: Scenario) -> None:
    """Bands around the planted agreement come out `inside` as the exact distribution says."""
    for ident, n, chance, (low, high) in (
        ("one", N, 0.8, RANGE),
        ("other", N_REAL, 0.95, REAL_RANGE),
    ):
        exact = float(poisson_binomial([chance] * n)[low : high + 1].sum())
        again = float(binom.cdf(high, n, chance) - binom.cdf(low - 1, n, chance))
        assert math.isclose(exact, again, abs_tol=1e-9)
        assert 0.93 < exact < 1
        seen = outcomes(planted, ident)
        assert not rare(seen["inside"], TIMES, exact), seen
        assert not rare(seen["missed low"], TIMES, float(binom.cdf(low - 1, n, chance))), seen


def test_agreement_is_that_of_independent_rows(planted: Scenario) -> None:
    """Mean and variance of the counts are those of the binomial: rows do not move together."""
    counts = np.array([m.k for m in metrics(planted, "sentinel.agreement.count")])
    assert not rare(int(counts.sum()), TIMES * N, 0.8)
    variance = N * 0.8 * 0.2
    # The variance of a sample variance, normal approximation; six of its standard deviations.
    assert abs(counts.var(ddof=1) / variance - 1) < 6 * math.sqrt(2 / (TIMES - 1))


def test_a_planted_null_does_not_fire(planted: Scenario) -> None:
    """Refuters fire no more often than their exact chance, one of them practically never."""
    never, seldom = (float(binom.cdf(k, N_REAL, 0.95)) for k in (9, 17))
    assert never < 1e-8
    assert outcomes(planted, "never")["fired"] == 0
    assert 0.05 < seldom < 0.2
    assert not rare(outcomes(planted, "seldom")["fired"], TIMES, seldom)


def test_accuracy_is_recovered(planted: Scenario) -> None:
    """A first pass is wrong where the row leads wrongly and is followed, or rightly and is not."""
    p = (1 + math.sqrt(2 * 0.8 - 1)) / 2
    wrong = 0.3 * p + 0.7 * (1 - p)
    assert not rare(*totals(metrics(planted, "sentinel.wrong.rate[pass=1]")), wrong)


def _wilson(k: int, n: int) -> tuple[float, float]:
    """Wilson's interval from its own formula."""
    z = 1.959963984540054
    middle, half = k + z * z / 2, z * math.sqrt(k * (n - k) / n + z * z / 4)
    return (middle - half) / (n + z * z), (middle + half) / (n + z * z)


def test_intervals_cover_as_they_should(planted: Scenario) -> None:
    """The planted share lies in the reported interval as often as exact coverage at this n says."""
    covering = [k for k in range(N + 1) if _wilson(k, N)[0] <= 0.8 <= _wilson(k, N)[1]]
    exact = float(sum(binom.pmf(k, N, 0.8) for k in covering))
    found = [m.interval for m in metrics(planted, "sentinel.agreement.rate")]
    assert len(found) == TIMES
    covered = sum(i is not None and i.low <= 0.8 <= i.high for i in found)
    assert 0.9 < exact < 0.99
    assert not rare(covered, TIMES, exact)


def test_a_lean_is_recovered(tmp_path: Path) -> None:
    """A fifth of the calls say YES whatever the row, and the rest as their rows lead."""
    root = draft(
        tmp_path / "w",
        passes="1",
        band="sentinel.verdict.rate[verdict=YES,pass=1]=0.1..0.6",
    )
    scenario = played(root, "agreement=0.9", "accuracy=0.85", "lean=YES:0.2", times=100)
    p = (1 + math.sqrt(2 * 0.9 - 1)) / 2
    own = 0.15 * p + 0.85 * (1 - p)  # every label is NO
    found = totals(metrics(scenario, "sentinel.verdict.rate[pass=1,verdict=YES]"))
    assert not rare(*found, 0.2 + 0.8 * own)
    assert any("agree with chance" in note for note in scenario.notes)


def test_hangs_and_retries_are_recovered(tmp_path: Path) -> None:
    """Without retries calls hang as often as planted; with one a trial is lost by two hangs."""
    claim: dict[str, Any] = {
        "band": "hung:: calls.hangs=0..15",
        "predict": "lost:: calls.unscored_trials <= 15",
    }
    alone = draft(tmp_path / "alone", passes="1", hang="60s,retries=0", **claim)
    hung = played(alone, "agreement=0.9,hang=0.1", times=100)
    assert not rare(*totals(metrics(hung, "calls.hangs")), 0.1)
    retried = draft(tmp_path / "retried", passes="1", hang="60s,retries=1", **claim)
    again = played(retried, "agreement=0.9,hang=0.1,crash=0.1", times=100)
    assert not rare(*totals(metrics(again, "calls.unscored_trials")), 0.2**2)


def test_a_stop_rule_trips_as_often_as_its_window_says(tmp_path: Path) -> None:
    """Two hangs in any ten of the first forty calls: as in a brute-force play of that rule."""
    root = draft(
        tmp_path / "w", n=21, passes="2", stop="hangs:: calls.hangs >= 2 in 10 over 40",
        band="agree:: sentinel.agreement.count=10..20",
    )  # fmt: skip
    times = 200
    scenario = played(root, "agreement=0.8,hang=0.04", times=times)
    hung = np.random.default_rng(5).random((100_000, 40)) < 0.04
    windows = np.lib.stride_tricks.sliding_window_view(hung, 10, axis=1).sum(axis=2)
    chance = float((windows >= 2).any(axis=1).mean())
    assert 0.2 < chance < 0.6
    tripped = outcomes(scenario, "hangs")["tripped"]
    assert not rare(tripped, times, chance)
    assert {s.word: s.k for s in verdict_shares(scenario)}["STOPPED"] == tripped
    assert sum(p.not_called > 0 for p in scenario.plays) == tripped
    # What was never called is no disagreement, though `missing: disagree` is registered.
    agreement = metrics(scenario, "sentinel.agreement.count")
    assert [m.value is None for m in agreement] == [p.not_called > 0 for p in scenario.plays]
    assert any(w.startswith(f"STOPPED in {tripped} of {times}") for w in warnings(scenario))


def test_a_wrong_lead_falls_on_any_other_verdict(tmp_path: Path) -> None:
    """Never right of three verdicts: each of the other two leads half of the rows."""
    root = make_workspace(
        tmp_path / "w", n=20, judge=JUDGE.replace('["YES", "NO"]', '["YES", "NO", "MAYBE"]')
    )
    names = [f"sentinel.verdict.count[pass=1,verdict={v}]" for v in ("YES", "NO", "MAYBE")]
    claims = [f"{v}:: {name} >= 1" for v, name in zip("abc", names, strict=True)]
    done = new(root, "x", band=None, predict=claims)
    assert done.code == 0, done.err
    scenario = played(root, "agreement=1,accuracy=0", times=20)
    yes, no, maybe = (totals(metrics(scenario, name)) for name in names)  # every label is NO
    assert no == (0, 400)
    assert yes[0] + maybe[0] == 400
    assert not rare(*yes, 0.5)


def test_a_judge_that_repeats_itself_is_noticed(tmp_path: Path) -> None:
    """With `repeat` 1 every row agrees and the refuter on it fires every time; with 0, never."""
    root = draft(
        tmp_path / "w",
        band="agree:: sentinel.agreement.count=10..19",
        refute="same:: sentinel.agreement.count = 20: it repeats itself",
    )
    repeated = played(root, "agreement=0.6,repeat=1", times=30)
    assert outcomes(repeated, "same") == {"fired": 30, "silent": 0}
    assert {m.value for m in metrics(repeated, "sentinel.agreement.count")} == {20.0}
    free = played(root, "agreement=0.6", times=30)
    assert outcomes(free, "same")["fired"] == 0
    half = played(root, "agreement=0.6,repeat=0.5", times=60)
    counts = totals(metrics(half, "sentinel.agreement.count"))
    assert not rare(*counts, 0.5 + 0.5 * 0.6)
