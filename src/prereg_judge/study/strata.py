"""The registered bootstrap over items that may have strata: one way to make it for every study."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prereg_judge.stats.resample import Resampler
from prereg_judge.study.outcomes import Resampling


def resampler_of(strata: Sequence[str | None], resampling: Resampling | None) -> Resampler | None:
    """The registered bootstrap over items; None without one, or without items.

    Parameters
    ----------
    strata
        Stratum of each item, shape (n,). With `by_stratum` each stratum keeps its number of items;
        items without a stratum are one more stratum.
    resampling
        What is registered.
    """
    if resampling is None or not len(strata):
        return None
    parts = None
    if resampling.by_stratum:
        groups: dict[str | None, list[int]] = {}
        for at, stratum in enumerate(strata):
            groups.setdefault(stratum, []).append(at)
        parts = tuple(np.array(group, dtype=np.intp) for group in groups.values())
    return Resampler(
        n=len(strata), resamples=resampling.resamples, seed=resampling.seed, strata=parts
    )
