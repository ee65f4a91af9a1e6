"""A registration's runs: every trial accounted for, and the scores computed anew."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from prereg_judge.canon import canonical_json, sha256_bytes, sha256_value
from prereg_judge.chain import GENESIS, iter_chain
from prereg_judge.errors import IntegrityError, PreregError, Problem
from prereg_judge.flow.evidence import (
    Fault,
    RecordCheck,
    copy_problems,
    noted_heads,
    raise_integrity,
    refuse_unknown_runs,
    verify_run,
)
from prereg_judge.flow.locked import Locked
from prereg_judge.flow.results import derived_files, result_of, score_bytes
from prereg_judge.flow.scoring import Scored, score_record
from prereg_judge.flow.verifying.findings import Findings
from prereg_judge.ledger.events import Event, RunEntry, Scoring, run_entries, scorings, versions
from prereg_judge.record.run import (
    PromptLine,
    Record,
    check_against_plan,
    line_data,
    read_plan,
    read_record,
)
from prereg_judge.registration.lock import tool_source_sha256
from prereg_judge.report.files import Result, result_sha256
from prereg_judge.wording import listed
from prereg_judge.workspace import Workspace

_RESTORE = "restore it from git or a copy"
_WITH_TEXT = ("prompts.jsonl",)  # what a bundle without the items' text lacks of a run


def check_runs(
    workspace: Workspace,
    ident: str,
    events: list[Event],
    standing: Mapping[int, Locked],
    findings: Findings,
) -> None:
    """Look at every run that the ledger tells of, and for runs that it does not tell of.

    Every record is verified once; a score names what is wrong with the other runs, so the scores
    come after all records.
    """
    entries = run_entries(events)
    try:
        refuse_unknown_runs(workspace, ident, entries)
    except IntegrityError as exc:
        findings.raised(ident, exc)
    about = {e.number: f"{ident} run {e.number} of {len(entries)}" for e in entries}
    faults: dict[int, Fault] = {}
    records: list[tuple[RunEntry, Record]] = []
    for entry in entries:
        found = _check_record(workspace, standing, entry, about[entry.number], findings, ident)
        if isinstance(found, Record):
            records.append((entry, found))
        elif found is not None:
            faults[entry.number] = found
    for entry, record in records:
        locked = standing[entry.version]
        try:
            scored = score_record(locked, entry, record, faults=faults)
        except PreregError as exc:
            findings.raised(about[entry.number], exc)
            continue
        result = result_of(workspace, scored)
        _check_score(workspace, scored, result, about[entry.number], findings)
    if versions(events) and not entries:
        findings.not_proved(ident, "there is no run yet")


def _check_record(
    workspace: Workspace,
    standing: Mapping[int, Locked],
    entry: RunEntry,
    about: str,
    findings: Findings,
    ident: str,
) -> Record | Fault | None:
    """A finished run's record where it stands; else what is wrong; None of an unfinished run."""
    folder = workspace.run(ident, entry.number)
    if not folder.is_dir():
        what = f"the ledger counts this run ({entry.ended}), and its folder is gone"
        findings.violated(about, Problem(what, workspace.shown(folder), remedy=_RESTORE))
        return "gone"
    locked = standing.get(entry.version)
    if locked is None:
        findings.violated(about, "it cannot be verified: its registration no longer stands")
    elif entry.state in ("open", "aborted"):
        _check_unfinished(workspace, locked, entry, about, findings)
    else:
        return _check_finished(workspace, locked, entry, about, findings)
    return "changed" if entry.state in ("complete", "stopped") else None


def _check_unfinished(
    workspace: Workspace, locked: Locked, entry: RunEntry, about: str, findings: Findings
) -> None:
    ident = locked.lock.id
    folder = workspace.run(ident, entry.number)
    shown = workspace.shown(folder)
    manifest = folder / "manifest.json"
    if entry.state == "open" and manifest.exists():
        what = "it has its manifest, and the ledger does not tell that it ended"
        remedy = f"if it was killed just then: `prereg run {ident}`; else restore the ledger"
        findings.violated(about, Problem(what, shown, remedy=remedy))
        return
    try:
        record = _unfinished_record(workspace, locked, entry)
    except PreregError as exc:
        findings.raised(about, exc)
        return
    findings.violated(about, *_prompt_problems(workspace, locked, folder))
    why = f" ({entry.reason})" if entry.reason else ""
    n = len(record.attempts)
    if entry.head is not None:
        what = f"it was given up{why}, with {n} attempts, which are all there"
        findings.proved(about, what, "the hash of its last line in the ledger")
        _check_resumes(locked, entry, record, about, findings)
        return
    how = "given up" if entry.state == "aborted" else "unfinished"
    what = f"it is {how}{why}, with {n} attempts: what the ledger has not seen of them could be "
    what += "changed or cut"
    findings.not_proved(about, what, "resume it, or give it up: the ledger then holds its end")
    _check_resumes(locked, entry, record, about, findings)


def _unfinished_record(workspace: Workspace, locked: Locked, entry: RunEntry) -> Record:
    """The record of a run that did not end, as far as it goes.

    Raises
    ------
    IntegrityError
        If it does not fit lock, plan, ledger and judge, or a file is missing.
    """
    folder = workspace.run(locked.lock.id, entry.number)
    shown = workspace.shown(folder)
    absent = _WITH_TEXT if workspace.withheld else ()
    raise_integrity(
        [
            *copy_problems(locked, entry, folder, shown),
            *(
                Problem("the file is missing from the run", f"{shown}/{name}", remedy=_RESTORE)
                for name in ("environment.json", "prompts.jsonl")
                if name not in absent and not (folder / name).is_file()
            ),
        ]
    )
    record = read_record(folder, shown=shown, absent=absent)
    check_against_plan(record, retries=locked.inputs.model.protocol.hang.retries, shown=shown)
    check = RecordCheck(locked, entry, shown)
    if not record.heads.issuperset(noted_heads(locked, entry)):
        what = "attempts that the ledger knows of are gone: the record was cut or replaced"
        raise IntegrityError(Problem(what, f"{shown}/attempts.jsonl", remedy=_RESTORE))
    if entry.head is not None and record.head != entry.head:
        what = "is not the record that was given up: the ledger names another last line"
        raise IntegrityError(Problem(what, f"{shown}/attempts.jsonl", remedy=_RESTORE))
    for line in record.notes:
        check.note(line)
    for attempt in record.attempts:
        check.attempt(attempt)
    raise_integrity(check.problems)
    return record


def _prompt_problems(workspace: Workspace, locked: Locked, folder: Path) -> list[Problem]:
    """Whether plan and prompts of a run are those whose hash is in the lock; needs no model."""
    if workspace.withheld:
        return []
    shown = workspace.shown(folder)
    first: dict[tuple[str, str, str], PromptLine] = {}
    try:
        raw = (folder / "prompts.jsonl").read_bytes()
        prompts = {p.sha256: p for p in (PromptLine(**json.loads(x)) for x in raw.splitlines())}
        fits = all(sha256_bytes(p.text.encode()) == p.sha256 for p in prompts.values())
        for line in read_plan(folder, shown=shown):
            prompt = prompts[line.prompt]
            fits &= first.setdefault((line.set, line.item, line.order), prompt) is prompt
        pairs = [[p.sha256, p.ids_sha256] for p in first.values()]
        fits &= sha256_value("prompts", pairs) == locked.lock.derived.prompts
        distinct = {p.sha256: p for p in first.values()}.values()
        fits &= raw == b"".join(map(line_data, distinct))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        fits = False
    except PreregError as exc:
        return list(exc.problems)
    what, file = "are not the prompts of the lock", f"{shown}/prompts.jsonl"
    return [] if fits else [Problem(what, file, remedy=_RESTORE)]


def _check_finished(
    workspace: Workspace, locked: Locked, entry: RunEntry, about: str, findings: Findings
) -> Record | Fault:
    try:
        record = verify_run(workspace, locked, entry)
    except PreregError as exc:
        findings.raised(about, exc)
        return "changed"
    if (record.manifest or {}).get("status") != entry.state:
        findings.violated(about, f"the ledger says that it is {entry.state}, and its manifest not")
        return "changed"
    by = "the chain of its record, its manifest, and the manifest's hash in the ledger"
    if not locked.inputs.model.calls:
        findings.proved(about, "it was one reading of the locked tables; nothing was called", by)
    else:
        trials, attempts = len(record.by_trial), len(record.attempts)
        planned = locked.lock.derived.n_trials
        what = f"{attempts} attempts, for {trials} of {planned} planned trials and for no other"
        if entry.state == "stopped":
            what += "; a registered stop rule ended it"
        findings.proved(about, what, by)
        findings.proved(about, "every verdict follows from its recorded reply", "read again")
    findings.violated(about, *_prompt_problems(workspace, locked, record.folder))
    _check_resumes(locked, entry, record, about, findings)
    return record


def _check_resumes(
    locked: Locked, entry: RunEntry, record: Record, about: str, findings: Findings
) -> None:
    """Say of resumes what the ledger cannot know: how far the record had come before each.

    It knows the line that was the last when the run went on. Whoever killed the run could have cut
    attempts behind that line, and had them made again. Where none was made after a resume, there
    is nothing to say of it.
    """
    heads, counts, n = noted_heads(locked, entry), {GENESIS: 0}, 0
    if not heads:
        return
    for link in iter_chain(record.folder / "attempts.jsonl"):
        if isinstance(link, bytes):
            break
        n += link[0].get("event") == "attempt"
        counts[link[1]] = n
    drawn = [head for head in heads if counts[head] < n]
    if not drawn:
        return
    at = listed([str(counts[head]) for head in drawn], most=10)
    what = f"that no attempt was cut and made anew: it was resumed at {at} of {n} attempts, and "
    what += "nobody knows how many there had been just before"
    again = len(drawn) - len(set(drawn))
    if again:
        times = "once" if again == 1 else f"{again} times"
        what += f"; {times} at the very place at which it had been resumed before: of what was "
        what += "recorded between nothing is left, as after a kill at once"
    findings.not_proved(about, what, "a run that is never killed has no such gap")


def _check_score(
    workspace: Workspace, scored: Scored, result: Result, about: str, findings: Findings
) -> None:
    made = scorings(scored.locked.events, scored.number)
    folder = workspace.run(result.id, result.run)
    path = folder / "score.json"
    shown = workspace.shown(path)
    if not made:
        if path.exists():
            what = "a score lies here that the ledger does not know: the ledger was cut"
            findings.violated(about, Problem(what, shown, remedy=_RESTORE))
        how = f"`prereg score {result.id} --run {result.run}`"
        findings.not_proved(about, f"it would be {result.verdict.word}; it is not scored yet", how)
        return
    last, now = made[-1], result_sha256(result)
    word = result.verdict.word
    if last.verdict == word and last.result in (None, now):
        exact = "verdict and every number" if last.result else "verdict"
        findings.proved(about, f"{word}: the same {exact} as scored", "computed again")
    elif last.tool == tool_source_sha256():
        what = f"computed again it is {word}, and {last.verdict} is on record with other numbers"
        findings.violated(about, what)
    else:
        tool = "an older version" if last.tool is None else f"source {last.tool[:12]}"
        what = f"{word} by this version; {tool} scored {last.verdict} at {last.at}, not the same"
        findings.not_proved(about, what, "score it again with either version and compare")
    _check_score_file(workspace, scored, result, last, about, findings)


def _check_score_file(
    workspace: Workspace,
    scored: Scored,
    result: Result,
    last: Scoring,
    about: str,
    findings: Findings,
) -> None:
    """That the files beside the record are what was scored."""
    folder = workspace.run(result.id, result.run)
    again = f"`prereg score {result.id} --run {result.run}` writes it anew"
    path = folder / "score.json"
    if not path.is_file():
        findings.not_proved(about, "score.json is not there", again)
        return
    raw = path.read_bytes()
    try:
        value = json.loads(raw)
        kept = sha256_bytes(canonical_json(value))
    except (ValueError, RecursionError, PreregError):
        kept = ""
    here = last.tool == tool_source_sha256()  # another version may write it otherwise
    if kept != last.score or (here and raw != score_bytes(value)):
        problem = Problem("is not the score that the ledger names", workspace.shown(path))
        findings.violated(about, Problem(problem.what, problem.file, remedy=again))
        return
    if not here:
        return
    for name, data in derived_files(result, passes=scored.data.passes).items():
        file = folder / name
        if file.is_file() and file.read_bytes() != data:
            what = "does not follow from the record"
            findings.violated(about, Problem(what, workspace.shown(file), remedy=again))
