"""The A/A check of a machine: the same calls made twice, and what came out differently.

No verdict is shown, only how many changed: strict against fast settings, repeat against repeat,
one order of the calls against another, one worker against several where several are registered,
and the two paths where the judge allows both. Every leg gives a trial the same seed, so a
difference is the machine's and not the draw's. The ledger notes that these inputs were run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from prereg_judge.engine.protocol import Answer, Call, Reply
from prereg_judge.engine.tree import shared_cuts
from prereg_judge.errors import Problem, UsageError
from prereg_judge.flow.backends import MakeBackend, make_backend
from prereg_judge.flow.calls import seed_for
from prereg_judge.flow.exposure import identity_of, row_hash, row_hashes
from prereg_judge.flow.locked import known_registration, ledger_of, newest_version
from prereg_judge.flow.prepare import Inputs, read_inputs, refuse_without_calls
from prereg_judge.flow.prompts import ModelInputs, read_model
from prereg_judge.flow.settings import EngineSettings, decoding_of, engine_settings
from prereg_judge.hashing import FileHashes
from prereg_judge.judge import read_reply
from prereg_judge.plan import Trial
from prereg_judge.registration.schema_model import LocalModel
from prereg_judge.stats.proportions import wilson_interval
from prereg_judge.workspace import Workspace

LEVEL = 0.95
_FAST_PARALLEL = 4  # where what is registered is the strict wire itself


@dataclass(frozen=True)
class Leg:
    """Two rounds of the same calls compared.

    Attributes
    ----------
    name
        What was changed between the rounds.
    first, second
        The settings of each round, in words.
    n
        Trials with a verdict in both rounds; `lacking` have none in one of them.
    changed
        Trials of the n whose verdict differs.
    low, high
        Wilson interval of the share that changes, at 95%; None where n is 0.
    largest
        Largest change of a verdict's probability, in [0, 1]; None where a round gives none.
    differing
        The trials that changed.
    """

    name: str
    first: str
    second: str
    n: int
    lacking: int
    changed: int
    low: float | None
    high: float | None
    largest: float | None
    differing: tuple[str, ...]


@dataclass(frozen=True)
class Probed:
    """What a probe found: its legs, and how many trials of the plan were used."""

    trials: int
    decoding: str
    legs: tuple[Leg, ...]


@dataclass(frozen=True)
class _Round:
    settings: EngineSettings
    backwards: bool = False
    one_worker: bool = False  # whatever executor is registered

    @property
    def words(self) -> str:
        words = self.settings.words + (", calls in reverse" if self.backwards else "")
        return words + (", one worker" if self.one_worker else "")


@dataclass(frozen=True)
class _Found:
    """What a round gave a trial."""

    verdict: str | None
    probabilities: Mapping[str, float] | None


def probe(
    workspace: Workspace,
    ident: str,
    *,
    rows: int,
    announce: Callable[[str], None] = lambda _: None,
    make_backend: MakeBackend = make_backend,
) -> Probed:
    """Make the first `rows` calls of a registration's first pass in several ways and compare.

    The registration need not be locked. The ledger notes it before the first call, and then what
    was found.

    Raises
    ------
    UsageError
        If there is no such registration, or `rows` is below 1.
    InputError, IntegrityError, EngineError
        As `prereg check` and `prereg run` have them.
    """
    if rows < 1:
        raise UsageError(Problem("a probe needs at least one row", found=str(rows)))
    known_registration(workspace, ident)
    version = newest_version(workspace, ident, drafts=False)
    inputs = read_inputs(workspace, ident, version=version)
    refuse_without_calls(
        inputs,
        ", so there is nothing to compare: its numbers follow from tables",
        remedy="probe a registration that runs a judge",
    )
    model = read_model(inputs)
    trials = inputs.plan[: min(rows, inputs.plan.n_in_pass)]
    ledger = ledger_of(workspace)
    hashes = [FileHashes().sha256(path) for path in model.files]
    identity = identity_of(inputs, row_hashes(inputs), model=hashes)
    contents = sorted({row_hash(inputs.judge, trial.item) for trial in trials})
    ledger.append(
        "probe_started", ident=ident, trials=len(trials), inputs=identity.values(), rows=contents
    )
    seeds = {trial.key: seed_for(inputs.model) for trial in trials}
    found: dict[_Round, list[dict[str, _Found]]] = {}

    def play(one: _Round, time: int) -> dict[str, _Found]:
        """What a round gave, the first or the second time that it is played."""
        rounds = found.setdefault(one, [])
        while len(rounds) <= time:
            announce(f"{one.words}: {len(trials)} calls")
            with TemporaryDirectory() as folder:
                calls = _calls(one, trials, model, seeds)
                log = Path(folder) / "worker.log"
                how = _with_one_worker(inputs) if one.one_worker else inputs
                backend = make_backend(how, model, one.settings, log, announce)
                try:
                    backend.start_pass()
                    with closing(cast(Any, backend.stream(iter(calls)))) as stream:
                        rounds.append(_read(inputs, stream))
                finally:
                    backend.close()
        return rounds[time]

    legs = []
    for name, first, second in _pairs(inputs):
        one, other = play(first, 0), play(second, 1 if first == second else 0)
        legs.append(_compared(name, first, second, [t.key for t in trials], one, other))
    probed = Probed(len(trials), decoding_of(inputs.model).mode, tuple(legs))
    ledger.append(
        "probed",
        ident=ident,
        trials=probed.trials,
        legs=[asdict(replace(leg, differing=())) for leg in legs],
    )
    return probed


def _with_one_worker(inputs: Inputs) -> Inputs:
    alone = inputs.model.model_copy(update={"executor": None})
    return replace(inputs, loaded=replace(inputs.loaded, model=alone))


def _pairs(inputs: Inputs) -> Iterator[tuple[str, _Round, _Round]]:
    """The rounds to be compared, with what is changed between them."""
    fast = engine_settings(inputs.model, inputs.model.protocol.passes)
    if inputs.model.protocol.arms:
        one, other = (_Round(engine_settings(inputs.model, n)) for n in (1, 2))
        yield "arm 1 against arm 2", one, other
    strict = replace(fast, prefix="whole", parallel=1)
    if fast == strict:
        fast = replace(strict, prefix="shared", parallel=_FAST_PARALLEL)
    yield "strict against fast", _Round(strict), _Round(fast)
    yield "repeat against repeat", _Round(fast), _Round(fast)
    yield "order of the calls", _Round(fast), _Round(fast, backwards=True)
    if inputs.model.executor is not None and inputs.model.executor.workers > 1:
        yield "one worker against several", _Round(fast, one_worker=True), _Round(fast)
    local = isinstance(inputs.model.model, LocalModel)
    if local and inputs.judge.closed_replies() is not None and not inputs.model.protocol.thinking:
        generate, choice = (replace(fast, path=path) for path in ("generate", "choice"))
        yield "generate against choice", _Round(generate), _Round(choice)


def _calls(
    one: _Round, trials: Sequence[Trial], model: ModelInputs, seeds: Mapping[str, int | None]
) -> list[Call]:
    ordered = list(trials[::-1] if one.backwards else trials)
    prompts = [model.prompt(trial) for trial in ordered]
    cuts: list[tuple[int, ...]] = [() for _ in prompts]
    if one.settings.prefix == "shared" and prompts[0].tokens:
        cuts = [p.cuts for p in prompts]  # as in a run
        if one.backwards or not any(cuts):
            cuts = shared_cuts([p.tokens for p in prompts])
    return [
        Call(t.key, p.tokens, c, seeds[t.key], at // one.settings.parallel, p.messages)
        for at, (t, p, c) in enumerate(zip(ordered, prompts, cuts, strict=True))
    ]


def _read(inputs: Inputs, stream: Iterator[Any]) -> dict[str, _Found]:
    found = {}
    for event in stream:
        if not isinstance(event, Answer):
            continue
        result = event.result
        if isinstance(result, Reply):
            read = read_reply(inputs.judge, text=result.text, finish=result.finish)
            found[event.call.key] = _Found(read.verdict, result.probabilities)
        else:
            found[event.call.key] = _Found(None, None)
    return found


def _compared(
    name: str,
    first: _Round,
    second: _Round,
    keys: Sequence[str],
    one: Mapping[str, _Found],
    other: Mapping[str, _Found],
) -> Leg:
    both = [k for k in keys if one[k].verdict is not None and other[k].verdict is not None]
    differing = tuple(k for k in both if one[k].verdict != other[k].verdict)
    changes = [
        max(abs(p - b[verdict]) for verdict, p in a.items())
        for k in keys
        if (a := one[k].probabilities) is not None and (b := other[k].probabilities) is not None
    ]
    low, high = wilson_interval(len(differing), len(both), level=LEVEL) if both else (None, None)
    return Leg(
        name=name,
        first=first.words,
        second=second.words,
        n=len(both),
        lacking=len(keys) - len(both),
        changed=len(differing),
        low=low,
        high=high,
        largest=max(changes) if changes else None,
        differing=differing,
    )
