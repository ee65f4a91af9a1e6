"""A registration with everything that it names, read and checked against each other.

`read_inputs` does what needs no model; `read_model` renders and counts every prompt in a
throwaway process. Used alike by `check`, `lock`, `run` and (without the model) `score`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TypeVar

from prereg_judge.canon import sha256_bytes, sha256_value
from prereg_judge.engine.chat import TemplateSettings, render_prompt
from prereg_judge.engine.inspect import Inspector, inspecting
from prereg_judge.engine.protocol import Constraint, ModelFacts, ModelSpec
from prereg_judge.errors import (
    EngineError,
    InputError,
    IntegrityError,
    PreregError,
    Problem,
    raise_all,
)
from prereg_judge.flow.earlier import earlier_runs
from prereg_judge.flow.guards import Messages, control_tokens, lost_characters, plan_problems
from prereg_judge.items import ItemSet, load_items
from prereg_judge.judge import Judge, check_items, load_judge
from prereg_judge.ledger.book import Ledger
from prereg_judge.plan import Trial, make_plan
from prereg_judge.registration.claims import Claims
from prereg_judge.registration.lint import Facts, lint
from prereg_judge.registration.load import Loaded, load_registration
from prereg_judge.registration.schema import Registration
from prereg_judge.study import self_agreement
from prereg_judge.study.metric import Catalogue
from prereg_judge.study.outcomes import EarlierRun
from prereg_judge.wording import capped
from prereg_judge.words import SetRole
from prereg_judge.workspace import Workspace, model_files

T = TypeVar("T")

DEFAULT_BATCH = 512  # written into every lock and record as the resolved value
_LOAD_TIMEOUT_S = 600.0  # bounds waiting; changes no number


@dataclass(frozen=True)
class Inputs:
    """A registration and its inputs, without the model."""

    workspace: Workspace
    loaded: Loaded
    judge: Judge
    sets: tuple[ItemSet, ...]
    catalogue: Catalogue
    earlier: dict[str, EarlierRun]
    facts: Facts

    @property
    def model(self) -> Registration:
        """The registration's content."""
        return self.loaded.model

    @property
    def claims(self) -> Claims:
        """What it commits to."""
        return self.loaded.claims

    def plan(self) -> Iterator[Trial]:
        """Its trials, in order."""
        protocol = self.model.protocol
        return make_plan(self.sets, orders=protocol.orders, passes=protocol.passes)

    @property
    def constraint(self) -> Constraint:
        """What every reply must look like."""
        compact = self.judge.spec.json_style == "compact"
        item, key = (",", ":") if compact else (", ", ": ")
        return Constraint(self.judge.spec.output, item, key)


@dataclass(frozen=True)
class Prompt:
    """One distinct prompt: text, hash of the text, token ids and their hash."""

    text: str
    sha256: str
    tokens: tuple[int, ...]
    ids_sha256: str


@dataclass(frozen=True)
class ModelInputs:
    """What the model makes of a registration before any call.

    `prompt_of` maps (set, item id, order) to its prompt; `cuts` are the positions at which a
    prompt's shared beginning ends (empty where nothing is shared).
    """

    files: tuple[Path, ...]
    facts: ModelFacts
    grammar: str
    prompt_of: dict[tuple[SetRole, str, str], Prompt]
    cuts: tuple[int, ...]

    @property
    def prompts_sha256(self) -> str:
        """Hash over every prompt's text and token ids, in plan order."""
        pairs = [[p.sha256, p.ids_sha256] for p in self.prompt_of.values()]
        return sha256_value("prompts", pairs)

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt."""
        return max(len(p.tokens) for p in self.prompt_of.values())


def read_inputs(workspace: Workspace, ident: str) -> Inputs:
    """Read a registration, its judge and its items, and check them against each other.

    Raises
    ------
    InputError
        With every problem found, each file's together.
    IntegrityError
        If the record of an earlier run that it names was changed.
    """
    path = workspace.known(ident)
    loaded = load_registration(path, shown=workspace.shown(path))
    return complete(workspace, loaded, ident=ident)


def complete(workspace: Workspace, loaded: Loaded, *, ident: str) -> Inputs:
    """`read_inputs` for a registration that has been read already."""
    model = loaded.model
    if model.id != ident:
        what = "the id inside differs from the file's name"
        raise InputError(
            Problem(what, loaded.shown, loaded.document.line_of(("id",)), "id", repr(model.id))
        )
    problems: list[Problem] = []

    def collected(read: Callable[[], T]) -> T | None:
        try:
            return read()
        except IntegrityError:
            raise
        except PreregError as exc:
            problems.extend(exc.problems)
            return None

    judge = collected(lambda: load_judge(workspace.input(model.judge), shown=model.judge))
    named: list[tuple[SetRole, str | None]] = [
        ("sentinel", model.items.sentinel),
        ("real", model.items.real),
    ]
    found = [
        collected(lambda r=r, f=f: load_items(workspace.input(f), role=r, shown=f))  # type: ignore[misc]
        for r, f in named
        if f is not None
    ]
    events = Ledger(workspace.ledger, workspace.shown(workspace.ledger)).events(ident)
    pinned = any(e["event"] == "registered" for e in events)
    earlier = collected(lambda: earlier_runs(workspace, loaded.claims, pinned=pinned))
    raise_all(problems)
    sets = tuple(s for s in found if s is not None)
    assert judge is not None
    assert earlier is not None
    raise_all([*plan_problems(loaded, sets), *check_items(judge, sets)])
    catalogue = self_agreement.catalogue([s.role for s in sets])
    facts = _facts(model, judge=judge, sets=sets, earlier=earlier)
    raise_all(
        lint(
            loaded.claims,
            catalogue=catalogue,
            facts=facts,
            file=loaded.shown,
            line_of=loaded.document.line_of,
        )
    )
    raise_all(_rows_of_earlier(sets, earlier, loaded.shown))
    return Inputs(workspace, loaded, judge, sets, catalogue, earlier, facts)


def _facts(
    model: Registration, *, judge: Judge, sets: Sequence[ItemSet], earlier: dict[str, EarlierRun]
) -> Facts:
    return Facts(
        verdicts=tuple(judge.spec.verdicts),
        table={s.role: dict(Counter((i.kind, i.stratum, i.label) for i in s.items)) for s in sets},
        passes=model.protocol.passes,
        from_runs={name: run.passes for name, run in earlier.items()},
        given=dict(_given(sets, earlier)),
        missing=model.missing,
        ships=judge.spec.ships,
        trials=model.protocol.passes * len(model.protocol.orders) * sum(len(s.items) for s in sets),
        retries=model.protocol.hang.retries,
        stops=bool(model.stop),
    )


def _given(
    sets: Sequence[ItemSet], earlier: dict[str, EarlierRun]
) -> Counter[tuple[str, int, SetRole, str]]:
    """How often each earlier run gave each verdict to rows of each set."""
    rows = {(s.role, i.id) for s in sets for i in s.items}
    return Counter(
        (name, number, role, verdict)
        for name, run in earlier.items()
        for (role, item_id, number), verdict in run.verdicts.items()
        if verdict is not None and (role, item_id) in rows
    )


def _rows_of_earlier(
    sets: Sequence[ItemSet], earlier: dict[str, EarlierRun], shown: str
) -> list[Problem]:
    """A comparison pairs rows by id, which is sound only when the item file is the same."""
    problems = []
    for name, run in earlier.items():
        for item_set in sets:
            before = run.items.get(item_set.role)
            if before is not None and before != item_set.sha256:
                what = f"the earlier run {name!r} judged other rows than those of {item_set.file}"
                remedy = "compare runs over the same, unchanged item file"
                found = f"SHA-256 {before[:12]} then, {item_set.sha256[:12]} now"
                problems.append(Problem(what, shown, where="from_run", found=found, remedy=remedy))
    return problems


def model_spec(model: Registration, path: Path) -> ModelSpec:
    """How the engine is to load the registered model."""
    return ModelSpec(
        path=str(path),
        n_ctx=model.model.n_ctx,
        n_gpu_layers=model.model.n_gpu_layers,
        n_threads=model.model.n_threads,
        n_batch=model.model.n_batch or DEFAULT_BATCH,
    )


def load_timeout_s(model: Registration) -> float:
    """Seconds that loading may take."""
    return model.model.load_timeout_s or _LOAD_TIMEOUT_S


def read_model(inputs: Inputs) -> ModelInputs:
    """Render and count every prompt, compile the grammar, find the shared beginning.

    Raises
    ------
    InputError, EngineError
        If the model cannot be read or has no usable chat template; an item's text holds a
        control token; a prompt with its longest reply does not fit; a verdict's shortest reply
        is longer than `max_tokens`; the schema cannot be made into a grammar.
    """
    model = inputs.model
    files = _files(inputs)
    with inspecting(str(files[0])) as inspector:
        facts = inspector.facts()
        judge, sets = inputs.judge, inputs.sets
        messages: Messages = {(s.role, i.id): judge.messages(i) for s in sets for i in s.items}
        raise_all(control_tokens(judge, sets, messages, facts.control_texts))
        raise_all(lost_characters(judge, sets, inspector.respell))
        rendered = _render(inputs, facts, messages)
        grammar = _grammar(inputs, inspector)
        ids = inspector.tokenize([text for _, _, text in rendered])
        raise_all(_reply_lengths(inputs, inspector))
    prompts = {
        (role, item_id, order): Prompt(
            text, sha256_bytes(text.encode()), tuple(t), sha256_value("token-ids", t)
        )
        for (role, (item_id, order), text), t in zip(rendered, ids, strict=True)
    }
    raise_all(_unfit(inputs, prompts, facts))
    cuts = shared_cuts([p.tokens for p in prompts.values()])
    return ModelInputs(
        files, facts, grammar, prompts, cuts if model.protocol.prefix == "shared" else ()
    )


def _files(inputs: Inputs) -> tuple[Path, ...]:
    """The model's files; what is wrong with a package's name stands in the registration."""
    loaded = inputs.loaded
    try:
        return model_files(inputs.workspace, inputs.model.model.gguf)
    except InputError as exc:
        line = loaded.document.line_of(("model", "gguf"))
        raise InputError(
            *(p if p.file else replace(p, file=loaded.shown, line=line) for p in exc.problems)
        ) from exc


def _grammar(inputs: Inputs, inspector: Inspector) -> str:
    """The judge's schema as a grammar; where it is none, the judge file is what to mend."""
    try:
        return inspector.compile(inputs.constraint)
    except EngineError as exc:
        problems = (replace(p, where="output") for p in exc.problems)
        raise EngineError(*(inputs.judge.placed(p) for p in problems)) from exc


def _render(
    inputs: Inputs, facts: ModelFacts, messages: Messages
) -> list[tuple[SetRole, tuple[str, str], str]]:
    registered = inputs.model.model
    settings = TemplateSettings(
        fold_system=inputs.judge.spec.system_role == "fold",
        date=date.fromisoformat(registered.template_date) if registered.template_date else None,
        arguments=registered.template_args or {},
    )
    return [
        (s.role, (i.id, order), render_prompt(facts, messages[s.role, i.id], settings=settings))
        for s in inputs.sets
        for i in s.items
        for order in inputs.model.protocol.orders
    ]


def _reply_lengths(inputs: Inputs, inspector: Inspector) -> list[Problem]:
    replies = inputs.judge.shortest_replies()
    cap = inputs.model.protocol.max_tokens
    lengths = [len(ids) for ids in inspector.tokenize(replies)] if replies else []
    needed = max(lengths, default=0)
    if needed <= cap:
        return []
    loaded = inputs.loaded
    path = ("protocol", "max_tokens")
    what = f"a whole reply such as {replies[lengths.index(needed)]} takes {needed} tokens"
    remedy = f"register at least {needed}"
    line = loaded.document.line_of(path)
    return [Problem(what, loaded.shown, line, ".".join(path), str(cap), remedy)]


def _unfit(
    inputs: Inputs, prompts: dict[tuple[SetRole, str, str], Prompt], facts: ModelFacts
) -> list[Problem]:
    model = inputs.model
    room = model.model.n_ctx - model.protocol.max_tokens
    problems = []
    if model.model.n_ctx > facts.n_ctx_train > 0:
        problems.append(
            Problem(
                f"the model was trained for a context of {facts.n_ctx_train} tokens",
                file=inputs.loaded.shown,
                line=inputs.loaded.document.line_of(("model", "n_ctx")),
                where="model.n_ctx",
                found=str(model.model.n_ctx),
                remedy=f"register at most {facts.n_ctx_train}",
            )
        )
    files = {s.role: s.file for s in inputs.sets}
    lines = {(s.role, i.id): i.line for s in inputs.sets for i in s.items}
    for (role, item_id, _), prompt in prompts.items():
        if len(prompt.tokens) > room:
            problems.append(
                Problem(
                    f"the prompt of row {item_id!r} does not fit: {len(prompt.tokens)} tokens "
                    f"and {model.protocol.max_tokens} for the reply",
                    file=files[role],
                    line=lines[role, item_id],
                    found=f"n_ctx: {model.model.n_ctx}",
                    remedy="register a larger n_ctx, or shorten the row; nothing is ever cut",
                )
            )
        if prompt.tokens[:2] == (facts.bos_id, facts.bos_id):
            what = "the chat template writes the beginning-of-text token twice"
            problems.append(Problem(what, file=facts.path))
            break
    return capped(problems)


def shared_cuts(prompts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Where the beginning common to all prompts ends; at least one token stays for each."""
    if len(prompts) < 2:
        return ()
    first, last = min(prompts), max(prompts)
    shared = next(
        (n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b),
        min(len(first), len(last)),
    )
    shared = min(shared, *(len(p) - 1 for p in prompts))
    return (shared,) if shared > 0 else ()
