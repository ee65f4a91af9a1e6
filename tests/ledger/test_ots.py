"""OpenTimestamps: stamps of a real calendar on loopback, from its promise to a block's header."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentimestamps.core import notary, op, serialize, timestamp

from prereg_judge.errors import InputError, IntegrityError, Problem, UsageError
from prereg_judge.ledger.ots import (
    Attestation,
    check_block_header,
    ots_stamp,
    ots_upgrade,
    read_ots,
)

HEAD = sha256(b"the last line of a ledger").hexdigest()
OTHER = sha256(b"another").hexdigest()
HEIGHT = 812_345

# Bitcoin's first block, as its nodes give it (getblockheader of block 0).
GENESIS_HEADER = (
    "0100000000000000000000000000000000000000000000000000000000000000000000003ba3edfd7a7b12b27ac72c3e"
    "67768f617fc81bc3888a51323a9fb8aa4b1e5e4a29ab5f49ffff001d1dac2b7c"
)
GENESIS_ROOT = "4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b"
GENESIS_HASH = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"


class Calendar(ThreadingHTTPServer):
    """A calendar that promises at once, and has a block when the test says so.

    Attributes
    ----------
    mined
        Whether what was submitted is in a block by now.
    answer
        What is sent instead of any right answer: a status and bytes.
    asked
        Methods and paths of the requests; `submitted` holds the bodies of the submissions.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.mined = False
        self.answer: tuple[int, bytes] | None = None
        self.asked: list[str] = []
        self.submitted: list[bytes] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def promise(self, digest: bytes) -> bytes:
        """What a calendar says to a submission: where it will have put it."""
        stamp = timestamp.Timestamp(digest)
        below = stamp.ops.add(op.OpPrepend(b"\x65\x43\x21\x00")).ops.add(op.OpAppend(b"calendar"))
        below.attestations.add(notary.PendingAttestation(self.url))
        return written(stamp)

    def path(self, commitment: bytes) -> bytes:
        """The way from a commitment to the root of a block with two transactions."""
        stamp = timestamp.Timestamp(commitment)
        left = stamp.ops.add(op.OpSHA256())
        root = timestamp.cat_sha256d(left, sha256(b"the other transaction").digest())
        root.attestations.add(notary.BitcoinBlockHeaderAttestation(HEIGHT))
        return written(stamp)


def written(stamp: Any) -> bytes:
    """A tree's bytes."""
    context = serialize.BytesSerializationContext()
    stamp.serialize(context)
    raw: bytes = context.getbytes()
    return raw


class _Handler(BaseHTTPRequestHandler):
    server: Calendar

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep quiet."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append(f"POST {self.path}")
        self.server.submitted.append(body)
        self._send(*(self.server.answer or (200, self.server.promise(body))))

    def do_GET(self) -> None:
        self.server.asked.append(f"GET {self.path}")
        commitment = bytes.fromhex(self.path.removeprefix("/timestamp/"))
        late = (200, self.server.path(commitment)) if self.server.mined else (404, b"Pending")
        self._send(*(self.server.answer or late))

    def _send(self, status: int, raw: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


@contextmanager
def open_calendar() -> Iterator[Calendar]:
    """A running calendar."""
    server = Calendar()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="calendar")
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def calendar() -> Iterator[Calendar]:
    """A running calendar."""
    with open_calendar() as server:
        yield server


def stamp_at(*calendars: Calendar) -> bytes:
    """A stamp of HEAD at these calendars."""
    return ots_stamp(HEAD, calendars=[each.url for each in calendars], timeout_s=30)


def completed(raw: bytes, *calendars: Calendar) -> bytes:
    """A stamp with what these calendars have by now."""
    return ots_upgrade(raw, HEAD, calendars=[each.url for each in calendars], timeout_s=30)


def header_for(attestation: Attestation) -> str:
    """A block's header with the attested root; only that matters here."""
    return "01000000" + "00" * 32 + attestation.commitment + "29ab5f49" + "ffff001d" + "00000000"


def test_from_promise_to_block(calendar: Calendar) -> None:
    """A stamp is pending, stays so byte for byte while the calendar has nothing, and then leads
    to a block's root, which is said not to be checked.
    """
    raw = stamp_at(calendar)
    state = read_ots(raw, HEAD)
    (promise,) = state.attestations
    assert (promise.kind, promise.calendar, promise.merkle_root) == ("pending", calendar.url, None)
    assert not state.complete
    assert "normal for hours" in str(promise)
    assert "nothing is proved yet" in str(promise)

    assert completed(raw, calendar) == raw
    calendar.mined = True
    whole = completed(raw, calendar)
    (block,) = read_ots(whole, HEAD).attestations
    assert read_ots(whole, HEAD).complete
    assert (block.kind, block.height) == ("bitcoin", HEIGHT)
    assert str(block) == (
        f"bitcoin, not checked here: that block {HEIGHT} has merkle root {block.merkle_root}"
        " needs a Bitcoin node or an explorer that you trust"
    )
    # By hand: from the calendar's commitment to the root of a block with two transactions.
    leaf = sha256(bytes.fromhex(promise.commitment)).digest()
    pair = leaf + sha256(b"the other transaction").digest()
    assert block.commitment == sha256(sha256(pair).digest()).hexdigest()
    assert completed(whole, calendar) == whole
    assert calendar.asked.count(f"GET /timestamp/{promise.commitment}") == 2


def test_calendars_do_not_see_the_digest(calendar: Calendar) -> None:
    """What is submitted is 32 bytes, other ones each time, and never the digest."""
    stamp_at(calendar)
    stamp_at(calendar)
    first, second = calendar.submitted
    assert len(first) == len(second) == 32
    assert len({first, second, bytes.fromhex(HEAD)}) == 3


def test_several_calendars(calendar: Calendar) -> None:
    """A stamp holds what each calendar promised; one that completes does not touch the other's."""
    with open_calendar() as second:
        raw = stamp_at(calendar, second, second)
        urls = {each.calendar for each in read_ots(raw, HEAD).attestations}
        assert urls == {calendar.url, second.url}
        assert len(second.submitted) == 1
        second.mined = True
        kinds = [
            each.kind for each in read_ots(completed(raw, calendar, second), HEAD).attestations
        ]
        assert kinds == ["bitcoin", "pending"]


def test_one_calendar_that_fails_is_told(calendar: Calendar) -> None:
    """Where one calendar answers, the stamp is made and the other's failure is told; where none
    does, every failure is in the error.
    """
    with open_calendar() as gone:
        url = gone.url
    told: list[Problem] = []
    raw = ots_stamp(HEAD, calendars=[url, calendar.url], timeout_s=30, tell=told.append)
    assert [each.calendar for each in read_ots(raw, HEAD).attestations] == [calendar.url]
    (problem,) = told
    assert "cannot be reached" in problem.what
    assert url in str(problem)
    calendar.answer = (500, b"")
    with pytest.raises(InputError) as caught:
        ots_stamp(HEAD, calendars=[url, calendar.url], timeout_s=30)
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((200, b"<html>log in</html>"), "did not answer with a time-stamp"),
        ((200, b""), "did not answer with a time-stamp"),
        ((200, b"\x00" * 10_001), "sent more than 10000 bytes"),
        ((503, b""), "HTTP status 503"),
        ((404, b""), "HTTP status 404"),
    ],
)
def test_answers_that_are_refused(calendar: Calendar, answer: tuple[int, bytes], said: str) -> None:
    """What a calendar should not say to a submission is named."""
    calendar.answer = answer
    with pytest.raises(InputError, match=said):
        stamp_at(calendar)


def test_unknown_calendars_are_not_asked(calendar: Calendar) -> None:
    """An address that a stamp names is contacted only if it is well known or named by the user."""
    raw = stamp_at(calendar)
    before = list(calendar.asked)
    with pytest.raises(InputError, match="is not a well-known calendar"):
        ots_upgrade(raw, HEAD, timeout_s=30)
    assert calendar.asked == before


def test_no_calendar() -> None:
    """A stamp needs a calendar, at an HTTP address."""
    with pytest.raises(UsageError, match="no calendar"):
        ots_stamp(HEAD, calendars=[], timeout_s=1)
    with pytest.raises(InputError, match="not an HTTP address"):
        ots_stamp(HEAD, calendars=["calendar.example.org"], timeout_s=1)


def test_another_digest(calendar: Calendar) -> None:
    """A stamp is for one digest, and says for which."""
    with pytest.raises(IntegrityError, match=HEAD):
        read_ots(stamp_at(calendar), OTHER)


def test_changed_byte_is_found_or_spoils_the_proof(calendar: Calendar) -> None:
    """Whichever bit of a complete stamp is changed, it is unreadable, or leads to another root or
    block, or no longer to one: no change keeps the proof, so the right header finds it.
    """
    calendar.mined = True
    raw = completed(stamp_at(calendar), calendar)
    (block,) = read_ots(raw, HEAD).attestations
    header = header_for(block)
    check_block_header(block, header)
    for at in range(len(raw)):
        for bit in range(8):
            changed = bytearray(raw)
            changed[at] ^= 1 << bit
            try:
                (other,) = read_ots(bytes(changed), HEAD).attestations
            except IntegrityError:
                continue
            if other.kind == "bitcoin" and other.height == HEIGHT:
                with pytest.raises(IntegrityError, match="another merkle root"):
                    check_block_header(other, header)


def test_changed_byte_of_a_promise_proves_nothing(calendar: Calendar) -> None:
    """Whichever bit of a pending stamp is changed, it is unreadable, or still proves nothing: it
    is another promise, which this calendar never gave.
    """
    raw = stamp_at(calendar)
    (promise,) = read_ots(raw, HEAD).attestations
    for at in range(len(raw)):
        for bit in range(8):
            changed = bytearray(raw)
            changed[at] ^= 1 << bit
            try:
                state = read_ots(bytes(changed), HEAD)
            except IntegrityError:
                continue
            assert not state.complete
            assert state.attestations != (promise,)


@settings(deadline=None)
@given(st.binary(max_size=120), st.booleans())
def test_other_bytes_are_no_stamp(raw: bytes, headed: bool) -> None:
    """Whatever else is read as a stamp is refused in words, with the file's name."""
    start = b"\x00OpenTimestamps\x00\x00Proof\x00\xbf\x89\xe2\xe8\x84\xe8\x92\x94\x01\x08"
    body = start + bytes.fromhex(OTHER) + raw if headed else raw
    with pytest.raises(IntegrityError, match=r"^a\.ots: "):
        read_ots(body, HEAD, shown="a.ots")


def test_forms_that_lead_nowhere() -> None:
    """A root that is not 32 bytes, a hash other than SHA-256 and an attestation of an unknown kind
    are not taken for a block.
    """
    stamp = timestamp.Timestamp(bytes.fromhex(HEAD))
    stamp.ops.add(op.OpAppend(b"x")).attestations.add(notary.BitcoinBlockHeaderAttestation(1))
    with pytest.raises(IntegrityError, match="33 bytes where a merkle root has 32"):
        read_ots(file_of(op.OpSHA256(), stamp), HEAD)
    short = timestamp.Timestamp(bytes(20))
    short.attestations.add(notary.BitcoinBlockHeaderAttestation(1))
    with pytest.raises(IntegrityError, match="not for a SHA-256"):
        read_ots(file_of(op.OpSHA1(), short), HEAD)
    other = timestamp.Timestamp(bytes.fromhex(HEAD))
    other.attestations.add(notary.UnknownAttestation(b"8 bytes.", b"payload"))
    state = read_ots(file_of(op.OpSHA256(), other), HEAD)
    assert not state.complete
    assert "nothing is proved" in str(state.attestations[0])


def test_operation_that_may_be_removed_does_not_warn() -> None:
    """A stamp with the one operation that the library warns of is read without a warning."""
    stamp = timestamp.Timestamp(bytes.fromhex(HEAD))
    with pytest.warns(PendingDeprecationWarning):
        end = stamp.ops.add(op.OpReverse())
    end.attestations.add(notary.BitcoinBlockHeaderAttestation(1))
    (block,) = read_ots(file_of(op.OpSHA256(), stamp), HEAD).attestations
    assert block.merkle_root == HEAD


def file_of(hashed_by: Any, stamp: Any) -> bytes:
    """The stamp file of a tree."""
    context = serialize.BytesSerializationContext()
    timestamp.DetachedTimestampFile(hashed_by, stamp).serialize(context)
    raw: bytes = context.getbytes()
    return raw


def test_header_of_the_first_block() -> None:
    """Bitcoin's first block has the root, hash and time that are known; another root fails."""
    root = bytes.fromhex(GENESIS_ROOT)[::-1].hex()
    block = Attestation("bitcoin", root, height=0)
    assert block.merkle_root == GENESIS_ROOT
    checked = check_block_header(block, GENESIS_HEADER)
    assert (checked.hash, checked.time) == (GENESIS_HASH, "2009-01-03T18:15:05Z")
    with pytest.raises(IntegrityError, match=GENESIS_ROOT):
        check_block_header(Attestation("bitcoin", "11" * 32, height=0), GENESIS_HEADER)
    for wrong in ("", "zz", GENESIS_HEADER[2:]):
        with pytest.raises(InputError, match="80 bytes"):
            check_block_header(block, wrong)
    with pytest.raises(UsageError, match="no block to check"):
        check_block_header(Attestation("pending", root, calendar="https://x"), GENESIS_HEADER)


def test_library_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, the error says how to install it."""
    for name in [each for each in sys.modules if each.partition(".")[0] == "opentimestamps"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentimestamps", None)  # as if it were not there
    with pytest.raises(UsageError, match=r'pip install "prereg-judge\[ots\]"'):
        read_ots(b"", HEAD)
