"""The ledger by itself: its chain, its tip, what its events can be, its stamps' files."""

from __future__ import annotations

from prereg_judge.canon import sha256_bytes
from prereg_judge.chain import Chain, read_chain
from prereg_judge.errors import PreregError, Problem
from prereg_judge.flow.locked import ledger_of
from prereg_judge.flow.verifying.findings import Findings
from prereg_judge.ledger.book import Tip
from prereg_judge.ledger.events import Event, impossible
from prereg_judge.ledger.forms import well_formed
from prereg_judge.workspace import Workspace

LEDGER = "ledger"
_RESTORE = "restore it from git or a copy"


def check_ledger(workspace: Workspace, findings: Findings) -> Chain | None:
    """The ledger's lines, or None where they cannot be read; what was found goes to `findings`."""
    ledger = ledger_of(workspace)
    try:
        chain = read_chain(ledger.path, shown=ledger.shown)
    except PreregError as exc:
        findings.raised(LEDGER, exc)
        return None
    if not chain.lines:
        findings.not_proved(LEDGER, "it is empty: nothing was ever locked here")
    try:
        ledger.chain()
        if (
            len(chain.lines) == 1 and ledger.tip() is None
        ):  # as a kill after the first line leaves it
            _check_lag(None, chain, findings)
        elif chain.lines and ledger.tip() is None:
            what = "ledger.tip is missing, which names the last line: lines may be gone"
            findings.violated(LEDGER, Problem(what, remedy=_RESTORE))
        elif chain.lines:
            _check_lag(ledger.tip(), chain, findings)
            what = f"{len(chain.lines)} lines, each following from the one before"
            findings.proved(LEDGER, what, f"hashes; last line {chain.head[:12]}, as its tip says")
    except PreregError as exc:
        findings.raised(LEDGER, exc)
    if chain.torn:
        what = f"its last line was torn by a killed process ({len(chain.torn)} bytes): it counts "
        findings.not_proved(LEDGER, what + "for nothing", "the next event keeps it as such")
    _check_events(chain, findings)
    _check_stamp_files(workspace, chain, findings)
    return chain


def _check_lag(tip: Tip | None, chain: Chain, findings: Findings) -> None:
    """Say of lines that the tip does not vouch for: it could not be written, or was held back."""
    lag = len(chain.lines) - (tip.lines if tip else 0)
    if lag > 0:
        what = f"its tip is {lag} lines behind: those could be dropped and nobody would know"
        findings.not_proved(LEDGER, what, "the next event moves it")


def _check_events(chain: Chain, findings: Findings) -> None:
    latest, back = "", []
    for number, line in enumerate(chain.lines, start=1):
        if not well_formed(line):
            what = f"line {number} is no event that this tool writes: {line.get('event')!r}"
            findings.violated(LEDGER, Problem(what, remedy=_RESTORE))
            continue
        at = line["at"]
        if at < latest:
            back.append(number)
        latest = max(latest, at)
    if back:
        listed = ", ".join(map(str, back[:10]))
        what = f"the clock went back before line {listed}: times of this machine are not in order"
        findings.not_proved(LEDGER, what, "the order of the lines is the chain's all the same")
    events = [e for e in chain.lines if well_formed(e)]
    for ident in sorted({e["id"] for e in events if e["id"]}):
        wrong = impossible([e for e in events if e["id"] == ident])
        if wrong is not None:
            what = f"its events contradict each other: {wrong}"
            findings.violated(ident, Problem(what, remedy=_RESTORE))


def _check_stamp_files(workspace: Workspace, chain: Chain, findings: Findings) -> None:
    """That every stamp which the ledger names is there, and is what it was."""
    named = {}
    for event in chain.lines:
        if event.get("event") != "stamped":
            continue
        path = workspace.stamps / str(event.get("file"))
        named[path.name] = event
        shown = workspace.shown(path)
        if not path.is_file():
            problem = Problem("a stamp that the ledger names is gone", shown, remedy=_RESTORE)
            findings.violated(LEDGER, problem)
        elif sha256_bytes(path.read_bytes()) != event.get("sha256") or not _names(event, chain):
            problem = Problem("is not the stamp that the ledger names", shown, remedy=_RESTORE)
            findings.violated(LEDGER, problem)
    there = workspace.stamps.iterdir() if workspace.stamps.is_dir() else ()
    for path in sorted(p for p in there if p.name not in named):
        what = "a stamp that the ledger does not name: it was put here, or the ledger was cut"
        findings.violated(LEDGER, Problem(what, workspace.shown(path), remedy=_RESTORE))


def _names(event: Event, chain: Chain) -> bool:
    """Whether an event's stamp is for the line that the event says, and of the kind."""
    line, heads = event.get("line"), chain.heads
    number, _, rest = str(event.get("file")).partition("-")
    named = number == f"{line:06d}" if isinstance(line, int) else False
    named = named and rest.partition("-")[2].partition(".")[0] == event.get("kind")
    return named and 0 < int(number) < len(heads) and heads[int(number)] == event.get("of")
