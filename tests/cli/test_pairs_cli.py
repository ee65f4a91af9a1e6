"""Judges of pairs that `prereg lock` refuses: sections, templates, orders and studies."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import make_workspace
from tabling import PAIR_JUDGE, band, refused, write_pairs

REG = "registrations/x.yaml"


def test_a_metric_of_orders_with_one_order(tmp_path: Path) -> None:
    """`orders: [ab]` cannot answer whether the order matters."""
    write_pairs(tmp_path, protocol={"orders": ["ab"]})
    refused(
        tmp_path,
        f"{REG}:",
        "bands[0].metric",
        "compares the two orders, and the pairs are shown in one",
        "write `orders: [ab, ba]`",
    )


def test_excess_over_noise_with_one_pass(tmp_path: Path) -> None:
    """The judge's own noise is seen in a second pass only."""
    claim = band("c", "real.order.excess.difference", [-0.1, 0.1])
    write_pairs(tmp_path, bands=[claim])
    refused(tmp_path, f"{REG}:", "bands[0].metric", "needs two passes", "write `passes: 2` or more")


def test_each_judge_in_its_study(tmp_path: Path) -> None:
    """A judge of pairs is refused in self-agreement, and one of single items in pairwise."""
    write_pairs(
        tmp_path / "one",
        study="self-agreement",
        resampling=None,
        protocol={"orders": ["ab"], "passes": 2},
        bands=[band("c", "real.agreement.count", [1, 2])],
    )
    refused(tmp_path / "one", f"{REG}:", "study", "a judge of pairs", "write `study: pairwise`")
    make_workspace(tmp_path / "two")
    write_pairs(tmp_path / "two")
    path = tmp_path / "two/registrations/x.yaml"
    text = path.read_text(encoding="utf-8").replace("judge/pairs.yaml", "judge/yes-no.yaml")
    path.write_text(text.replace("data/pairs.jsonl", "sentinels/small.jsonl"), encoding="utf-8")
    refused(tmp_path / "two", f"{REG}:", "does not compare two answers", "a `pair` section")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("SECOND: -1}", "SECOND: -2}", (": pair: ", "not the same for both answers")),
        ("SECOND: -1}", "SECOND: 0}", (": pair: ", "not the same for both answers")),
        ("FIRST: 1, SAME: 0, SECOND: -1", "FIRST: 1, SECOND: -1", (": pair: ", "SAME")),
        ("FIRST: 1, SAME: 0,", "FIRST: 1, SAME: 0, OTHER: 2,", (": pair: ", "OTHER")),
        (
            "answers: [one, two]",
            "answers: [one, one]",
            (": pair: ", "the two answers are one field"),
        ),
        ("answers: [one, two]", "answers: [one, three]", (": pair: ", "three")),
        (
            "verdict_field: verdict\n",
            "verdict_field: verdict\nships: FIRST\n",
            ("ships", "no verdict that ships", "leave `ships` out"),
        ),
    ],
)
def test_a_section_of_pairs_that_is_not_symmetric(
    old: str, new: str, says: tuple[str, ...], tmp_path: Path
) -> None:
    """Every verdict has exactly one that says the opposite, and the answers are two fields."""
    assert old in PAIR_JUDGE
    write_pairs(tmp_path, judge=PAIR_JUDGE.replace(old, new))
    refused(tmp_path, "judge/pairs.yaml:", *says)


def test_what_the_excess_cannot_be(tmp_path: Path) -> None:
    """With two passes it is -1/2 at least, so a refuter below that can never fire."""
    refuter = {"metric": "real.order.excess.difference", "lt": -0.6}
    claims = [{"id": "odd", "when": refuter, "means": "nothing"}]
    write_pairs(tmp_path, protocol={"passes": 2}, refuters=claims)
    refused(tmp_path, f"{REG}:", "refuters[0]", "always -0.5 to 1")


def test_a_template_that_shows_both_orders_alike(tmp_path: Path) -> None:
    """A prompt that sorts the answers, cuts or hides one, or shows the second first is refused."""
    changes = {
        "{{ [one, two] | sort | join(' or ') }}": "before `one`",
        "{{ (one ~ two) | length }}": "does not show the whole of",
        "First: {{ one }} Second: {{ two[:1] }}": "does not show the whole of `two`",
        "First: {{ two }} Second: {{ one }}": "shows `two` of row",
    }
    for change, says in changes.items():
        root = tmp_path / str(len(change))
        old = "First: {{ one }} Second: {{ two }}"
        assert old in PAIR_JUDGE
        write_pairs(root, judge=PAIR_JUDGE.replace(old, change))
        done = refused(root, "judge/pairs.yaml")
        assert says in done.err
