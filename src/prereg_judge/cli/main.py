"""The command `prereg`: puts the verbs together and maps exceptions to exit codes.

This is the one place where an exception becomes an exit code: 2 for bad input or usage, 5 for
integrity, 130 when interrupted. A bug is not caught; its traceback is the report.
"""

from __future__ import annotations

import signal
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.markup import escape

from prereg_judge import __version__
from prereg_judge.cli import (
    check,
    doctor,
    init,
    lock,
    metrics,
    model,
    new,
    run,
    score,
    sentinel,
    show,
    status,
)
from prereg_judge.cli.common import print_json, state
from prereg_judge.errors import IntegrityError, PreregError
from prereg_judge.report.terminal import console

INTERRUPTED = 130
BUG = 70

app = typer.Typer(
    name="prereg",
    help="Register what you expect of a local LLM judge, run it, and score the run against what "
    "was registered.\n\nExit codes of `score`: 0 PASS, 1 FAIL, 2 bad input, 3 REFUTED, 4 STOPPED, "
    "5 INVALID, 6 INCONCLUSIVE.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # brackets in help texts are meant
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"prereg-judge {__version__}")
        raise typer.Exit


@app.callback()
def options(
    root: Annotated[
        Path | None,
        typer.Option(
            "--root",
            "-C",
            help="The workspace: the folder that holds registrations/. Default: the nearest one "
            "at or above the current folder.",
            file_okay=False,
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that stand before the verb."""
    del version
    state.root = root


for verb in (init, new, check, lock, run, score, show, status, metrics, model, doctor):
    name = verb.__name__.rpartition(".")[2]
    app.command(name)(getattr(verb, name))
app.add_typer(sentinel.app, name="sentinel")


def main() -> None:
    """Run the command; exits the process."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except PreregError as exc:
        err = console(stderr=True)
        label = "INVALID" if isinstance(exc, IntegrityError) else "error"
        for problem in exc.problems:
            err.print(f"[bold red]{label}:[/] {escape(str(problem))}", soft_wrap=True)
        if "--json" in sys.argv:
            print_json(_error_json(exc))
        sys.exit(exc.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as exc:
        err = console(stderr=True)
        where = f"{exc.filename}: " if exc.filename else ""
        text = f"{where}{exc.strerror or exc}. What was recorded before this is safe"
        err.print(f"[bold red]error:[/] {escape(text)}", soft_wrap=True)
        sys.exit(2)
    except Exception:
        traceback.print_exc()  # a bug; Python's own 1 would read as FAIL
        sys.exit(BUG)


def _error_json(exc: PreregError) -> dict[str, object]:
    """What `--json` prints instead of a result; INVALID stands where a verdict would."""
    told: dict[str, object] = {"verdict": "INVALID"} if isinstance(exc, IntegrityError) else {}
    return {**told, "exit_code": exc.exit_code, "problems": [asdict(p) for p in exc.problems]}


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
