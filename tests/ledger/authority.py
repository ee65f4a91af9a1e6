"""A real time-stamp authority on loopback: OpenSSL's `ts -reply` behind a small HTTP server.

Root, intermediate and signer are made with the `openssl` command in a folder of the test. What
`ts -reply` itself refuses to do (a clock of its own, a signer without the extended key usage) is
done by signing the same TSTInfo again with `openssl cms`.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

import pytest

Misbehaviour = Literal["nonce", "imprint", "rejected", "html", "status", "slow", "drip", "large"]
Sends = Literal["signer", "intermediate", "all", "stranger", "cross"]

_DAY = timedelta(days=1)
_CONFIG = """\
[ca]
default_ca = here
[here]
dir = {folder}
database = {folder}/index.txt
new_certs_dir = {folder}
serial = {folder}/serial
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
[req]
distinguished_name = name
[name]
[root]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[intermediate]
basicConstraints = critical, CA:{intermediate_is_ca}
keyUsage = critical, {intermediate_usage}
subjectKeyIdentifier = hash
[signer]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = critical, timeStamping
[odd]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
{odd_usage}
[tsa]
serial = {folder}/tsaserial
signer_digest = sha256
default_policy = 1.3.6.1.4.1.311.99.1
digests = {digests}
accuracy = secs:1, millisecs:500
clock_precision_digits = {digits}
ordering = no
ess_cert_id_alg = {ess}
"""


@dataclass(frozen=True)
class Setup:
    """How the authority is made; the defaults make a good one.

    Attributes
    ----------
    valid
        From when to when the signer's certificate is valid; None = yesterday, for a year.
    intermediate_valid
        The same of the intermediate's.
    clock
        What its clock says; None = the real time, stamped by `ts -reply` itself.
    sends
        Which certificates come along: the signer's; the intermediate's too; the root's too;
        or besides the first two that of a root that nobody asked for, or one that another root
        made for this root's key (`cross`; the other root's file is `.stranger`).
    usage
        The signer's line on extended key usage where it is another than `critical, timeStamping`;
        "" = none at all.
    intermediate_is_ca
        Whether the intermediate may issue certificates at all.
    digits
        Digits of the second's fraction in its times.
    ess
        The hash by which a token names its signer's certificate: `sha1` is the old form, "none"
        does not name it.
    key
        The kind of the signer's key.
    """

    valid: tuple[datetime, datetime] | None = None
    intermediate_valid: tuple[datetime, datetime] | None = None
    clock: datetime | None = None
    sends: Sends = "intermediate"
    usage: str | None = None
    intermediate_is_ca: bool = True
    digits: int = 0
    ess: Literal["sha256", "sha1", "none"] = "sha256"
    key: Literal["RSA", "EC"] = "RSA"

    @property
    def by_cms(self) -> bool:
        """Whether `ts -reply` would not do it."""
        return self.clock is not None or self.usage is not None or self.ess == "none"


def years(first: int, last: int) -> tuple[datetime, datetime]:
    """From the first day of one year to that of another."""
    return datetime(first, 1, 1, tzinfo=UTC), datetime(last, 1, 1, tzinfo=UTC)


class Authority:
    """The authority's files and what it answers.

    Attributes
    ----------
    root, intermediate
        Their certificates (PEM files).
    misbehaviour
        What it does wrong from now on; None = nothing.
    asked
        The requests as they came.
    """

    def __init__(self, folder: Path, setup: Setup) -> None:
        self.folder, self.setup = folder, setup
        self.misbehaviour: Misbehaviour | None = None
        self.asked: list[bytes] = []
        self.closing = threading.Event()
        self.url = ""
        self._lock = threading.Lock()
        self._configure()
        usual = (datetime.now(UTC) - _DAY, datetime.now(UTC) + 365 * _DAY)
        long = years(2001, 2049)
        self.root = self._issue("root", long, issuer=None)
        self.intermediate = self._issue("intermediate", setup.intermediate_valid or long)
        kind = "signer" if setup.usage is None else "odd"
        self.signer = self._issue("signer", setup.valid or usual, "intermediate", kind=kind)
        # `ts -reply` wants a signer with the right usage to make the TSTInfo.
        self._maker = self._issue("maker", usual, "intermediate", kind="signer")
        came = [] if setup.sends == "signer" else [self.intermediate]
        if setup.sends == "all":
            came.append(self.root)
        if setup.sends in ("stranger", "cross"):
            self.stranger = self._issue("stranger", long, issuer=None, kind="root")
            came.append(self.stranger)
        if setup.sends == "cross":
            came[-1] = self._certify("root", "cross", long, issuer="stranger", kind="root")
        self._reply, self._chain = folder / "reply", folder / "chain.pem"
        self._chain.write_bytes(b"".join(path.read_bytes() for path in came))

    def reply(self, query: bytes) -> bytes:
        """The response to a request, DER."""
        with self._lock:  # the serial number is in a file
            (self.folder / "query").write_bytes(query)
            signer = self._maker if self.setup.by_cms else self.signer
            command = ["ts", "-reply", "-config", "config", "-section", "tsa"]
            command += ["-queryfile", "query", "-signer", str(signer), "-out", "reply"]
            command += ["-inkey", str(signer.with_suffix(".key"))]
            if self._chain.read_bytes():
                command += ["-chain", str(self._chain)]
            self._openssl(*command)
            return self._signed_again() if self.setup.by_cms else self._reply.read_bytes()

    def _signed_again(self) -> bytes:
        """The last reply's TSTInfo with the authority's own time, signed by its signer."""
        self._openssl("ts", "-reply", "-in", "reply", "-token_out", "-out", "token")
        content = ["-binary", "-inform", "DER", "-in", "token", "-out", "info"]
        self._openssl("cms", "-verify", "-noverify", *content)
        info = (self.folder / "info").read_bytes()
        if self.setup.clock is not None:
            at = info.index(b"\x18\x0f") + 2  # GeneralizedTime of 15 characters
            text = self.setup.clock.strftime("%Y%m%d%H%M%SZ").encode()
            (self.folder / "info").write_bytes(info[:at] + text + info[at + 15 :])
        command = ["cms", "-sign", "-nodetach", "-binary", "-md", "sha256"]
        command += [] if self.setup.ess == "none" else ["-cades"]
        command += ["-econtent_type", "1.2.840.113549.1.9.16.1.4", "-in", "info"]
        command += ["-signer", str(self.signer), "-inkey", str(self.signer.with_suffix(".key"))]
        command += ["-certfile", str(self._chain)] if self._chain.read_bytes() else []
        self._openssl(*command, "-outform", "DER", "-out", "token")
        self._openssl("ts", "-reply", "-in", "token", "-token_in", "-out", "reply")
        return self._reply.read_bytes()

    def bad_request(self, query: bytes) -> bytes:
        """The response of an authority that does not stamp SHA-256."""
        self._configure(digests="sha512")
        try:
            return self.reply(query)
        finally:
            self._configure()

    def openssl_verifies(self, response: bytes, digest: str) -> bool:
        """Whether `openssl ts -verify` finds the response good, today."""
        (self.folder / "checked").write_bytes(response)
        command = ["ts", "-verify", "-digest", digest, "-in", "checked"]
        command += ["-CAfile", str(self.root), "-untrusted", str(self.intermediate)]
        return self._run(*command).returncode == 0

    def other_query(self, digest: str) -> bytes:
        """A request of somebody else's for the same digest, with a nonce of its own."""
        command = ["ts", "-query", "-digest", digest, "-sha256", "-cert", "-out", "other"]
        self._openssl(*command)
        return (self.folder / "other").read_bytes()

    def _configure(self, digests: str = "sha256, sha512") -> None:
        ca = self.setup.intermediate_is_ca
        text = _CONFIG.format(
            folder=self.folder,
            intermediate_is_ca="TRUE" if ca else "FALSE",
            intermediate_usage="keyCertSign" if ca else "digitalSignature",
            odd_usage=f"extendedKeyUsage = {self.setup.usage}" if self.setup.usage else "",
            digests=digests,
            digits=self.setup.digits,
            ess="sha256" if self.setup.ess == "none" else self.setup.ess,
        )
        (self.folder / "config").write_text(text)
        for name, content in [("index.txt", ""), ("serial", "1000\n"), ("tsaserial", "2000\n")]:
            if not (self.folder / name).exists():
                (self.folder / name).write_text(content)

    def _issue(
        self,
        name: str,
        valid: tuple[datetime, datetime],
        issuer: str | None = "root",
        *,
        kind: str | None = None,
    ) -> Path:
        """Make a key and its certificate, signed by `issuer` (None = by itself)."""
        key = self.folder / f"{name}.key"
        rsa = name == "signer" and self.setup.key == "RSA"
        bits, curve = "rsa_keygen_bits:2048", "ec_paramgen_curve:P-256"
        how = ["RSA", "-pkeyopt", bits] if rsa else ["EC", "-pkeyopt", curve]
        self._openssl("genpkey", "-algorithm", *how, "-out", str(key))
        subject = ["-subj", f"/CN={name} of a test", "-out", f"{name}.csr"]
        self._openssl("req", "-new", "-config", "config", "-key", str(key), *subject)
        return self._certify(name, name, valid, issuer=issuer, kind=kind)

    def _certify(
        self,
        name: str,
        to: str,
        valid: tuple[datetime, datetime],
        *,
        issuer: str | None,
        kind: str | None,
    ) -> Path:
        """Make a certificate for a name's key, in a file of its own."""
        path = self.folder / f"{to}.pem"
        first, last = (when.strftime("%Y%m%d%H%M%SZ") for when in valid)
        command = ["ca", "-batch", "-notext", "-config", "config", "-in", f"{name}.csr"]
        command += ["-out", str(path), "-startdate", first, "-enddate", last]
        command += ["-extensions", kind or name]
        if issuer is None:
            command += ["-selfsign", "-keyfile", f"{name}.key"]
        else:
            command += ["-cert", f"{issuer}.pem", "-keyfile", f"{issuer}.key"]
        self._openssl(*command)
        return path

    def _run(self, *command: str) -> subprocess.CompletedProcess[bytes]:
        command = ("openssl", *command)
        return subprocess.run(command, cwd=self.folder, capture_output=True, check=False)

    def _openssl(self, *command: str) -> None:
        done = self._run(*command)
        assert done.returncode == 0, done.stderr.decode()


class _Handler(BaseHTTPRequestHandler):
    """One request; `server` is the `_Server` one."""

    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep quiet."""

    def do_POST(self) -> None:
        authority = self.server.authority
        query = self.rfile.read(int(self.headers["Content-Length"]))
        authority.asked.append(query)
        digest = _imprint(query)
        match authority.misbehaviour:
            case None if self.headers["Content-Type"] != "application/timestamp-query":
                self._send(b"not a request", status=415)
            case None:
                self._send(authority.reply(query))
            case "nonce":
                self._send(authority.reply(authority.other_query(digest.hex())))
            case "imprint":
                other = hashlib.sha256(digest).digest()
                self._send(authority.reply(query.replace(digest, other)))
            case "rejected":
                self._send(authority.bad_request(query))
            case "html":
                self._send(b"<html>Welcome to the network, please log in</html>", "text/html")
            case "status":
                self._send(b"out of order", "text/plain", status=503)
            case "large":
                self._send(b"\x30" * ((1 << 20) + 1))
            case "slow":
                authority.closing.wait()
            case "drip":
                self._drip()

    def _drip(self) -> None:
        """Send byte after byte, so that no single one is long in coming."""
        self.send_response(200)
        self.end_headers()
        try:
            while not self.server.authority.closing.wait(0.05):
                self.wfile.write(b"\x30")
        except OSError:
            pass  # the client has gone

    def _send(
        self, raw: bytes, kind: str = "application/timestamp-reply", *, status: int = 200
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        with suppress(OSError):  # the client has gone
            self.wfile.write(raw)


def _imprint(query: bytes) -> bytes:
    """The SHA-256 digest that a request asks a stamp for."""
    at = query.index(b"\x04\x20") + 2
    return query[at : at + 32]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, authority: Authority) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.authority = authority


@contextmanager
def time_stamping(folder: Path, setup: Setup | None = None) -> Iterator[Authority]:
    """A running authority at `.url`, trusted by who trusts the PEM file `.root`.

    Tests that ask for one are skipped where the `openssl` command is not there.
    """
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command, 3.0 or later, for a local time-stamp authority")
    folder.mkdir(parents=True, exist_ok=True)
    authority = Authority(folder, setup or Setup())
    server = _Server(authority)
    authority.url = f"http://127.0.0.1:{server.server_address[1]}/tsa"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="authority")
    thread.start()
    try:
        yield authority
    finally:
        authority.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
