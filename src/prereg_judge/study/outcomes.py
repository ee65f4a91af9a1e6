"""What a study is given: items as data, the last outcome of every trial, every call in order.

A plain view of a run that does not know where it came from, so that a table of verdicts made
elsewhere can be scored by the same code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from prereg_judge.choices import Node
from prereg_judge.labelled import Duplicates, Labelled, Match
from prereg_judge.ratings import Ratings
from prereg_judge.shape import Shape
from prereg_judge.shaping import Decoding
from prereg_judge.study.metric import MetricRef
from prereg_judge.votes import PairKey, SlotVerdicts, SplitRule, VoteCounts
from prereg_judge.words import DecodingMode, Missing, Order, SetRole, Unscored


@dataclass(frozen=True)
class PairScale:
    """What the verdicts of a judge of pairs mean, said of the first and the second answer shown.

    Attributes
    ----------
    sides
        For each verdict: 2 or 1 = the first answer shown is better, clearly or slightly; -1 or
        -2 = the second; 0 = neither. Symmetric: each verdict has exactly one with the opposite
        side.
    """

    sides: Mapping[str, int]

    def mapped(self, verdict: str, order: Order) -> str:
        """What a verdict says of answer a and answer b, as the verdict that says so in `ab`."""
        if order == "ab":
            return verdict
        back = {side: name for name, side in self.sides.items()}
        return back[-self.sides[verdict]]

    def side(self, mapped: str) -> int:
        """1 = answer a is better, -1 = answer b, 0 = neither; of a mapped verdict."""
        side = self.sides[mapped]
        return (side > 0) - (side < 0)


@dataclass(frozen=True)
class Resampling:
    """The registered bootstrap: items are drawn anew, from `seed`, `resamples` times."""

    resamples: int
    seed: int
    by_stratum: bool = False


Resolve = Literal["agree_or_tie", "average", "first"]


@dataclass(frozen=True)
class ItemView:
    """An item without its text: identity, known label and grouping."""

    set: SetRole
    id: str
    content: str  # hash of the fields that the judge sees, so duplicates are found by content
    label: str | None = None
    kind: str | None = None
    stratum: str | None = None
    shapes: tuple[Shape, Shape] | None = None  # of answer a and answer b of a pair


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
    """What came of a trial: a verdict, or the reason of its last attempt for having none.

    Of a pair, `verdict` is mapped back to the answers (`PairScale.mapped`), so that the orders can
    be compared; mapped once more it is what the judge said of the answers as it was shown them.
    """

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

    `verdicts` maps (item set, item id, pass) to the verdict in the order `ab`, None where there was
    none; `items` maps an item set's role to the hash of its file; `by_order` has every order, as
    (item set, item id, order, pass), in the words that the judge said.
    """

    name: str
    passes: int
    verdicts: Mapping[tuple[SetRole, str, int], str | None]
    items: Mapping[str, str] = field(default_factory=dict)
    by_order: Mapping[tuple[SetRole, str, Order, int], str | None] = field(default_factory=dict)
    place: tuple[str, int] | None = None  # its registration and number


@dataclass(frozen=True)
class Assumed:
    """Registered values for a board of evenly spread models, in place of the measured ones.

    `span` is the distance between the best and the worst model's mean credit and `shift_sd` the
    standard deviation of a model's shift between the label sources, both as shares.
    """

    span: float
    shift_sd: float


@dataclass(frozen=True)
class TableInput:
    """The votes of annotators, and the verdicts of judges on the same items.

    Attributes
    ----------
    counts
        The votes, by the way in which items are keyed. Tables that are not of pairs have the same
        counts under both.
    key
        The registered way.
    pools
        The two pools that are compared, pool 1 first.
    split
        What becomes of an item whose most frequent labels have equally many votes.
    judges
        For each judge its verdicts, by key; empty where the study has none.
    assumed
        Registered values for evenly spread boards, where they are given.
    """

    counts: Mapping[PairKey, VoteCounts]
    key: PairKey
    pools: tuple[str, str]
    split: SplitRule
    judges: Mapping[str, Mapping[PairKey, SlotVerdicts]] = field(default_factory=dict)
    assumed: Assumed | None = None


@dataclass(frozen=True)
class SwapInput:
    """Outputs that are scored against references.

    Attributes
    ----------
    labelled
        The rows, with every labelling.
    outputs
        Names of the labellings that are scored, two or more; the first two are the pair that is
        meant where no other is named.
    references
        Names of the labellings that they are scored against, two or more: the delivered reference
        first, the alternatives after it.
    match, duplicates
        The registered choices, which a metric's own parameter may replace.
    family
        The registered family of tests, among which p-values are adjusted.
    """

    labelled: Labelled
    outputs: tuple[str, ...]
    references: tuple[str, ...]
    match: Match
    duplicates: Duplicates
    family: tuple[MetricRef, ...] = ()


@dataclass(frozen=True)
class AnnotatorsInput:
    """What annotators said, as ratings or as spans; exactly one of the two is there.

    Attributes
    ----------
    ratings
        One label an item and annotator.
    split
        What becomes of an item whose most frequent labels have equally many ratings.
    labelled
        Spans, where each labelling is an annotator's.
    pools
        For spans: the labellings of each pool, in the registered order.
    duplicates
        For spans: what becomes of rows of the same item.
    """

    ratings: Ratings | None = None
    split: SplitRule = "exclude"
    labelled: Labelled | None = None
    pools: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    duplicates: Duplicates = "keep_all"


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
    pair
        For a judge of pairs: what its verdicts mean.
    resolve
        How the verdicts of the two orders become one, where that is registered.
    resampling
        The registered bootstrap, where the study has one.
    table
        The votes of annotators, where the registration names them.
    swap
        Outputs and references, for the study that exchanges references.
    annotators
        Ratings or spans of annotators, for the study of their agreement.
    """

    items: tuple[ItemView, ...]
    outcomes: Mapping[TrialKey, Outcome]
    calls: tuple[CallView, ...]
    verdicts: tuple[str, ...]  # the judge's closed list
    ships: str | None
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
    pair: PairScale | None = None
    resolve: Resolve | None = None
    resampling: Resampling | None = None
    table: TableInput | None = None
    swap: SwapInput | None = None
    annotators: AnnotatorsInput | None = None

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
