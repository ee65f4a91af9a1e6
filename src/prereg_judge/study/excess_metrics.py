"""Order reversal in excess of the judge's own repeat noise, and the two parts of it.

A judge that would change its mind anyway also changes it when the answers change places. Two
passes in the same order show the noise, the swap shows noise plus order; the difference is paired
by item.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from prereg_judge.study.metric import Metric, MetricRef, MetricSpec
from prereg_judge.study.order_metrics import refused
from prereg_judge.study.outcomes import StudyInput
from prereg_judge.study.pair_bootstrap import Floats, estimate, means
from prereg_judge.study.pairs import BOTH, pairs_of, usable
from prereg_judge.study.row_questions import Refusal
from prereg_judge.study.rows import GROUPING, Row

_SCALE = " With `scale=verdict`: verdicts on the full scale differ, else the preferred answer does."
_BOOT = "Interval: percentile bootstrap over items."


def _specs() -> Iterator[MetricSpec]:
    parts = {
        "swap.rate": "Mean over items of the share of pairs of passes, one in order ab and one in "
        "ba, whose verdicts differ: what order and repeat noise do together.",
        "repeat.rate": "Mean over items of the share of pairs of different passes in the same "
        "order whose verdicts differ, over the orders: the judge's own repeat noise.",
        "excess.difference": "Disagreement between the orders in excess of the judge's own repeat "
        "noise: order.swap minus order.repeat, item by item. It estimates half the squared "
        "distance between an item's verdict distributions in the two orders, without bias.",
    }
    for name, summary in parts.items():
        low, unit_options = (-1.0 if name.startswith("excess") else 0.0), ("scale", *GROUPING)
        yield MetricSpec(
            f"{{set}}.order.{name}", f"{summary}{_SCALE} {_BOOT}", "share", (), unit_options,
            (low, 1.0),
        )  # fmt: skip


# With `{set}` still open.
EXCESS_SPECS: tuple[MetricSpec, ...] = tuple(_specs())


def excess_metric(
    data: StudyInput, ref: MetricRef, spec: MetricSpec, rows: Sequence[Row]
) -> Metric:
    """`order.swap.rate`, `order.repeat.rate` or `order.excess.difference`.

    Parameters
    ----------
    data
        The run.
    ref, spec
        The metric and its line in the catalogue.
    rows
        The rows that it is about, at least one.

    Returns
    -------
    Metric
        A mean over n items. Under `missing: disagree` a missing verdict differs from every other,
        a missing one too, between the orders and within them. Undefined: `not_computed` (no such
        scale), `single_pass` (but for `order.swap.rate`), and as `swap_metric` says.

    Notes
    -----
    Draws of an item in order ab follow a distribution p over verdicts, those in ba a distribution
    q. Two draws, one of each, differ with probability 1 - p.q; two of the same order with
    1 - p.p and 1 - q.q. Swap minus the mean of the latter is |p - q|^2 / 2, whatever the number
    of passes: 0 where the order does nothing, although a noisy judge then has many reversals.
    With seeded or greedy decoding the passes repeat themselves, so that repeat noise is 0 by
    construction and the excess says no more than the swap does.
    """
    params, part = dict(ref.params), ref.name.split(".")[2]
    scale = params.get("scale", "side")
    if scale not in ("side", "verdict"):
        refusal = Refusal("not_computed", f"scale {scale} is not one of side, verdict")
        return refused(ref, spec, refusal, rows)
    if part != "swap" and data.passes < 2:
        refusal = Refusal("single_pass", "the run has one pass; repeat noise needs a second")
        return refused(ref, spec, refusal, rows)
    orders = data.orders if part == "repeat" else BOTH
    pairs = pairs_of(data, rows, orders=orders, passes=range(1, data.passes + 1))
    pairs = usable(data, pairs, reads_missing="it differs from every other verdict")
    if isinstance(pairs, Refusal):
        return refused(ref, spec, pairs, rows)
    said = pairs.scale if scale == "verdict" else pairs.sides
    values = np.zeros(len(pairs.items))
    if part != "repeat":
        values = swapped(said, pairs.given)
    if part != "swap":
        repeat = repeated(said, pairs.given)
        values = repeat if part == "repeat" else values - repeat
    # An item is least where its passes differ most and alike in both orders: 1 - 1/P minus 1.
    low = -1.0 / data.passes if part == "excess" else 0.0
    return estimate(
        ref,
        spec,
        means(pairs.items, values, within=(low, 1.0)),
        resampling=data.resampling,
        notes=pairs.notes,
    )


def swapped(said: NDArray[np.int64], given: NDArray[np.bool_]) -> Floats:
    """Of each item the share of pairs (pass in the first order, pass in the second) that differ.

    Parameters
    ----------
    said
        What was said of the answers, shape (n, 2, P).
    given
        Whether there is a verdict, the same shape; without one it differs from every other.

    Returns
    -------
    ndarray
        Shape (n,), in [0, 1].
    """
    alike = said[:, 0, :, None] == said[:, 1, None, :]
    alike &= given[:, 0, :, None] & given[:, 1, None, :]
    shares: Floats = 1.0 - alike.mean(axis=(1, 2))
    return shares


def repeated(said: NDArray[np.int64], given: NDArray[np.bool_]) -> Floats:
    """Of each item the share of pairs of different passes in the same order that differ.

    Parameters
    ----------
    said
        What was said of the answers, shape (n, O, P) with P >= 2.
    given
        Whether there is a verdict, the same shape; without one it differs from every other.

    Returns
    -------
    ndarray
        Shape (n,), in [0, 1]; the mean over the orders.
    """
    first, second = np.triu_indices(said.shape[2], k=1)
    alike = said[:, :, first] == said[:, :, second]
    alike &= given[:, :, first] & given[:, :, second]
    shares: Floats = 1.0 - alike.mean(axis=(1, 2))
    return shares
