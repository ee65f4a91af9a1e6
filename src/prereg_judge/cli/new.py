"""`prereg new`: write a commented registration from flags, asking a person for what is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Annotated, Any

import typer

from prereg_judge.chain import write_synced
from prereg_judge.cli.common import Json, print_json, say, workspace
from prereg_judge.cli.lock import lock_and_tell
from prereg_judge.errors import PreregError, Problem, UsageError
from prereg_judge.flow.locked import refuse_lost
from prereg_judge.registration import expressions, settings_text
from prereg_judge.registration.draft import DraftValues, refusals, render

Text = str | None
Many = list[str] | None

_SAMPLED = "sampled,temperature=0.8,top_k=40,top_p=0.95,min_p=0.05"
# What must be known, how it is asked for, and the flag that gives it.
_NEEDED: dict[str, tuple[str, str]] = {
    "title": ("--title", "The question, in a sentence"),
    "judge": ("--judge", "Judge file"),
    "gguf": ("--gguf", "GGUF model file"),
    "n_ctx": ("--n-ctx", "Context length in tokens (prompt and reply)"),
    "n_gpu_layers": ("--gpu-layers", "Layers on the GPU (-1 all, 0 none)"),
    "served_model": ("--served-model", "The model's name at the servers"),
    "passes": ("--passes", "Passes"),
    "prefix": ("--prefix", "Prefix: shared (read once) or whole"),
    "decoding": (
        "--decoding",
        f"Decoding (e.g. {_SAMPLED}; off: top_k=0, top_p=1, min_p=0)",
    ),
    "max_tokens": ("--max-tokens", "Longest reply in tokens"),
    "hang": ("--hang", "Time-out of a call and retries (e.g. 120s,retries=1)"),
    "missing": (
        "--missing",
        "How a trial without a verdict counts (disagree, exclude, undefined)",
    ),
    "seen": ("--seen", "What had already been run or seen of these inputs"),
}
_PRIMARY = ("--primary", "Id of the band or prediction that the question is about")
# What may be written after each flag, as a shell takes it.
_EXAMPLES: dict[str, str] = {
    "title": '"Does the judge answer twice alike?"',
    "judge": "judge/keep-drop.yaml",
    "gguf": "models/judge.gguf",
    "n_ctx": "4096",
    "n_gpu_layers": "-1",
    "served_model": "qwen3-8b",
    "passes": "2",
    "prefix": "shared",
    "decoding": _SAMPLED,
    "max_tokens": "64",
    "hang": "120s,retries=1",
    "missing": "disagree",
    "seen": '"one run of the same rows, last week"',
}
# Where each stands in the file, by which the loader names it.
_PLACES: dict[str, str] = {
    "title": "title",
    "study": "study",
    "judge": "judge",
    "sentinel": "items.sentinel",
    "real": "items.real",
    "gguf": "model.gguf",
    "n_ctx": "model.n_ctx",
    "n_gpu_layers": "model.n_gpu_layers",
    "served_model": "model.model",
    "passes": "protocol.passes",
    "path": "protocol.path",
    "parallel": "protocol.parallel",
    "prefix": "protocol.prefix",
    "decoding": "protocol.decoding",
    "max_tokens": "protocol.max_tokens",
    "hang": "protocol.hang",
    "missing": "missing",
    "seen": "exposure.seen",
    "primary": "primary",
    "due": "due",
    "notes": "notes",
    "bands": "bands",
}
# Those that are not asked for and whose flags are called otherwise than their keys.
_FLAGS = {
    "model.base_urls": "--base-url",
    "model.api_key_env": "--api-key-env",
    "protocol.arms": "--arm",
    "bands": "--band",
    "predictions": "--predict",
    "refuters": "--refute",
    "stop": "--stop",
    "decisions": "--decide",
}
_NUMBERS = {"n_ctx", "n_gpu_layers", "passes", "max_tokens"}
_PARSED: dict[str, Callable[[str], Any]] = {
    "decoding": settings_text.parse_decoding,
    "hang": settings_text.parse_hang,
    "bands": lambda text: (expressions.parse_band(text),),
}


def new(
    ident: Annotated[str, typer.Argument(metavar="ID", help="Id of the new registration.")],
    study: Annotated[str, typer.Option(help="The kind of study.")] = "self-agreement",
    title: Annotated[Text, typer.Option(help="The question, in a sentence.")] = None,
    judge: Annotated[Text, typer.Option(help="Judge file, relative to the workspace.")] = None,
    sentinel: Annotated[Text, typer.Option(help="Item file with known answers.")] = None,
    real: Annotated[Text, typer.Option(help="Item file with the real items.")] = None,
    gguf: Annotated[
        Text, typer.Option(help="Model file, or package:DISTRIBUTION/FILE.gguf.")
    ] = None,
    n_ctx: Annotated[int | None, typer.Option(help="Context length in tokens.")] = None,
    gpu_layers: Annotated[int | None, typer.Option(help="-1 all, 0 none.")] = None,
    base_url: Annotated[
        Many, typer.Option(help="A server of the model, instead of --gguf; repeatable.")
    ] = None,
    served_model: Annotated[Text, typer.Option(help="The model's name at the servers.")] = None,
    api_key_env: Annotated[
        Text, typer.Option(help="Environment variable that holds the servers' API key.")
    ] = None,
    passes: Annotated[int | None, typer.Option(help="How often the whole plan is run.")] = None,
    path: Annotated[str, typer.Option(help="generate or choice.")] = "generate",
    prefix: Annotated[Text, typer.Option(help="shared or whole.")] = None,
    parallel: Annotated[int, typer.Option(help="Calls at once; 1 = the strict wire.")] = 1,
    arm: Annotated[
        Many,
        typer.Option(help='For path-fidelity, twice: "path=choice,prefix=shared,parallel=4".'),
    ] = None,
    decoding: Annotated[
        Text, typer.Option(help=f"greedy, or {_SAMPLED}. Off: top_k=0, top_p=1, min_p=0.")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Longest reply in tokens.")] = None,
    hang: Annotated[Text, typer.Option(help="120s,retries=1[,heartbeat=30s]")] = None,
    missing: Annotated[Text, typer.Option(help="disagree, exclude or undefined.")] = None,
    band: Annotated[
        Many, typer.Option(help='"sentinel.agreement.count=58..68"; repeatable.')
    ] = None,
    predict: Annotated[Many, typer.Option(help='"sentinel.flips.count >= 8"; repeatable.')] = None,
    refute: Annotated[
        Many,
        typer.Option(help='"sentinel.agreement.count < 50: too unstable to use"; repeatable.'),
    ] = None,
    stop: Annotated[
        Many, typer.Option(help='"calls.hangs >= 1 in 20 over 40"; repeatable.')
    ] = None,
    decide: Annotated[
        Many,
        typer.Option(help='"sentinel.agreement.count < 50 => report it and stop"; repeatable.'),
    ] = None,
    primary: Annotated[
        Text, typer.Option(help="Claim that the question is about; needed with several.")
    ] = None,
    due: Annotated[Text, typer.Option(help="Day by which a result is due: 2027-01-31.")] = None,
    why_so_many: Annotated[Text, typer.Option(help="Why so many rows and passes.")] = None,
    seen: Annotated[Text, typer.Option(help="What had already been run or seen.")] = None,
    notes: Annotated[Text, typer.Option(help="Anything else a reader should know.")] = None,
    lock: Annotated[bool, typer.Option("--lock", help="Lock it in the same step.")] = False,
    draft: Annotated[
        bool, typer.Option("--draft", help="Leave TODO where something is missing; don't ask.")
    ] = False,
    json_out: Json = False,
) -> None:
    """Write registrations/ID.yaml, commented, from flags.

    What is missing is asked for at a terminal, and listed otherwise. An explicit claim id goes
    before the expression: "agree:: sentinel.agreement.count=58..68". Claims can also be written
    into the file by hand, before it is locked. What the file's form forbids is not written, unless
    as a --draft.
    """
    ws = workspace()
    file = ws.registration(ident)
    if file.exists():
        remedy = "edit it, or choose another id; a locked one is never overwritten"
        raise UsageError(Problem("this registration exists", ws.shown(file), remedy=remedy))
    refuse_lost(ws, ident)
    known = DraftValues(
        id=ident,
        study=study,
        title=title,
        judge=judge,
        sentinel=sentinel,
        real=real,
        gguf=gguf,
        n_ctx=n_ctx,
        n_gpu_layers=gpu_layers,
        base_urls=tuple(base_url or ()),
        served_model=served_model,
        api_key_env=api_key_env,
        passes=passes,
        path=path,
        prefix=prefix,
        parallel=parallel,
        arms=tuple(map(settings_text.parse_arm, arm or ())),
        missing=missing,
        decoding=None if decoding is None else settings_text.parse_decoding(decoding),
        max_tokens=max_tokens,
        hang=None if hang is None else settings_text.parse_hang(hang),
        seen=seen,
        primary=primary,
        due=due,
        why_so_many=why_so_many,
        notes=notes,
        **_claims(
            {
                "bands": (band, expressions.parse_band),
                "predictions": (predict, expressions.parse_prediction),
                "refuters": (refute, expressions.parse_refuter),
                "stop": (stop, expressions.parse_stop),
                "decisions": (decide, expressions.parse_decision),
            }
        ),
    )
    idle = _idle(known)
    if idle:
        raise UsageError(*idle)
    known = _completed(known, draft=draft, ident=ident)
    if not draft:
        _refuse(refusals(known))
    write_synced(file, render(known).encode())
    if lock:
        try:
            lock_and_tell(ws, ident, json_out=json_out)
        except PreregError:
            say(f"Wrote {ws.shown(file)}, which could not be locked:")
            raise
        return
    if json_out:
        print_json({"id": ident, "file": ws.shown(file), "locked": False})
    elif draft:
        say(f"Wrote {ws.shown(file)}. Fill in every TODO, then: prereg check {ident}")
    else:
        say(f"Wrote {ws.shown(file)}. Read it.")
        say(f"Next: prereg check {ident}")


def _claims(sections: dict[str, tuple[Many, Callable[..., dict[str, Any]]]]) -> dict[str, Any]:
    """Parse every claim option; generated ids are unique over all sections."""
    parsed: dict[str, Any] = {}
    taken: list[str] = []
    for name, (texts, parse) in sections.items():
        entries = []
        for text in texts or []:
            entry = parse(text, taken=taken)
            taken.append(entry["id"])
            entries.append(entry)
        parsed[name] = tuple(entries)
    return parsed


def _idle(values: DraftValues) -> list[Problem]:
    """Flags that would have no effect: refused, for who gives one expects something of it."""
    if values.base_urls:
        given = {"--gguf": values.gguf, "--n-ctx": values.n_ctx}
        given["--gpu-layers"] = values.n_gpu_layers
        what, remedy = "is for a file, and --base-url is given", "leave one of the two out"
    else:
        given = {"--served-model": values.served_model, "--api-key-env": values.api_key_env}
        what, remedy = "is for a served model", "give --base-url with it"
    return [Problem(what, where=f, remedy=remedy) for f, v in given.items() if v is not None]


def _lacking(values: DraftValues) -> list[str]:
    served = ("gguf", "n_ctx", "n_gpu_layers") if values.base_urls else ("served_model",)
    lacking = [n for n in _NEEDED if getattr(values, n) is None and n not in served]
    if values.sentinel is None and values.real is None:
        lacking.insert(0, "sentinel")
    if values.primary is None and len(_claim_ids(values)) > 1:
        lacking.append("primary")
    return lacking


def _refuse_missing_arms(values: DraftValues) -> None:
    if values.study == "path-fidelity" and len(values.arms) != 2:
        what = "path-fidelity compares two settings"
        remedy = "give --arm twice, for example --arm path=generate --arm path=choice"
        raise UsageError(Problem(what, where="--arm", found=str(len(values.arms)), remedy=remedy))


def _completed(values: DraftValues, *, draft: bool, ident: str) -> DraftValues:
    lacking = _lacking(values)
    no_claim = not (values.bands or values.predictions)
    if not draft:
        _refuse_missing_arms(values)
    if draft or not (lacking or no_claim):
        return values
    if sys.stdin.isatty():
        # What was given comes first: after a dozen answers is no time to hear of it.
        asked = {_PLACES[name] for name in lacking} | ({"bands"} if no_claim else set())
        _refuse([p for p in refusals(values) if p.where not in asked])
        return _ask(values, lacking, no_claim=no_claim)
    told = [f"missing: {_flag(name, values)}" for name in lacking]
    if no_claim:
        told.append('missing: --band "sentinel.agreement.count=58..68"  # Or --predict')
    say(f"Give these flags, or write a file to fill in: prereg new {ident} --draft")
    raise UsageError(*told)


def _flag(name: str, values: DraftValues) -> str:
    """A flag that is lacking: with an example and what it is, or with what there is to choose."""
    if name == "sentinel":
        return "--sentinel sentinels/items.jsonl  # Item file; or --real"
    if name == "primary":
        return f"--primary (one of {', '.join(_claim_ids(values))})"
    flag, meaning = _NEEDED[name]
    return f"{flag} {_EXAMPLES[name]}  # {meaning.partition(' (e.g.')[0]}"


def _claim_ids(values: DraftValues) -> list[str]:
    """Ids of the bands and predictions, in the order of the file."""
    return [str(claim["id"]) for claim in (*values.bands, *values.predictions)]


def _refuse(problems: Iterable[Problem]) -> None:
    """Raise `UsageError` where there are problems, each by its flag where it has one."""
    told = [_by_flag(problem) for problem in problems]
    if told:
        say("Nothing was written; with --draft it is, to be mended by hand:")
        raise UsageError(*told)


def _by_flag(problem: Problem) -> Problem:
    for place, flag in _FLAGS.items():
        if _is_in(problem.where, place):
            return replace(problem, where=f"{flag} ({problem.where})")
    named = (n for n, place in _PLACES.items() if place == problem.where and n != "bands")
    name = next(named, None)
    own = None if name is None else _NEEDED[name][0] if name in _NEEDED else f"--{name}"
    return replace(problem, where=own or problem.where)


def _ask(values: DraftValues, lacking: Iterable[str], *, no_claim: bool) -> DraftValues:
    for name in lacking:
        if name == "sentinel":
            values = _ask_one(values, name, "Sentinel item file (empty for none)", default="")
            if not values.sentinel:
                values = _ask_one(replace(values, sentinel=None), "real", "Real item file")
        else:
            ids = f"{_PRIMARY[1]} ({', '.join(_claim_ids(values))})"
            question = ids if name == "primary" else _NEEDED[name][1]
            values = _ask_one(values, name, question)
    if no_claim:
        values = _ask_one(values, "bands", "A band (e.g. sentinel.agreement.count=58..68)")
    return values


def _ask_one(
    values: DraftValues, name: str, question: str, *, default: str | None = None
) -> DraftValues:
    """Ask until the answer is one that the loader takes; a typo costs no other answer."""
    while True:
        kind = int if name in _NUMBERS else str
        answer = typer.prompt(question, type=kind, default=default, show_default=False, err=True)
        problems: Iterable[Problem]
        try:
            parse = _PARSED.get(name)
            answered = replace(values, **{name: parse(answer) if parse else answer})
        except UsageError as exc:
            problems = exc.problems
        else:
            if answer == default:
                return answered
            problems = [p for p in refusals(answered) if _is_in(p.where, _PLACES[name])]
            if not problems:
                return answered
        for problem in problems:
            say(f"  {_by_flag(problem)}")


def _is_in(where: str | None, place: str) -> bool:
    """Whether a place in the file is this one or inside it."""
    return where is not None and (where == place or where.startswith((f"{place}.", f"{place}[")))
