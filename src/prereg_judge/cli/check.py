"""`prereg check`: everything that `lock` would refuse, without locking."""

from __future__ import annotations

from prereg_judge import clock
from prereg_judge.cli.common import Id, Json, print_json, say, workspace
from prereg_judge.cli.lock import prompts_in_words, warn, warn_if_late
from prereg_judge.flow.labelling_words import labelling_words
from prereg_judge.flow.locked import newest_version
from prereg_judge.flow.locking import refuse_without_primary
from prereg_judge.flow.outlook import outlook
from prereg_judge.flow.overview import standing
from prereg_judge.flow.prepare import read_inputs
from prereg_judge.flow.prompts import read_model
from prereg_judge.report.outlook import expectation_table
from prereg_judge.report.terminal import console


def check(ident: Id, json_out: Json = False) -> None:
    """Check a registration and all that it names; exit 2 if there are problems.

    Where an amendment was begun (ID.v2.yaml) and is not locked yet, that one is checked.

    In stages: the YAML; the judge, the items and the claims; the model and the prompts. The first
    stage that finds problems names all of them.
    Reads the model's vocabulary (not its weights) to count the tokens of every prompt; of files of
    labellings it says how many rows they hold and how many can be used.
    """
    ws = workspace()
    version = newest_version(ws, ident, drafts=True)
    inputs = read_inputs(ws, ident, version=version)
    found = standing(ws, ident)
    unlocked = version > len(found.versions)
    if unlocked:
        refuse_without_primary(inputs)
    if found.state == "changed since the lock":
        say(f"Note: {ident} was locked at {found.locked_at} and differs from its lock now:")
        for problem in found.problems:
            say(f"  {problem}")
    model = read_model(inputs)
    warn(inputs)
    if unlocked:
        warn_if_late(inputs, at=clock.now())
    trials, read = len(inputs.plan), labelling_words(inputs.model, inputs.tables)
    if json_out:
        print_json(
            {
                "id": ident,
                "ok": True,
                "trials": trials,
                "longest_prompt": model.longest or None,
                "distinct_tokens": model.distinct or None,
                "read": read,
                "outlook": outlook(inputs),
            }
        )
        return
    say(f"{inputs.loaded.shown} is in order: {trials} trials, {prompts_in_words(model)}")
    for name, words in read.items():
        say(f"  {name}: {words}")
    console().print(expectation_table(outlook(inputs)))
    if found.withdrawn is not None:
        say(f"Note: {ident} was withdrawn and can be neither locked nor run: {found.withdrawn}")
    elif unlocked:
        next_step = f"lock {ident}" if version == 1 else f'amend {ident} --reason "..."'
        say(f"Next: prereg {next_step}")
