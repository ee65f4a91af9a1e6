"""What a study is given: items as data, the last outcome of every trial, every call in order.

A plain view of a run that does not know where it came from, so that a table of verdicts made
elsewhere can be scored by the same code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from prereg_judge.choices import Node
from prereg_judge.shaping import Decoding
from prereg_judge.words import DecodingMode, Missing, Order, SetRole, Unscored


@dataclass(frozen=True)
class ItemView:
    """An item without its text: identity, known label and grouping."""

    set: SetRole
    id: str
    content: str  # hash of the fields that the judge sees, so duplicates are found by content
    label: str | None = None
    kind: str | None = None
    stratum: str | None = None


@dataclass(frozen=True)
class TrialKey:
    """Item x order x pass: the key of a record."""

    set: SetRole
    item_id: str
    order: Order
    pass_no: int

    def __str__(self) -> str:
        return f"{self.set}/{self.item_id}/{self.order}/{self.pass_no}"


@dataclass(frozen=True)
class Outcome:
    """What came of a trial: a verdict, or the reason of its last attempt for having none."""

    verdict: str | None
    unscored: Unscored | None
    attempts: int

    def __post_init__(self) -> None:
        if (self.verdict is None) == (self.unscored is None):
            raise ValueError("exactly one of verdict and unscored")


@dataclass(frozen=True)
class CallView:
    """One attempt, in the order in which it was made."""

    trial: TrialKey
    attempt_no: int
    unscored: Unscored | None
    seconds: float


@dataclass(frozen=True)
class Choice:
    """What a verdict was drawn from, on the path `choice`.

    Attributes
    ----------
    nodes
        The compared tokens (`choices.Node`), from which the probabilities at any decoding follow.
    probabilities
        The probability with which each verdict was drawn; they sum to 1.
    """

    nodes: tuple[Node, ...]
    probabilities: Mapping[str, float]


@dataclass(frozen=True)
class EarlierRun:
    """The verdicts of a run that was locked in as a point of comparison.

    `verdicts` maps (item set, item id, pass) to the verdict, None where there was none; `items`
    maps an item set's role to the hash of its file.
    """

    name: str
    passes: int
    verdicts: Mapping[tuple[SetRole, str, int], str | None]
    items: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StudyInput:
    """Everything that a study may look at.

    Attributes
    ----------
    choices
        For the path `choice`: of every trial with a verdict, what it was drawn from.
    masses
        Of every trial with a reply that was drawn: the probability that the model gave to what the
        schema allowed, before masking, in [0, 1].
    shaping
        The registered decoding, where anything was drawn.
    arms
        For a study that compares two settings: each in words, in the order of the passes.
    batches_lost
        Groups of calls that hung or crashed as a whole and were made again one by one.
    """

    items: tuple[ItemView, ...]
    outcomes: Mapping[TrialKey, Outcome]
    calls: tuple[CallView, ...]
    verdicts: tuple[str, ...]  # the judge's closed list
    ships: str
    passes: int
    orders: tuple[Order, ...]
    missing: Missing
    decoding: DecodingMode
    earlier: Mapping[str, EarlierRun]
    choices: Mapping[TrialKey, Choice] = field(default_factory=dict)
    masses: Mapping[TrialKey, float] = field(default_factory=dict)
    shaping: Decoding | None = None
    arms: tuple[str, ...] = ()
    batches_lost: int = 0

    @property
    def drawing(self) -> Decoding:
        """How tokens were drawn: as registered; the mode alone where nothing else is known."""
        return self.shaping or Decoding(self.decoding)


def agreeing(data: StudyInput) -> StudyInput:
    """The same run as if every trial without a verdict had agreed with the rest of its row.

    A missing verdict becomes the row's first given one; a row without any keeps its gaps. Used to
    say how far a result rests on what is missing, never as a result.
    """
    given: dict[tuple[SetRole, str, Order], str] = {}
    for key in sorted(data.outcomes, key=lambda k: k.pass_no):
        verdict = data.outcomes[key].verdict
        if verdict is not None:
            given.setdefault((key.set, key.item_id, key.order), verdict)
    filled = dict(data.outcomes)
    for item in data.items:
        for order in data.orders:
            verdict = given.get((item.set, item.id, order))
            for number in range(1, data.passes + 1):
                key = TrialKey(item.set, item.id, order, number)
                was = filled.get(key)
                if verdict is not None and (was is None or was.verdict is None):
                    filled[key] = Outcome(verdict, None, was.attempts if was else 0)
    return replace(data, outcomes=filled)
