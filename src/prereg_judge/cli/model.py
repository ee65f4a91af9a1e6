"""`prereg model`: what a GGUF file is, and whether it fits this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import psutil
import typer
from rich.markup import escape
from rich.table import Table

from prereg_judge.canon import sha256_file
from prereg_judge.cli.common import Json, hashing, print_json
from prereg_judge.engine.inspect import inspecting
from prereg_judge.engine.protocol import ModelFacts
from prereg_judge.flow.environment import gpus
from prereg_judge.report.terminal import console
from prereg_judge.workspace import Workspace, model_files

_HEADROOM = 1.2  # weights, and about a fifth more for context and buffers


def model(
    file: Annotated[str, typer.Argument(help="A GGUF file, or package:DISTRIBUTION/FILE.")],
    template: Annotated[
        bool, typer.Option("--template", help="Print the whole chat template too.")
    ] = False,
    json_out: Json = False,
) -> None:
    """Describe a GGUF model: what it is, its template and vocabulary, its hash, whether it fits."""
    files = model_files(Workspace(Path.cwd()), file)
    with inspecting(str(files[0])) as inspector:
        facts = inspector.facts()
    with hashing("hashing") as progress:
        hashes = {p.name: sha256_file(p, progress) for p in files}
    told = describe(facts, sum(p.stat().st_size for p in files), hashes)
    if json_out:
        print_json({**told, "chat_template": facts.chat_template, "metadata": facts.metadata})
        return
    out = console()
    table = Table.grid(padding=(0, 2))
    for name, value in told.items():
        if name == "sha256":
            for shard, digest in hashes.items():
                table.add_row("SHA-256", f"{digest}  {escape(shard)}")
        else:
            table.add_row(name.replace("_", " "), escape(str(value)))
    out.print(table)
    if template:
        out.print(escape(facts.chat_template or "(no chat template)"), soft_wrap=True)


def describe(facts: ModelFacts, n_bytes: int, hashes: dict[str, str]) -> dict[str, Any]:
    """What is told about a model, as JSON values."""
    available = psutil.virtual_memory().available
    needed = int(n_bytes * _HEADROOM)
    fits = "yes" if needed < available else "no"
    return {
        "name": facts.metadata.get("general.name", "unknown"),
        "license": facts.metadata.get("general.license", "not stated in the file"),
        "architecture": facts.architecture,
        "description": facts.description,
        "parameters": facts.n_params,
        "quantisation": facts.quantisation,
        "file_bytes": n_bytes,
        "context": facts.n_ctx_train,
        "vocabulary": facts.n_vocab,
        "template": _template(facts),
        "attention": _attention(facts),
        "fits_memory": f"{fits}: about {needed / 1e9:.2f} GB needed, {available / 1e9:.2f} GB free",
        "gpus": gpus() or "none seen",
        "sha256": hashes,
    }


def _template(facts: ModelFacts) -> str:
    if facts.chat_template is None:
        return "none: this model cannot be used as a judge here"
    size = len(facts.chat_template)
    thinking = "; mentions thinking" if "think" in facts.chat_template else ""
    return f"{size} characters{thinking} (--template prints it)"


def _attention(facts: ModelFacts) -> str:
    if facts.recurrent:
        return "recurrent or hybrid: a shared prefix is read anew for every trial"
    if facts.sliding_window:
        return f"sliding window of {facts.sliding_window}: kept at full size"
    return "full"
