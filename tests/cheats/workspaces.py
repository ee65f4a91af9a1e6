"""One rich workspace for tests that damage files, and ways to damage them.

The model is a link that is taken away when all is made, so that verifying does not read it again
and again, and says of it that it is not there.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from ledger.authority import time_stamping
from prereg_judge.engine.protocol import Backend, Failure
from prereg_judge.engine.simulated import Faults, SimulatedBackend, Situation
from prereg_judge.flow.probing import probe
from prereg_judge.flow.running import run_registration
from prereg_judge.flow.settings import decoding_of
from prereg_judge.flow.verifying.findings import Asked, Findings
from prereg_judge.flow.verifying.verify import verify_workspace
from prereg_judge.workspace import Workspace
from support import (
    Scripted,
    ScriptedBackend,
    make_workspace,
    model_path,
    new,
    prereg,
    run_scripted,
    small_items,
    verdict_reply,
    write_items,
)

MODEL = "models/judge.gguf"
LEDGER = "registrations/ledger.jsonl"
TIP = "registrations/ledger.tip"
Script = Callable[[str, int], Scripted]
# Words that stand in no other place than the items.
SECRET = "marmalade"
UNSEEN = "quincunx"


@dataclass(frozen=True)
class Rich:
    """A workspace, the certificate that its stamps' authority is trusted by, and its files."""

    root: Path
    ca: Path

    @property
    def roots(self) -> list[bytes]:
        """The authority's root certificate."""
        return [self.ca.read_bytes()]

    def verify(self, *ids: str, **how: Any) -> Findings:
        """Verify all, or some, in this process."""
        return verify_workspace(Workspace(self.root), ids or None, Asked(**how))


def says_no_but_once(key: str, _before: int) -> str:
    """NO to all, but YES to one row in its first pass."""
    return verdict_reply("YES" if key == "sentinel/r00/ab/1" else "NO")


def hangs_twice(key: str, before: int) -> Scripted:
    """As above; the first calls of one row hang, and their repetitions."""
    if key == "sentinel/r01/ab/1":
        return Failure("hang", "no answer", 60.0)
    return says_no_but_once(key, before)


def items(n: int = 4) -> list[dict[str, Any]]:
    """Rows with a word that only they have, in a field that is asked for and in one that isn't."""
    return [
        {**row, "text": f"{row['text']} {SECRET}{i}", "source": f"{UNSEEN}{i}"}
        for i, row in enumerate(small_items(n))
    ]


def started(root: Path) -> Path:
    """A workspace with its judge, its items and the link to the model."""
    make_workspace(root)
    write_items(root / "sentinels/small.jsonl", items())
    with_model(root)
    return root


def with_model(root: Path) -> None:
    """Put the link to the model there."""
    path = root / MODEL
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(model_path())


def done(*args: str, root: Path, codes: tuple[int, ...] = (0,)) -> None:
    """Run a command that ends as expected."""
    answer = prereg(*args, root=root)
    assert answer.code in codes, answer


def lock(root: Path, ident: str, **flags: str | list[str] | None) -> None:
    """Write and lock a registration of the linked model."""
    answer = new(root, ident, "--lock", gguf=MODEL, **flags)
    assert answer.code == 0, answer


def amend(root: Path, ident: str, *, change: tuple[str, str], to: int) -> None:
    """Lock version `to` with one text replaced by another."""
    command = ("amend", ident, "--reason", "the bar was wrong")
    done(*command, root=root)
    path = root / f"registrations/{ident}.v{to}.yaml"
    text = path.read_text(encoding="utf-8")
    assert change[0] in text
    path.write_text(text.replace(*change), encoding="utf-8")
    done(*command, root=root)


def probe_two(root: Path, ident: str) -> None:
    """Make two calls of a registration in several ways."""
    backend = ScriptedBackend(says_no_but_once)
    probe(Workspace(root), ident, rows=2, make_backend=lambda *_: backend)


def again(root: Path, ident: str, script: Script = says_no_but_once) -> None:
    """Run once more, or resume."""
    backend = ScriptedBackend(script)
    run_registration(Workspace(root), ident, again=True, make_backend=lambda *_: backend)


def interrupted(root: Path, ident: str, calls: int) -> None:
    """Begin a run that is interrupted in the call after so many."""
    asked: list[str] = []

    def script(key: str, before: int) -> Scripted:
        asked.append(key)
        if len(asked) > calls:
            raise KeyboardInterrupt
        return says_no_but_once(key, before)

    with pytest.raises(KeyboardInterrupt):
        again(root, ident, script)


def chosen(*args: Any) -> Backend:
    """A backend that chooses with stated chances, as on the path `choice`."""
    inputs = args[0]
    entropy = np.random.SeedSequence(7)

    def rng(key: str, number: int) -> np.random.Generator:
        own = [number, *key.encode()]
        return np.random.default_rng([*entropy.generate_state(2).tolist(), *own])

    return SimulatedBackend(
        lambda key: Situation(key.rsplit("/", 1)[0], key.endswith("/1"), (0.4, 0.6)),
        replies={verdict: verdict_reply(verdict) for verdict in inputs.judge.spec.verdicts},
        choosing=True,
        decoding=decoding_of(inputs.model),
        faults=Faults(),
        entropy=rng,
    )


STOP = "calls.hangs >= 1 in 20 over 40"


def build(folder: Path) -> Rich:
    """Make the workspace.

    `first` has one run. `x` compares itself with it: run 1 was resumed and scored twice, run 2
    was given up under version 2, run 3 was stopped by a rule. `chosen` is on the path `choice`.
    `gone` was probed, locked and withdrawn. The ledger was stamped after these locks, and once at
    that end, after which only this machine knows that `first` was run again and scored, and that
    `chosen` was amended, probed and withdrawn.
    """
    root = started(folder / "w")
    workspace = Workspace(root)
    with time_stamping(folder / "tsa") as authority:
        stamp = ("stamp", "--tsa", authority.url, "--no-commit")
        assert new(root, "gone", gguf=MODEL, n_ctx="512").code == 0
        probe_two(root, "gone")
        done("lock", "gone", "--no-commit", root=root)
        lock(root, "first")
        lock(root, "chosen", path="choice")
        done(*stamp, root=root)
        run_scripted(root, "first", says_no_but_once)
        done("score", "first", root=root, codes=(0, 1))
        run_registration(workspace, "chosen", make_backend=chosen)
        done("score", "chosen", root=root, codes=(0, 1))
        lock(
            root,
            "x",
            band=["sentinel.agreement.count=1..3"],
            predict=["sentinel.flips_from.count[from_run=first,verdict=YES,from_pass=1] >= 1"],
            stop=STOP,
        )
        done(*stamp, root=root)
        interrupted(root, "x", 3)
        run_scripted(root, "x", says_no_but_once)
        done("score", "x", root=root, codes=(0, 1))
        amend(root, "x", change=("[1, 3]", "[2, 3]"), to=2)
        done(*stamp, root=root)
        interrupted(root, "x", 3)
        done("run", "x", "--abandon", "the power went", root=root)
        run_scripted(root, "x", hangs_twice)
        done("score", "x", root=root, codes=(4,))
        done("score", "x", "--run", "1", root=root, codes=(0, 1))
        done("withdraw", "gone", "--reason", "asked better elsewhere", root=root)
        done(*stamp, root=root)
        again(root, "first")
        done("score", "first", "--run", "2", root=root, codes=(0, 1))
        amend(root, "chosen", change=("[1, 3]", "[2, 3]"), to=2)
        probe_two(root, "chosen")
        done("withdraw", "chosen", "--reason", "nobody needs it", root=root)
    (root / MODEL).unlink()
    return Rich(root, authority.root)


def copied(rich: Rich, to: Path) -> Rich:
    """A copy to damage."""
    return Rich(Path(shutil.copytree(rich.root, to)), rich.ca)


# --- Which files there are ----------------------------------------------------------------------

Kind = Literal["evidence", "derived", "idle"]
_RECORD = "registration.yaml|lock.json|plan.jsonl|prompts.jsonl|environment.json|attempts.jsonl"
# Every file under these folders is of exactly one kind.
_KINDS: dict[Kind, str] = {
    "evidence": r"registrations/[a-z.0-9]+\.(yaml|lock\.json|withdrawn\.json)"
    r"|registrations/ledger\.(jsonl|tip)|registrations/stamps/\d+-\d+-rfc3161\.tsr"
    rf"|(judge|sentinels)/.+|runs/\w+/\d+/({_RECORD}|manifest\.json)",
    # Rebuilt by `prereg score`: changed they are found, missing they are told of at most.
    "derived": r"runs/\w+/\d+/(score\.json|disagreements\.(jsonl|csv)|verdicts\.csv)",
    # Empty locks between processes, and what the engine's libraries print: nothing reads them.
    "idle": r"registrations/\.ledger\.lock|runs/\w+/\.lock|runs/\w+/\d+/worker\.log",
}
FOLDERS = ("registrations", "judge", "sentinels", "runs")
GIVEN_UP = "runs/x/2"  # whose record no manifest vouches for


def kinds_of(name: str) -> list[Kind]:
    """The kinds that a file's name fits: one, for every file that there is."""
    return [kind for kind, pattern in _KINDS.items() if re.fullmatch(pattern, name)]


def files(root: Path, *kinds: Kind) -> list[str]:
    """Names of the files of these kinds, or of all."""
    found = (p for folder in FOLDERS for p in (root / folder).rglob("*") if p.is_file())
    names = sorted(p.relative_to(root).as_posix() for p in found)
    return [n for n in names if not kinds or set(kinds_of(n)) & set(kinds)]


def concerned(name: str) -> str:
    """A registration whose verification reads the file; the cheapest where all do."""
    folder, _, rest = name.partition("/")
    ident = re.match(r"[a-z]+", rest)
    named = folder in ("registrations", "runs") and ident and ident[0] in ("x", "first", "chosen")
    return ident[0] if named and ident else "gone"


# --- Damage -------------------------------------------------------------------------------------


@contextmanager
def changed(root: Path, to: Mapping[str, bytes | None]) -> Iterator[None]:
    """Give files other bytes, or take them away, and put back what was there."""
    before = {name: (root / name).read_bytes() for name in to}
    try:
        for name, data in to.items():
            if data is None:
                (root / name).unlink()
            else:
                (root / name).write_bytes(data)
        yield
    finally:
        for name, data in before.items():
            (root / name).write_bytes(data)


def excused(name: str, before: bytes, after: bytes) -> bool:
    """Whether a change is one that nothing in the workspace can tell, which `verify` says.

    Bytes after the ledger's last newline are a torn line, which counts for nothing. Of a run that
    was given up, nobody vouches for the last line of its record, nor for whether there were more;
    nor for its environment.
    """
    if name == LEDGER:
        return after.startswith(before) and b"\n" not in after[len(before) :]
    if name == f"{GIVEN_UP}/attempts.jsonl":
        whole = after[: after.rfind(b"\n") + 1].splitlines(keepends=True)
        lines = before.splitlines(keepends=True)
        return whole[:-1] == lines[: max(len(whole) - 1, 0)]
    return name == f"{GIVEN_UP}/environment.json"


def one_byte(raw: bytes, at: int, mask: int) -> bytes:
    """Some bits of a byte turned."""
    return raw[:at] + bytes([raw[at] ^ mask]) + raw[at + 1 :]


def lines_changed(raw: bytes) -> Iterator[bytes]:
    """Each line dropped, doubled, swapped with the next, given a blank; the file cut before it."""
    lines = raw.splitlines(keepends=True)
    for at, line in enumerate(lines):
        before, after = lines[:at], lines[at + 1 :]
        yield b"".join([*before, *after])
        yield b"".join([*before, line, line, *after])
        yield b"".join([*before, *after[:1], line, *after[1:]])
        yield b"".join([*before, b" ", line, *after])
        yield b"".join(before)
