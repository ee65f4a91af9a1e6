"""The closed lists of words used across the project, each defined once."""

from __future__ import annotations

from typing import Literal, get_args

SetRole = Literal["sentinel", "real"]
Order = Literal["ab", "ba"]
Missing = Literal["disagree", "exclude", "undefined"]
DecodingMode = Literal["sampled", "seeded", "greedy"]

# Why an attempt has no verdict.
Unscored = Literal[
    "hang",  # no answer within the registered time
    "cap",  # the token cap was reached before the reply was complete
    "runaway",  # the same, by a reply that repeats itself
    "thinking_cap",  # the thinking before the reply reached its own cap
    "crash",  # the worker died, or the model gave numbers that are not finite
    "unreadable",  # the reply is not the JSON that was asked for
    "off_menu",  # the reply names a verdict that is not on the list
    "too_long",  # the prompt does not fit
    "refused",  # the model declined
    "http",  # the server answered with an error
]

# How much of a registration's inputs had been run before, from nothing to all of it.
ExposureLevel = Literal["none", "partly", "items", "full"]
EXPOSURE_LEVELS: tuple[ExposureLevel, ...] = get_args(ExposureLevel)

SET_ROLES: tuple[SetRole, ...] = get_args(SetRole)
UNSCORED: tuple[Unscored, ...] = get_args(Unscored)

# Attempts that failed for reasons outside the model; only these are tried again.
INFRASTRUCTURE: frozenset[Unscored] = frozenset({"hang", "crash", "http"})
