"""Words for kappas, by convention."""

from __future__ import annotations

import math
from typing import Literal

Strength = Literal["poor", "slight", "fair", "moderate", "substantial", "almost perfect"]

# Upper limit of each word, itself included.
LIMITS: tuple[tuple[float, Strength], ...] = (
    (0.20, "slight"),
    (0.40, "fair"),
    (0.60, "moderate"),
    (0.80, "substantial"),
    (1.00, "almost perfect"),
)
# Decimals beyond these are rounding.
_DECIMALS = 12


def landis_koch(kappa: float) -> Strength:
    """What Landis and Koch call a kappa.

    Parameters
    ----------
    kappa
        The coefficient, at most 1.

    Returns
    -------
    str
        Below 0 poor, to 0.20 slight, to 0.40 fair, to 0.60 moderate, to 0.80 substantial, to 1
        almost perfect. Limits belong to the lower word, 0 to slight.

    Raises
    ------
    ValueError
        When the kappa is NaN or above 1: an undefined kappa has no word.

    Notes
    -----
    A convention, as its authors say themselves, and made for kappa: say so beside the word.
    Their table goes from 0.20 on to 0.21; what lies between is given to the higher word.
    Source: Landis and Koch (1977), doi:10.2307/2529310, p. 165.
    """
    if math.isnan(kappa):
        raise ValueError("an undefined kappa has no word")
    rounded = round(kappa, _DECIMALS)
    if rounded < 0:
        return "poor"
    for limit, word in LIMITS:
        if rounded <= limit:
            return word
    raise ValueError(f"kappa must be at most 1, not {kappa}")
