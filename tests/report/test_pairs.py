"""What a reader sees of pairs: orders and passes compared, what was said and what it means."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from itertools import product
from typing import Any

import jsonschema
import pytest

from prereg_judge.canon import canonical_json, sha256_value
from prereg_judge.report.files import (
    DisagreementLine,
    Result,
    VerdictLine,
    disagreement_json,
    disagreements_csv,
    result_sha256,
    score_json,
    verdicts_csv,
)
from prereg_judge.report.pairs import CONSISTENT, REVERSAL, swap_mark, swap_table
from prereg_judge.report.standard import standard_metrics
from prereg_judge.report.terminal import render, transition_table
from prereg_judge.study.leaderboard import board
from prereg_judge.study.outcomes import PairScale, StudyInput
from prereg_judge.study.pairs import swap_tables
from prereg_judge.study.rows import disagreements, rows_of, transitions
from report.test_expected_and_arms import CHOSEN, text_of
from report.test_expected_and_arms import result_of as plain_result
from study.pairs_made import FIVE, FORCED, THREE, Said, make
from study.pools_made import made, votes
from support import REPOSITORY

SCHEMA = json.loads(
    (REPOSITORY / "src/prereg_judge/report/score.schema.json").read_text(encoding="utf-8")
)
# Two passes; p0 is reversed in both, p1 consistent, p2 changes its mind in order ba alone.
SAID: list[Said] = [(["A", "A"], ["AA", "A"]), (["A", "A"], ["B", "B"]), (["A", "A"], ["B", "A"])]


def result_of(data: StudyInput) -> Result:
    """A result of a run of pairs of which nothing was registered."""
    numbers = range(1, data.passes + 1)
    return replace(
        plain_result(data, "pairwise"),
        tables=transitions(data, "real"),
        swaps=tuple(t for p in numbers for t in swap_tables(data, "real", p)),
        sides=data.pair.sides if data.pair else {},
    )


def words(shown: Any) -> str:
    """What a terminal shows, with its spaces and lines run together."""
    return " ".join(text_of(shown).split())


@pytest.mark.parametrize("scale", [FIVE, THREE, FORCED])
def test_a_cell_is_marked_by_the_answer_that_wins(scale: PairScale) -> None:
    """Mapped back to the answers, the orders agree exactly in the cells marked as consistent, and
    prefer one answer each exactly in those marked as reversals.
    """
    for ab, ba in product(scale.sides, repeat=2):
        one, other = scale.side(scale.mapped(ab, "ab")), scale.side(scale.mapped(ba, "ba"))
        mark = swap_mark(scale.sides[ab], scale.sides[ba])
        assert (mark == CONSISTENT) == (one == other)
        assert (mark == REVERSAL) == (one * other == -1)
    assert swap_mark(None, 1) == swap_mark(1, None) == swap_mark(None, None) == ""


def test_the_published_table_reads_with_its_reversals_and_consistent_cells() -> None:
    """*Whose Gold?*, qwen2.5-7b: (A, A) 630 and (B, B) 18 are reversals; (B, A) 104, (A, B) 85 and
    twice a tie 60 are consistent; the rest is neither.
    """
    cells = {
        ("A", "A"): 630, ("tie", "A"): 163, ("A", "tie"): 129, ("B", "A"): 104, ("A", "B"): 85,
        ("tie", "tie"): 60, ("B", "B"): 18, ("tie", "B"): 6, ("B", "tie"): 5,
    }  # fmt: skip
    said: list[Said] = [([ab], [ba]) for (ab, ba), n in cells.items() for _ in range(n)]
    (table,) = swap_tables(make(said, pair=THREE), "real", 1)
    shown = words(swap_table(table, sides=THREE.sides))
    assert "real, pass 1: order ab (down) against order ba (across), as said" in shown
    assert "n = 1200" in shown
    for line in ("│ A │ r 630 │ 129 │ = 85 │ 0 │", "│ tie │ 163 │ = 60 │ 6 │ 0 │",
                 "│ B │ = 104 │ 5 │ r 18 │ 0 │"):  # fmt: skip
        assert line in shown
    assert "r: a reversal, the same slot twice, so the preferred answer changed" in shown


def test_strata_are_in_the_score_and_named_on_the_terminal() -> None:
    """One table a pass is shown; score.json has those of the strata too, and follows its schema."""
    data = make(SAID, strata=["x", "x", "y"])
    result = result_of(data)
    read = json.loads(canonical_json(score_json(result)))
    jsonschema.validate(read, SCHEMA)
    found = [(t["pass"], t["stratum"], sum(map(sum, t["counts"]))) for t in read["swap_tables"]]
    assert found == [(p, s, n) for p in (1, 2) for s, n in ((None, 3), ("x", 2), ("y", 1))]
    assert read["swap_tables"][0]["sides"] == [2, 1, 0, -1, -2, None]
    shown = words(render(result))
    assert shown.count("order ab (down) against order ba") == 2
    assert "The same by stratum (2): `swap_tables` in score.json." in shown
    assert "by stratum" not in words(render(result_of(make(SAID))))


def test_passes_are_compared_within_an_order() -> None:
    """p2 changes in order ba alone: the table of ab has every row on its diagonal, that of ba not;
    each says that its verdicts are said of the answers.
    """
    ab, ba = transitions(make(SAID), "real")
    assert (ab.order, ba.order, ab.n, ba.n) == ("ab", "ba", 3, 3)
    assert ab.count("A", "A") == 3
    assert (ba.count("A", "A"), ba.count("A", "B"), ba.count("BB", "B")) == (1, 1, 1)
    shown = words(transition_table(ba))
    assert "real, order ba: pass 1 (down) against pass 2 (across), as said of answers a" in shown


def test_files_have_what_was_said_beside_what_it_means() -> None:
    """In order ba the judge said `A` of the answer shown first, which is answer b: verdict `B`."""
    data = make(SAID)
    said = {("p2", "ab"): ("A", "A"), ("p2", "ba"): ("B", "A")}
    lines = [
        VerdictLine(row, (None, None), said[row.item.id, row.order])
        for row in rows_of(data, "real")
        if row.item.id == "p2"
    ]
    raw = verdicts_csv(lines, passes=2).decode("utf-8-sig")
    _, ba = csv.DictReader(io.StringIO(raw))
    assert [ba[f"{what}_{n}"] for what in ("verdict", "said") for n in (1, 2)] == [*"AB", *"BA"]
    (row,) = (r for r in disagreements(data) if r.item_id == "p2")
    line = DisagreementLine(row, {"q": "?"}, ("r1", "r2"), (None, None), said["p2", "ba"])
    (told,) = csv.DictReader(io.StringIO(disagreements_csv([line], passes=2).decode("utf-8-sig")))
    names = ("order", "verdict_1", "said_1", "reply_1", "q")
    assert [told[n] for n in names] == ["ba", "A", "B", "r1", "?"]
    assert disagreement_json(line)["said"] == ["B", "A"]
    plain = replace(line, said=())
    assert "said" not in disagreement_json(plain)
    assert b"said" not in disagreements_csv([plain], passes=2)


def test_the_summary_leaves_strata_verdicts_and_single_orders_to_all() -> None:
    """What the swap does in each pass and beyond repeat noise stays; the rest is counted below."""
    data = make(SAID, strata=["x", "x", "y"], labels=["A", "B", "tie"], resolve="agree_or_tie")
    result = result_of(data)
    shown = standard_metrics(result)
    names = [m.ref.name.removeprefix("real.") for m in shown]
    for name in ("order.reversal.rate", "order.bias.p", "resolved.wrong.rate"):
        assert names.count(name) == 2
    assert "order.excess.difference" in names
    assert not [n for n in names if n.startswith("verdict.") or n.endswith("reversal.count")]
    assert not [m for m in shown if "stratum" in dict(m.ref.params)]
    in_order = {m.ref.name for m in shown if "order" in dict(m.ref.params)}
    assert in_order == {"real.agreement.rate", "real.wrong.rate"}
    left = len(result.summary) - len(shown)
    assert f"{left} more with --all" in words(render(result))
    assert "more with --all" not in words(render(result, everything=True))


def test_numbers_of_runs_without_pairs_keep_their_hash() -> None:
    """Keys that only pairs fill are no part of another run's hash; of pairs they are."""
    result = replace(plain_result(CHOSEN, "self-agreement"), summary=(), curves=())
    value = score_json(result)
    core = ("id", "study", "run", "verdict", "reasons", "claims", "metrics", "arms")
    before = {name: value[name] for name in (*core, "expected_agreement")}
    tables = [{k: v for k, v in t.items() if k != "order"} for t in value["transitions"]]
    assert result_sha256(result) == sha256_value("result", {**before, "transitions": tables})
    pairs = result_of(make(SAID))
    assert result_sha256(pairs) != result_sha256(replace(pairs, swaps=pairs.swaps[:1]))
    ranked = replace(result, board=board(made(votes([("a", "a"), ("b", "a")]))))
    assert len(ranked.board) == 2
    assert result_sha256(ranked) != result_sha256(result)
