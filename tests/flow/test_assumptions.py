"""What may be assumed in a rehearsal: one grammar, a closed list, ranges, every error at once."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from flow.pairs_drafts import SCALES, pairs_workspace, write_draft
from prereg_judge.errors import UsageError
from prereg_judge.flow.assumptions import (
    RowAssumptions,
    instead,
    read_assumptions,
    slot_verdicts,
    split_assumptions,
)
from prereg_judge.flow.prepare import Inputs, read_inputs
from prereg_judge.workspace import Workspace
from support import JUDGE, make_workspace, new, small_items, write_items

SEEDED = "seeded,seed=7,temperature=1,top_k=0,top_p=1,min_p=0"
CUT = "sampled,temperature=1,top_k=0,top_p=0.9,min_p=0"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Drafts alike but for their protocol: `x` as usual, and others."""
    root = make_workspace(tmp_path_factory.mktemp("assumed") / "w", n=4)
    write_items(root / "data/real.jsonl", small_items(3, label=None))
    drafts: dict[str, dict[str, str | list[str] | None]] = {
        "x": {"real": "data/real.jsonl"},
        "seeded": {"decoding": SEEDED},
        "once": {"passes": "1", "band": "calls.count=0..4", "predict": None},
        "chosen": {"path": "choice", "decoding": CUT},
        "three": {"judge": "judge/three.yaml", "band": "calls.count=0..8", "predict": None},
    }
    three = JUDGE.replace('["YES", "NO"]', '["YES", "NO", "MAYBE"]')
    (root / "judge/three.yaml").write_text(three, encoding="utf-8")
    for ident, changed in drafts.items():
        done = new(root, ident, **changed)
        assert done.code == 0, done.err
    return root


def inputs(root: Path, ident: str = "x") -> Inputs:
    """A registration's inputs."""
    return read_inputs(Workspace(root), ident)


def test_commas_and_repetitions_are_alike() -> None:
    """One option with commas says what several options say; a verdict may hold a comma."""
    together = split_assumptions(["agreement=0.8, hang = 0.1,lean=A, B:0.2"], option="--assume")
    apart = split_assumptions(["agreement=0.8", "hang=0.1", "lean=A, B:0.2"], option="--assume")
    assert together == apart == {"agreement": "0.8", "hang": "0.1", "lean": "A, B:0.2"}


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["agreement"], ["is no assumption", "'agreement'"]),
        (["agreement="], ["is no assumption"]),
        (["agreemant=0.8", "speed=2"], ["'agreemant'", "'speed'", "hang"]),
        (["sentinel.hang=0.1"], ["is not known", "'sentinel.hang'"]),
        (["other.agreement=0.8"], ["is not known", "'other.agreement'"]),
        (["hang=0.1", "hang=0.2"], ["is stated twice"]),
    ],
)
def test_what_is_no_assumption(texts: list[str], words: list[str]) -> None:
    """Each text that cannot be read is named, all of them at once."""
    with pytest.raises(UsageError) as caught:
        split_assumptions(texts, option="--assume")
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("ident", "text", "words"),
    [
        (
            "x",
            "hang=0.1",
            ["agreement of the sentinel rows is not stated", "agreement of the real"],
        ),
        ("x", "sentinel.agreement=0.8", ["agreement of the real rows is not stated"]),
        ("x", "agreement=0.4", ["agreement", "0.4", "from 0.5 to 1"]),
        ("x", "agreement=1.1", ["from 0.5 to 1"]),
        ("three", "agreement=0.3333", ["0.3333", "from 0.3334 to 1", "1 in 3 verdicts"]),
        ("x", "agreement=nan", ["is no such chance"]),
        ("x", "agreement=much", ["is no such chance", "much"]),
        ("x", "agreement=0.8,hang=-0.1,crash=2", ["hang", "-0.1", "crash"]),
        ("x", "agreement=0.8,hang=0.6,crash=0.6", ["are 1.2 together"]),
        ("x", "agreement=0.8,lean=MAYBE:0.1", ["is no verdict with a chance", "YES, NO"]),
        ("x", "agreement=0.8,lean=YES:2", ["is no verdict with a chance"]),
        ("x", "agreement=0.8,lean=YES", ["is no verdict with a chance"]),
        ("x", "agreement=0.8,real.accuracy=0.8", ["real.accuracy", "no row has a label"]),
        ("x", "agreement=0.8,position=0.1", ["position", "not one of pairs", "Leave it out"]),
        ("once", "agreement=0.8,repeat=0.1", ["there is one pass"]),
        ("once", "agreement=0.8,real.accuracy=0.1", ["no such items are registered"]),
        ("seeded", "agreement=0.8,repeat=0.1", ["decoding repeats itself anyway"]),
        ("chosen", "agreement=0.7,unreadable=0.1", ["none is unreadable"]),
        ("chosen", "agreement=0.95", ["cannot agree so under the registered truncation"]),
    ],
)
def test_what_cannot_be_assumed(root: Path, ident: str, text: str, words: list[str]) -> None:
    """A value out of range, or a key that means nothing here, is refused with what would do."""
    stated = split_assumptions([text], option="--assume")
    with pytest.raises(UsageError) as caught:
        read_assumptions(stated, inputs(root, ident))
    for word in words:
        assert word in str(caught.value)
    assert str(caught.value).count("is no such chance") <= 2  # said once for both sets


def test_the_least_number_that_is_named_is_accepted(root: Path) -> None:
    """What the refusal names for three verdicts is itself no refusal."""
    found = read_assumptions({"agreement": "0.3334"}, inputs(root, "three"))
    assert found.rows["sentinel"].agreement == 0.3334


def test_faults_that_are_certain_together_are_accepted(root: Path) -> None:
    """0.33, 0.56 and 0.11 are 1, whatever the sum of their floats is."""
    assert 0.33 + 0.56 + 0.11 > 1
    stated = {"agreement": "0.8", "hang": "0.33", "crash": "0.56", "unreadable": "0.11"}
    assert read_assumptions(stated, inputs(root)).faults.crash == 0.56
    with pytest.raises(UsageError, match="together"):
        read_assumptions({**stated, "hang": "0.3301"}, inputs(root))


@pytest.mark.parametrize("n", range(2, 12))
def test_no_verdict_is_put_before_the_leading_one(n: int) -> None:
    """Where all verdicts are alike, rounding makes none of them likelier than the leading one."""
    chances = RowAssumptions(1 / n, None, None, 0.0).chances(n - 1, [str(i) for i in range(n)])
    assert max(chances) == chances[n - 1]
    assert math.fsum(chances) == pytest.approx(1.0, abs=1e-12)


def test_a_set_of_its_own_goes_before(root: Path) -> None:
    """`sentinel.KEY` speaks of the sentinels and KEY of the rest; what is not stated is listed."""
    stated = {"agreement": "0.8", "sentinel.agreement": "0.9", "sentinel.lean": "YES:0.1"}
    found = read_assumptions(stated, inputs(root))
    assert (found.rows["sentinel"].agreement, found.rows["real"].agreement) == (0.9, 0.8)
    assert (found.rows["sentinel"].lean, found.rows["real"].lean) == (("YES", 0.1), None)
    told = {text.partition(" ")[0] for text in found.unstated}
    assert told == {"accuracy", "real.lean", "repeat", "hang", "crash", "unreadable"}


def test_the_second_scenario_takes_the_place_of_the_first() -> None:
    """A key without a set replaces those with one, and leaves every other as it was."""
    first = {"agreement": "0.8", "sentinel.agreement": "0.9", "hang": "0.1"}
    assert instead(first, {"agreement": "0.7"}) == {"hang": "0.1", "agreement": "0.7"}
    assert instead(first, {"sentinel.agreement": "0.7"}) == {**first, "sentinel.agreement": "0.7"}


def test_a_lean_is_a_mixture() -> None:
    """A lean of 0.2 gives its verdict a fifth, and the row's own chances the rest."""
    row = RowAssumptions(0.625, None, ("B", 0.2), 0.0)  # leading chance of two: 0.75
    assert row.chances(0, ["A", "B"]) == pytest.approx((0.6, 0.4))
    assert row.chances(1, ["A", "B"]) == pytest.approx((0.2, 0.8))
    low, high = row.alike(["A", "B"])
    assert math.isclose(low, 0.6**2 + 0.4**2)
    assert math.isclose(high, 0.2**2 + 0.8**2)


# --- Judges of pairs ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A draft `five` of a judge of pairs on the full scale, and `cut`, which truncates."""
    root = pairs_workspace(tmp_path_factory.mktemp("pairs") / "w", n=10)
    write_draft(root, "five", scale="five")
    decoding = {"mode": "sampled", "temperature": 1, "top_k": 0, "top_p": 0.9, "min_p": 0}
    write_draft(root, "cut", scale="five", protocol={"path": "choice", "decoding": decoding})
    return root


@pytest.mark.parametrize(
    ("scale", "first", "second"),
    [
        ("forced", ["A", "A"], ["B", "B"]),
        ("three", ["A", "A", "A"], ["B", "B", "B"]),
        ("five", ["AA", "A", "AA", "A", "AA"], ["BB", "B", "BB", "B", "BB"]),
    ],
)
def test_a_place_is_preferred_as_strongly_as_the_leading_verdict(
    scale: str, first: list[str], second: list[str]
) -> None:
    """A clear verdict stays clear and a slight one slight; a tie becomes the strongest there is."""
    names, sides = list(SCALES[scale].sides), SCALES[scale].sides
    for wanted, is_first in ((first, True), (second, False)):
        found = [names[i] for i in slot_verdicts(names, sides, first=is_first)]
        assert found == wanted
        turned = [names[i] for i in slot_verdicts(names[::-1], sides, first=is_first)]
        assert turned == [names[::-1][names.index(v)] for v in reversed(wanted)]


@pytest.mark.parametrize(
    ("ident", "text", "words"),
    [
        (
            "five",
            "agreement=0.8,position=1.01",
            ["position", "1.01", "from -1 to 1", "shown first"],
        ),
        ("five", "agreement=0.8,position=-2", ["from -1 to 1", "-2"]),
        ("five", "agreement=0.8,position=ab", ["is no such chance", "ab"]),
        ("five", "agreement=0.8,position=nan", ["is no such chance"]),
        ("five", "position=0.1", ["agreement of the real rows is not stated"]),
        ("cut", "agreement=1,position=0.05", ["cannot agree so under the registered truncation"]),
    ],
)
def test_a_position_out_of_range(of_pairs: Path, ident: str, text: str, words: list[str]) -> None:
    """A position is a number from -1 to 1 that the registered truncation leaves."""
    with pytest.raises(UsageError) as caught:
        read_assumptions(split_assumptions([text], option="--assume"), inputs(of_pairs, ident))
    for word in words:
        assert word in str(caught.value)
    assert str(caught.value).count("is no such chance") <= 1


def test_a_position_is_of_calls(of_pairs: Path) -> None:
    """It goes with no set; not stated, it is listed for a judge of pairs and for no other."""
    with pytest.raises(UsageError, match=r"real\.position"):
        split_assumptions(["real.position=0.1"], option="--assume")
    found = read_assumptions({"agreement": "1", "position": "-0.25"}, inputs(of_pairs, "five"))
    row, names = found.rows["real"], list(SCALES["five"].sides)
    tie = names.index("tie")
    chances = dict(zip(names, row.chances(tie, names), strict=True))
    assert chances == {"AA": 0, "A": 0, "tie": 0.75, "B": 0, "BB": 0.25}
    assert not any("position" in text for text in found.unstated)
    bare = read_assumptions({"agreement": "1"}, inputs(of_pairs, "five"))
    assert "position (0)" in bare.unstated
