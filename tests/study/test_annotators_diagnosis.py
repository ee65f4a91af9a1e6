"""The study `annotators`: whether disagreement sits in a label, and the sentences that warn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from prereg_judge.ratings import Ratings
from prereg_judge.study import annotators
from prereg_judge.study.annotators_computer import Computer
from prereg_judge.study.annotators_diagnosis import Diagnosis, diagnosis_of
from prereg_judge.study.annotators_groups import Group
from prereg_judge.study.outcomes import Resampling
from study.annotators_made import asked, get, rated, value

LABELS = "abcd"


def noisy(
    seed: int, slip: Callable[[np.random.Generator, int], int], *, shares: tuple[float, ...]
) -> Ratings:
    """Two hundred items of true labels by `shares`, three annotators, each changed by `slip`."""
    generator = np.random.default_rng(seed)
    true = generator.choice(4, size=200, p=shares)
    rows = ["".join(LABELS[slip(generator, int(x))] for _ in range(3)) for x in true]
    return rated(rows, labels=LABELS)


def diagnosed(table: Ratings) -> Diagnosis:
    """The diagnosis of all annotators."""
    computer = Computer(asked(table, resampling=Resampling(200, 3)))
    assert computer.groups is not None
    found = diagnosis_of(Group(), groups=computer.groups, drawing=computer.drawing)
    assert found is not None
    return found


EVEN = (0.25, 0.25, 0.25, 0.25)
SKEWED = (0.55, 0.25, 0.15, 0.05)


@pytest.mark.parametrize("shares", [EVEN, SKEWED])
@pytest.mark.parametrize("by_frequency", [False, True])
def test_noise_everywhere_is_called_spread(
    shares: tuple[float, ...], *, by_frequency: bool
) -> None:
    """Slips to any label, or by the labels' frequencies, are spread in 95% of simulations."""

    def slip(generator: np.random.Generator, true: int) -> int:
        if generator.random() >= 0.2:
            return true
        return int(generator.choice(4, p=shares if by_frequency else EVEN))

    spread = sum(not diagnosed(noisy(seed, slip, shares=shares)).sits_in for seed in range(60))
    assert spread >= 57


def test_a_label_that_is_not_told_apart_is_found() -> None:
    """Annotators who take c for any other label, and others for c: disagreement sits in c."""

    def slip(generator: np.random.Generator, true: int) -> int:
        if true == 2 and generator.random() < 0.5:
            return int(generator.integers(4))
        return 2 if generator.random() < 0.05 else true

    found = [diagnosed(noisy(seed, slip, shares=EVEN)) for seed in range(20)]
    assert all([s.label for s in one.sits_in] == ["c"] for one in found)


def test_two_labels_that_are_confused_are_both_named() -> None:
    """Annotators who cannot tell a from b: both are named, and their confusion first."""

    def slip(generator: np.random.Generator, true: int) -> int:
        if true < 2 and generator.random() < 0.4:
            return 1 - true
        return int(generator.integers(4)) if generator.random() < 0.03 else true

    table = noisy(1, slip, shares=EVEN)
    assert {s.label for s in diagnosed(table).sits_in} == {"a", "b"}
    said = " ".join(annotators.plain_words(asked(table)))
    assert "Disagreement of all annotators sits in `" in said
    assert "The most frequent confusions: `a` and `b` (" in said


def test_two_labels_tell_nothing() -> None:
    """With two labels both take part in every disagreement: no excess, and a sentence says so."""
    data = asked(rated(["ab", "aa", "bb", "ba"] * 5))
    assert value(data, "disagreement.share", label="a") == 1
    found = get(data, "disagreement.excess", label="a")
    assert (found.value, found.interval) == (0.0, None)
    said = annotators.plain_words(data)
    assert said[0] == (
        "Every one of the 10 disagreements of all annotators is between the same two labels, so "
        "there is no telling whether it sits in one of them."
    )


def test_shares_of_disagreements_by_hand() -> None:
    """Two of three disagreements involve c; the labels' frequencies alone would give less."""
    data = asked(rated(["ac", "bc", "ab", "aa", "bb", "aa"]))
    found = get(data, "disagreement.share", label="c")
    assert (found.k, found.n) == (2, 3)
    assert found.value == pytest.approx(2 / 3)
    p = {"a": 6 / 12, "b": 4 / 12, "c": 2 / 12}
    expected = 2 * p["c"] * (1 - p["c"]) / (1 - sum(x * x for x in p.values()))
    assert value(data, "disagreement.excess", label="c") == pytest.approx(2 / 3 - expected)


def test_the_paradox_of_prevalence_is_told_with_numbers() -> None:
    """Kappa near 0 at 95% agreement: the sentence gives both, the frequent label and AC1."""
    data = asked(rated(["aa"] * 95 + ["ab"] * 3 + ["ba"] * 2))
    said = next(text for text in annotators.plain_words(data) if "paradox" in text)
    assert "on the mean over items, 95.0% of the pairs of ratings agree: `a` has 97.5%" in said
    assert "chance alone would agree on 95.1%" in said
    assert "Gwet's AC1, which takes chance otherwise, is 0.95." in said
    balanced = asked(rated(["aa"] * 48 + ["bb"] * 47 + ["ab"] * 5))
    assert not any("paradox" in text for text in annotators.plain_words(balanced))


def test_kappa_can_fall_where_agreement_rises() -> None:
    """Merging labels that are told apart well hides few disagreements: kappa goes down."""
    rows = ["aa"] * 30 + ["bb"] * 30 + ["cc"] * 30 + ["ac", "ca", "bc", "cb"] * 3 + ["ab"]
    data = asked(rated(rows, coarse={"a": "ab", "b": "ab"}))
    gain = get(data, "merge.gain")
    assert (gain.k, gain.n) == (1, 103)
    assert gain.value == pytest.approx(1 / 103)
    assert get(data, "merge.hidden.count").k == 1
    assert get(data, "merge.hidden.rate").n == 13
    fine, coarse = (value(data, "kappa.fleiss", labels=x) for x in ("fine", "coarse"))
    assert coarse < fine
    said = next(text for text in annotators.plain_words(data) if "map" in text)
    assert "hides 1 of 13 pairs" in said
    assert "kappa goes down although agreement goes up" in said


def test_a_map_that_hides_nothing_or_everything() -> None:
    """Both ends have values and say why the bootstrap collapses, or what Wilson allows."""
    none = asked(rated(["ac", "bc", "aa", "bb"] * 4, coarse={"a": "x", "b": "x"}))
    found = get(none, "merge.gain")
    assert (found.value, found.interval) == (0.0, None)
    assert "no disagreement is hidden in all" in (found.note or "")
    rate = get(none, "merge.hidden.rate").interval
    assert rate is not None
    assert (rate.low, rate.method) == (0.0, "wilson on items, all alike")
    every = asked(rated(["ab", "ab", "aa", "bb"], coarse={"a": "x", "b": "x"}))
    assert value(every, "merge.hidden.rate") == 1
    assert get(every, "kappa.fleiss", labels="coarse").undefined == "one_label"
    said = " ".join(annotators.plain_words(every))
    assert "kappa is undefined under coarse labels" in said


def test_single_ratings_are_said_to_say_nothing() -> None:
    """Items that one annotator rated are counted in a sentence; a table of them says no more."""
    said = annotators.plain_words(asked(rated(["ab", "a.", ".b", "aa"])))
    assert said[0].startswith("2 of 4 items have one rating: nobody could contradict it")
    assert annotators.plain_words(asked(rated(["a.", ".b"]))) == [
        "No item has ratings of two annotators, so nothing shows how far they agree."
    ]


def test_few_disagreements_tell_nothing() -> None:
    """One label in each of four disagreements among a hundred items is no finding: slips that fall
    on any label do that often.
    """
    data = asked(rated(["aa"] * 40 + ["bb"] * 36 + ["cc"] * 20 + ["ab", "ac", "ba", "ca"]))
    said = annotators.plain_words(data)
    (told,) = (text for text in said if "sits in" in text)
    assert told.startswith(
        "Too few to tell whether disagreement of all annotators sits in one label"
    )
    assert "4 items hold one, and it takes 25" in told
    excess = get(data, "disagreement.excess", label="a")
    assert (excess.interval, excess.k, excess.n) == (None, 4, 4)
    assert excess.note == "only 4 items differ, too few for an interval (25 are needed)"
    for name, params in (
        ("kappa.cohen", {"annotator": "n0", "other": "n1"}),
        ("kappa.fleiss", {}),
        ("ac1", {}),
        ("alpha", {"level": "nominal"}),
    ):
        metric = get(data, name, **params)
        assert metric.interval is not None, name
        assert "only 4 items differ, so the interval is too narrow" in (metric.note or ""), name
    assert "too narrow" not in (get(data, "kappa.fleiss.expected").note or "")


def test_without_a_bootstrap_no_interval_is_called_too_narrow() -> None:
    """Where nothing is resampled there is no interval of which the note could warn."""
    data = asked(rated(["aa"] * 40 + ["bb"] * 36 + ["cc", "ab", "ac"]), resampling=None)
    for name, params in (("kappa.fleiss", {}), ("disagreement.excess", {"label": "a"})):
        note = get(data, name, **params).note or ""
        assert "too narrow" not in note
        assert "too few" not in note


@pytest.mark.parametrize("slip", [0.03, 0.2])
def test_even_slips_neither_sit_in_a_label_nor_select(slip: float) -> None:
    """Two annotators who slip to any of three even labels: both sentences are false, and rare."""
    sits = selects = 0
    for seed in range(40):
        generator = np.random.default_rng(seed)
        true = generator.integers(3, size=(120, 1))
        slipped = generator.random((120, 2)) < slip
        codes = np.where(slipped, generator.integers(3, size=(120, 2)), true)
        table = rated(["".join(LABELS[x] for x in row) for row in codes], labels="abc")
        said = annotators.plain_words(asked(table, resampling=Resampling(400, seed)))
        sits += any(" sits in `" in text for text in said)
        selects += any("and selects: " in text for text in said)
    assert sits <= 2
    assert selects <= 3


def test_few_items_left_out_tell_nothing_of_selection() -> None:
    """Four items left out of a hundred, all on one label, are no finding; thirty are."""
    few = asked(rated(["aa"] * 50 + ["bb"] * 46 + ["ab"] * 2 + ["ac"] * 2))
    said = " ".join(annotators.plain_words(few))
    assert "too few to tell whether that selects: 4 items are left out, and it takes 25." in said
    many = asked(rated(["aa"] * 50 + ["bb"] * 50 + ["cc"] * 20 + ["ac"] * 30))
    assert "and selects: the share of `" in " ".join(annotators.plain_words(many))


def test_one_label_of_two_annotators_is_said_of_their_items() -> None:
    """Cohen's kappa is undefined for two who gave one label, though a third gave another."""
    found = get(asked(rated(["aab", "aa.", "aab"])), "kappa.cohen", annotator="n0", other="n1")
    assert found.undefined == "one_label"
    assert "every item that both rated has one and the same label from both" in (found.note or "")


def test_one_label_in_every_of_fifteen_disagreements_is_too_few() -> None:
    """Below 25 items that hold a disagreement nothing sits in a label; above, the same does."""
    data = asked(rated(["aa"] * 40 + ["bb"] * 36 + ["cc"] * 20 + ["ab", "ac", "ba"] * 5))
    (told,) = (text for text in annotators.plain_words(data) if "sits in" in text)
    assert told.startswith(
        "Too few to tell whether disagreement of all annotators sits in one label"
    )
    more = asked(rated(["aa"] * 40 + ["bb"] * 36 + ["cc"] * 20 + ["ab", "ac", "ba"] * 9))
    assert any("sits in `a`" in text for text in annotators.plain_words(more))
