"""What a rehearsal came to, as values, JSON and text: how often each claim came out how.

Sees results of plays, never records. Every share has its n and its Wilson interval.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from prereg_judge.report.numbers import number, of_things
from prereg_judge.report.terminal import outcome_text, visible
from prereg_judge.stats.location import mean_interval
from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.study.counted import LEVEL
from prereg_judge.study.metric import Metric, MetricRef
from prereg_judge.verdict import ClaimKind, ClaimOutcome, Verdict

_WORDS: Mapping[ClaimKind, tuple[str, ...]] = {
    "band": ("inside", "missed low", "missed high"),
    "prediction": ("held", "failed"),
    "refuter": ("fired", "silent"),
    "stop": ("tripped", "not tripped"),
    "decision": ("taken", "not taken"),
}
_VERDICTS = ("PASS", "FAIL", "REFUTED", "STOPPED", "INCONCLUSIVE")
NoInterval = Literal["no value", "one value", "all alike"]
QUANTILES = (0.025, 0.25, 0.5, 0.75, 0.975)
QUANTILE_METHOD: Literal["inverted_cdf"] = "inverted_cdf"
MEAN_METHOD = "t, clipped to the range of the metric"
_REASONS_SHOWN = 3


@dataclass(frozen=True)
class Play:
    """One rehearsal: its verdict, its registered metrics, calls made, trials never called."""

    verdict: Verdict
    claimed: Mapping[MetricRef, Metric]
    calls: int
    not_called: int


@dataclass(frozen=True)
class Scenario:
    """What was assumed, and what came of it.

    Attributes
    ----------
    stated, unstated
        Keys with their values; keys that were not given, with what that means.
    notes
        Sentences for the reader: what is not simulated, what the assumptions come to.
    plays
        At least one, in order; all of the same claims.
    within
        The least and the largest value of a registered metric; one that is not in it has no bounds.
    """

    stated: Mapping[str, str]
    unstated: tuple[str, ...]
    notes: tuple[str, ...]
    plays: tuple[Play, ...]
    within: Mapping[MetricRef, tuple[float, float]]


@dataclass(frozen=True)
class Rehearsal:
    """Every scenario of a registration, the one assumed first."""

    id: str
    title: str
    trials: int
    times: int
    seed: int
    scenarios: tuple[Scenario, ...]


@dataclass(frozen=True)
class Share:
    """How often a word came: k of n, the share and its Wilson interval at `LEVEL`."""

    word: str
    k: int
    n: int
    low: float
    high: float

    @classmethod
    def of(cls, word: str, k: int, n: int) -> Share:
        """A count of n >= 1."""
        return cls(word, k, n, *wilson_interval(k, n, level=LEVEL))

    def __str__(self) -> str:
        share, limits = number(self.k / self.n), f"[{number(self.low)}, {number(self.high)}]"
        return f"{self.k}/{self.n} = {share} {limits}"


@dataclass(frozen=True)
class ClaimShares:
    """A claim, and how often it had each outcome that its kind has; `undefined` if it came."""

    claim: ClaimOutcome
    shares: tuple[Share, ...]

    @property
    def always(self) -> str | None:
        """The outcome, where every play had the same."""
        return next((s.word for s in self.shares if s.k == s.n), None)

    def share(self, word: str) -> Share:
        """How often a word came; one that is not listed never did."""
        never = Share.of(word, 0, self.shares[0].n)
        return next((s for s in self.shares if s.word == word), never)


@dataclass(frozen=True)
class Spread:
    """The values that a metric took.

    Attributes
    ----------
    ref
        The metric.
    values
        Those of the plays in which it was defined, in order.
    n
        How many plays there were.
    undefined
        How often it was undefined for each reason.
    within
        The least and the largest value that the metric can have, infinite where there is none.
    """

    ref: MetricRef
    values: tuple[float, ...]
    n: int
    undefined: Mapping[str, int]
    within: tuple[float, float]

    @property
    def mean(self) -> float | None:
        """None where it never had a value."""
        return float(np.mean(self.values)) if self.values else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's t interval of the mean at `LEVEL`, clipped to what the mean can be.

        None where `no_interval` says why. Clipping takes away no value that could be true, so
        the coverage stays. The mean that was seen always lies inside.
        """
        found = mean_interval(self.values, level=LEVEL) if self.values else None
        if found is None or self.mean is None:
            return None
        low, high = min(self.within[0], self.mean), max(self.within[1], self.mean)
        return max(low, found[0]), min(high, found[1])

    @property
    def no_interval(self) -> NoInterval | None:
        """Why the mean has no interval; None where it has one."""
        if self.interval is not None:
            return None
        few: tuple[NoInterval, ...] = ("no value", "one value")
        return few[len(self.values)] if len(self.values) < len(few) else "all alike"

    @property
    def quantiles(self) -> tuple[float, ...]:
        """At `QUANTILES`, each one a value that was seen; empty where there was none."""
        if not self.values:
            return ()
        found = np.quantile(self.values, QUANTILES, method=QUANTILE_METHOD)
        return tuple(float(q) for q in found)


def claim_shares(scenario: Scenario) -> tuple[ClaimShares, ...]:
    """Claim by claim, in the order of the registration."""
    n = len(scenario.plays)
    found = []
    for at, claim in enumerate(scenario.plays[0].verdict.outcomes):
        seen = Counter(play.verdict.outcomes[at].outcome for play in scenario.plays)
        words: list[Any] = list(_WORDS[claim.kind]) + (["undefined"] if "undefined" in seen else [])
        found.append(ClaimShares(claim, tuple(Share.of(w, seen[w], n) for w in words)))
    return tuple(found)


def verdict_shares(scenario: Scenario) -> tuple[Share, ...]:
    """How often a play ended with each word."""
    seen = Counter(play.verdict.word for play in scenario.plays)
    return tuple(Share.of(w, seen[w], len(scenario.plays)) for w in _VERDICTS)  # type: ignore[index]


def spreads(scenario: Scenario) -> tuple[Spread, ...]:
    """The values of every registered metric."""
    found = []
    for ref in scenario.plays[0].claimed:
        metrics = [play.claimed[ref] for play in scenario.plays]
        values = tuple(m.value for m in metrics if m.value is not None)
        within = scenario.within.get(ref, (-math.inf, math.inf))
        lacking = Counter(str(m.undefined) for m in metrics if m.undefined is not None)
        found.append(Spread(ref, values, len(metrics), dict(lacking), within))
    return tuple(found)


def warnings(scenario: Scenario) -> list[str]:
    """What the registrant should look at before locking, as sentences."""
    n = len(scenario.plays)
    every = f"all {n} plays" if n > 1 else "the only play"
    said = [
        f"{shares.claim.kind} {shares.claim.id} came out {shares.always!r} in {every}: it "
        "cannot tell these assumptions from others under which it always does."
        for shares in claim_shares(scenario)
        if shares.always is not None
    ]
    for word in ("INCONCLUSIVE", "STOPPED"):
        ended = [p for p in scenario.plays if p.verdict.word == word]
        if not ended:
            continue
        reasons = Counter(reason for play in ended for reason in play.verdict.reasons)
        most = [f"{reason} ({k})" for reason, k in reasons.most_common(_REASONS_SHOWN)]
        left = len(reasons) - len(most)
        more = f"; and {left} more" if left > 0 else ""
        said.append(f"{word} in {len(ended)} of {of_things(n, 'play')}: {'; '.join(most)}{more}.")
    for spread in spreads(scenario):
        for reason, k in spread.undefined.items():
            said.append(f"{spread.ref} was undefined in {k} of {of_things(n, 'play')}: {reason}.")
    return said


def not_told_apart(first: Scenario, second: Scenario) -> list[str]:
    """Claims whose outcomes are about as frequent under both scenarios, as sentences."""
    said = []
    for one, other in zip(claim_shares(first), claim_shares(second), strict=True):
        words = dict.fromkeys(s.word for each in (one, other) for s in each.shares)
        pairs = [(one.share(word), other.share(word)) for word in words]
        if all(a.low <= b.high and b.low <= a.high for a, b in pairs):
            said.append(
                f"{one.claim.kind} {one.claim.id} does not tell the two apart here: the intervals "
                "of each outcome overlap."
            )
    return said


def as_json(rehearsal: Rehearsal) -> dict[str, Any]:
    """Everything as JSON values; `simulated` stands first, for no number here was observed."""
    told = {
        "simulated": True,
        "id": rehearsal.id,
        "trials": rehearsal.trials,
        "times": rehearsal.times,
        "seed": rehearsal.seed,
        "level": LEVEL,
        "scenarios": [_scenario_json(s) for s in rehearsal.scenarios],
    }
    if len(rehearsal.scenarios) > 1:
        told["not_told_apart"] = not_told_apart(*rehearsal.scenarios)
    return told


def _scenario_json(scenario: Scenario) -> dict[str, Any]:
    return {
        "assumed": dict(scenario.stated),
        "not_stated": list(scenario.unstated),
        "notes": list(scenario.notes),
        "warnings": warnings(scenario),
        "verdicts": [_share_json(s) for s in verdict_shares(scenario)],
        "claims": [
            {
                "id": c.claim.id,
                "kind": c.claim.kind,
                "registered": c.claim.registered,
                "outcomes": [_share_json(s) for s in c.shares],
            }
            for c in claim_shares(scenario)
        ],
        "metrics": [
            {
                "metric": s.ref.name,
                "params": dict(s.ref.params),
                "n": s.n,
                "defined": len(s.values),
                "undefined": dict(s.undefined),
                "mean": s.mean,
                "mean_interval": None if s.interval is None else list(s.interval),
                "mean_method": None if s.interval is None else MEAN_METHOD,
                "no_mean_interval": s.no_interval,
                "quantile_method": QUANTILE_METHOD,
                "quantiles": {f"{q:g}": v for q, v in zip(QUANTILES, s.quantiles, strict=False)},
            }
            for s in spreads(scenario)
        ],
    }


def _share_json(share: Share) -> dict[str, Any]:
    return {
        "outcome": share.word,
        "k": share.k,
        "n": share.n,
        "share": share.k / share.n,
        "interval": [share.low, share.high],
        "method": "wilson",
    }


def render(rehearsal: Rehearsal) -> RenderableType:
    """The whole rehearsal for a terminal."""
    one = len(rehearsal.scenarios) == 1
    title = f"{rehearsal.id}: {of_things(rehearsal.times, 'rehearsal')} of "
    title += of_things(rehearsal.trials, "trial")
    title += "" if one else ", twice"
    parts: list[RenderableType] = [
        Text(visible(f"{title} (simulated, seed {rehearsal.seed})"), style="bold")
    ]
    for name, scenario in zip("AB", rehearsal.scenarios, strict=False):
        stated = ", ".join(f"{k} = {v}" for k, v in scenario.stated.items())
        parts.append(Text(visible(f"{'' if one else f'{name}: '}Assumed: {stated}")))
        if scenario.unstated:
            parts.append(Text(f"Not stated: {', '.join(scenario.unstated)}", style="dim"))
    parts += [_claims(rehearsal.scenarios), _verdicts(rehearsal.scenarios)]
    parts += [_metrics(rehearsal.scenarios), *_said(rehearsal.scenarios)]
    return Group(*parts)


def _columns(table: Table, scenarios: Sequence[Scenario]) -> None:
    for name, _ in zip("AB", scenarios, strict=False):
        beside = f"{name}: " if len(scenarios) > 1 else ""
        table.add_column(f"{beside}k/n = share, {LEVEL:.0%} Wilson")


def _claims(scenarios: Sequence[Scenario]) -> Table:
    table = Table(title="How often each claim came out how", title_justify="left")
    table.add_column("claim", overflow="fold")
    table.add_column("registered", overflow="fold")
    table.add_column("outcome")
    _columns(table, scenarios)
    for together in zip(*map(claim_shares, scenarios), strict=True):
        claim = together[0].claim
        words = dict.fromkeys(s.word for each in together for s in each.shares)
        for place, word in enumerate(words):
            heading = (f"{claim.kind}\n{escape(claim.id)}", escape(claim.registered))
            table.add_row(
                *(heading if place == 0 else ("", "")),
                outcome_text(word),
                *(str(each.share(word)) for each in together),
                end_section=place == len(words) - 1,
            )
    return table


def _verdicts(scenarios: Sequence[Scenario]) -> Table:
    table = Table(title="Verdicts", title_justify="left")
    table.add_column("verdict")
    _columns(table, scenarios)
    for together in zip(*map(verdict_shares, scenarios), strict=True):
        if any(share.k for share in together):
            table.add_row(outcome_text(together[0].word), *map(str, together))
    return table


def _metrics(scenarios: Sequence[Scenario]) -> Table:
    table = Table(title="Registered metrics over the rehearsals", title_justify="left")
    table.add_column("metric", overflow="fold")
    table.add_column(f"mean, {LEVEL:.0%} t, clipped")
    table.add_column(f"quantiles {', '.join(f'{q:g}' for q in QUANTILES)}, inverted cdf")
    table.add_column("defined in")
    for name, scenario in zip("AB", scenarios, strict=False):
        for spread in spreads(scenario):
            beside = f" ({name})" if len(scenarios) > 1 else ""
            mean = "-" if spread.mean is None else number(spread.mean)
            if spread.interval is not None:
                low, high = spread.interval
                mean += f" [{number(low)}, {number(high)}]"
            elif spread.mean is not None:
                mean += f" ({spread.no_interval})"
            quantiles = ", ".join(map(number, spread.quantiles)) or "-"
            defined = f"{len(spread.values)} of {spread.n}"
            table.add_row(escape(f"{spread.ref}{beside}"), mean, quantiles, defined)
    return table


def _said(scenarios: Sequence[Scenario]) -> Iterator[Text]:
    for name, scenario in zip("AB", scenarios, strict=False):
        beside = f"{name}: " if len(scenarios) > 1 else ""
        for text in scenario.notes:
            yield Text(visible(f"Note: {beside}{text}"))
        for text in warnings(scenario):
            yield Text(visible(f"Warning: {beside}{text}"), style="yellow")
    if len(scenarios) > 1:
        for text in not_told_apart(*scenarios):
            yield Text(visible(f"Warning: {text}"), style="yellow")
