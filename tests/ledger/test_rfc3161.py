"""Time-stamps of a real authority: asked for, read, verified, and every way to fail."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.authority import Authority, Misbehaviour, Setup, time_stamping, years
from prereg_judge.errors import InputError, IntegrityError
from prereg_judge.ledger import der
from prereg_judge.ledger.rfc3161 import read_roots, read_token, request_token, verify_token
from prereg_judge.ledger.token_form import canonical, take_apart

HEAD = sha256(b"the last line of a ledger").hexdigest()
OTHER = sha256(b"another").hexdigest()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    """A good authority that sends its intermediate certificate along."""
    with time_stamping(tmp_path_factory.mktemp("authority")) as running:
        yield running


@pytest.fixture(autouse=True)
def _behaves(authority: Authority) -> None:
    authority.misbehaviour = None


@pytest.fixture(scope="module")
def token(authority: Authority) -> bytes:
    """Its time-stamp for HEAD."""
    authority.misbehaviour = None
    return request_token(authority.url, HEAD, timeout_s=30)


def stamped(folder: Path, setup: Setup) -> tuple[Authority, bytes]:
    """An authority (no longer running) and its time-stamp for HEAD."""
    with time_stamping(folder, setup) as running:
        return running, request_token(running.url, HEAD, timeout_s=30)


def roots(*paths: Path) -> tuple[bytes, ...]:
    """The certificates in these files."""
    return tuple(each for path in paths for each in read_roots(path))


def refusal(raw: bytes, *paths: Path, digest: str = HEAD) -> str:
    """Why a token is refused."""
    with pytest.raises(IntegrityError) as caught:
        verify_token(raw, digest, roots=roots(*paths))
    return str(caught.value)


def test_token_says_what_the_authority_stamped(authority: Authority, token: bytes) -> None:
    """A fresh token verifies, with the digest, the present time, accuracy, policy and signer."""
    said = verify_token(token, HEAD, roots=roots(authority.root))
    assert said == read_token(token)
    assert (said.digest, said.accuracy) == (HEAD, "1.5 s")
    assert (said.policy, said.signer) == ("1.3.6.1.4.1.311.99.1", "CN=signer of a test")
    assert said.certificates == 2
    age = datetime.now(UTC) - datetime.fromisoformat(said.time)
    assert timedelta(seconds=-2) < age < timedelta(hours=1)
    top = ssl.PEM_cert_to_DER_cert(authority.intermediate.read_text())
    assert said.fingerprint == sha256(top).hexdigest()


def test_openssl_reads_what_is_kept(authority: Authority, token: bytes) -> None:
    """The kept form is one that `openssl ts -verify -digest` finds good, for this digest only."""
    assert authority.openssl_verifies(token, HEAD)
    assert not authority.openssl_verifies(token, OTHER)


def test_every_request_has_its_own_nonce(authority: Authority) -> None:
    """Two requests for one digest differ, ask for the certificates and carry the bare digest."""
    before = len(authority.asked)
    serials = {
        read_token(request_token(authority.url, HEAD, timeout_s=30)).serial for _ in range(2)
    }
    first, second = authority.asked[before:]
    assert first != second
    assert len(serials) == 2
    assert bytes.fromhex(HEAD) in first
    assert first.endswith(b"\x01\x01\xff")  # certReq TRUE


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("nonce", "answered another request: the nonce"),
        ("imprint", "stamped another digest: " + sha256(bytes.fromhex(HEAD)).hexdigest()),
        ("rejected", r"rejection \(Message digest algorithm is not supported"),
        ("html", "did not answer with a time-stamp but with text/html"),
        ("status", "answered with HTTP status 503"),
        ("large", "sent more than 1048576 bytes"),
        ("slow", "did not answer within 0.5 s"),
        ("drip", "did not finish its answer within 0.5 s"),
    ],
)
def test_answers_that_are_refused(authority: Authority, how: Misbehaviour, said: str) -> None:
    """Whatever an authority does wrong is named, with its address and what to do."""
    authority.misbehaviour = how
    limit = 0.5 if how in ("slow", "drip") else 30
    with pytest.raises(InputError, match=said) as caught:
        request_token(authority.url, HEAD, timeout_s=limit)
    (problem,) = caught.value.problems
    assert problem.file is None
    assert problem.found == repr(authority.url)
    assert problem.remedy


def test_nobody_listens(tmp_path: Path) -> None:
    """A stopped authority is one that cannot be reached."""
    with time_stamping(tmp_path) as running:
        url = running.url
    with pytest.raises(InputError, match="cannot be reached"):
        request_token(url, HEAD, timeout_s=5)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://tsa.example.org/", "not an HTTP address"),
        ("tsa.example.org", "not an HTTP address"),
        ("http://", "not an HTTP address"),
        ("http://[::1", "not an address"),
        ("https://me:secret@tsa.example.org/", "holds a user name or password"),
    ],
)
def test_addresses_that_are_refused(url: str, said: str) -> None:
    """What is no HTTP address, or holds a password, is refused; a password is not repeated."""
    with pytest.raises(InputError, match=said) as caught:
        request_token(url, HEAD, timeout_s=5)
    assert "secret" not in str(caught.value)


def test_token_for_another_digest(authority: Authority, token: bytes) -> None:
    """A token verifies for the digest that it was made for, and says which one that is."""
    text = refusal(token, authority.root, digest=OTHER)
    assert "for another digest" in text
    assert HEAD in text


def test_every_changed_byte_is_found(authority: Authority, token: bytes) -> None:
    """Whichever byte of a token is changed, in its last bit or another, it no longer verifies."""
    given_roots = roots(authority.root)
    for at in range(len(token)):
        for bit in (0, at % 7 + 1):
            changed = bytearray(token)
            changed[at] ^= 1 << bit
            with pytest.raises(IntegrityError):
                verify_token(bytes(changed), HEAD, roots=given_roots)


@settings(deadline=None)
@given(st.data())
def test_cut_doubled_and_inserted_bytes_are_found(
    authority: Authority, token: bytes, data: st.DataObject
) -> None:
    """A stretch of a token that is cut out, doubled or replaced makes it fail."""
    start = data.draw(st.integers(0, len(token) - 1))
    end = data.draw(st.integers(start, len(token)))
    changed = token[:start] + data.draw(st.binary(max_size=40)) + token[end:]
    if changed != token:
        with pytest.raises(IntegrityError):
            verify_token(changed, HEAD, roots=roots(authority.root))


@pytest.mark.parametrize(
    "setup",
    [Setup(sends="all"), Setup(sends="signer"), Setup(key="EC"), Setup(ess="sha1")],
    ids=["root came along", "signer only", "EC key", "SHA-1 name"],
)
def test_other_forms_verify_and_changed_bytes_are_found(tmp_path: Path, setup: Setup) -> None:
    """Tokens with more or fewer certificates, of other keys and of the old form are good, and no
    byte of them can be changed either.
    """
    made, raw = stamped(tmp_path, setup)
    trusted = roots(made.root, made.intermediate)
    assert verify_token(raw, HEAD, roots=trusted).digest == HEAD
    for at in range(len(raw)):
        changed = bytearray(raw)
        changed[at] ^= 1 << at % 8
        with pytest.raises(IntegrityError):
            verify_token(bytes(changed), HEAD, roots=trusted)


def test_only_the_kept_form_is_taken(authority: Authority, token: bytes) -> None:
    """A response as OpenSSL writes it becomes the kept form, which alone is read; what is not
    signed (a status text) cannot be smuggled in.
    """
    came = authority.reply(authority.other_query(HEAD))
    assert canonical(canonical(came)) == canonical(came)
    assert verify_token(canonical(came), HEAD, roots=roots(authority.root)).digest == HEAD
    status, kept = der.read(token).parts
    said = der.write(der.SEQUENCE, status.content, der.write(der.SEQUENCE, b"\x0c\x02ok"))
    text = refusal(der.write(der.SEQUENCE, said, kept.whole), authority.root)
    assert "not in the form in which it was written" in text


def test_certificates_of_strangers_are_left_out(tmp_path: Path) -> None:
    """A certificate that came along without having made any other is not kept."""
    made, raw = stamped(tmp_path, Setup(sends="stranger"))
    assert len(take_apart(made.reply(made.asked[0])).certificates) == 2
    assert b"stranger" in made.reply(made.asked[0])
    assert b"stranger" not in raw
    assert verify_token(raw, HEAD, roots=roots(made.root)).certificates == 2


def test_cross_certificate(tmp_path: Path) -> None:
    """A root's second certificate, made by another root, comes along: the token is good under
    either root, and under the older one alone no byte can be changed.
    """
    made, raw = stamped(tmp_path, Setup(sends="cross"))
    assert verify_token(raw, HEAD, roots=roots(made.root)).certificates == 3
    assert verify_token(raw, HEAD, roots=roots(made.stranger)).certificates == 3
    for at in range(len(raw)):
        changed = bytearray(raw)
        changed[at] ^= 1 << at % 8
        with pytest.raises(IntegrityError):
            verify_token(bytes(changed), HEAD, roots=roots(made.stranger))


def test_changed_bytes_that_do_not_matter(tmp_path: Path) -> None:
    """Under the root that they are not for, changed bytes of a cross-certificate may pass: all of
    them lie inside of it, and the token says the same.
    """
    made, raw = stamped(tmp_path, Setup(sends="cross"))
    passenger = ssl.PEM_cert_to_DER_cert((tmp_path / "cross.pem").read_text())
    start = raw.index(passenger)
    told = verify_token(raw, HEAD, roots=roots(made.root))
    passed = []
    for at in range(len(raw)):
        changed = bytearray(raw)
        changed[at] ^= 1 << at % 8
        try:
            said = verify_token(bytes(changed), HEAD, roots=roots(made.root))
        except IntegrityError:
            continue
        assert replace(said, fingerprint=told.fingerprint) == told
        passed.append(at)
    assert passed
    assert start < min(passed) <= max(passed) < start + len(passenger)


def test_other_root(tmp_path: Path, token: bytes) -> None:
    """The root of another authority with the same names does not make a token good."""
    made, _ = stamped(tmp_path, Setup())
    assert "no good chain" in refusal(token, made.root)


def test_root_given_twice(authority: Authority, token: bytes, tmp_path: Path) -> None:
    """A roots file that holds a root twice, in text of other tools, gives it once."""
    twice = tmp_path / "roots.pem"
    pem = authority.root.read_bytes()
    twice.write_bytes(b"# a comment\n" + pem + b"subject=CN = root\n" + pem.replace(b"\n", b"\r\n"))
    assert verify_token(token, HEAD, roots=(*read_roots(twice), pem)).digest == HEAD


def test_roots_file_with_none(tmp_path: Path) -> None:
    """A file without a certificate, with a damaged one, and none at all are each named."""
    file = tmp_path / "roots.pem"
    with pytest.raises(InputError, match="does not exist"):
        read_roots(file)
    file.write_text("nothing here")
    with pytest.raises(InputError, match=re.escape(f"{file}: holds no certificate")):
        read_roots(file)
    file.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(InputError, match="cannot be read"):
        read_roots(file)


def test_no_root_proves_nothing(authority: Authority, token: bytes) -> None:
    """Without a self-signed root nothing is good, not even under the intermediate itself."""
    assert "no self-signed root certificate was given" in refusal(token)
    assert "no self-signed root certificate was given" in refusal(token, authority.intermediate)


def test_intermediate_that_did_not_come_along(tmp_path: Path) -> None:
    """Where only the signer's certificate came, the intermediate must be in the roots file."""
    made, raw = stamped(tmp_path, Setup(sends="signer"))
    assert "unable to get local issuer certificate" in refusal(raw, made.root)
    assert verify_token(raw, HEAD, roots=roots(made.root, made.intermediate)).certificates == 1


def test_certificate_that_expired_since(tmp_path: Path) -> None:
    """A token stays good after its certificates expired: they were valid at its time. OpenSSL,
    asked about today, says otherwise.
    """
    then = datetime(2018, 5, 4, 3, 2, 1, tzinfo=UTC)
    old = years(2015, 2020)
    made, raw = stamped(tmp_path, Setup(valid=old, intermediate_valid=old, clock=then))
    assert verify_token(raw, HEAD, roots=roots(made.root)).time == "2018-05-04T03:02:01Z"
    assert not made.openssl_verifies(raw, HEAD)


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        (Setup(valid=years(2015, 2020)), "certificate has expired"),
        (Setup(valid=years(2015, 2020), clock=years(2021, 2022)[0]), "certificate has expired"),
        (Setup(clock=years(2012, 2013)[0]), "certificate is not yet valid"),
        (Setup(intermediate_valid=years(2015, 2020)), "certificate has expired"),
        (Setup(intermediate_is_ca=False), "invalid CA certificate"),
        (Setup(usage=""), "unsuitable certificate purpose"),
        (Setup(usage="critical, codeSigning"), "unsuitable certificate purpose"),
        (Setup(usage="timeStamping"), "unsuitable certificate purpose"),
        (Setup(usage="critical, timeStamping, codeSigning"), "unsuitable certificate purpose"),
        (Setup(ess="none"), "does not name the certificate of its signer"),
    ],
)
def test_certificates_that_are_not_good(tmp_path: Path, setup: Setup, said: str) -> None:
    """A certificate that was not valid at the token's time, whose issuer may issue none, that is
    not for time-stamping alone and critically so, or that the token does not name, is refused.
    """
    made, raw = stamped(tmp_path, setup)
    assert said in refusal(raw, made.root, made.intermediate)


def test_fractions_of_a_second(tmp_path: Path) -> None:
    """A time is given with the digits that the token has."""
    _, raw = stamped(tmp_path, Setup(digits=6))
    # A fraction that happens to be 0, or to end in 0, is written shorter.
    text = take_apart(raw).info[4].content.decode()
    assert read_token(raw).time.replace("-", "").replace(":", "").replace("T", "") == text


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_other_bytes_are_no_token(raw: bytes) -> None:
    """Whatever else is read as a token is refused in words."""
    with pytest.raises(IntegrityError, match="is not a time-stamp token"):
        read_token(raw)


def test_the_file_is_named(token: bytes) -> None:
    """Where the file's name is given, the message begins with it."""
    with pytest.raises(IntegrityError, match=r"^stamps/1\.tsr: is not a time-stamp token"):
        read_token(token[:-1], shown="stamps/1.tsr")
