"""`prereg new`: write a commented registration from flags, asking a person for what is missing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

import typer

from prereg_judge.chain import write_synced
from prereg_judge.cli.asking import completed, refuse, refuse_unfit
from prereg_judge.cli.common import Json, print_json, say, workspace
from prereg_judge.cli.lock import lock_and_tell
from prereg_judge.cli.new_values import SAMPLED
from prereg_judge.errors import PreregError, Problem, UsageError
from prereg_judge.flow.locked import refuse_lost
from prereg_judge.registration import expressions
from prereg_judge.registration import settings_labellings as of_labellings
from prereg_judge.registration import settings_text as short
from prereg_judge.registration.draft import DraftValues, refusals, render
from prereg_judge.study.kinds import STUDIES

Text = str | None
Many = list[str] | None
LABELLINGS = "data/spans.jsonl,item=id,stratum=part,A=by.A,gold=gold"
T = TypeVar("T")
R = TypeVar("R")


def new(
    ident: Annotated[str, typer.Argument(metavar="ID", help="Id of the new registration.")],
    study: Annotated[
        str, typer.Option(help=f"The kind of study: {', '.join(STUDIES)}.")
    ] = "self-agreement",
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
    orders: Annotated[
        Text, typer.Option(help="ab, or ab,ba: both ways round. Default: ab,ba for pairwise.")
    ] = None,
    path: Annotated[Text, typer.Option(help="generate or choice.", show_default="generate")] = None,
    prefix: Annotated[Text, typer.Option(help="shared or whole.")] = None,
    parallel: Annotated[
        int | None, typer.Option(help="Calls at once; 1 = the strict wire.", show_default="1")
    ] = None,
    arm: Annotated[
        Many,
        typer.Option(help='For path-fidelity, twice: "path=choice,prefix=shared,parallel=4".'),
    ] = None,
    decoding: Annotated[
        Text, typer.Option(help=f"greedy, or {SAMPLED}. Off: top_k=0, top_p=1, min_p=0.")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Longest reply in tokens.")] = None,
    hang: Annotated[Text, typer.Option(help="120s,retries=1[,heartbeat=30s]")] = None,
    missing: Annotated[Text, typer.Option(help="disagree, exclude or undefined.")] = None,
    votes: Annotated[Text, typer.Option(help="File of annotators' votes.")] = None,
    layout: Annotated[Text, typer.Option(help="Of the votes: long, mt-bench or multipref.")] = None,
    column: Annotated[
        Many, typer.Option(help="For long: item=comparison; repeatable, or with commas.")
    ] = None,
    label: Annotated[
        Many, typer.Option(help="For long: A=a, what a word means (a, b, tie); repeatable.")
    ] = None,
    preference: Annotated[Text, typer.Option(help="For multipref: overall_pref, ...")] = None,
    pool: Annotated[
        Many, typer.Option(help='Repeatable, pool 1 first: "expert=expert_*"; patterns with |.')
    ] = None,
    key: Annotated[Text, typer.Option(help="Votes on one pair: stored or unordered.")] = None,
    split: Annotated[Text, typer.Option(help="A pool split evenly: tie or exclude.")] = None,
    gap: Annotated[Text, typer.Option(help="Quality gap: column or credit.")] = None,
    sample: Annotated[Text, typer.Option(help="A part of the items: 200,seed=7.")] = None,
    judge_run: Annotated[
        Many, typer.Option(help="NAME=ID/N:PASS, a judge's earlier run; repeatable.")
    ] = None,
    verdicts: Annotated[
        Many, typer.Option(help="NAME=FILE, a judge's verdicts; more than one: in the file.")
    ] = None,
    verdict_columns: Annotated[
        Text,
        typer.Option(help="item=question_id,models=model_a+model_b,ab=slot_ab,ba=slot_ba"),
    ] = None,
    says: Annotated[Text, typer.Option(help="Of what --verdicts speak: slots or answers.")] = None,
    word: Annotated[
        Many, typer.Option(help="A=a, what a word of --verdicts means (a, b, tie); repeatable.")
    ] = None,
    resolve: Annotated[
        Text, typer.Option(help="Two orders, one verdict: agree_or_tie, average or first.")
    ] = None,
    resampling: Annotated[
        Text, typer.Option(help="For pairs and tables: 2000,seed=7[,by_stratum].")
    ] = None,
    assume: Annotated[
        Text, typer.Option(help="For leaderboard: span=0.201,shift_sd=0.0187.")
    ] = None,
    labellings: Annotated[
        Many, typer.Option(help=f'"{LABELLINGS}"; repeatable. Also same=, format=, tags=.')
    ] = None,
    form: Annotated[Text, typer.Option(help="Of the labellings: spans or labels.")] = None,
    outputs: Annotated[Text, typer.Option(help="Labellings that are scored: A,B.")] = None,
    references: Annotated[
        Text, typer.Option(help="What they are scored against, the delivered one first: gold,C.")
    ] = None,
    match: Annotated[Text, typer.Option(help="strict, relaxed or coarse.")] = None,
    duplicates: Annotated[
        Text, typer.Option(help="Rows of one item: keep_all, first, drop or merge_equal.")
    ] = None,
    merge: Annotated[
        Many, typer.Option(help="Insult=abuse, fine label to coarse one; repeatable.")
    ] = None,
    family: Annotated[
        Many, typer.Option(help='A test to adjust p among: "delta[output=A]"; repeatable.')
    ] = None,
    order: Annotated[Text, typer.Option(help="Of labels, from the lowest: low,mid,high.")] = None,
    value: Annotated[Many, typer.Option(help="low=1, a label's number; repeatable.")] = None,
    adjudication: Annotated[
        Text, typer.Option(help="An adjudicator's labels: data/settled.csv,item=id,label=label.")
    ] = None,
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

    What is missing is asked for at a terminal, and listed otherwise; the study says what is needed:
    pools, judge-pools, leaderboard, reference-swap and annotators, and pairwise with --verdicts,
    read tables and call no judge.
    An explicit claim id goes before the expression: "agree:: sentinel.agreement.count=58..68".
    Claims can also be written into the file by hand, before it is locked. What the file's form
    forbids is not written, unless as a --draft.
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
        orders=_read(orders, short.parse_orders),
        path=path or "generate",
        prefix=prefix,
        parallel=1 if parallel is None else parallel,
        arms=tuple(map(short.parse_arm, arm or ())),
        missing=missing,
        decoding=_read(decoding, short.parse_decoding),
        max_tokens=max_tokens,
        hang=_read(hang, short.parse_hang),
        votes=votes,
        layout=layout,
        columns=_read(column, short.parse_columns),
        labels=_read(label, partial(short.parse_words, option="--label")),
        preference=preference,
        pools=_read(pool, short.parse_pools),
        key=key,
        split=split,
        gap=gap,
        sample=_read(sample, short.parse_sample),
        judge_runs=tuple(map(short.parse_judge_run, judge_run or ())),
        verdicts=_read(verdicts, _one_file),
        verdict_columns=_read(verdict_columns, short.parse_verdict_columns),
        says=says,
        words=_read(word, partial(short.parse_words, option="--word")),
        resolve=resolve,
        resampling=_read(resampling, short.parse_resampling),
        assumed=_read(assume, short.parse_assumed),
        labellings=tuple(map(of_labellings.parse_labelling_file, labellings or ())),
        form=form,
        outputs=_read(outputs, partial(of_labellings.parse_names, option="--outputs")),
        references=_read(references, partial(of_labellings.parse_names, option="--references")),
        match=match,
        duplicates=duplicates,
        merge=_read(merge, of_labellings.parse_merge),
        family=tuple(map(expressions.parse_member, family or ())),
        scale_order=_read(order, partial(of_labellings.parse_names, option="--order")),
        scale_values=_read(value, of_labellings.parse_scale_values),
        adjudication=_read(adjudication, of_labellings.parse_adjudication),
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
    told = {"path": path, "parallel": parallel}
    refuse_unfit(known, given=[name for name, value in told.items() if value is not None])
    if not draft:
        known = completed(known, ident=ident)
        refuse(refusals(known))
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


def _read(given: T | None, parse: Callable[[T], R]) -> R | None:
    """What an option says, where it is given."""
    return None if given is None else parse(given)


def _one_file(texts: list[str]) -> dict[str, str]:
    """The file of verdicts, which the other options describe."""
    if len(texts) > 1:
        remedy = "give one, with --draft, and write the others into the file"
        what = "only one file of verdicts can be described by options"
        raise UsageError(Problem(what, where="--verdicts", found=str(len(texts)), remedy=remedy))
    return short.parse_verdicts(texts[0])


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
