"""Published figures of *Measuring an automated annotator*, from a fixture with its margins."""

from __future__ import annotations

import pytest

from golden import two_pass
from golden.two_pass import DROP, KEEP
from prereg_judge.registration.claims import (
    Band,
    Claims,
    Prediction,
    Refuter,
    StopRule,
    Test,
)
from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.study import self_agreement
from prereg_judge.study.metric import Metric, MetricRef
from prereg_judge.study.outcomes import CallView, ItemView, StudyInput, TrialKey
from prereg_judge.verdict import CLOSE, Verdict, evaluate, stop_state


def metric(data: StudyInput, name: str, **params: object) -> Metric:
    """One metric of a run."""
    ref = MetricRef.of(name, **params)
    return self_agreement.compute(data, [ref])[ref]


def counted(data: StudyInput, name: str, **params: object) -> tuple[int | None, int | None]:
    """Numerator and denominator of a metric that has a value."""
    found = metric(data, name, **params)
    assert found.undefined is None
    assert found.value == found.k
    return found.k, found.n


CLAIMS = Claims(
    bands=(Band("agree", Test(MetricRef.of("sentinel.agreement.count"), 58, 68)),),
    predictions=(
        Prediction(
            "flips",
            Test(MetricRef.of("sentinel.flips_from.count", from_run="single", verdict=KEEP), low=8),
        ),
    ),
    refuters=(
        Refuter(
            "deterministic",
            Test(MetricRef.of("sentinel.agreement.count"), 72, 72),
            "the wire is deterministic",
        ),
        Refuter(
            "unstable",
            Test(MetricRef.of("sentinel.agreement.count"), high=50, high_open=True),
            "too unstable to floor anything",
        ),
    ),
    stops=(StopRule("hangs", Test(MetricRef.of("calls.hangs"), low=1), 20, 40),),
)


def unseeded() -> StudyInput:
    """Sentinel and real rows, with the earlier single pass and the seeded run beside them."""
    return two_pass.study_input(
        [*two_pass.sentinel_rows(), *two_pass.real_rows()],
        earlier=[
            two_pass.earlier_run("single", two_pass.earlier_verdicts()),
            two_pass.earlier_run("seeded", two_pass.seeded_verdicts()),
        ],
    )


def seeded() -> StudyInput:
    """The seeded pair on the sentinel rows."""
    return two_pass.study_input(
        two_pass.seeded_rows(),
        decoding="seeded",
        earlier=[two_pass.earlier_run("single", two_pass.earlier_verdicts())],
    )


def judged(data: StudyInput) -> Verdict:
    """The verdict of a run on the registered claims."""
    refs = [
        MetricRef.of("sentinel.agreement.count"),
        MetricRef.of("sentinel.flips_from.count", from_run="single", verdict=KEEP),
    ]
    return evaluate(
        CLAIMS,
        self_agreement.compute(data, refs),
        stops_tripped={rule.id: stop_state(rule, data.calls) for rule in CLAIMS.stops},
        scored=self_agreement.scored_trials(data),
    )


@pytest.mark.parametrize(
    ("k", "n", "low", "high", "digits"),
    [
        (52, 72, 0.6095, 0.8124, 4),
        (72, 72, 0.949, 1.000, 3),
        (8, 72, 0.057, 0.204, 3),
        (166, 188, 0.829, 0.921, 3),
        (32, 48, 0.525, 0.783, 3),
        (15, 18, 0.608, 0.942, 3),
        # Published as 0.437: the lower limit is 0.43650, which was rounded twice.
        (5, 6, 0.4365, 0.9699, 4),
        (11, 16, 0.444, 0.858, 3),
        (9, 56, 0.087, 0.278, 3),
        (4, 30, 0.053, 0.297, 3),
        (0, 834, 0.0, 0.005, 3),
    ],
)
def test_published_wilson_intervals(k: int, n: int, low: float, high: float, digits: int) -> None:
    """Every published proportion has its published 95% limits."""
    found = wilson_interval(k, n, level=self_agreement.LEVEL)
    assert (round(found[0], digits), round(found[1], digits)) == (low, high)


def test_hang_rates_of_the_two_wires_are_disjoint() -> None:
    """4 hangs in 30 calls and 0 in 834 have intervals that do not meet."""
    assert wilson_interval(0, 834, level=0.95)[1] < wilson_interval(4, 30, level=0.95)[0]


def test_agreement_and_its_kinds() -> None:
    """52 of 72 rows agree: 32/48 punctuation, 15/18 numeral, 5/6 synonym."""
    data = unseeded()
    assert counted(data, "sentinel.agreement.count") == (52, 72)
    assert counted(data, "sentinel.agreement.count", kind="punctuation") == (32, 48)
    assert counted(data, "sentinel.agreement.count", kind="numeral") == (15, 18)
    assert counted(data, "sentinel.agreement.count", kind="synonym") == (5, 6)
    rate = metric(data, "sentinel.agreement.rate")
    assert rate.value == 52 / 72
    assert rate.interval is not None
    assert (round(rate.interval.low, 4), round(rate.interval.high, 4)) == (0.6095, 0.8124)
    count = metric(data, "sentinel.agreement.count").interval
    assert count is not None
    assert (count.low, count.high) == (rate.interval.low * 72, rate.interval.high * 72)


def test_first_and_second_pass() -> None:
    """16 KEEP and 56 DROP at first; 11 and 9 of them change, so the second pass keeps 14."""
    data = unseeded()
    assert counted(data, "sentinel.verdict.count", verdict=KEEP, pass_=1) == (16, 72)
    assert counted(data, "sentinel.verdict.count", verdict=DROP, pass_=1) == (56, 72)
    assert counted(data, "sentinel.flips.count", verdict=KEEP) == (11, 16)
    assert counted(data, "sentinel.flips.count", verdict=DROP) == (9, 56)
    assert counted(data, "sentinel.flips.count", verdict=DROP, to=KEEP) == (9, 56)
    assert counted(data, "sentinel.verdict.count", verdict=KEEP, pass_=2) == (14, 72)
    (table,) = self_agreement.transitions(data, "sentinel")
    assert [table.count(a, b) for a in (KEEP, DROP) for b in (KEEP, DROP)] == [5, 11, 9, 47]
    assert table.n == 72


def test_rows_kept_by_the_earlier_single_pass() -> None:
    """Of 19 rows kept earlier 16 are not kept at least once, 12 never, 3 always."""
    data = unseeded()
    old = {"from_run": "single", "verdict": KEEP}
    assert counted(data, "sentinel.flips_from.count", **old) == (16, 19)
    assert counted(data, "sentinel.flips_from_every.count", **old) == (12, 19)
    assert counted(data, "sentinel.stays_from.count", **old) == (3, 19)


def test_real_rows() -> None:
    """Of 188 real rows 22 change: 14 from drop to keep and 8 from keep to drop."""
    data = unseeded()
    assert counted(data, "real.agreement.count") == (166, 188)
    assert counted(data, "real.flips.count") == (22, 188)
    (table,) = self_agreement.transitions(data, "real")
    assert (table.count(DROP, KEEP), table.count(KEEP, DROP)) == (14, 8)
    listed = self_agreement.disagreements(data)
    assert sum(row.set == "real" for row in listed) == 22
    assert sum(row.set == "sentinel" for row in listed) == 20


def test_claims_on_the_unseeded_pair() -> None:
    """Band 58-68 is missed low, both refuters are silent, "at least 8" is held: FAIL."""
    verdict = judged(unseeded())
    words = {o.id: o.outcome for o in verdict.outcomes}
    assert words == {
        "agree": "missed low",
        "flips": "held",
        "deterministic": "silent",
        "unstable": "silent",
        "hangs": "not tripped",
    }
    assert (verdict.word, verdict.exit_code) == ("FAIL", 1)
    # 52 / 72 is known no better than 43.9 to 58.5 of 72: the limit 58 lies inside.
    band = verdict.outcomes[0]
    assert band.close
    assert band.note is not None
    assert band.note.startswith(CLOSE)


def test_seeded_pair_is_refuted() -> None:
    """The seeded pair agrees on 72 of 72, the refuter fires, and 8 keeps are wrong."""
    data = seeded()
    verdict = judged(data)
    assert {o.id: o.outcome for o in verdict.outcomes}["deterministic"] == "fired"
    assert (verdict.word, verdict.exit_code) == ("REFUTED", 3)
    assert counted(data, "sentinel.agreement.count") == (72, 72)
    assert counted(data, "sentinel.wrong_ships.count", pass_=1) == (8, 72)
    assert counted(data, "sentinel.wrong.count", pass_=2, verdict=KEEP) == (8, 72)
    assert counted(data, "sentinel.wrong_repeated.count") == (8, 72)
    assert counted(data, "sentinel.wrong_found.count") == (0, 72)
    assert any("cannot find errors" in said for said in self_agreement.plain_words(data))


def test_seeded_against_unseeded() -> None:
    """On 10 rows the seeded verdict matches neither pass, 5 either way; 3 of 25 ever kept."""
    data = unseeded()
    kept, dropped = ({"from_run": "seeded", "verdict": v} for v in (KEEP, DROP))
    assert counted(data, "sentinel.flips_from_every.count", **kept) == (5, 8)
    assert counted(data, "sentinel.flips_from_every.count", **dropped)[0] == 5
    assert counted(data, "sentinel.ships.any.count") == (25, 72)
    assert counted(data, "sentinel.ships.all.count") == (5, 72)
    assert counted(data, "sentinel.ships.some.count") == (20, 72)
    assert counted(data, "sentinel.ships.none.count") == (47, 72)
    ever = {r.id for r in two_pass.sentinel_rows() if KEEP in (r.first, r.second)}
    wrong = {item for item, said in two_pass.seeded_verdicts().items() if said == KEEP}
    assert (len(wrong), len(wrong & ever)) == (8, 3)


def test_two_readers_differ_in_one_direction() -> None:
    """Two readers of the same 68 rows agree on 52; all 16 differences go one way."""
    base = two_pass.real_rows()[0]
    pairs = [(KEEP, KEEP)] * 20 + [(DROP, DROP)] * 32 + [(KEEP, DROP)] * 16
    rows = [base._replace(id=f"x{i}", first=a, second=b) for i, (a, b) in enumerate(pairs)]
    data = two_pass.study_input(rows)
    assert counted(data, "real.agreement.count") == (52, 68)
    assert counted(data, "real.flips.count", verdict=KEEP, to=DROP) == (16, 36)
    assert counted(data, "real.flips.count", verdict=DROP) == (0, 32)


@pytest.mark.parametrize(("n", "distinct"), [(164, 127), (156, 119), (95, 60)])
def test_distinct_rows(n: int, distinct: int) -> None:
    """164, 156 and 95 rows are 127, 119 and 60 distinct ones, one of them seven times."""
    # One content seven times; the other surplus rows are pairs.
    pairs = n - distinct - 6
    contents = ["seven"] * 7 + [f"pair-{i}" for i in range(pairs)] * 2
    contents += [f"single-{i}" for i in range(n - len(contents))]
    rows = [
        two_pass.real_rows()[0]._replace(id=f"x{i}", content=text)
        for i, text in enumerate(contents)
    ]
    data = two_pass.study_input(rows)
    found = metric(data, "real.distinct.count")
    assert (found.value, found.n) == (distinct, n)
    assert found.note == f"{n} rows are {distinct} distinct, one 7 times"
    assert metric(data, "real.duplicates.max").value == 7


@pytest.mark.parametrize(("hang_at", "tripped"), [(1, True), (40, True), (41, False)])
def test_stop_rule_on_hangs(hang_at: int, tripped: bool) -> None:
    """One hang in any twenty calls over the first forty trips the rule; a later one does not."""
    key = TrialKey("sentinel", "s01", "ab", 1)
    calls = [CallView(key, i, "hang" if i == hang_at else None, 1.0) for i in range(1, 61)]
    state = stop_state(CLAIMS.stops[0], calls)
    assert state.tripped is tripped
    assert state.at_call == (hang_at if tripped else None)


def test_fixture_is_plain_and_deterministic() -> None:
    """The fixture gives the same rows every time, with ids that occur once."""
    rows = [*two_pass.sentinel_rows(), *two_pass.real_rows()]
    assert rows == [*two_pass.sentinel_rows(), *two_pass.real_rows()]
    assert len({(r.set, r.id) for r in rows}) == 72 + 188
    assert isinstance(two_pass.study_input(rows).items[0], ItemView)
