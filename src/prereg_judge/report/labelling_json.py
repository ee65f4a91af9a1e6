"""What a study of labellings, or of annotators, lays out as tables, as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from prereg_judge.report.metric_json import metric_json
from prereg_judge.report.swap_rows import DifferenceRow, differences, neutrality
from prereg_judge.study.annotators import AnnotatorsView
from prereg_judge.study.metric import Metric
from prereg_judge.study.reference_swap import SwapView


def swap_json(view: SwapView, summary: Sequence[Metric]) -> dict[str, Any]:
    """Outputs under references: scores, differences, neutrality, band, confusions, policies."""
    band = view.band
    return {
        "match": view.match,
        "duplicates": view.duplicates,
        "outputs": list(view.outputs),
        "references": list(view.references),
        "scores": [[metric_json(metric) for metric in row] for row in view.scores],
        "differences": [_difference(row) for row in differences(summary)],
        "neutrality": [
            {
                "reference": row.reference,
                "outputs": list(row.outputs),
                "equal": [metric_json(metric) for metric in row.equal],
                **_difference(row.skew),
            }
            for row in neutrality(summary)
        ],
        "band": {
            "width": band.width,
            "among": band.among,
            "undefined": band.undefined,
            "note": band.note,
            "inside": [asdict(margin) for margin in view.inside],
            "margins": view.margins,
        },
        "confusions": [asdict(confusion) for confusion in view.confusions],
        "policies": [
            {
                "policy": under.policy,
                "rows": under.rows,
                "deltas": [metric_json(metric) for metric in under.deltas],
                "margins": [metric_json(metric) for metric in under.margins],
            }
            for under in view.policies
        ],
    }


def _difference(row: DifferenceRow) -> dict[str, Any]:
    return {
        "difference": metric_json(row.difference),
        "p": None if row.p is None else metric_json(row.p),
        "p_holm": None if row.p_holm is None else metric_json(row.p_holm),
    }


def annotators_json(view: AnnotatorsView) -> dict[str, Any]:
    """Annotators: agreement of each pool and pair, fine and coarse labels, confusions."""
    return {
        "pools": [
            {"pool": name, "metrics": [metric_json(metric) for metric in metrics]}
            for name, metrics in view.pools.items()
        ],
        "pairs": [metric_json(metric) for metric in view.pairs],
        "merged": [
            {"pool": name, "metrics": [metric_json(metric) for metric in metrics]}
            for name, metrics in view.merged.items()
        ],
        "confusions": [
            {"labels": list(c.labels), "pairs": c.pairs, "hidden": c.hidden}
            for c in view.confusions
        ],
    }
