"""The command `prereg`: puts the verbs together and maps exceptions to exit codes.

This is the one place where an exception becomes an exit code: 2 for bad input or usage, 5 for
integrity, 130 when interrupted. A bug is not caught; its traceback is the report.
"""

from __future__ import annotations

import io
import signal
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from rich.markup import escape

from prereg_judge import __version__
from prereg_judge.cli import (
    amend,
    bench,
    bundle,
    check,
    doctor,
    init,
    lock,
    metrics,
    model,
    new,
    probe,
    rehearse,
    run,
    score,
    sentinel,
    show,
    stamp,
    status,
    verify,
    withdraw,
)
from prereg_judge.cli.common import os_problem, print_json, say, state
from prereg_judge.errors import InputError, IntegrityError, PreregError, Problem, UsageError
from prereg_judge.report.terminal import console, visible

INTERRUPTED = 130
BUG = 70
UNREAD = 141  # as a process that SIGPIPE ends
# What is wrong with a command line; typer names its classes anew now and then, but not this one.
_BadCommandLine: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

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


for verb in (
    init,
    new,
    check,
    rehearse,
    lock,
    amend,
    withdraw,
    stamp,
    probe,
    run,
    score,
    verify,
    bundle,
    show,
    status,
    metrics,
    model,
    doctor,
    bench,
):
    name = verb.__name__.rpartition(".")[2]
    app.command(name)(getattr(verb, name))
app.add_typer(sentinel.app, name="sentinel")


def main() -> None:
    """Run the command; exits the process."""
    try:
        _hear_interrupts()
        _check_arguments()
        sys.exit(app(standalone_mode=False) or 0)
    except PreregError as exc:
        _refuse(exc)
    except _BadCommandLine as exc:
        _refuse_command_line(exc)
    except typer.Abort:  # Ctrl-C or Ctrl-D at a prompt
        print(file=sys.stderr)  # the prompt's own line is not ended yet
        say("Interrupted; nothing was written.")
        sys.exit(INTERRUPTED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except SystemExit as exc:
        # Nobody reads on: typer makes that exit 1, which would read as FAIL.
        sys.exit(UNREAD if isinstance(exc.__context__, BrokenPipeError) else exc.code)
    except OSError as exc:
        _refuse(InputError(os_problem(exc)))
    except Exception:
        traceback.print_exc()  # a bug; Python's own 1 would read as FAIL
        sys.exit(BUG)


def _hear_interrupts() -> None:
    """Make SIGINT and SIGTERM an exception, unless the caller had SIGINT ignored.

    To be done after every import: polars puts a handler of its own in place of Python's, under
    which Ctrl-C does nothing at a prompt.
    """
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)
    signal.signal(signal.SIGTERM, _terminate)


def _check_arguments() -> None:
    """Refuse what is not UTF-8: it could be neither written to a file nor shown."""
    for argument in sys.argv[1:]:
        try:
            argument.encode()
        except UnicodeEncodeError as exc:
            remedy = "write it in UTF-8, and rename a file whose name is not"
            problem = Problem("this argument is not UTF-8", found=ascii(argument), remedy=remedy)
            raise UsageError(problem) from exc


def _refuse(exc: PreregError) -> NoReturn:
    err = console(stderr=True)
    label = "INVALID" if isinstance(exc, IntegrityError) else "error"
    for problem in exc.problems:
        err.print(f"[bold red]{label}:[/] {escape(str(problem))}", soft_wrap=True)
    if "--json" in sys.argv:
        print_json(_error_json(exc))
    sys.exit(exc.exit_code)


def _refuse_command_line(exc: Any) -> NoReturn:
    shown = io.StringIO()
    exc.show(file=shown)  # with the usage line
    typer.echo(visible(shown.getvalue()), err=True, nl=False)
    if "--json" in sys.argv:
        print_json(_error_json(UsageError(Problem(exc.format_message()))))
    sys.exit(exc.exit_code)


def _error_json(exc: PreregError) -> dict[str, object]:
    """What `--json` prints instead of a result; INVALID stands where a verdict would."""
    told: dict[str, object] = {"verdict": "INVALID"} if isinstance(exc, IntegrityError) else {}
    return {**told, "exit_code": exc.exit_code, "problems": [asdict(p) for p in exc.problems]}


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
