"""The study `annotators` against a second implementation and against statsmodels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from statsmodels.stats.inter_rater import cohens_kappa, fleiss_kappa

from prereg_judge.ratings import Ratings
from prereg_judge.study import annotators, table_metrics
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.outcomes import Resampling
from study.annotators_brute import Brute, drawn, items_of
from study.annotators_made import asked, get, rated, value

PAIR = {"annotator": "n0", "other": "n1"}


def random_table(seed: int) -> Ratings:
    """Fifteen items, five annotators in two pools, four labels, a third of the ratings missing."""
    generator = np.random.default_rng(seed)
    letters = "abcd"
    rows = []
    for _ in range(15):
        true = generator.integers(4)
        row = ""
        for _ in range(5):
            noisy = generator.integers(4) if generator.random() < 0.4 else true
            row += "." if generator.random() < 0.3 else letters[noisy]
        rows.append(row)
    return rated(
        rows,
        pools={"crowd": range(3), "expert": range(3, 5)},
        labels=letters,
        strata=["x" if n % 3 else "y" for n in range(15)],
        ordered=True,
        values=[1.0, 2.5, 3.0, 7.0],
        coarse={"c": "low", "d": "low"},
    )


GROUPS: list[dict[str, str]] = [
    {},
    {"pool": "crowd"},
    {"pool": "expert", "stratum": "x"},
    {"labels": "coarse"},
    {"pool": "crowd", "labels": "coarse", "stratum": "x"},
]
FINE = [group for group in GROUPS if "labels" not in group]


def every_ref() -> list[MetricRef]:
    """All metrics that are resampled, in several groups."""
    refs = []
    for group in GROUPS:
        for name in (
            "agreement.rate", "kappa.fleiss", "kappa.fleiss.observed", "kappa.fleiss.expected",
            "ac1", "ac1.expected",
        ):  # fmt: skip
            refs.append(MetricRef.of(name, **group))
        refs.append(MetricRef.of("alpha", level="nominal", **group))
        label = "low" if group.get("labels") else "c"
        refs.append(MetricRef.of("disagreement.share", label=label, **group))
        refs.append(MetricRef.of("disagreement.excess", label=label, **group))
    for group in FINE:
        refs += [MetricRef.of("alpha", level=level, **group) for level in ("ordinal", "interval")]
        refs.append(MetricRef.of("selection.shift", label="a", **group))
        for name in (
            "selection.distance", "soft.entropy", "merge.gain", "merge.hidden.count",
            "merge.hidden.rate",
        ):  # fmt: skip
            refs.append(MetricRef.of(name, **group))
    for extra in ({}, {"stratum": "x"}):
        for end in ("", ".observed", ".expected"):
            refs.append(MetricRef.of(f"kappa.cohen{end}", **PAIR, **extra))
        for weights in ("linear", "quadratic"):
            refs.append(MetricRef.of("kappa.weighted", weights=weights, **PAIR, **extra))
        refs.append(MetricRef.of("soft.loss", annotator="n3", **extra))
    refs.append(MetricRef.of("kappa.cohen", **PAIR, labels="coarse"))
    refs.append(MetricRef.of("soft.distance", pool="crowd", other="expert"))
    return refs


@pytest.mark.parametrize("by_stratum", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_every_value_and_every_resample_agrees_with_plain_loops(
    seed: int, *, by_stratum: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Estimates, and the statistic in each resample, are those of loops over the drawn items."""
    table = random_table(seed)
    resampling = Resampling(40, 11, by_stratum=by_stratum)
    seen: dict[MetricRef, Any] = {}
    real = table_metrics.bootstrapped

    def watched(ref: MetricRef, *args: Any, **options: Any) -> Any:
        seen[ref] = options["draws"]
        return real(ref, *args, **options)

    monkeypatch.setattr("prereg_judge.study.annotators_sums.bootstrapped", watched)
    refs = every_ref()
    found = annotators.compute(asked(table, resampling=resampling), refs)
    brute, items = Brute(table), items_of(table)
    samples = [[items[at] for at in one] for one in drawn(table.strata, resampling)]
    for ref in refs:
        expected = brute.value(ref.name, dict(ref.params), items)
        assert found[ref].value == pytest.approx(expected, abs=1e-12), ref
        if ref.name == "selection.distance":  # its interval is of another kind: see below
            continue
        draws = [brute.value(ref.name, dict(ref.params), sample) for sample in samples]
        np.testing.assert_allclose(seen[ref], draws, rtol=0, atol=1e-12, err_msg=str(ref))


def test_kappas_are_those_of_statsmodels() -> None:
    """Cohen's, weighted and Fleiss' kappa on complete tables, by an implementation of others."""
    rows = ["".join(pair) for pair in zip("abcdabcdaabbccdd", "abcdbbcdaacbcddd", strict=True)]
    data = asked(rated(rows, labels="abcd", ordered=True))
    square = np.zeros((4, 4))
    for row in rows:
        square["abcd".index(row[0]), "abcd".index(row[1])] += 1
    assert value(data, "kappa.cohen", **PAIR) == pytest.approx(
        cohens_kappa(square, return_results=False), abs=1e-12
    )
    for weights, wt in (("linear", "linear"), ("quadratic", "quadratic")):
        assert value(data, "kappa.weighted", weights=weights, **PAIR) == pytest.approx(
            cohens_kappa(square, wt=wt, return_results=False), abs=1e-12
        )
    complete = rated(["aab", "bbb", "acc", "dda", "aaa", "bcd"], labels="abcd")
    counts = np.zeros((6, 4))
    np.add.at(counts, (complete.item, complete.label), 1)
    assert value(asked(complete), "kappa.fleiss") == pytest.approx(fleiss_kappa(counts), abs=1e-12)


def test_alpha_of_krippendorffs_own_example() -> None:
    """Four observers, twelve units, missing values: 0.743 nominal, 0.815 ordinal, 0.849 interval.

    Source: Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, example C.
    """
    observers = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")
    rows = ["".join(x) for x in zip(*observers, strict=True)]
    data = asked(rated(rows, labels="12345", ordered=True, values=[1, 2, 3, 4, 5]))
    found = [value(data, "alpha", level=x) for x in ("nominal", "ordinal", "interval")]
    assert found == pytest.approx([0.743, 0.815, 0.849], abs=5e-4)


def test_the_interval_of_the_distance_agrees_with_plain_loops() -> None:
    """Its half width is the 95% quantile of half the summed absolute errors of all shifts."""
    table = random_table(2)
    resampling = Resampling(100, 3)
    brute, items = Brute(table), items_of(table)
    samples = [[items[at] for at in one] for one in drawn(table.strata, resampling)]

    def shifts(sample: list[Any]) -> list[float]:
        return [brute.value("selection.shift", {"label": x}, sample) for x in table.labels]

    here = shifts(items)
    off = [
        sum(abs(a - b) for a, b in zip(shifts(sample), here, strict=True)) / 2 for sample in samples
    ]
    far = float(np.nanquantile(off, 0.95))  # without samples of which no item is left
    found = get(asked(table, resampling=resampling), "selection.distance")
    assert found.value is not None
    assert found.interval is not None
    assert found.interval.low == pytest.approx(max(0.0, found.value - far), abs=1e-12)
    assert found.interval.high == pytest.approx(min(1.0, found.value + far), abs=1e-12)


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_alphas_are_those_of_the_package_krippendorff(seed: int) -> None:
    """Nominal, ordinal and interval alpha with missing ratings, by an implementation of others."""
    krippendorff = pytest.importorskip("krippendorff", reason="the package is not installed")
    table = random_table(seed)
    assert table.values is not None
    given = np.full((len(table.annotators), len(table.items)), np.nan)
    given[table.annotator, table.item] = table.values[table.label]
    data = asked(table)
    for level in ("nominal", "ordinal", "interval"):
        theirs = krippendorff.alpha(reliability_data=given, level_of_measurement=level)
        assert value(data, "alpha", level=level) == pytest.approx(theirs, abs=1e-12)
