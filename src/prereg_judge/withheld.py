"""Item sets without their text: what scoring needs of each row, and hashes of the rest.

A bundle may hold these in the place of an item file. That they are the locked rows is vouched for
by the lock's hash over them; their text cannot be rendered, so no run can be made of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from prereg_judge.canon import canonical_json
from prereg_judge.errors import IntegrityError, Problem
from prereg_judge.items import Item, ItemSet
from prereg_judge.shape import Shape
from prereg_judge.words import SetRole

FILE = "withheld.json"


def withheld_bytes(
    sets: Sequence[ItemSet],
    *,
    content: Callable[[Item], str],
    shapes: Callable[[Item], Sequence[Shape]],
) -> bytes:
    """The file that stands for some item sets.

    `content` hashes what the judge sees of a row; `shapes` says what a pair's answers look like.
    """
    value = {
        s.file: {
            "sha256": s.sha256,
            "n_bytes": s.n_bytes,
            "rows": [[i.id, i.kind, i.stratum, i.label, content(i), *shapes(i)] for i in s.items],
        }
        for s in sets
    }
    return canonical_json(value) + b"\n"


def load_withheld(path: Path, *, role: SetRole, shown: str) -> ItemSet:
    """The item set that stands for the file `shown`, without fields.

    Raises
    ------
    IntegrityError
        If the file is not one that `withheld_bytes` made, or does not hold that set.
    """
    try:
        told: dict[str, Any] = json.loads(path.read_bytes())[shown]
        items = tuple(
            Item(ident, {}, label, kind, stratum, line, content=content, shapes=_shapes(shapes))
            for line, (ident, kind, stratum, label, content, *shapes) in enumerate(
                told["rows"], start=1
            )
        )
        if not all(_fits(i) for i in items):
            raise TypeError("a row holds something else than texts")
        return ItemSet(role, shown, str(told["sha256"]), int(told["n_bytes"]), items)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as exc:
        what = f"does not hold the rows of {shown}"
        raise IntegrityError(Problem(what, FILE, remedy="take the bundle as it was made")) from exc


def _shapes(told: list[Any]) -> tuple[Shape, Shape] | None:
    if not told:
        return None
    one, other = (Shape(*map(int, shape)) for shape in told)
    return one, other


def _fits(item: Item) -> bool:
    needed, others = (item.id, item.content), (item.label, item.kind, item.stratum)
    return all(isinstance(text, str) for text in needed) and all(
        text is None or isinstance(text, str) for text in others
    )
