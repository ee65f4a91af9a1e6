"""What others kept of this ledger: bundles, scores and manifests from before, by their hashes.

Each names lines of the ledger as it was then; a ledger that lacks one was cut or rewritten since.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path

from prereg_judge.canon import sha256_bytes
from prereg_judge.chain import GENESIS, Chain
from prereg_judge.errors import InputError, Problem
from prereg_judge.flow.verifying.findings import Findings
from prereg_judge.flow.verifying.ledger_checks import LEDGER

_MEMBER = "registrations/ledger.jsonl"
_HASH = re.compile(r"[0-9a-f]{64}")
_MOST_BYTES = 256 * 2**20  # of a score or a manifest; the greatest are a thousandth of it
_KEYS = ("ledger_head", "ledger_head_at_end_of_run")


def copies_among(clones: Sequence[str | Path]) -> dict[str, frozenset[str]]:
    """Of what was given as clones, the files that name ledger lines, with those lines' hashes.

    Bundles name all that they hold; a `score.json` and a run's `manifest.json` the last of their
    time. Anything else is left to git.

    Raises
    ------
    InputError
        If an archive holds no ledger that can be read.
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
    if zipfile.is_zipfile(path):
        return frozenset(map(sha256_bytes, _ledger_in(path).split(b"\n")[:-1]))
    try:
        if path.stat().st_size > _MOST_BYTES:
            return frozenset()
        value = json.loads(path.read_bytes())
        told = {**value, **value.get("provenance", {})}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return frozenset()
    named = (told.get(key) for key in _KEYS)
    return frozenset(h for h in named if isinstance(h, str) and _HASH.fullmatch(h)) - {GENESIS}


def _ledger_in(path: Path) -> bytes:
    """The ledger in a bundle.

    Raises
    ------
    InputError
        If the archive holds none that can be read. Bundles are stored as they are, so nothing is
        unpacked: what is read is never more than the file.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo(_MEMBER)
            if info.compress_type == zipfile.ZIP_STORED and info.file_size == info.compress_size:
                return archive.read(info)
        why = "is not in the form in which bundles are written"
    except (OSError, ValueError, KeyError, RuntimeError, NotImplementedError, EOFError,
            struct.error, zipfile.BadZipFile):  # fmt: skip
        why = "is not a bundle, or was damaged"
    remedy = "take it as it was made"
    raise InputError(Problem(why, where="--clone", found=str(path), remedy=remedy))
