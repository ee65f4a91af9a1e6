"""Cheats with keys and authorities of one's own."""

from __future__ import annotations

import ast
from datetime import UTC, datetime
from pathlib import Path

import pytest

import prereg_judge
from cheats.cheating import CLOCK_ONLY, fails, locked_only, quiet_git, scored_run, verify
from ledger.authority import Setup, time_stamping, years
from support import prereg

_KEYS = ("private_key", "signing_key", "secret_key", "privatekey")
_MODULES = ("hmac", "nacl", "ecdsa", "rsa", "gnupg", "jwt")


def signing_in(source: str) -> list[str]:
    """What in a Python text reads a private key or signs with one."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = [getattr(node, a, None) for a in ("id", "attr", "arg", "name")]
        texts = [n for n in names if isinstance(n, str)]
        found += [n for n in texts if any(key in n.lower() for key in _KEYS)]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            number = ast.unparse(node.func) == "np.sign"  # of a number: 1, 0 or -1
            signs = node.func.attr in ("sign", "sign_data") and not number
            found += [node.func.attr] if signs else []
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            text = str(node.value)
            found += [text] if "PRIVATE KEY" in text else []
        if isinstance(node, ast.Import | ast.ImportFrom):
            named = [a.name for a in node.names]
            found += [n for n in named if any(key in n.lower() for key in _KEYS)]
            modules = named if isinstance(node, ast.Import) else [node.module or ""]
            found += [m for m in modules if m.split(".")[0] in _MODULES]
    return found


def test_commit_the_signing_key() -> None:
    """Cheat: "commit the signing key". There is none to commit: no code here signs, or reads a
    private key, and this check would see such code.
    """
    folder = Path(prereg_judge.__file__).parent
    files = sorted(folder.rglob("*.py"))
    assert len(files) > 100
    found = {str(f.relative_to(folder)): signing_in(f.read_text()) for f in files}
    assert {name: what for name, what in found.items() if what} == {}
    for bad in (
        "from cryptography.hazmat.primitives.serialization import load_pem_private_key",
        "from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey",
        "import hmac",
        "token = key.sign(data)",
        "def seal(signing_key): ...",
        "text = '-----BEGIN PRIVATE KEY-----'",
    ):
        assert signing_in(bad), bad


def test_commit_a_home_made_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cheat: "commit the signing key", of an authority of one's own whose clock says 2019, with
    root and key in the workspace. It proves nothing unless the reader names that very root.
    """
    quiet_git(monkeypatch)
    root = locked_only(tmp_path)
    setup = Setup(clock=datetime(2019, 3, 1, 9, tzinfo=UTC), valid=years(2018, 2040))
    with time_stamping(root / "tsa", setup) as own:
        assert prereg("stamp", "--tsa", own.url, root=root).code == 0
    scored_run(root, fails, code=1)
    told = verify(root)
    told.clean()
    told.open("its token for line 1 names 2019", "whom that belongs to is not checked", "--ca FILE")
    told.open("x: when it was locked (line 1)", CLOCK_ONLY)
    verify(root, "--require", "witness=rfc3161").caught("has no rfc3161 witness")
    with time_stamping(tmp_path / "tsa") as other:
        told = verify(root, "--ca", str(other.root))
    told.caught("registrations/stamps/000001-001-rfc3161.tsr")
    told = verify(root, "--ca", str(own.root))
    told.clean()
    told.shown("x: locked by 2019", "under the root given")
