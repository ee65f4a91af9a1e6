"""A metric as JSON values, the same wherever it stands."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from prereg_judge.study.metric import Metric


def metric_json(metric: Metric) -> dict[str, Any]:
    """A metric as JSON values."""
    return {
        "metric": metric.ref.name,
        "params": dict(metric.ref.params),
        "value": metric.value,
        "unit": metric.unit,
        "k": metric.k,
        "n": metric.n,
        "interval": None if metric.interval is None else asdict(metric.interval),
        "method": metric.method,
        "undefined": metric.undefined,
        "note": metric.note,
    }
