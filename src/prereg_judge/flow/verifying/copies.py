"""What others kept of this ledger: bundles, scores and manifests from before, by their hashes.

Each names lines of the ledger as it was then; a ledger that lacks one was cut or rewritten since.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

from prereg_judge.canon import sha256_bytes
from prereg_judge.chain import Chain
from prereg_judge.errors import Problem
from prereg_judge.flow.verifying.findings import Findings
from prereg_judge.flow.verifying.ledger_checks import LEDGER

_MEMBER = "registrations/ledger.jsonl"
_KEYS = ("ledger_head", "ledger_head_at_end_of_run")


def copies_among(clones: Sequence[str | Path]) -> dict[str, frozenset[str]]:
    """Of what was given as clones, the files that name ledger lines, with those lines' hashes.

    Bundles name all that they hold; a `score.json` and a run's `manifest.json` the last of their
    time. Anything else is left to git.
    """
    return {str(c): lines for c in clones if (lines := _lines(Path(c)))}


def check_copies(chain: Chain, copies: dict[str, frozenset[str]], findings: Findings) -> None:
    """Compare the ledger with what such files say of it."""
    here = frozenset(chain.heads)
    for name, lines in copies.items():
        gone = sorted(lines - here)
        if gone:
            what = f"names {len(gone)} of its {len(lines)} ledger lines that are not here "
            what += f"({gone[0][:12]}): the ledger was cut or rewritten since"
            findings.violated(LEDGER, Problem(what, name, remedy="restore the ledger"))
        else:
            what = f"every ledger line that {name} names is here"
            findings.proved(LEDGER, what, f"{len(lines)} hashes in that file")


def _lines(path: Path) -> frozenset[str]:
    """Hashes of the ledger lines that a file names; none where it is no such file."""
    if not path.is_file():
        return frozenset()
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                whole = archive.read(_MEMBER).split(b"\n")[:-1]
            return frozenset(map(sha256_bytes, whole))
        value = json.loads(path.read_bytes())
        told = {**value, **value.get("provenance", {})}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError,
            RuntimeError, NotImplementedError, zipfile.BadZipFile):  # fmt: skip
        return frozenset()
    return frozenset(h for key in _KEYS if isinstance(h := told.get(key), str))
