"""From logits to a token: one definition for every path that draws.

The steps, in this order: (1) only tokens that the constraint allows are kept; (2) top-k keeps
the k most probable; (3) top-p keeps the smallest set of most probable tokens whose probability,
at temperature 1, reaches p; (4) min-p drops tokens less probable than min_p times the most
probable, at temperature 1; (5) the rest is divided by the temperature and normalised; (6) one
token is drawn. This is llama.cpp's usual order of samplers with the grammar applied first.
Without truncation the result is the model's distribution conditioned on the allowed tokens;
with truncation, applying the grammar first keeps allowed tokens that truncation over the whole
vocabulary could have removed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prereg_judge.engine.protocol import Decoding

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


def softmax(logits: Floats) -> Floats:
    """Probabilities of `logits` (1-D, not empty, finite or -inf); stable against overflow."""
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def allowed_mass(logits: NDArray[np.float32], allowed: Ids) -> float:
    """Share of the unmasked distribution (temperature 1) that lies on the allowed tokens."""
    full = logits.astype(np.float64)
    top = full.max()
    return float(np.exp(full[allowed] - top).sum() / np.exp(full - top).sum())


def shape(logits: Floats, decoding: Decoding) -> Floats:
    """Probabilities after truncation and temperature.

    Parameters
    ----------
    logits
        1-D, of the allowed tokens only, in ascending order of token id.
    decoding
        `greedy` puts everything on the largest logit (the smallest id among equals).

    Returns
    -------
    Probabilities aligned with `logits`; dropped tokens have exactly 0. At least one token always
    stays: the most probable one is dropped by no step.
    """
    if decoding.mode == "greedy":
        chosen = np.zeros(len(logits))
        chosen[int(logits.argmax())] = 1.0
        return chosen
    order = np.argsort(-logits, kind="stable")
    probabilities = softmax(logits)[order]
    keep = np.ones(len(logits), dtype=bool)
    if decoding.top_k > 0:
        keep[decoding.top_k :] = False
    if decoding.top_p < 1.0:
        kept = np.where(keep, probabilities, 0.0)
        before = np.cumsum(kept / kept.sum()) - kept / kept.sum()
        keep &= before < decoding.top_p
    if decoding.min_p > 0.0:
        keep &= probabilities >= decoding.min_p * probabilities[0]
    keep[0] = True
    result = np.zeros(len(logits))
    kept = logits[order[keep]]
    with np.errstate(over="ignore"):  # -inf then, which is what a tiny temperature means
        result[order[keep]] = softmax((kept - kept[0]) / decoding.temperature)
    return result


def draw(probabilities: Floats, rng: np.random.Generator) -> int:
    """Index drawn from `probabilities` by inverting the cumulative sum."""
    cumulative = np.cumsum(probabilities)
    index = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
    return min(index, int(np.flatnonzero(probabilities)[-1]))
