"""`prereg lock`: freeze a registration, and say what its bands are worth beforehand."""

from __future__ import annotations

import os
from typing import Any

from rich.markup import escape
from rich.table import Table

from prereg_judge.cli.common import Id, Json, hashing, print_json, say, workspace
from prereg_judge.engine.inspect import system_info
from prereg_judge.flow.locking import lock_registration
from prereg_judge.flow.outlook import outlook
from prereg_judge.flow.prepare import Inputs
from prereg_judge.flow.probing import probe_words, probes_before
from prereg_judge.flow.prompts import ModelInputs
from prereg_judge.flow.settings import every_setting
from prereg_judge.registration.schema_model import LocalModel
from prereg_judge.report.terminal import console
from prereg_judge.workspace import Workspace

__all__ = ["expectation_table", "lock", "lock_and_tell", "outlook", "prompts_in_words", "warn"]


def expectation_table(rows: list[dict[str, Any]]) -> Table:
    """For each band and prediction: chance to pass, and how wide the interval will be."""
    table = Table(title="Before the first call", title_justify="left", title_style="bold")
    for name in ("claim", "registered", "n", "chance to pass", "Wilson 95% interval at that value"):
        table.add_column(name)
    for row in rows:
        table.add_row(
            escape(row["id"]),
            escape(row["registered"]),
            str(row["n"] or "?"),
            escape(row["chance_text"]),
            escape(row["interval_text"]),
        )
    return table


def warn(inputs: Inputs) -> None:
    """Say what the protocol cannot show, and what this machine's build cannot do."""
    protocol = inputs.model.protocol
    decoding, passes = protocol.decoding.mode, protocol.passes
    for text in inputs.study.protocol_words(decoding=decoding, passes=passes):
        say(f"Note: {text}")
    probed = probe_words(probes_before(inputs.workspace, inputs))
    if probed:
        say(f"Note: {probed}; the score will say so beside what was seen before.")
    local = inputs.model.model
    if not isinstance(local, LocalModel):
        if local.api_key_env is not None and local.api_key_env not in os.environ:
            say(f"Warning: the environment variable {local.api_key_env} is not set here.")
        say(
            "Note: a served model cannot be hashed: this lock says what was to be asked, and the "
            "run records what the servers say of themselves."
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
    if not model.longest:
        return "prompts are counted by the server"
    return f"longest prompt {model.longest} tokens"


def lock_and_tell(ws: Workspace, ident: str, *, json_out: bool) -> None:
    """Lock and print what was frozen."""
    with hashing("hashing the model") as progress:
        made, inputs, model = lock_registration(ws, ident, progress=progress)
    warn(inputs)
    rows = outlook(inputs)
    if json_out:
        print_json(
            {
                "id": ident,
                "lock": ws.shown(ws.lock(ident)),
                "locked_at": made.locked_at,
                "registration_sha256": made.registration.sha256,
                "inputs": [
                    {"role": e.role, "name": e.name, "sha256": e.sha256} for e in made.inputs
                ],
                "trials": made.derived.n_trials,
                "longest_prompt": model.longest or None,
                "outlook": rows,
            }
        )
        return
    out = console()
    table = Table(title="Locked", title_justify="left", title_style="bold")
    for name in ("role", "file", "SHA-256"):
        table.add_column(name, overflow="fold")
    table.add_row("registration", made.registration.name, made.registration.sha256)
    for entry in made.inputs:
        table.add_row(entry.role, escape(entry.name), entry.sha256)
    out.print(table)
    out.print(expectation_table(rows))
    out.print(
        f"{made.derived.n_trials} trials, {prompts_in_words(model)}. "
        f"Locked at {made.locked_at} by this machine's clock."
    )
    say(f"Next: prereg run {ident}")


def lock(ident: Id, json_out: Json = False) -> None:
    """Lock a registration: hash it and all that it names, and write that into the ledger.

    From then on a change to any of it is found. A registration is locked once; a change needs a
    registration of its own.
    """
    lock_and_tell(workspace(), ident, json_out=json_out)
