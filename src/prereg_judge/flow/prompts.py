"""What the model makes of a registration before any call: prompts, their tokens, the grammar.

Rendered and counted in a throwaway process, so that a damaged file or a schema that trips a
native library kills that and not the command. A model behind a server is shown messages and
renders them itself: they are hashed as they are sent, and nothing can be counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

from prereg_judge.canon import canonical_json, sha256_bytes, sha256_value
from prereg_judge.engine.chat import TemplateSettings, folded, render_prompt
from prereg_judge.engine.inspect import Inspector, compiled, inspecting
from prereg_judge.engine.protocol import ModelFacts
from prereg_judge.engine.tree import shared_cuts
from prereg_judge.errors import EngineError, InputError, Problem, raise_all
from prereg_judge.flow.guards import (
    Messages,
    Rendered,
    answers_unseen,
    control_tokens,
    lost_characters,
)
from prereg_judge.flow.prepare import Inputs
from prereg_judge.flow.settings import constraint_of, every_setting
from prereg_judge.plan import Trial
from prereg_judge.registration.schema_model import LocalModel
from prereg_judge.wording import capped
from prereg_judge.words import Order, SetRole
from prereg_judge.workspace import model_files

PromptKey = tuple[SetRole, str, Order]  # set, item id, order


@dataclass(frozen=True)
class Prompt:
    """One distinct prompt: text, hash of the text, token ids and their hash.

    `cuts` are the positions at which a beginning that it shares with its neighbours in the plan
    ends (`engine.tree`). For a served model `text` is the JSON of `messages` and there are no
    tokens.
    """

    text: str
    sha256: str
    tokens: tuple[int, ...]
    ids_sha256: str
    cuts: tuple[int, ...] = ()
    messages: tuple[dict[str, str], ...] = ()


@dataclass(frozen=True)
class ModelInputs:
    """What the model makes of a registration before any call.

    For a served model there are no files and no facts: they are the server's. `hashes` are the
    SHA-256 of the files by path, where they are known.
    """

    files: tuple[Path, ...]
    facts: ModelFacts | None
    grammar: str
    prompt_of: dict[PromptKey, Prompt]
    hashes: Mapping[str, str] = field(default_factory=dict)

    def prompt(self, trial: Trial) -> Prompt:
        """The prompt of a trial."""
        return self.prompt_of[trial.set, trial.item.id, trial.order]

    @property
    def prompts_sha256(self) -> str:
        """Hash over every prompt's text and token ids, in plan order."""
        pairs = [[p.sha256, p.ids_sha256] for p in self.prompt_of.values()]
        return sha256_value("prompts", pairs)

    @property
    def distinct(self) -> int:
        """Tokens of a pass, each shared beginning counted once."""
        total, before = 0, Prompt("", "", (), "")
        for prompt in self.prompt_of.values():
            shared = 0
            for cut in prompt.cuts:
                if prompt.tokens[shared:cut] != before.tokens[shared:cut]:
                    break
                shared = cut
            total, before = total + len(prompt.tokens) - shared, prompt
        return total

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt; 0 where they cannot be counted."""
        return max((len(p.tokens) for p in self.prompt_of.values()), default=0)


def read_model(inputs: Inputs) -> ModelInputs:
    """Render and count every prompt, compile the grammar, find the shared beginnings.

    Raises
    ------
    InputError, EngineError
        If the model cannot be read or has no usable chat template; its template has a thinking
        switch that is not registered, or leaves the prompt in the middle of thinking; an item's
        text holds a control token; a prompt with its longest reply does not fit; a verdict's
        shortest reply is longer than `max_tokens`; the schema cannot be made into a grammar;
        the path `choice` has more than the verdict to choose; two arms come to the same; a batch
        cannot hold a token of each call answered together.
    """
    if not inputs.model.calls:
        return ModelInputs((), None, "", {})
    raise_all([*_closed_for_choice(inputs), *_arms_alike(inputs), *_small_batches(inputs)])
    messages = _messages(inputs)
    raise_all(answers_unseen(inputs.judge, inputs.sets, messages))
    if not isinstance(inputs.model.model, LocalModel):
        return _served(inputs, messages)
    files = _files(inputs, inputs.model.model)
    with inspecting(str(files[0])) as inspector:
        facts = inspector.facts()
        texts: Messages = {(role, item): said for (role, item, _), said in messages.items()}
        raise_all(control_tokens(inputs.judge, inputs.sets, texts, facts.control_texts))
        raise_all(lost_characters(inputs.judge, inputs.sets, inspector.respell))
        rendered = _render(inputs, inputs.model.model, facts, messages)
        raise_all(thinking_problems(inputs, facts, rendered[0][1]))
        grammar = _grammar(inputs, inspector)
        ids = inspector.tokenize([text for _, text in rendered])
        raise_all(_reply_lengths(inputs, inspector))
    prompts: dict[PromptKey, Prompt] = {
        key: Prompt(text, sha256_bytes(text.encode()), tuple(t), sha256_value("token-ids", t))
        for (key, text), t in zip(rendered, ids, strict=True)
    }
    raise_all(_unfit(inputs, inputs.model.model, prompts, facts))
    if any(s.prefix == "shared" for s in every_setting(inputs.model)):
        cuts = shared_cuts([p.tokens for p in prompts.values()])
        prompts = {
            key: replace(p, cuts=c) for (key, p), c in zip(prompts.items(), cuts, strict=True)
        }
    return ModelInputs(files, facts, grammar, prompts)


def _messages(inputs: Inputs) -> Rendered:
    """What is said to the model of every item in every order, in plan order."""
    return {
        (s.role, i.id, order): inputs.judge.messages(i, order=order)
        for s in inputs.sets
        for i in s.items
        for order in inputs.model.protocol.orders
    }


def _served(inputs: Inputs, messages: Rendered) -> ModelInputs:
    """Prompts for a server: the messages themselves."""
    fold = inputs.judge.spec.system_role == "fold"
    prompts: dict[PromptKey, Prompt] = {}
    for item_set in inputs.sets:
        for item in item_set.items:
            for order in inputs.model.protocol.orders:
                said = messages[item_set.role, item.id, order]
                told = tuple(folded(said) if fold else [dict(m) for m in said])
                text = canonical_json(list(told)).decode()
                digest = sha256_bytes(text.encode())
                prompts[item_set.role, item.id, order] = Prompt(
                    text, digest, (), sha256_value("messages", list(told)), messages=told
                )
    grammar = _placed_grammar(inputs, lambda: compiled(constraint_of(inputs.judge)))
    return ModelInputs((), None, grammar, prompts)


def _problem(inputs: Inputs, what: str, path: tuple[str, ...], found: str, remedy: str) -> Problem:
    return inputs.loaded.problem(what, path, found=found, remedy=remedy)


def _small_batches(inputs: Inputs) -> list[Problem]:
    """A batch that cannot hold one token of each call answered together: llama.cpp aborts."""
    for each in every_setting(inputs.model):
        if each.n_batch < each.parallel:
            arms = bool(inputs.model.protocol.arms)
            what = f"{each.parallel} calls at once need a batch of at least as many tokens"
            path = ("protocol", "arms") if arms else ("model", "n_batch")
            remedy = f"register at least {each.parallel}, or a smaller `parallel`"
            return [_problem(inputs, what, path, f"n_batch: {each.n_batch}", remedy)]
    return []


def _closed_for_choice(inputs: Inputs) -> list[Problem]:
    if all(s.path != "choice" for s in every_setting(inputs.model)):
        return []
    if inputs.judge.closed_replies() is not None:
        return []
    what = "the path `choice` takes a reply that holds the verdict and nothing else"
    remedy = "write `path: generate`, or leave only the verdict in the judge's `output`"
    names = ", ".join(inputs.judge.spec.output.get("properties", {}))
    path = ("protocol", "arms" if inputs.model.protocol.arms else "path")
    return [_problem(inputs, what, path, f"a reply with {names}", remedy)]


def _arms_alike(inputs: Inputs) -> list[Problem]:
    """Two arms that are written differently and come to the same settings compare nothing."""
    settings = every_setting(inputs.model)
    if not inputs.model.protocol.arms or len(settings) > 1:
        return []
    what = "the two arms come to the same settings"
    remedy = "set something otherwise in one of them than the protocol and the other have it"
    return [_problem(inputs, what, ("protocol", "arms"), settings[0].words, remedy)]


# Names by which chat templates let thinking be switched.
_SWITCHES = ("enable_thinking", "thinking", "thinking_mode", "reasoning_effort", "think")
_OPENED = re.compile(r"<\|?(?:think|thinking|reasoning|thought)\|?>\s*$")


def thinking_problems(inputs: Inputs, facts: ModelFacts, text: str) -> list[Problem]:
    """What does not fit between a model's thinking and what is registered of it.

    Parameters
    ----------
    facts
        The model's, with its chat template.
    text
        A prompt as that template renders it.
    """
    return _switches(inputs, facts) or _thinking_left_open(inputs, text)


def _switches(inputs: Inputs, facts: ModelFacts) -> list[Problem]:
    """A thinking switch in the template is to be set, not left to its default."""
    code = " ".join(re.findall(r"\{[{%](.*?)[%}]\}", facts.chat_template or "", re.DOTALL))
    code = re.sub(r"'[^'\n]*'|\"[^\"\n]*\"", "", code)  # not what it only prints
    given = inputs.model.model.template_args or {}
    found = [n for n in _SWITCHES if re.search(rf"(?<![\w.]){n}\b(?!\s*=[^=])", code)]
    on = [n for n in found if given.get(n) is True]
    if on and inputs.model.protocol.thinking is None:
        what = f"the chat template's thinking is switched on by `{on[0]}`, and none is registered"
        remedy = "register `protocol.thinking`, or set the switch to false"
        return [_problem(inputs, what, ("model", "template_args"), f"{on[0]}: true", remedy)]
    if not found or any(n in given for n in found):
        return []
    what = f"the model's chat template has a thinking switch, `{found[0]}`, which is not set"
    remedy = f"write `template_args: {{{found[0]}: false}}` under `model`, or true together "
    remedy += "with `thinking` under `protocol`"
    return [_problem(inputs, what, ("model", "template_args"), "nothing", remedy)]


def _thinking_left_open(inputs: Inputs, text: str) -> list[Problem]:
    """How the prompt ends must fit what is registered of thinking."""
    thinking = inputs.model.protocol.thinking
    end = repr(text[-40:])
    if thinking is None and _OPENED.search(text):
        what = "the prompt ends in the middle of thinking, and the reply is to be JSON at once"
        remedy = "switch thinking off by `model.template_args`, or register `protocol.thinking`"
        return [_problem(inputs, what, ("protocol", "thinking"), f"it ends in {end}", remedy)]
    if thinking is not None and text.rstrip().endswith(thinking.end.rstrip()):
        what = "thinking is registered, and the chat template has ended it already"
        remedy = "switch it on by `model.template_args`, or leave `thinking` out"
        return [_problem(inputs, what, ("protocol", "thinking"), f"it ends in {end}", remedy)]
    start = thinking.start.strip() if thinking else ""
    if start and text.rstrip().endswith(start):
        what = "the chat template has opened the thinking already, and it would be opened twice"
        remedy = 'write `start: ""`, which says that the prompt opens it'
        return [
            _problem(inputs, what, ("protocol", "thinking", "start"), f"it ends in {end}", remedy)
        ]
    return []


def _files(inputs: Inputs, model: LocalModel) -> tuple[Path, ...]:
    """The model's files; what is wrong with a package's name stands in the registration."""
    loaded = inputs.loaded
    try:
        return model_files(inputs.workspace, model.gguf)
    except InputError as exc:
        line = loaded.document.line_of(("model", "gguf"))
        raise InputError(
            *(p if p.file else replace(p, file=loaded.shown, line=line) for p in exc.problems)
        ) from exc


def _grammar(inputs: Inputs, inspector: Inspector) -> str:
    return _placed_grammar(inputs, lambda: inspector.compile(constraint_of(inputs.judge)))


def _placed_grammar(inputs: Inputs, make: Callable[[], str]) -> str:
    """The judge's schema as a grammar; where it is none, the judge file is what to mend."""
    try:
        return make()
    except EngineError as exc:
        problems = (replace(p, where="output") for p in exc.problems)
        raise EngineError(*(inputs.judge.placed(p) for p in problems)) from exc


def _render(
    inputs: Inputs, model: LocalModel, facts: ModelFacts, messages: Rendered
) -> list[tuple[PromptKey, str]]:
    """Every prompt's text, in plan order."""
    settings = TemplateSettings(
        fold_system=inputs.judge.spec.system_role == "fold",
        date=date.fromisoformat(model.template_date) if model.template_date else None,
        arguments=model.template_args or {},
    )
    return [(key, render_prompt(facts, said, settings=settings)) for key, said in messages.items()]


def _reply_lengths(inputs: Inputs, inspector: Inspector) -> list[Problem]:
    replies = inputs.judge.shortest_replies()
    cap = inputs.model.protocol.max_tokens
    lengths = [len(ids) for ids in inspector.tokenize(replies)] if replies else []
    needed = max(lengths, default=0)
    if needed <= cap:
        return []
    what = f"a whole reply such as {replies[lengths.index(needed)]} takes {needed} tokens"
    remedy = f"register at least {needed}"
    return [_problem(inputs, what, ("protocol", "max_tokens"), str(cap), remedy)]


def _unfit(
    inputs: Inputs, model: LocalModel, prompts: dict[PromptKey, Prompt], facts: ModelFacts
) -> list[Problem]:
    protocol, problems = inputs.model.protocol, []
    thinking = protocol.thinking
    for_reply = protocol.max_tokens + (thinking.max_tokens + 16 if thinking else 0)
    if model.n_ctx > facts.n_ctx_train > 0:
        what = f"the model was trained for a context of {facts.n_ctx_train} tokens"
        remedy = f"register at most {facts.n_ctx_train}"
        problems.append(_problem(inputs, what, ("model", "n_ctx"), str(model.n_ctx), remedy))
    files = {s.role: s.file for s in inputs.sets}
    lines = {(s.role, i.id): i.line for s in inputs.sets for i in s.items}
    for (role, item_id, _), prompt in prompts.items():
        if len(prompt.tokens) > model.n_ctx - for_reply:
            problems.append(
                Problem(
                    f"the prompt of row {item_id!r} does not fit: {len(prompt.tokens)} tokens "
                    f"and {for_reply} for the reply",
                    file=files[role],
                    line=lines[role, item_id],
                    found=f"n_ctx: {model.n_ctx}",
                    remedy="register a larger n_ctx, or shorten the row; nothing is ever cut",
                )
            )
        if prompt.tokens[:2] == (facts.bos_id, facts.bos_id):
            what = "the chat template writes the beginning-of-text token twice"
            problems.append(Problem(what, file=facts.path))
            break
    return capped(problems)


def safe_words(inputs: Inputs, facts: ModelFacts | None) -> list[str]:
    """What a reader should know of how this model's memory is used; empty where all is usual."""
    if facts is None or all(s.prefix == "whole" for s in every_setting(inputs.model)):
        return []
    if facts.recurrent:
        return [
            "This model is recurrent or hybrid: a part of what it has read cannot be dropped, so a "
            "shared beginning is read again wherever it cannot be copied whole."
        ]
    if facts.sliding_window:
        return [
            f"This model attends over a sliding window ({facts.sliding_window} tokens): its cache "
            "is kept at full size, so that a shared beginning is not forgotten."
        ]
    return []
