"""`prereg lock`: freeze a registration, and say what its claims are worth beforehand."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from prereg_judge.cli.common import Id, Json, hashing, print_json, say, workspace
from prereg_judge.engine.inspect import system_info
from prereg_judge.errors import PreregError
from prereg_judge.flow.exposure import exposure_words, level_words
from prereg_judge.flow.locking import Made, lock_registration
from prereg_judge.flow.outlook import outlook
from prereg_judge.flow.prepare import Inputs
from prereg_judge.flow.prompts import ModelInputs
from prereg_judge.flow.settings import decoding_of, every_setting
from prereg_judge.flow.witnessing import commit_witness, not_in_git, stamp_rfc3161
from prereg_judge.ledger.git_commit import Committed
from prereg_judge.registration.schema_model import LocalModel
from prereg_judge.report.outlook import expectation_table
from prereg_judge.report.terminal import console
from prereg_judge.wording import listed
from prereg_judge.workspace import Workspace

Stamp = Annotated[
    str | None,
    typer.Option(
        "--stamp", metavar="URL", help="Have this time-stamp authority (RFC 3161) stamp the ledger."
    ),
]
Commit = Annotated[
    bool,
    typer.Option(
        "--commit/--no-commit",
        help="In a git repository: commit the registration, its lock and the ledger, and nothing "
        "else.",
    ),
]


def warn_if_late(inputs: Inputs, *, at: str) -> None:
    """Say that the day by which a result is due was over at a time."""
    due = inputs.model.due
    if due is not None and due < at[:10]:
        say(f"Warning: the day by which a result is due, {due}, has passed already.")


def warn(inputs: Inputs) -> None:
    """Say what the protocol cannot show, what claims most likely do not mean, and what this
    machine's build cannot do.
    """
    for problem in inputs.advice:
        say(f"Warning: {problem}")
    if not inputs.model.calls:
        return
    protocol = inputs.model.protocol
    decoding = decoding_of(inputs.model)
    for text in inputs.study.protocol_words(decoding=decoding, passes=protocol.passes):
        say(f"Note: {text}")
    local = inputs.model.model
    if not isinstance(local, LocalModel):
        if local.api_key_env is not None and local.api_key_env not in os.environ:
            say(f"Warning: the environment variable {local.api_key_env} is not set here.")
        say(
            "Note: a served model cannot be hashed: the lock holds what the servers say of "
            "themselves, which is weaker, and the run compares it."
        )
        return
    layers = [s.n_gpu_layers for s in every_setting(inputs.model) if s.n_gpu_layers != 0]
    if layers and not system_info()["gpu_offload"]:
        say(
            f"Warning: n_gpu_layers: {layers[0]} is registered, and llama.cpp as built here has no "
            "GPU support: `prereg run` will refuse on this machine."
        )


def prompts_in_words(model: ModelInputs) -> str:
    """How long the prompts are, where that can be known."""
    if not model.prompt_of:
        return "nothing is called: tables are read"
    if not model.longest:
        return "prompts are counted by the server"
    return f"longest prompt {model.longest} tokens"


def witness(ws: Workspace, made: Made, *, stamp: str | None, commit: bool) -> dict[str, Any]:
    """Have the lock witnessed as asked for; what came of it, as JSON values.

    A witness that cannot be had never undoes the lock: it is said, and `prereg stamp` makes up.
    """
    told: dict[str, Any] = {"stamp": None, "commit": None, "not_in_git": []}
    if stamp is not None:
        try:
            done = stamp_rfc3161(ws, stamp)
            told["stamp"] = {"by": done.by, "time": done.time, "file": ws.shown(done.path)}
            say(f"Stamped by {done.by} at {done.time}, as its token says: {ws.shown(done.path)}")
        except PreregError as exc:
            told["stamp"] = {"by": stamp, "failed": str(exc)}
            again = f"before any run: prereg stamp --tsa {stamp}"
            say(f"Warning: locked, and NOT stamped: {exc}. Once it answers, and {again}")
    if commit:
        what = "amendment" if made.lock.amends else "lock"
        message = f"prereg: {what} of {made.lock.id}, version {made.lock.version}"
        told["commit"] = tell_commit(ws, made.files, message=message)
        told["not_in_git"] = tell_left_out(ws, made.lock.id)
    return told


def tell_commit(ws: Workspace, files: Sequence[Path], *, message: str) -> dict[str, Any]:
    """Commit files with the ledger, and say what came of it; the same as JSON values."""
    answer = commit_witness(ws, files, message=message)
    if isinstance(answer, Committed):
        say(f"Committed {answer.commit[:12]}: {', '.join(answer.files)}")
        return {"commit": answer.commit, "branch": answer.branch}
    if answer.reason == "not_a_repository":
        say("Not committed: this is no git repository.")
    else:
        say(f"Not committed: {answer.detail}")
    return {"reason": answer.reason, "detail": answer.detail}


def tell_left_out(ws: Workspace, ident: str | None = None) -> list[str]:
    """Say which files a clone of this repository would lack; the same as names."""
    names = not_in_git(ws, ident)
    if names:
        say(f"Not in git, and a clone cannot be verified without: {listed(names)}")
        say(f"  git add -- {' '.join(map(shlex.quote, names))} && git commit")
    return names


def lock_and_tell(
    ws: Workspace, ident: str, *, json_out: bool, stamp: str | None = None, commit: bool = True
) -> None:
    """Lock and print what was frozen."""
    with hashing("hashing the model") as progress:
        made = lock_registration(ws, ident, progress=progress)
    witnesses = witness(ws, made, stamp=stamp, commit=commit)
    tell_made(ws, made, witnesses, json_out=json_out)
    end_unless_stamped(witnesses)


def tell_made(ws: Workspace, made: Made, witnesses: dict[str, Any], *, json_out: bool) -> None:
    """Print what a lock froze, what had been seen, and what the claims are worth."""
    warn(made.inputs)
    rows = outlook(made.inputs)
    exposure = made.lock.exposure
    assert exposure is not None  # this version's locks have it
    if json_out:
        print_json(_as_json(ws, made, rows) | {"witnesses": witnesses})
        return
    out = console()
    out.print(expectation_table(rows))
    out.print(
        f"Exposure: {exposure.level} ({level_words(made.inputs, exposure.level)})", soft_wrap=True
    )
    for sentence in exposure_words(exposure):
        out.print(f"  the ledger knows: {escape(sentence)}", soft_wrap=True)
    table = Table(title="Locked", title_justify="left", title_style="bold")
    for name in ("role", "file", "SHA-256"):
        table.add_column(name, overflow="fold")
    own = made.lock.registration
    table.add_row("registration", own.name, own.sha256)
    for entry in made.lock.inputs:
        table.add_row(entry.role, escape(entry.name), entry.sha256)
    out.print(table)
    if made.lock.served is None and not isinstance(made.inputs.model.model, LocalModel):
        say("Warning: no server answered, so that the lock holds nothing of the model but a name.")
    out.print(
        f"{made.lock.derived.n_trials} trials, {prompts_in_words(made.model)}. "
        f"Version {made.lock.version}, locked at {made.lock.locked_at} by this machine's clock."
    )
    if witnesses["stamp"] is None and "commit" not in (witnesses["commit"] or {}):
        say("No witness but this machine: `prereg stamp` has the ledger stamped by others.")
    warn_if_late(made.inputs, at=made.lock.locked_at)
    again = " --again" if made.has_runs else ""
    say(f"Next: prereg run {made.lock.id}{again}")


def _as_json(ws: Workspace, made: Made, rows: list[dict[str, Any]]) -> dict[str, Any]:
    lock, exposure = made.lock, made.lock.exposure
    assert exposure is not None
    return {
        "id": lock.id,
        "version": lock.version,
        "lock": ws.shown(ws.lock(lock.id, lock.version)),
        "locked_at": lock.locked_at,
        "registration_sha256": lock.registration.sha256,
        "inputs": [{"role": e.role, "name": e.name, "sha256": e.sha256} for e in lock.inputs],
        "trials": lock.derived.n_trials,
        "longest_prompt": made.model.longest or None,
        "primary": made.inputs.model.primary_claim,
        "exposure": {
            "stated": exposure.stated,
            "level": exposure.level,
            "known": [vars(seen) for seen in exposure.known],
        },
        "outlook": rows,
    }


def lock(ident: Id, stamp: Stamp = None, commit: Commit = True, json_out: Json = False) -> None:
    """Lock a registration: hash it and all that it names, and write that into the ledger.

    From then on a change to any of it is found. A registration is locked once; a change is an
    amendment, `prereg amend`. In a git repository the registration, its lock and the ledger are
    committed, whatever else is staged.
    """
    lock_and_tell(workspace(), ident, json_out=json_out, stamp=stamp, commit=commit)


def end_unless_stamped(witnesses: dict[str, Any]) -> None:
    """End with exit code 2 where a stamp was asked for and could not be had: the lock stands."""
    if "failed" in (witnesses["stamp"] or {}):
        raise typer.Exit(2)
