"""Invents `sentinels/requests-spans.jsonl`: requests, spans marked in them, and their intents.

The requests are put together from parts written for this project; every labelling is drawn from a
fixed seed. A test makes the file again and compares the bytes, which proves that nobody marked
these spans. Run it to write the file anew.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SPANS = Path(__file__).parents[1] / "sentinels" / "requests-spans.jsonl"
SEED = 20_261_201
ROWS = 160
# Every so many rows a request comes a second time, under another id.
COPY_EVERY = 20

Span = tuple[int, int, str]
Draw = Callable[[], float]

PARTS = {
    "PRODUCT": ("kettle", "desk lamp", "rain coat", "garden chair", "phone case", "bread knife"),
    "CITY": ("Leeds", "Porto", "Ghent", "Aarhus", "Lyon", "Graz"),
    "STREET": ("12 Mill Lane", "4 Station Road", "77 Harbour Street", "9 Chapel Hill"),
    "DATE": ("3 May", "last Friday", "the 21st", "Monday morning", "12 October"),
    "TIME": ("9:30", "noon", "5 pm", "half past two"),
}
# Intent and wording; a part in braces is marked.
REQUESTS = (
    ("refund", "stores", "I want my money back for the {PRODUCT} that came on {DATE}."),
    ("refund", "stores", "The {PRODUCT} broke at {TIME} on {DATE}. Please pay me back."),
    ("delivery", "stores", "Can you bring the {PRODUCT} to {STREET} in {CITY} by {DATE}?"),
    ("delivery", "stores", "My {PRODUCT} should have been in {CITY} at {TIME}. Where is it?"),
    ("booking", "travel", "Please book two seats from {CITY} to {CITY} on {DATE} at {TIME}."),
    ("booking", "travel", "Is there a room near {STREET} in {CITY} for {DATE}?"),
    ("change", "travel", "Move my journey to {CITY} from {DATE} to {DATE}, after {TIME}."),
    ("change", "travel", "I must be in {CITY} before {TIME}: change my ticket of {DATE}."),
)
INTENTS = ("refund", "delivery", "booking", "change")


@dataclass(frozen=True)
class Marker:
    """How an invented labelling differs from what was put into the text.

    Attributes
    ----------
    miss
        Chance that a span is not marked.
    cut
        Chance that it loses its first word, where it has two, or its last letter.
    types
        Type -> the type that is written in its place one time in three.
    """

    miss: float
    cut: float
    types: tuple[tuple[str, str], ...] = ()


MARKERS = {
    "output-a": Marker(0.16, 0.14, (("STREET", "CITY"),)),
    "output-b": Marker(0.20, 0.10, (("TIME", "DATE"),)),
    "fresh": Marker(0.06, 0.05, (("DATE", "TIME"), ("CITY", "STREET"))),
}
# The delivered reference is output-a, corrected on one row in so many.
CORRECT_EVERY = 5
# Annotators of the intent, and the chance that one takes "change" for "booking", or the other way
# round; any label is drawn one time in twenty.
ANNOTATORS = {"invented-1": 0.05, "invented-2": 0.30, "invented-3": 0.35}


def filled(text: str, draw: Draw) -> tuple[str, tuple[Span, ...]]:
    """A wording with its parts drawn, and where they stand."""
    out, spans = "", []
    for at, piece in enumerate(text.replace("{", "}").split("}")):
        if at % 2 == 0:
            out += piece
            continue
        part = PARTS[piece][int(draw() * len(PARTS[piece]))]
        spans.append((len(out), len(out) + len(part), piece))
        out += part
    return out, tuple(spans)


def marked(text: str, spans: Sequence[Span], marker: Marker, draw: Draw) -> tuple[Span, ...]:
    """The spans as a marker marks them; three draws a span, whichever way it goes."""
    found = []
    for start, end, kind in spans:
        missed, cut, confused = draw(), draw(), draw()
        if missed < marker.miss:
            continue
        if cut < marker.cut:
            space = text.find(" ", start, end)
            start, end = (space + 1, end) if space >= 0 else (start, end - 1)
        found.append((start, end, dict(marker.types).get(kind, kind) if confused < 1 / 3 else kind))
    return tuple(found)


def intent_of(label: str, slip: float, draw: Draw) -> str:
    """The intent as an annotator gives it; two draws."""
    what, then = draw(), draw()
    if what < 0.05:
        return INTENTS[int(then * len(INTENTS))]
    if label in ("booking", "change") and then < slip:
        return "change" if label == "booking" else "booking"
    return label


def rows() -> Iterator[dict[str, object]]:
    """The rows of the file.

    Uses nothing of `random` but `random()` and `seed`, whose numbers Python promises to keep.
    """
    draw = random.Random(SEED).random
    text = ""
    spans: tuple[Span, ...] = ()
    for at in range(ROWS):
        intent, stratum, wording = REQUESTS[at % len(REQUESTS)]
        if at % COPY_EVERY != COPY_EVERY - 1:
            text, spans = filled(wording, draw)
        else:  # the request of the row before comes again, and is marked anew
            intent, stratum, _ = REQUESTS[(at - 1) % len(REQUESTS)]
        given = {name: marked(text, spans, how, draw) for name, how in MARKERS.items()}
        corrected = at % CORRECT_EVERY == CORRECT_EVERY - 1
        given["delivered"] = spans if corrected else given["output-a"]
        intents = {name: intent_of(intent, slip, draw) for name, slip in ANNOTATORS.items()}
        yield {
            "id": f"request-{at + 1:03d}",
            "stratum": stratum,
            "text": text,
            "spans": {name: given[name] for name in ("output-a", "output-b", "delivered", "fresh")},
            "intents": intents,
        }


def jsonl_text() -> str:
    """The whole file."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())


if __name__ == "__main__":
    SPANS.write_bytes(jsonl_text().encode())
