"""Time-stamps in Bitcoin's blocks through OpenTimestamps calendars: made, completed, read.

A calendar answers at once with a promise (pending) and hours later with the path of hashes from
the digest to the Merkle root of a block's header. A pending stamp proves nothing yet; nor does a
complete one by itself: that the block has this root is known to a Bitcoin node, or to an explorer
that one trusts. The library is an extra and is imported where it is used only.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Literal

from prereg_judge.errors import InputError, IntegrityError, Problem, UsageError
from prereg_judge.ledger.post import checked_url, digest_bytes, exchange, refused

MOST_BYTES = 10_000  # of a calendar's answer, as the library's own client has it
_NONCE_BYTES = 16
_HEADER_BYTES = 80
_KIND = {"Accept": "application/vnd.opentimestamps.v1"}
_RESTORE = "restore the file from git or a copy, or stamp again"

Tell = Callable[[Problem], None]


@dataclass(frozen=True)
class Attestation:
    """One end of a stamp's tree of hashes.

    Attributes
    ----------
    kind
        `pending` (a calendar's promise), `bitcoin` (a block), or `other` (a kind that is not
        read here).
    commitment
        What is attested: the bytes at that end of the tree, hex.
    calendar
        The calendar's address, where pending.
    height
        The block's height, where Bitcoin's.
    """

    kind: Literal["pending", "bitcoin", "other"]
    commitment: str
    calendar: str | None = None
    height: int | None = None

    @property
    def merkle_root(self) -> str | None:
        """The Merkle root that the block must have, hex as explorers print it (reversed)."""
        return bytes.fromhex(self.commitment)[::-1].hex() if self.kind == "bitcoin" else None

    def __str__(self) -> str:
        match self.kind:
            case "pending":
                return (
                    f"pending at {self.calendar}: normal for hours after stamping; nothing is"
                    " proved yet"
                )
            case "bitcoin":
                return (
                    f"bitcoin, not checked here: that block {self.height} has merkle root"
                    f" {self.merkle_root} needs a Bitcoin node or an explorer that you trust"
                )
            case _:
                return "of a kind that is not read here: nothing is proved by it"


@dataclass(frozen=True)
class OtsState:
    """What a stamp for `digest` consists of; blocks first (the oldest first), then the others."""

    digest: str
    attestations: tuple[Attestation, ...]

    @property
    def complete(self) -> bool:
        """Whether a path to a block is there. That the block has it is not checked here."""
        return any(each.kind == "bitcoin" for each in self.attestations)


@dataclass(frozen=True)
class Block:
    """A block by its header: its hash as explorers print it, and its time (RFC 3339, UTC).

    A block's time may be off by two hours.
    """

    hash: str
    time: str


def ots_stamp(
    digest: str, *, calendars: Sequence[str], timeout_s: float, tell: Tell | None = None
) -> bytes:
    """Submit a digest to calendars and return the stamp file (`.ots`).

    The calendars see a hash of the digest and of 16 random bytes, not the digest. One that
    answers is enough; which ones did can be read from the file.

    Parameters
    ----------
    digest
        A SHA-256, 64 hex digits.
    calendars
        Their addresses, at least one.
    timeout_s
        How long each may take, seconds.
    tell
        Called with what went wrong at a calendar, where another one answered.

    Raises
    ------
    UsageError
        If the library is not installed, or no calendar is named.
    InputError
        If an address is none, or no calendar answers with a stamp.
    """
    lib = _Library()
    if not calendars:
        raise UsageError(Problem("no calendar is named", remedy="name at least one"))
    root = lib.timestamp.Timestamp(digest_bytes(digest))
    nonced = root.ops.add(lib.op.OpAppend(os.urandom(_NONCE_BYTES))).ops.add(lib.op.OpSHA256())
    failed: list[Problem] = []
    for url in dict.fromkeys(checked_url(each).rstrip("/") for each in calendars):
        try:
            nonced.merge(_ask(lib, "POST", url, "digest", nonced.msg, timeout_s=timeout_s))
        except InputError as exc:
            failed += exc.problems
    if not nonced.attestations and not nonced.ops:
        raise InputError(*failed)
    _tell_all(tell, failed)
    return lib.written(root)


def ots_upgrade(
    raw: bytes,
    digest: str,
    *,
    calendars: Sequence[str] = (),
    timeout_s: float,
    tell: Tell | None = None,
) -> bytes:
    """Ask the calendars for what they promised; return the stamp file with what they gave.

    A promise is taken out once its calendar gave the path to a block. A calendar that has
    nothing yet leaves its promise as it was: the result is then the same bytes.

    Parameters
    ----------
    raw
        The stamp file.
    digest
        What it was made for.
    calendars
        Addresses that may be asked besides the well-known ones. A file from elsewhere can name
        any address; others are not contacted.
    timeout_s
        How long each may take, seconds.
    tell
        Called with what went wrong at a calendar, where another one answered.

    Raises
    ------
    IntegrityError
        As `read_ots`.
    UsageError
        If the library is not installed.
    InputError
        If there are promises and every calendar failed or may not be asked.
    """
    lib = _Library()
    root = _read(lib, raw, digest, None)
    allowed = {each.rstrip("/") for each in calendars}
    failed: list[Problem] = []
    answered = asked = 0
    for node in list(lib.nodes(root)):
        for promise in [each for each in node.attestations if lib.is_pending(each)]:
            asked += 1
            url = promise.uri.rstrip("/")
            try:
                if url not in allowed and not lib.well_known(promise.uri):
                    raise refused(url, "is not a well-known calendar", remedy="allow it by name")
                found = _ask(lib, "GET", url, f"timestamp/{node.msg.hex()}", timeout_s=timeout_s)
            except InputError as exc:
                failed += exc.problems
                continue
            answered += 1
            if found is not None:
                node.merge(found)
                if any(lib.is_bitcoin(each) for _, each in found.all_attestations()):
                    node.attestations.discard(promise)
    if asked and not answered:
        raise InputError(*failed)
    _tell_all(tell, failed)
    return lib.written(root)


def read_ots(raw: bytes, digest: str, *, shown: str | None = None) -> OtsState:
    """What a stamp file for `digest` consists of.

    Nothing in the file is signed. A changed byte makes it unreadable, or makes it another stamp:
    one that leads to a Merkle root that no block has, or to a commitment that no calendar knows.
    So it can spoil a proof, not make one.

    Parameters
    ----------
    raw
        The stamp file.
    digest
        The SHA-256 that it must be for, 64 hex digits.
    shown
        The file's name in messages.

    Raises
    ------
    IntegrityError
        If it is for another digest, is no stamp file, or is not in its one form.
    UsageError
        If the library is not installed.
    """
    lib = _Library()
    root = _read(lib, raw, digest, shown)
    found = [_attestation(lib, msg, each, shown) for msg, each in root.all_attestations()]
    order = {"bitcoin": 0, "pending": 1, "other": 2}
    found.sort(key=lambda a: (order[a.kind], a.height or 0, a.calendar or "", a.commitment))
    return OtsState(digest, tuple(found))


def check_block_header(attestation: Attestation, header: str) -> Block:
    """Check that a block's header has the attested Merkle root; return the block's hash and time.

    Whether this is the header of block `height` is for the giver of the header to know: compare
    the hash with a node's or an explorer's.

    Parameters
    ----------
    attestation
        One of kind `bitcoin`.
    header
        The 80 bytes of the header, hex.

    Raises
    ------
    InputError
        If the header is not 80 bytes in hex.
    UsageError
        If the attestation is not Bitcoin's.
    IntegrityError
        If the header has another Merkle root.
    """
    if attestation.kind != "bitcoin":
        raise UsageError(Problem(f"there is no block to check: {attestation}"))
    try:
        raw = bytes.fromhex(header)
    except ValueError:
        raw = b""
    if len(raw) != _HEADER_BYTES:
        what = "is not a block's header (80 bytes, 160 hex digits)"
        raise InputError(Problem(what, found=repr(header[:200])))
    if raw[36:68].hex() != attestation.commitment:
        what = f"the header given for block {attestation.height} has another merkle root"
        raise IntegrityError(Problem(what, found=raw[36:68][::-1].hex()))
    stamp = datetime.fromtimestamp(int.from_bytes(raw[68:72], "little"), UTC)
    name = sha256(sha256(raw).digest()).digest()[::-1].hex()
    return Block(name, stamp.isoformat().replace("+00:00", "Z"))


class _Library:
    """The modules of `opentimestamps` that are used, and its few words that are needed often."""

    def __init__(self) -> None:
        """Import them.

        Raises
        ------
        UsageError
            If the library is not installed.
        """
        try:
            from opentimestamps import calendar
            from opentimestamps.core import notary, op, serialize, timestamp
        except ImportError as exc:
            what = "OpenTimestamps needs a library that is not installed"
            remedy = 'install it with: pip install "prereg-judge[ots]"'
            raise UsageError(Problem(what, found=str(exc), remedy=remedy)) from exc
        self.op: Any = op
        self.timestamp: Any = timestamp
        self._notary: Any = notary
        self._serialize: Any = serialize
        self._calendar: Any = calendar

    def is_pending(self, attestation: Any) -> bool:
        return isinstance(attestation, self._notary.PendingAttestation)

    def is_bitcoin(self, attestation: Any) -> bool:
        return isinstance(attestation, self._notary.BitcoinBlockHeaderAttestation)

    def well_known(self, url: str) -> bool:
        return url.rstrip("/") in self._calendar.DEFAULT_CALENDAR_WHITELIST

    def nodes(self, stamp: Any) -> list[Any]:
        """`stamp` and every stamp below it."""
        return [stamp, *(each for below in stamp.ops.values() for each in self.nodes(below))]

    def written(self, root: Any) -> bytes:
        """The stamp file of a tree for a SHA-256."""
        context = self._serialize.BytesSerializationContext()
        self.timestamp.DetachedTimestampFile(self.op.OpSHA256(), root).serialize(context)
        raw: bytes = context.getbytes()
        return raw

    def file(self, raw: bytes) -> Any:
        """The tree in a stamp file for a SHA-256; ValueError where there is none."""
        found = self._parsed(raw, self.timestamp.DetachedTimestampFile.deserialize)
        if found.file_hash_op != self.op.OpSHA256():
            raise ValueError("it is not for a SHA-256")
        return found.timestamp

    def answer(self, raw: bytes, commitment: bytes) -> Any:
        """The tree in a calendar's answer; ValueError where there is none."""
        return self._parsed(raw, lambda ctx: self.timestamp.Timestamp.deserialize(ctx, commitment))

    def _parsed(self, raw: bytes, how: Callable[[Any], Any]) -> Any:
        context = self._serialize.BytesDeserializationContext(raw)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an operation that may be removed one day
            try:
                found = how(context)
                context.assert_eof()
            except (
                self._serialize.DeserializationError,
                ValueError,
                TypeError,
                OverflowError,
                AssertionError,  # the library's own on results of no length
            ) as exc:
                raise ValueError(str(exc) or type(exc).__name__) from exc
        return found


def _ask(
    lib: _Library, method: str, url: str, path: str, body: bytes | None = None, *, timeout_s: float
) -> Any:
    """A calendar's answer as a tree; None where it has nothing for a commitment yet."""
    address = f"{url}/{path}"
    reply = exchange(
        method, address, headers=_KIND, timeout_s=timeout_s, most_bytes=MOST_BYTES, body=body
    )
    if method == "GET" and reply.status == 404:
        return None
    if reply.status != 200:
        raise refused(address, f"answered with HTTP status {reply.status}")
    commitment = body if body is not None else bytes.fromhex(path.rpartition("/")[2])
    try:
        return lib.answer(reply.body, commitment)
    except ValueError as exc:
        what = f"did not answer with a time-stamp but with {reply.kind or 'something else'} ({exc})"
        raise refused(address, what) from exc


def _read(lib: _Library, raw: bytes, digest: str, shown: str | None) -> Any:
    """The tree in a stamp file, whose form and digest are right."""
    try:
        root = lib.file(raw)
    except ValueError as exc:
        raise _wrong(f"is not an OpenTimestamps file: {exc}", shown) from exc
    if root.msg.hex() != digest:
        raise _wrong("is a time-stamp for another digest", shown, found=root.msg.hex())
    if lib.written(root) != raw:
        raise _wrong("is not in the form in which it was written: it was changed", shown)
    return root


def _attestation(lib: _Library, msg: bytes, found: Any, shown: str | None) -> Attestation:
    if lib.is_pending(found):
        return Attestation("pending", msg.hex(), calendar=found.uri)
    if not lib.is_bitcoin(found):
        return Attestation("other", msg.hex())
    if len(msg) != 32:
        raise _wrong(f"leads to {len(msg)} bytes where a merkle root has 32", shown)
    return Attestation("bitcoin", msg.hex(), height=found.height)


def _tell_all(tell: Tell | None, problems: Sequence[Problem]) -> None:
    if tell is not None:
        for problem in problems:
            tell(problem)


def _wrong(what: str, shown: str | None, *, found: str | None = None) -> IntegrityError:
    prefix = "" if shown else "the OpenTimestamps file "
    return IntegrityError(Problem(prefix + what, file=shown, found=found, remedy=_RESTORE))
