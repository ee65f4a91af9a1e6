"""Verifying a workspace: one registration or all, the ledger, the runs, the witnesses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from prereg_judge.errors import Problem, UsageError
from prereg_judge.flow.locked import known_ids
from prereg_judge.flow.verifying.copies import check_copies, copies_among
from prereg_judge.flow.verifying.findings import WITNESSES, Asked, Findings, WitnessName
from prereg_judge.flow.verifying.ledger_checks import LEDGER, check_ledger
from prereg_judge.flow.verifying.registration_checks import check_registration
from prereg_judge.flow.verifying.run_checks import check_runs
from prereg_judge.flow.verifying.witness_checks import check_witnesses
from prereg_judge.ledger.events import Event, versions
from prereg_judge.ledger.forms import well_formed
from prereg_judge.workspace import Workspace

# What no witness can show, whatever was stamped; said once in every verification.
BEYOND = (
    "that nothing was run elsewhere before the lock, and that these runs are all there were: only "
    "what went through this ledger is known",
    "that the recorded replies came from this model on this machine, and were made when they say: "
    "whoever has the files can write a record that fits. A seeded or greedy run can be made again "
    "and compared",
)
# The last of them where nothing is called.
_OF_TABLES = (
    "that the votes, verdicts and labels in the tables are those that were given, and that nobody "
    "had read them before the lock"
)


def verify_workspace(
    workspace: Workspace,
    ids: Sequence[str] | None,
    asked: Asked,
    *,
    progress: Callable[[int], None] | None = None,
) -> Findings:
    """Re-derive everything of some registrations (None: of all) from bytes.

    Raises
    ------
    UsageError
        If an id is neither a file nor known to the ledger.
    """
    findings = Findings()
    chain = check_ledger(workspace, findings)
    if chain is None:
        return findings
    every = [e for e in chain.lines if well_formed(e)]
    known = known_ids(workspace, every)
    for ident in ids or ():
        if ident not in known:
            workspace.known(ident)  # which says what there is
    wanted = known if ids is None else list(ids)
    calls: set[bool] = set()
    for ident in wanted:
        events = [e for e in every if e["id"] == ident]
        if findings.has_violation([LEDGER, ident]):
            what = "not looked at further: the ledger is the reference for it, and does not hold"
            findings.not_proved(ident, what)
            continue
        standing = check_registration(
            workspace, ident, events, findings, render=asked.render, progress=progress
        )
        check_runs(workspace, ident, events, standing, findings)
        calls |= {locked.inputs.model.calls for locked in standing.values()}
    copies = copies_among(asked.clones)
    check_copies(chain, copies, findings)
    clones = [c for c in asked.clones if str(c) not in copies]
    if len(every) < len(chain.lines):
        wanted = []  # what cannot be read was locked at no line
    check_witnesses(workspace, chain, wanted, findings, asked=replace(asked, clones=clones))
    _required(wanted, every, asked.require, findings)
    beyond = [*BEYOND[:1], *(BEYOND[1:] if calls != {False} else ())]
    beyond += [_OF_TABLES] if False in calls else []
    for what in beyond:
        findings.not_proved("beyond any witness", what)
    return findings


def parse_required(text: str) -> WitnessName:
    """The witness that `--require NAME`, or `witness=NAME`, names.

    Raises
    ------
    UsageError
        If it names none.
    """
    for witness in WITNESSES:
        if text.removeprefix("witness=") == witness:
            return witness
    remedy = f"write one of {', '.join(WITNESSES)}"
    raise UsageError(Problem("this cannot be required", "--require", found=text, remedy=remedy))


def _required(
    ids: Sequence[str],
    events: Sequence[Event],
    require: Sequence[WitnessName],
    findings: Findings,
) -> None:
    for ident in ids:
        made = versions(e for e in events if e.get("id") == ident)
        for witness in require:
            for version in made:
                if (ident, version.number) in findings.witnessed[witness]:
                    continue
                what = f"version {version.number} has no {witness} witness from before its first "
                remedy = "this was required by --require"
                findings.violated(ident, Problem(what + "run", remedy=remedy))
