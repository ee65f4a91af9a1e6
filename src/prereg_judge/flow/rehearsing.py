"""Playing a registration many times on a simulated backend, before it is locked or after.

The whole line is played: the plan, the collector with its retries and stop rules, a record in a
temporary folder, read back and scored. Needs the judge and the items, not the model. Writes
nothing into the workspace: no run, nothing in the ledger. A record made here says `simulated` in
its header, and no such record is ever scored as a run.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from prereg_judge.canon import canonical_json, sha256_bytes
from prereg_judge.engine.protocol import Backend
from prereg_judge.engine.simulated import Entropy, SimulatedBackend, Situation
from prereg_judge.errors import Problem, UsageError
from prereg_judge.flow.assumptions import (
    Assumptions,
    instead,
    read_assumptions,
    split_assumptions,
)
from prereg_judge.flow.collecting import Collector
from prereg_judge.flow.judging import data_of, judged, not_called
from prereg_judge.flow.locked import newest_version
from prereg_judge.flow.prepare import Inputs, read_inputs, refuse_without_calls
from prereg_judge.flow.prompts import ModelInputs, Prompt, PromptKey
from prereg_judge.flow.rehearsal_notes import notes_on
from prereg_judge.flow.settings import EngineSettings, decoding_of, every_setting
from prereg_judge.flow.views import pair_scale, trial_of
from prereg_judge.flow.watching import Watcher
from prereg_judge.judge import Judge
from prereg_judge.record.run import AttemptWriter, Record, read_record
from prereg_judge.record.state import RunState
from prereg_judge.registration.reach import domain_of
from prereg_judge.report.rehearsal import Play, Rehearsal, Scenario
from prereg_judge.stopping import StopWatch
from prereg_judge.study.metric import MetricRef
from prereg_judge.words import Order
from prereg_judge.workspace import Workspace

MOST_TIMES = 100_000
_MEMORY = Path("/dev/shm")  # syncing costs nothing there


def rehearse(
    workspace: Workspace,
    ident: str,
    *,
    assume: Sequence[str],
    against: Sequence[str] = (),
    times: int,
    seed: int,
    progress: Callable[[int], None] = lambda _: None,
) -> Rehearsal:
    """Play a registration, a draft or locked, as often as asked.

    Parameters
    ----------
    assume
        `KEY=VALUE` texts.
    against
        Texts that replace some of the first, for a second scenario beside it; none = no second.
    times
        How often each scenario is played, 1 to 100000.
    seed
        From 0. With the same seed, assumptions and inputs everything comes out the same; the
        scenarios share it.
    progress
        Told, after each play, how many there have been.

    Raises
    ------
    InputError, UsageError
        If the registration, its judge or its items have problems, it makes no call, or the
        assumptions do not fit.
    """
    if not 1 <= times <= MOST_TIMES or seed < 0:
        what = f"plays from 1 to {MOST_TIMES} times, with a seed from 0"
        raise UsageError(Problem(what, found=f"--times {times} --seed {seed}"))
    version = newest_version(workspace, ident, drafts=True)
    inputs = read_inputs(workspace, ident, version=version)
    refuse_without_calls(
        inputs,
        ", so there is no judge to simulate: its numbers follow from tables that are there "
        "already, and no play would differ from another",
        remedy=f"see `prereg check {inputs.model.id}` for what its claims are worth",
    )
    stated = split_assumptions(assume, option="--assume")
    others = split_assumptions(against, option="--against")
    both = [stated, *([instead(stated, others)] if others else [])]
    assumed = [read_assumptions(one, inputs) for one in both]
    stage = Stage(inputs)
    scenarios, played = [], 0
    for one in assumed:
        plays = []
        for number in range(1, times + 1):
            plays.append(stage.play(one, entropy_of(seed, number)))
            played += 1
            progress(played)
        notes = tuple(notes_on(inputs, one))
        within = _within(inputs, plays[0].claimed)
        scenarios.append(Scenario(dict(one.stated), one.unstated, notes, tuple(plays), within))
    return Rehearsal(ident, inputs.model.title, len(inputs.plan), times, seed, tuple(scenarios))


def _within(inputs: Inputs, refs: Iterable[MetricRef]) -> dict[MetricRef, tuple[float, float]]:
    """The least and the largest value that each metric can have, whatever these plays gave."""
    domains = {ref: domain_of(ref, catalogue=inputs.catalogue, facts=inputs.facts) for ref in refs}
    return {ref: (found.low, found.high) for ref, found in domains.items() if found is not None}


def entropy_of(seed: int, number: int) -> Entropy:
    """Chance for a play: a function of seed, play, key and attempt, whatever came before."""

    def entropy(key: str, attempt: int) -> np.random.Generator:
        digest = hashlib.sha256(f"{seed}/{number}/{attempt}/{key}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:16], "big"))

    return entropy


class Stage:
    """Everything that the plays of a registration share.

    Raises
    ------
    UsageError
        If no reply can be invented for this judge, or not on the registered path.
    """

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.replies = invented_replies(inputs.judge)
        chooses = any(s.path == "choice" for s in every_setting(inputs.model))
        if chooses and inputs.judge.closed_replies() is None:
            what = "the path `choice` takes a reply that holds the verdict and nothing else"
            raise UsageError(Problem(what, inputs.loaded.shown, where="protocol.path"))
        self._prompts = _prompts(inputs)

    def play(self, assumed: Assumptions, entropy: Entropy, folder: Path | None = None) -> Play:
        """One rehearsal; its record goes into `folder`, by default one that is thrown away."""
        if folder is not None:
            return self._judged(self._recorded(assumed, entropy, folder))
        memory = _MEMORY if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) else None
        with tempfile.TemporaryDirectory(prefix="prereg-", dir=memory) as own:
            return self._judged(self._recorded(assumed, entropy, Path(own)))

    def _recorded(self, assumed: Assumptions, entropy: Entropy, folder: Path) -> Record:
        registered, claims = self.inputs.model, self.inputs.claims
        state = RunState(self.inputs.plan, retries=registered.protocol.hang.retries)
        situation = situations(self.inputs, assumed, entropy)

        def start(settings: EngineSettings) -> Backend:
            return SimulatedBackend(
                situation,
                replies=self.replies,
                choosing=settings.path == "choice",
                decoding=decoding_of(registered),
                faults=assumed.faults,
                entropy=entropy,
            )

        header = {"id": registered.id, "run": 0, "simulated": True}
        writer = AttemptWriter(folder, header=header)
        try:
            stopped = Collector(
                self.inputs,
                self._prompts,
                state,
                writer=writer,
                watcher=Watcher(),
                watches=[StopWatch(rule) for rule in claims.stops],
            ).collect(start)
            if stopped is not None:
                writer.note("stopped", rule=stopped)
        finally:
            writer.close()
        return read_record(folder, shown="rehearsal")

    def _judged(self, record: Record) -> Play:
        """What `score` makes of such a record: the same metrics, stop rules and verdict."""
        verdict, claimed = judged(self.inputs, data_of(self.inputs, record), record)
        return Play(verdict, claimed, len(record.attempts), not_called(self.inputs, record))


def situations(
    inputs: Inputs, assumed: Assumptions, entropy: Entropy
) -> Callable[[str], Situation]:
    """What the simulated judge of one play makes of each call.

    A row has one leading verdict throughout a play. That of a pair is said of answer a and answer
    b: in the order `ba` the judge leads with what says the same of the answers as shown. Where two
    arms are compared each is sure of a verdict of its own, drawn from the row's chances, so that
    two arms agree as stated.
    """
    verdicts, pair = inputs.judge.spec.verdicts, pair_scale(inputs)
    table = {
        role: [row.chances(leading, verdicts) for leading in range(len(verdicts))]
        for role, row in assumed.rows.items()
    }
    of_rows = {
        (s.role, item.id): _leading(
            entropy(f"lead/{s.role}/{item.id}", 0),
            verdicts,
            label=item.label,
            accuracy=assumed.rows[s.role].accuracy,
        )
        for s in inputs.sets
        for item in s.items
    }
    arms = bool(inputs.model.protocol.arms)
    shown: dict[Order, list[int]] = {
        order: [verdicts.index(pair.mapped(v, order) if pair else v) for v in verdicts]
        for order in inputs.model.protocol.orders
    }

    def situation(name: str) -> Situation:
        key = trial_of(name)
        leading = shown[key.order][of_rows[key.set, key.item_id]]
        chances = table[key.set][leading]
        if arms:
            said = entropy(f"arm/{name}", 0).choice(len(verdicts), p=chances)
            chances = tuple(float(i == said) for i in range(len(verdicts)))
        row = f"row/{key.set}/{key.item_id}/{key.order}"
        repeat = assumed.rows[key.set].repeat
        return Situation(row, key.pass_no == 1, chances, repeat, leading)

    return situation


def _leading(
    rng: np.random.Generator,
    verdicts: Sequence[str],
    *,
    label: str | None,
    accuracy: float | None,
) -> int:
    """The place of a row's leading verdict; of a pair, as it is said in the order `ab`."""
    right, any_of = rng.random(), int(rng.integers(len(verdicts)))
    if accuracy is None or label is None:
        return any_of
    known = list(verdicts).index(label)
    if right < accuracy:
        return known
    others = [i for i in range(len(verdicts)) if i != known]
    return others[int(rng.integers(len(others)))]


def _prompts(inputs: Inputs) -> ModelInputs:
    """The prompts as messages: there is no model that could make tokens of them."""
    prompts: dict[PromptKey, Prompt] = {}
    for item_set in inputs.sets:
        for item in item_set.items:
            for order in inputs.model.protocol.orders:
                messages = inputs.judge.messages(item, order=order)
                digest = sha256_bytes(canonical_json(messages))
                prompts[item_set.role, item.id, order] = Prompt("", digest, (), "")
    return ModelInputs((), None, "", prompts)


def invented_replies(judge: Judge) -> dict[str, str]:
    """A short reply for each verdict that the judge reads as that verdict.

    Raises
    ------
    UsageError
        If none can be invented for its output schema.
    """
    schema = judge.spec.output
    names = [n for n in schema.get("properties", {}) if n in schema.get("required", [])]
    separators = judge.separators
    replies = {}
    for verdict in judge.spec.verdicts:
        value = {name: _instance(schema["properties"][name]) for name in names}
        value[judge.spec.verdict_field] = verdict
        replies[verdict] = json.dumps(value, ensure_ascii=False, separators=separators)
        if judge.parse(replies[verdict]).verdict != verdict:
            what = "no reply can be invented for this judge's output schema"
            raise UsageError(judge.placed(Problem(what, where="output", found=replies[verdict])))
    return replies


def _instance(schema: Mapping[str, Any]) -> Any:
    """A short value that a field's schema allows."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "string":
            return "x" * int(schema.get("minLength", 0))
        case "integer" | "number":
            return 0
        case "boolean":
            return True
        case "array":
            return [_instance(schema.get("items", {}))] * int(schema.get("minItems", 0))
        case "object":
            fields = schema.get("properties", {})
            return {name: _instance(fields[name]) for name in schema.get("required", [])}
    return None
