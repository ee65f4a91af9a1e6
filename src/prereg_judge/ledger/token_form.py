"""The form of a time-stamp token: taken apart, and in the one form in which it is kept.

Much of a time-stamp response is not signed: the status, the order of the certificates, old
revocation lists, some names of algorithms. Kept as it came, such bytes could be changed without
any check noticing. `canonical` leaves out or fixes all of them, so that the kept form is either
whole or wrong. It stays a response that `openssl ts -verify` reads. Nothing is verified here.

Source: RFC 3161 (responses, TSTInfo), RFC 5652 (SignedData), RFC 2634 and 5035 (ESSCertID).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from prereg_judge.ledger import der
from prereg_judge.ledger.der import Element, NotDerError

_SIGNED_DATA = bytes.fromhex("06092a864886f70d010702")
_TST_INFO = bytes.fromhex("060b2a864886f70d0109100104")
_CERTIFICATE_NAMED_BY = {  # the signed attribute, and its usual hash
    bytes.fromhex("060b2a864886f70d010910020c"): "sha1",
    bytes.fromhex("060b2a864886f70d010910022f"): "sha256",
}
_HASHES = {
    bytes.fromhex("0609608648016503040201"): "sha256",
    bytes.fromhex("0609608648016503040202"): "sha384",
    bytes.fromhex("0609608648016503040203"): "sha512",
}
_PSS = bytes.fromhex("06092a864886f70d01010a")
_RSA = der.write(der.SEQUENCE, bytes.fromhex("06092a864886f70d010101"), b"\x05\x00")
_ECDSA = {
    name: der.write(der.SEQUENCE, bytes.fromhex("06082a8648ce3d0403" + last))
    for name, last in [("sha256", "02"), ("sha384", "03"), ("sha512", "04")]
}
# All that the libraries raise at certificates and tokens that are not what they should be.
UNREADABLE = (
    ValueError,
    TypeError,
    IndexError,
    OverflowError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
_FIRST_FIELDS = 5  # of a TSTInfo: version, policy, imprint, serial number, time


@dataclass(frozen=True)
class Parts:
    """What a response consists of.

    Attributes
    ----------
    content
        The element with the TSTInfo in it: what is signed.
    info
        The fields of the TSTInfo, at least the first five.
    certificates
        Those on the signer's path, the signer's own first; each with its DER.
    signer_info
        The fields of the one SignerInfo: version, whose, hash, signed attributes, algorithm,
        signature.
    """

    content: Element
    info: tuple[Element, ...]
    certificates: tuple[tuple[x509.Certificate, bytes], ...]
    signer_info: tuple[Element, ...]

    @property
    def named(self) -> tuple[str, bytes] | None:
        """By which hash, and as what, the signed attributes name the signer's certificate."""
        for attribute in self.signer_info[3].parts:
            kind, values = attribute.parts
            usual = _CERTIFICATE_NAMED_BY.get(kind.whole)
            if usual is None:
                continue
            first = values.parts[0].parts[0].parts[0].parts  # value, its list, its first entry
            if first[0].tag == der.OCTETS:
                return usual, first[0].content
            return _hash_name(first[0]), der.expect(first[1], der.OCTETS).content
        return None


def take_apart(response: bytes) -> Parts:
    """The parts of a response that holds a token of one signer.

    Raises
    ------
    NotDerError
        If the bytes are anything else.
    """
    try:
        status, token = der.read(response).parts
        der.expect(status, der.SEQUENCE)
        kind, wrapped = der.expect(token, der.SEQUENCE).parts
        if kind.whole != _SIGNED_DATA:
            raise NotDerError("no signed data")
        (data,) = wrapped.parts
        fields = data.parts
        by_tag = {field.tag: field for field in fields[3:-1]}
        content, (signer,) = fields[2], fields[-1].parts
        info_kind, info = content.parts
        if info_kind.whole != _TST_INFO:
            raise NotDerError("signed data, but no time-stamp")
        info_fields = der.read(info.parts[0].content).parts
        signer_info = signer.parts
        if len(info_fields) < _FIRST_FIELDS or signer_info[3].tag != 0xA0:
            raise NotDerError("fields are missing")
        came = by_tag[0xA0].parts if 0xA0 in by_tag else ()
        with warnings.catch_warnings(action="ignore"):  # oddities that the library accepts
            certificates = _path([each.whole for each in came], signer_info[1])
        return Parts(content, info_fields, certificates, signer_info[:6])
    except NotDerError:
        raise
    except UNREADABLE as exc:
        raise NotDerError(str(exc)) from exc


def canonical(response: bytes) -> bytes:
    """The response in the form in which it is kept.

    The status is a bare "granted"; certificates that are not on the signer's path, revocation
    lists and unsigned attributes are left out; the other certificates are in DER's order (the
    order that many authorities leave to chance); versions and names of algorithms are fixed.

    Raises
    ------
    NotDerError
        If it is no response with a token, or the signer's certificate did not come along.
    """
    parts = take_apart(response)
    _, whose, hashed_by, signed, algorithm, signature = parts.signer_info
    signer_info = der.write(
        der.SEQUENCE,
        b"\x02\x01\x01",
        whose.whole,
        hashed_by.whole,
        signed.whole,
        _algorithm(parts.certificates[0][0], algorithm, hashed_by),
        signature.whole,
    )
    data = der.write(
        der.SEQUENCE,
        b"\x02\x01\x03",
        der.write(der.SET, hashed_by.whole),
        parts.content.whole,
        der.write(0xA0, *sorted(raw for _, raw in parts.certificates)),
        der.write(der.SET, signer_info),
    )
    token = der.write(der.SEQUENCE, _SIGNED_DATA, der.write(0xA0, data))
    return der.write(der.SEQUENCE, der.write(der.SEQUENCE, b"\x02\x01\x00"), token)


def _algorithm(signer: x509.Certificate, algorithm: Element, hashed_by: Element) -> bytes:
    """The signature's algorithm: where key and hash leave no choice, its usual name."""
    try:
        key = signer.public_key()
    except UNREADABLE as exc:
        raise NotDerError(f"the signer's key cannot be read: {exc}") from exc
    if isinstance(key, rsa.RSAPublicKey) and algorithm.parts[0].whole != _PSS:
        return _RSA
    if isinstance(key, ec.EllipticCurvePublicKey):
        return _ECDSA[_hash_name(hashed_by)]
    return algorithm.whole


def _hash_name(algorithm: Element) -> str:
    name = _HASHES.get(algorithm.parts[0].whole)
    if name is None:
        raise NotDerError("a hash other than SHA-256, SHA-384 and SHA-512")
    return name


def _path(came: Sequence[bytes], whose: Element) -> tuple[tuple[x509.Certificate, bytes], ...]:
    """The signer's certificate, then those of its issuer, of the issuer's issuer, and so on.

    Two certificates of one issuer (a root's own, and one that another root made for it) are both
    on the path.
    """
    issuer, serial = der.expect(whose, der.SEQUENCE).parts
    number = int.from_bytes(der.expect(serial, der.INTEGER).content, "big", signed=True)
    loaded = [(x509.load_der_x509_certificate(raw), raw) for raw in came]
    signers = [
        (certificate, raw)
        for certificate, raw in loaded
        if certificate.issuer.public_bytes() == issuer.whole and certificate.serial_number == number
    ]
    if not signers:
        raise NotDerError("the signer's certificate did not come along")
    path, left = signers[:1], [each for each in loaded if each != signers[0]]
    for certificate, _ in path:  # grows while it is walked
        above = [each for each in left if each[0].subject == certificate.issuer]
        path += above
        left = [each for each in left if each not in above]
    return tuple(path)
