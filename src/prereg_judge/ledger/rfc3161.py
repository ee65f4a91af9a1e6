"""Time-stamps of an authority (RFC 3161): asked for, read, and verified.

What is stamped is a ledger's head: the message imprint is that very SHA-256, so anybody can
check with `openssl ts -verify -digest HEAD`. A token proves that the head existed at the token's
time to whoever trusts the authority's root certificate. Knows nothing of ledgers or files.

The certificates are checked as of the token's time: an authority's certificate may have expired
since. That holds unless its key was stolen after it expired; revocation is not asked about.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from rfc3161_client import (
    HashAlgorithm,
    PKIStatus,
    TimestampRequestBuilder,
    TimeStampResponse,
    VerificationError,
    VerifierBuilder,
    decode_timestamp_response,
)

from prereg_judge.errors import InputError, IntegrityError, Problem
from prereg_judge.ledger.der import NotDerError
from prereg_judge.ledger.post import digest_bytes, exchange, refused
from prereg_judge.ledger.token_form import UNREADABLE, Parts, canonical, take_apart
from prereg_judge.wording import not_a_file

MOST_BYTES = 1 << 20
_SHA256 = "2.16.840.1.101.3.4.2.1"
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\r?\n?", re.DOTALL)
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\.\d*[1-9])?Z")
_ADDRESS = "check the address, or ask another authority"
_ROOTS = (
    "give the authority's root certificate, with the intermediate ones where they did not come"
    " along, in one PEM file; if the token was changed, restore it from git or a copy"
)
_RESTORE = "restore the file from git or a copy, or stamp again"


@dataclass(frozen=True)
class Token:
    """What a token says.

    Attributes
    ----------
    digest
        The SHA-256 that was stamped, 64 hex digits.
    time
        When, by the authority's clock: RFC 3339, UTC, with as many digits as the token gives.
    accuracy
        By how much that clock may be off, such as `1.5 s`; None where the token does not say.
    serial
        The token's number at this authority, hex.
    policy
        The policy under which it was made, a dotted number.
    signer
        The subject of the certificate that signed it.
    fingerprint
        SHA-256 of the certificate at the top of the chain that came along, hex. It is not
        thereby trusted.
    certificates
        How many certificates of that chain came along, the signer's included.
    """

    digest: str
    time: str
    accuracy: str | None
    serial: str
    policy: str
    signer: str
    fingerprint: str
    certificates: int


def request_token(url: str, digest: str, *, timeout_s: float) -> bytes:
    """Ask an authority to stamp a digest; return its response in the form in which it is kept.

    The response is checked to be for this request (digest and nonce), not to be signed rightly:
    that needs the authority's root, see `verify_token`.

    Parameters
    ----------
    url
        The authority's address.
    digest
        A SHA-256, 64 hex digits.
    timeout_s
        How long the whole exchange may take, seconds.

    Raises
    ------
    InputError
        If the authority cannot be reached, answers with anything but a granted time-stamp, or
        with one for another digest or another request.
    """
    wanted = digest_bytes(digest)
    query, nonce = _query(wanted)
    reply = exchange(
        "POST",
        url,
        headers={
            "Content-Type": "application/timestamp-query",
            "Accept": "application/timestamp-reply",
        },
        timeout_s=timeout_s,
        most_bytes=MOST_BYTES,
        body=query,
    )
    if reply.status != 200:
        raise refused(url, f"answered with HTTP status {reply.status}", remedy=_ADDRESS)
    refusal = _refusal(reply.body)
    if refusal is not None:
        raise refused(url, f"did not grant a time-stamp: {refusal}", remedy="ask another authority")
    return _checked(url, reply.kind, reply.body, wanted, nonce)


def _refusal(body: bytes) -> str | None:
    """The status and its text where an authority refuses; None for any other answer."""
    try:
        response = decode_timestamp_response(body)
        status = PKIStatus(response.status)
    except UNREADABLE:
        return None
    if status is PKIStatus.GRANTED:
        return None
    said = "; ".join(response.status_string) or "no reason given"
    return f"{status.name.lower().replace('_', ' ')} ({said})"


def _checked(url: str, kind: str, body: bytes, wanted: bytes, nonce: int) -> bytes:
    """The response that an authority sent, canonical, if it answers this request."""
    try:
        kept = canonical(body)
        info = decode_timestamp_response(kept).tst_info
        imprint = info.message_imprint
        answered = info.nonce
    except UNREADABLE as exc:
        what = f"did not answer with a time-stamp but with {kind or 'something else'} ({exc})"
        raise refused(url, what, remedy=_ADDRESS) from exc
    if imprint.hash_algorithm.dotted_string != _SHA256 or imprint.message != wanted:
        raise refused(url, f"stamped another digest: {imprint.message.hex()}", remedy=_ADDRESS)
    if answered != nonce:
        what = "answered another request: the nonce is not the one that was sent"
        raise refused(url, what, remedy=_ADDRESS)
    return kept


def _query(wanted: bytes) -> tuple[bytes, int]:
    """A request for a stamp on this very digest, and its nonce."""
    builder = TimestampRequestBuilder().data(b"-").hash_algorithm(HashAlgorithm.SHA256)
    made = builder.nonce(nonce=True).cert_request(cert_request=True).build()
    # The library hashes what it is given, and a head is a hash already: put it in that one's
    # place, which has the same length.
    own = hashlib.sha256(b"-").digest()
    raw = made.as_bytes()
    if raw.count(own) != 1 or made.nonce is None:
        raise AssertionError("the library's request has another form than expected")
    return raw.replace(own, wanted), made.nonce


def read_token(raw: bytes, *, shown: str | None = None) -> Token:
    """What a token says; nothing is proved by it saying so.

    Parameters
    ----------
    raw
        A response as `request_token` gives it.
    shown
        The file's name in messages.

    Raises
    ------
    IntegrityError
        If the bytes are no token, or not in the form in which tokens are kept.
    """
    parts = _parts(raw, shown)
    try:
        return _token(parts, decode_timestamp_response(raw))
    except UNREADABLE as exc:
        raise _wrong(f"is not a time-stamp token: {exc}", shown) from exc


def verify_token(
    raw: bytes, digest: str, *, roots: Sequence[bytes], shown: str | None = None
) -> Token:
    """Check that a token was made for `digest` by an authority under one of the roots.

    Checked are the imprint; the signature; the chain from the signer's certificate to a
    self-signed one among the roots, with every certificate valid at the token's time; that the
    signer may do nothing but time-stamping and the signed attributes name its certificate;
    and that each certificate that came along is signed by its issuer, where that one is known.

    Every byte of a token takes part in this but those of a certificate that came along for
    another root than those given (a cross-certificate): these change nothing here.

    Parameters
    ----------
    raw
        A response as `request_token` gives it.
    digest
        The SHA-256 that should have been stamped, 64 hex digits.
    roots
        Certificates, PEM (see `read_roots`). Those that are not self-signed help to build the
        chain and are not trusted by themselves.
    shown
        The file's name in messages.

    Raises
    ------
    IntegrityError
        If anything of it does not hold. With no roots, none does.
    """
    token = read_token(raw, shown=shown)
    parts, response = _parts(raw, shown), decode_timestamp_response(raw)
    given = _certificates(roots)
    imprint = response.tst_info.message_imprint
    if imprint.hash_algorithm.dotted_string != _SHA256 or token.digest != digest:
        raise _wrong("is a time-stamp for another digest", shown, found=token.digest)
    anchors = [each for each in given if each.subject == each.issuer]
    if not anchors:
        what = "cannot be verified: no self-signed root certificate was given"
        raise _wrong(what, shown, remedy=_ROOTS)
    if not _named(parts):
        raise _wrong("does not name the certificate of its signer", shown)
    verifier = VerifierBuilder(
        roots=anchors, intermediates=[each for each in given if each not in anchors]
    ).build()
    with warnings.catch_warnings(action="ignore"):  # oddities of old certificates
        try:
            verifier.verify(response, bytes.fromhex(digest))
        except (VerificationError, *UNREADABLE) as exc:
            raise _wrong(_why(exc, token), shown, remedy=_ROOTS) from exc
        _check_passengers(parts, given, shown)
    return token


def read_roots(path: Path) -> tuple[bytes, ...]:
    """The certificates in a PEM file, each by itself and once, in the file's order.

    Raises
    ------
    InputError
        If there is no such file, no certificate in it, or one that cannot be read.
    """
    why = not_a_file(path)
    if why is not None:
        raise InputError(Problem(why, file=str(path)))
    found = tuple(dict.fromkeys(_PEM.findall(path.read_bytes())))
    if not found:
        remedy = "give a PEM file (-----BEGIN CERTIFICATE-----) of the authority's root"
        raise InputError(Problem("holds no certificate", file=str(path), remedy=remedy))
    try:
        _certificates(found)
    except UNREADABLE as exc:
        what = f"holds a certificate that cannot be read: {exc}"
        raise InputError(Problem(what, file=str(path))) from exc
    return found


def _parts(raw: bytes, shown: str | None) -> Parts:
    """The parts of a kept token, whose form is right."""
    try:
        form = canonical(raw)
    except NotDerError as exc:
        raise _wrong(f"is not a time-stamp token: {exc}", shown) from exc
    if form != raw:
        raise _wrong("is not in the form in which it was written: it was changed", shown)
    return take_apart(raw)


def _token(parts: Parts, response: TimeStampResponse) -> Token:
    info = response.tst_info
    top = parts.certificates[-1][1]
    return Token(
        digest=info.message_imprint.message.hex(),
        time=_rfc3339(parts.info[4].content.decode("ascii")),
        accuracy=_accuracy(response),
        serial=f"{info.serial_number:x}",
        policy=info.policy.dotted_string,
        signer=parts.certificates[0][0].subject.rfc4514_string(),
        fingerprint=hashlib.sha256(top).hexdigest(),
        certificates=len(parts.certificates),
    )


def _rfc3339(text: str) -> str:
    """A GeneralizedTime such as `20260131235959.5Z`, which the library reads to the second."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"its time is not in DER's form: {text!r}")
    year, month, day, hour, minute, second, fraction = match.groups()
    return f"{year}-{month}-{day}T{hour}:{minute}:{second}{fraction or ''}Z"


def _accuracy(response: TimeStampResponse) -> str | None:
    accuracy = response.tst_info.accuracy
    if accuracy is None:
        return None
    micros = (accuracy.millis or 0) * 1000 + (accuracy.micros or 0)
    text = f"{accuracy.seconds or 0}.{micros:06d}".rstrip("0").rstrip(".")
    return f"{text} s"


def _certificates(pems: Sequence[bytes]) -> list[x509.Certificate]:
    with warnings.catch_warnings(action="ignore"):  # oddities of old certificates
        return [x509.load_pem_x509_certificate(pem) for pem in dict.fromkeys(pems)]


def _named(parts: Parts) -> bool:
    """Whether the signed attributes name the signer's certificate: another of the same key or
    the same serial number cannot be put in its place."""
    try:
        named = parts.named
    except UNREADABLE:
        return False
    return (
        named is not None and hashlib.new(named[0], parts.certificates[0][1]).digest() == named[1]
    )


def _check_passengers(parts: Parts, given: Sequence[x509.Certificate], shown: str | None) -> None:
    """Every certificate that came along is signed by its issuer, where that one is known, and is
    the very one that was given, where one was given of this name and number.

    The chain need not lead over all of them: OpenSSL takes those given rather than their copies.
    """
    known = [*(each for each, _ in parts.certificates), *given]
    for certificate, _ in parts.certificates:
        issuers = [each for each in known if each.subject == certificate.issuer]
        number = certificate.subject, certificate.serial_number
        copies = [each for each in given if (each.subject, each.serial_number) == number]
        signed = not issuers or any(_issued(certificate, issuer) for issuer in issuers)
        if not signed or (copies and certificate not in copies):
            name = certificate.subject.rfc4514_string()
            raise _wrong("holds a certificate that its issuer did not sign", shown, found=name)


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, *UNREADABLE):
        return False
    return True


def _why(exc: Exception, token: Token) -> str:
    """The library's reason as a clause; OpenSSL's own words are long and name source files."""
    text = str(exc)
    if "certificate verify error" in text:
        detail = re.search(r'data: "(?:Verify error:\s*)?([^"]*)"', text)
        said = detail[1] if detail else "no reason given"
        return f"has no good chain from its signer to a root given, as of {token.time}: {said}"
    if "Unable to verify pkcs7" in text:
        return "is not signed by the certificate that it names"
    return f"does not hold: {text}"


def _wrong(
    what: str, shown: str | None, *, found: str | None = None, remedy: str = _RESTORE
) -> IntegrityError:
    prefix = "" if shown else "the time-stamp token "
    return IntegrityError(Problem(prefix + what, file=shown, found=found, remedy=remedy))
