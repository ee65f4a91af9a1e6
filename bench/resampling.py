"""What an interval costs: every statistic of pools and boards from shared resamples, and by scipy.

The votes of MT-Bench (3,355 by 65 people on pairs of six models' answers), 2,000 resamples, one
process, one thread; seconds are those of the processor. Each statistic is made alone by both, from
the same rows and with the same formula, so that only the resampling differs; then all of them
together; then three studies as their reports show them. See docs/resampling.md.

    python bench/resampling.py               five rounds
    python bench/resampling.py --quick       one round

The votes lie in mtbench/human.jsonl below PREREG_CORPORA, or below shared/data beside the
repository. Without the file, invented votes of the same shape take its place, and are named so.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import bootstrap

from prereg_judge.annotation_form import TableForm
from prereg_judge.annotations import AnnotationTable, load_annotations
from prereg_judge.cli.common import say
from prereg_judge.stats.displacement import any_swap_if_independent, any_swap_jointly
from prereg_judge.stats.ranking import bradley_terry, displaced, kendall_tau_b
from prereg_judge.stats.resample import Resampler, percentile_interval, ratio
from prereg_judge.study import judge_pools, leaderboard, pools
from prereg_judge.study.outcomes import Resampling, StudyInput, TableInput
from prereg_judge.study.pools import vote_pairs
from prereg_judge.tallies import tally
from prereg_judge.votes import PAIR_KEYS, SlotVerdicts, VoteCounts

ROOT = Path(__file__).parents[1]
FORM = TableForm("mt-bench", {"author": ("author_*",), "expert": ("expert_*",)})
POOLS = ("author", "expert")
VOTES, RESAMPLES, SEED, LEVEL = 3_355, 2_000, 2024, 0.95
# Resamples that scipy makes at a time: all at once would need gigabytes.
BATCH = 250
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
SIDES = np.array([1, -1, 0])

Array = NDArray[Any]


def invent(path: Path) -> None:
    """Votes of the same shape: who votes, on which pairs, and how often, drawn at random."""
    generator = np.random.default_rng(SEED)
    models = [f"model-{n}" for n in range(6)]
    strength = np.linspace(1.0, -1.0, 6)
    people = [*(f"author_{n}" for n in range(6)), *(f"expert_{n}" for n in range(59))]
    rows: dict[tuple[Any, ...], str] = {}
    while len(rows) < VOTES:
        a, b = (int(model) for model in generator.choice(6, 2, replace=False))
        key = (
            people[generator.integers(len(people))],
            models[a],
            models[b],
            int(generator.integers(81, 161)),
            int(generator.integers(1, 3)),
        )
        win = 0.75 / (1.0 + np.exp(strength[b] - strength[a]))
        outcome = generator.choice(3, p=[win, 0.75 - win, 0.25])
        rows.setdefault(key, ("model_a", "model_b", "tie")[outcome])
    names = ("judge", "model_a", "model_b", "question_id", "turn", "winner")
    with path.open("w", encoding="utf-8") as stream:
        for key, winner in rows.items():
            stream.write(json.dumps(dict(zip(names, (*key, winner), strict=True))) + "\n")


def votes() -> tuple[str, AnnotationTable]:
    """What the votes are, and the votes."""
    corpora = Path(os.environ.get("PREREG_CORPORA", ROOT.parent / "shared/data"))
    path = corpora / "mtbench/human.jsonl"
    if path.is_file():
        return "MT-Bench", load_annotations(path, form=FORM, shown=path.name)
    say(f"no {path}: invented votes take its place, whose times are alike and whose values are not")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "invented.jsonl"
        invent(path)
        return "invented votes", load_annotations(path, form=FORM, shown=path.name)


@dataclass(frozen=True)
class VoteRows:
    """The votes one by one, as one of so many kinds: pool x pair of models x outcome."""

    kind: Array  # (n,), 0 <= kind < 2 * pairs * 3
    pairs: Array  # (pairs, 2), numbers of the models
    models: int

    def boards(self, totals: Array) -> Array:
        """Wins from counts of kinds, shape (T, 2 * pairs * 3) to (T, 2, models, models)."""
        counts = totals.reshape(len(totals), 2, len(self.pairs), 3)
        wins = np.zeros((len(totals), 2, self.models, self.models))
        half = counts[..., 2] / 2
        wins[:, :, self.pairs[:, 0], self.pairs[:, 1]] = counts[..., 0] + half
        wins[:, :, self.pairs[:, 1], self.pairs[:, 0]] = counts[..., 1] + half
        return wins

    @property
    def columns(self) -> Array:
        return np.eye(2 * len(self.pairs) * 3)[self.kind]

    def counted(self, drawn: Array) -> Array:
        """Counts of kinds of votes that scipy drew, shape (T, n) to (T, kinds)."""
        kinds = 2 * len(self.pairs) * 3
        at = drawn.astype(np.int64) + kinds * np.arange(len(drawn))[:, None]
        return np.bincount(at.ravel(), minlength=kinds * len(drawn)).reshape(-1, kinds)


def vote_rows(table: AnnotationTable) -> VoteRows:
    names = sorted({name for v in table.votes for name in (v.left or "", v.right or "")})
    pairs = list(combinations(range(len(names)), 2))
    kinds = []
    for vote in table.votes:
        one, two = names.index(vote.left or ""), names.index(vote.right or "")
        outcome = "ab".find(vote.label) if vote.label != "tie" else 2
        if one > two:
            one, two, outcome = two, one, (1, 0, 2)[outcome]
        kinds.append((POOLS.index(vote.pool) * len(pairs) + pairs.index((one, two))) * 3 + outcome)
    return VoteRows(np.array(kinds), np.array(pairs), len(names))


def credit(wins: Array) -> Array:
    """Mean credit of each model, shape (..., M, M) to (..., M)."""
    met = (wins + np.swapaxes(wins, -1, -2)).sum(axis=-1)
    return ratio(wins.sum(axis=-1), met)


def of_credit(statistic: Callable[[Array, Array], Array], wins: Array) -> Array:
    one, two = np.moveaxis(credit(wins), 1, 0)
    return statistic(one, two)


def of_strength(wins: Array) -> Array:
    one, two = np.moveaxis(np.round(bradley_terry(wins), 6), 1, 0)
    return kendall_tau_b(one, two)


def gap(one: Array, two: Array, *, above: int, below: int) -> Array:
    del two
    return one[:, above] - one[:, below]


def item_columns(counts: VoteCounts, judge: SlotVerdicts) -> dict[str, Array]:
    """For each statistic over items: what each item adds to (a, b) of a / b, or (a, b, c) of
    (a - b) / c; shape (n, 2) or (n, 3)."""
    found = {}
    for at, pool in enumerate(counts.pools):
        found[f"pair disagreement, {pool}"] = np.column_stack(vote_pairs(counts.counts[:, at]))
    rated = (counts.by_pool > 0).all(axis=1)
    top = counts.counts.max(axis=2, keepdims=True)
    split = (counts.counts == top).sum(axis=2) > 1
    label = np.where(split, 0, SIDES[counts.counts.argmax(axis=2)])
    free = rated & ((counts.counts > 0).sum(axis=2) == 1).all(axis=1)
    opposite, changed = label.prod(axis=1) == -1, label[:, 0] != label[:, 1]
    found["share of opposite winners"] = np.column_stack([free & opposite, free])
    found["share of changed majorities"] = np.column_stack([free & changed, free])
    agrees = (label == judge.ab[:, None]) & rated[:, None]
    found["lean of a judge"] = np.column_stack([agrees, rated])
    return {name: columns.astype(np.float64) for name, columns in found.items()}


def item_value(totals: Array) -> Array:
    top = totals[..., 0] - (totals[..., 1] if totals.shape[-1] == 3 else 0.0)
    return ratio(top, totals[..., -1])


@dataclass(frozen=True)
class Case:
    """A statistic, as sums over rows and as scipy takes it."""

    name: str
    rows: str
    columns: Array  # (n, m)
    value: Callable[[Array], Array]  # totals (R, m) to values (R,)
    data: tuple[Array, ...]
    statistic: Callable[..., Array]

    def ours(self) -> tuple[float, float]:
        totals = Resampler(len(self.columns), RESAMPLES, SEED).totals(self.columns)
        found = percentile_interval(self.value(totals), level=LEVEL)
        return (found.low, found.high) if found else (np.nan, np.nan)

    def scipys(self) -> tuple[float, float]:
        found = bootstrap(
            self.data,
            self.statistic,
            paired=True,
            vectorized=True,
            n_resamples=RESAMPLES,
            batch=BATCH,
            confidence_level=LEVEL,
            method="percentile",
            rng=np.random.default_rng(SEED),
        ).confidence_interval
        return float(found.low), float(found.high)


def board_case(name: str, rows: VoteRows, of_wins: Callable[[Array], Array]) -> Case:
    def statistic(drawn: Array, axis: int = -1) -> Array:
        several = np.moveaxis(np.atleast_2d(drawn), axis, -1)
        return of_wins(rows.boards(rows.counted(several))).reshape(drawn.shape[:-1])

    def value(totals: Array) -> Array:
        return of_wins(rows.boards(totals))

    return Case(name, "votes", rows.columns, value, (rows.kind,), statistic)


def item_case(name: str, columns: Array) -> Case:
    def statistic(*drawn: Array, axis: int = -1) -> Array:
        return item_value(np.stack([values.sum(axis=axis) for values in drawn], axis=-1))

    return Case(name, "items", columns, item_value, tuple(columns.T), statistic)


def cases(rows: VoteRows, items: dict[str, Array]) -> list[Case]:
    wins = rows.boards(rows.columns.sum(axis=0)[None])
    best = list(np.argsort(-credit(wins)[0, 0]))
    named: dict[str, Callable[[Array], Array]] = {
        "tau": partial(of_credit, kendall_tau_b),
        "tau by Bradley-Terry": of_strength,
        "models displaced": partial(of_credit, displaced),
        "SD of shifts": partial(of_credit, lambda one, two: (two - one).std(axis=1, ddof=1)),
    }
    for place, (above, below) in enumerate(pairwise(best), start=1):
        named[f"gap below place {place}"] = partial(
            of_credit, partial(gap, above=above, below=below)
        )
    for at, pool in enumerate(POOLS):
        for model in range(rows.models):
            named[f"credit of model {model + 1}, {pool}"] = partial(
                lambda wins, at, model: credit(wins)[:, at, model], at=at, model=model
            )
    found = [board_case(name, rows, of_wins) for name, of_wins in named.items()]
    return found + [item_case(name, columns) for name, columns in items.items()]


def together(rows: VoteRows, items: dict[str, Array], every: list[Case]) -> int:
    """All statistics from shared resamples; how many intervals there are."""
    totals = Resampler(len(rows.kind), RESAMPLES, SEED).totals(rows.columns)
    wins = rows.boards(totals)
    one, two = np.moveaxis(credit(wins), 1, 0)
    of_models = [*one.T, *two.T]
    best = np.argsort(-credit(rows.boards(rows.columns.sum(axis=0)[None]))[0, 0])
    gaps = [one[:, a] - one[:, b] for a, b in pairwise(best)]
    shift = (two - one).std(axis=1, ddof=1)
    boards = [kendall_tau_b(one, two), of_strength(wins), displaced(one, two), shift]
    sums = Resampler(len(next(iter(items.values()))), RESAMPLES, SEED).totals(
        np.hstack(list(items.values()))
    )
    ends = np.cumsum([columns.shape[1] for columns in items.values()])[:-1]
    of_items = [item_value(part) for part in np.split(sums, ends, axis=1)]
    values = [*boards, *gaps, *of_models, *of_items]
    found = [percentile_interval(v, level=LEVEL) for v in values]
    scores = one[0]
    any_swap_if_independent(list(-np.diff(np.sort(scores)[::-1])), sd=float(shift[0]))
    any_swap_jointly(scores, shift_sd=float(shift[0]), simulations=RESAMPLES, seed=SEED)
    if len(found) != len(every):
        sys.exit(f"{len(found)} statistics together, {len(every)} alone")
    return len(found)


def invented_judge(counts: VoteCounts) -> SlotVerdicts:
    """A judge that gives the second pool's most frequent label three times in five."""
    generator = np.random.default_rng(SEED)
    label = SIDES[counts.counts[:, 1].argmax(axis=1)]
    ab, ba = (
        np.where(generator.random(len(label)) < 0.6, label, generator.integers(-1, 2, len(label)))
        for _ in range(2)
    )
    return SlotVerdicts("invented", counts.items, ab, ba)


def study_input(table: AnnotationTable) -> StudyInput:
    counts = {key: tally(table, key=key, pools=POOLS) for key in PAIR_KEYS}
    judges = {"invented": {key: invented_judge(one) for key, one in counts.items()}}
    return StudyInput(
        items=(),
        outcomes={},
        calls=(),
        verdicts=(),
        ships=None,
        passes=0,
        orders=(),
        missing="exclude",
        decoding="greedy",
        earlier={},
        resolve="agree_or_tie",
        resampling=Resampling(RESAMPLES, SEED),
        table=TableInput(counts, "stored", POOLS, "tie", judges),
    )


def studies(data: StudyInput) -> int:
    """Everything that three reports show; how many metrics have an interval."""
    found = [m for study in (pools, judge_pools, leaderboard) for m in study.summary(data)]
    return sum(m.interval is not None for m in found)


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of one core: with one thread that is what it takes where nothing else runs."""
    started = time.process_time()
    value = function()
    return time.process_time() - started, value


def in_turns(every: list[Case], rounds: int) -> Iterator[dict[str, Any]]:
    """Each statistic alone, by both; who begins moves on from round to round."""
    for case in every:
        seconds: dict[str, list[float]] = {"ours": [], "scipy": []}
        limits = {}
        for number in range(rounds):
            sides = [("ours", case.ours), ("scipy", case.scipys)]
            for side, function in sides if number % 2 == 0 else sides[::-1]:
                taken, limits[side] = timed(function)
                seconds[side].append(taken)
        ratios = [s / o for s, o in zip(seconds["scipy"], seconds["ours"], strict=True)]
        yield {
            "statistic": case.name,
            "rows": len(case.columns),
            "of": case.rows,
            "seconds": seconds,
            "times_scipy": {"median": statistics.median(ratios), "all": ratios},
            "limits": limits,
        }


def main() -> None:
    """Measure and print; write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results/resampling.json")
    options = parser.parse_args()
    if any(os.environ.get(name) != "1" for name in THREADS):
        # The libraries read these when they are loaded: begin again with one thread.
        os.execve(
            sys.executable, [sys.executable, *sys.argv], os.environ | dict.fromkeys(THREADS, "1")
        )
    rounds = 1 if options.quick else options.rounds
    name, table = votes()
    rows, data = vote_rows(table), study_input(table)
    assert data.table is not None
    counts = data.table.counts["unordered"]
    items = item_columns(counts, invented_judge(counts))
    every = cases(rows, items)
    print(f"{name}: {len(rows.kind)} votes, {len(counts.items)} items, {RESAMPLES} resamples")
    whole = [timed(lambda: together(rows, items, every)) for _ in range(rounds)]
    reports = [timed(lambda: studies(data)) for _ in range(rounds)]
    alone = []
    for found in in_turns(every, rounds):
        alone.append(found)
        ours, scipys = (found["limits"][side] for side in ("ours", "scipy"))
        print(
            f"{found['statistic']:32} {found['times_scipy']['median']:6.1f} times scipy   "
            f"[{ours[0]:.4f}, {ours[1]:.4f}]   scipy [{scipys[0]:.4f}, {scipys[1]:.4f}]"
        )
    together_s = statistics.median(seconds for seconds, _ in whole)
    by_scipy = sum(statistics.median(found["seconds"]["scipy"]) for found in alone)
    reports_s = statistics.median(seconds for seconds, _ in reports)
    print(
        f"{whole[0][1]} intervals together: {together_s:.2f} s, scipy one by one {by_scipy:.1f} s: "
        f"{by_scipy / together_s:.0f} times\n"
        f"three reports with {reports[0][1]} intervals: {reports_s:.2f} s"
    )
    result = {
        "data": name,
        "votes": len(rows.kind),
        "items": len(counts.items),
        "resamples": RESAMPLES,
        "rounds": rounds,
        "together": {"intervals": whole[0][1], "seconds": [s for s, _ in whole]},
        "reports": {"intervals": reports[0][1], "seconds": [s for s, _ in reports]},
        "scipy_seconds": by_scipy,
        "alone": alone,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    say(f"wrote {options.out}")


if __name__ == "__main__":
    main()
