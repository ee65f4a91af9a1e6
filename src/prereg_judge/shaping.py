"""From logits to a token: one definition for every path that draws, and for studies (pure).

The steps, in this order: (1) only tokens that the constraint allows are kept; (2) top-k keeps
the k most probable; (3) top-p keeps the smallest set of most probable tokens whose probability,
at temperature 1, reaches p; (4) min-p drops tokens less probable than min_p times the most
probable, at temperature 1; (5) the rest is divided by the temperature and normalised; (6) one
token is drawn. This is llama.cpp's usual order of samplers with the grammar applied first.
Without truncation the result is the model's distribution conditioned on the allowed tokens;
with truncation, applying the grammar first keeps allowed tokens that truncation over the whole
vocabulary could have removed. Because truncation looks at temperature 1, which tokens can be
drawn does not depend on the temperature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

_FIRST = 512  # so many of the most probable tokens nearly always hold what top-p asks for


@dataclass(frozen=True)
class Decoding:
    """How a token is drawn from the logits; the module says in which order the steps come."""

    mode: Literal["sampled", "seeded", "greedy"]
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0


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
    result = np.zeros(len(logits))
    kept = _kept(logits, decoding)
    result[kept] = _tempered(logits[kept], decoding)
    return result


def pick(logits: Floats, decoding: Decoding, rng: np.random.Generator) -> int:
    """Index drawn from `shape(logits, decoding)`, without making the whole of it."""
    kept = _kept(logits, decoding)
    return int(kept[draw(_tempered(logits[kept], decoding), rng)])


def draw(probabilities: Floats, rng: np.random.Generator) -> int:
    """Index drawn from `probabilities` by inverting the cumulative sum."""
    cumulative = np.cumsum(probabilities)
    index = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
    return min(index, int(np.flatnonzero(probabilities)[-1]))


def _tempered(logits: Floats, decoding: Decoding) -> Floats:
    """Softmax at the registered temperature; all on one token if it is the only one."""
    if len(logits) == 1:
        return np.ones(1)
    with np.errstate(over="ignore"):  # -inf then, which is what a tiny temperature means
        return softmax((logits - logits.max()) / decoding.temperature)


def _kept(logits: Floats, decoding: Decoding) -> Ids:
    """Ascending indices of the tokens that no truncation drops.

    Only as many of the most probable tokens are put in order, and exponentiated, as the settings
    ask for: doing so for a whole vocabulary takes a third of the time in which a small model
    computes a token.
    """
    if decoding.mode == "greedy":
        return np.array([logits.argmax()])
    top = logits.max()
    if 0 < decoding.top_k < len(logits):
        order = _best(logits, decoding.top_k)
        weights = np.exp(logits[order] - top)  # the best has exactly 1
        order = order[: _reaching(np.cumsum(weights), decoding.top_p)]
        kept = order[weights[: len(order)] >= decoding.min_p]
        return np.asarray(np.sort(kept), dtype=np.int64)
    weights = np.exp(logits - top)
    keep = weights >= decoding.min_p
    if decoding.top_p < 1.0:
        best = np.zeros(len(logits), dtype=bool)
        best[_nucleus(logits, weights, decoding.top_p)] = True
        keep &= best
    return np.flatnonzero(keep)


def _reaching(reached: Floats, top_p: float, mass: float | None = None) -> int:
    """How many of the tokens, most probable first, top-p keeps: until those before reach p."""
    if top_p >= 1.0:
        return len(reached)
    enough = top_p * (reached[-1] if mass is None else mass)
    return 1 + int(np.count_nonzero(reached[:-1] < enough))


def _nucleus(logits: Floats, weights: Floats, top_p: float) -> Ids:
    """Indices of the tokens that top-p keeps of all, the most probable first."""
    n, mass = len(logits), float(weights.sum())
    size = min(n, _FIRST)
    while True:
        order = _best(logits, size)
        reached = np.cumsum(weights[order])
        if size == n or reached[-1] >= top_p * mass:
            return order[: _reaching(reached, top_p, mass)]
        size = min(n, size * 8)


def _best(logits: Floats, k: int) -> Ids:
    """Indices of the k largest, largest first, the smaller index first among equals."""
    n = len(logits)
    if k < n:
        single = logits.astype(np.float32)  # what a model gives; half as much to move
        least = float(np.partition(single, n - k)[n - k])
        among = np.flatnonzero(logits >= np.nextafter(np.float32(least), np.float32(-np.inf)))
    else:
        among = np.arange(n)
    return among[np.argsort(-logits[among], kind="stable")][:k]
