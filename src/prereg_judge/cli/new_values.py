"""What `prereg new` may be told: each value's flag, its place in the file, how it is asked for.

Knows neither how a registration is written nor what is valid; both are `registration`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from prereg_judge.registration import expressions
from prereg_judge.registration import settings_labellings as of_labellings
from prereg_judge.registration import settings_text as short
from prereg_judge.registration.schema import STUDIES_OF_LABELLINGS, STUDIES_OF_PAIRS

SAMPLED = "sampled,temperature=0.8,top_k=40,top_p=0.95,min_p=0.05"


@dataclass(frozen=True)
class Value:
    """One value of `DraftValues`.

    Attributes
    ----------
    flag
        The option that gives it.
    places
        Where it stands in the file, by which the loader names it; `#` = the judge whose verdicts
        are a file.
    question
        How a person is asked for it; None = it is never asked for.
    example
        What may be written after the flag, as a shell takes it.
    parse
        How an answer is read, where it is no plain text.
    studies
        The studies that take it, where not all do.
    """

    flag: str
    places: tuple[str, ...]
    question: str | None = None
    example: str = ""
    parse: Callable[[str], Any] = str
    studies: Collection[str] | None = None


CALLING = ("self-agreement", "path-fidelity", "pairwise")
_ENGINE: dict[str, Any] = {"studies": CALLING}
_OF_PAIRS: dict[str, Any] = {"studies": STUDIES_OF_PAIRS}
_OF_VOTES: dict[str, Any] = {"studies": (*STUDIES_OF_PAIRS, "annotators")}
_OF_LABELLINGS: dict[str, Any] = {"studies": STUDIES_OF_LABELLINGS}
_OF_SWAP: dict[str, Any] = {"studies": ("reference-swap",)}
_OF_ANNOTATORS: dict[str, Any] = {"studies": ("annotators",)}
_FILE = "data/spans.jsonl,item=id,A=by.A,B=by.B,gold=gold,C=by.C"
_VERDICT_PLACES = tuple(f"judges[#].{key}" for key in ("item", "models", "ab", "ba", "stratum"))
# In the order of asking.
VALUES: dict[str, Value] = {
    "sentinel": Value("--sentinel", ("items.sentinel",), "Sentinel item file (empty for none)",
                      **_ENGINE),
    "real": Value("--real", ("items.real",), "Real item file", **_ENGINE),
    "title": Value("--title", ("title",), "The question, in a sentence",
                   '"Does the judge answer twice alike?"'),
    "judge": Value("--judge", ("judge",), "Judge file", "judge/keep-drop.yaml", **_ENGINE),
    "gguf": Value("--gguf", ("model.gguf",), "GGUF model file", "models/judge.gguf", **_ENGINE),
    "n_ctx": Value("--n-ctx", ("model.n_ctx",), "Context length in tokens (prompt and reply)",
                   "4096", int, **_ENGINE),
    "n_gpu_layers": Value("--gpu-layers", ("model.n_gpu_layers",),
                          "Layers on the GPU (-1 all, 0 none)", "-1", int, **_ENGINE),
    "served_model": Value("--served-model", ("model.model",), "The model's name at the servers",
                          "qwen3-8b", **_ENGINE),
    "base_urls": Value("--base-url", ("model.base_urls",), **_ENGINE),
    "api_key_env": Value("--api-key-env", ("model.api_key_env",), **_ENGINE),
    "passes": Value("--passes", ("protocol.passes",), "Passes", "2", int, **_ENGINE),
    "orders": Value("--orders", ("protocol.orders",), **_ENGINE),
    "path": Value("--path", ("protocol.path",), **_ENGINE),
    "prefix": Value("--prefix", ("protocol.prefix",), "Prefix: shared (read once) or whole",
                    "shared", **_ENGINE),
    "decoding": Value("--decoding", ("protocol.decoding",),
                      f"Decoding (e.g. {SAMPLED}; off: top_k=0, top_p=1, min_p=0)", SAMPLED,
                      short.parse_decoding, **_ENGINE),
    "max_tokens": Value("--max-tokens", ("protocol.max_tokens",), "Longest reply in tokens", "64",
                        int, **_ENGINE),
    "parallel": Value("--parallel", ("protocol.parallel",), **_ENGINE),
    "hang": Value("--hang", ("protocol.hang",),
                  "Time-out of a call and retries (e.g. 120s,retries=1)", "120s,retries=1",
                  short.parse_hang, **_ENGINE),
    "arms": Value("--arm", ("protocol.arms",), **_ENGINE),
    "missing": Value("--missing", ("missing",),
                     "How a trial without a verdict counts (disagree, exclude, undefined)",
                     "disagree", **_ENGINE),
    "votes": Value("--votes", ("annotations.file", "annotations"), "File of annotators' votes",
                   "data/votes.csv", **_OF_VOTES),
    "layout": Value("--layout", ("annotations.layout",),
                    "Layout of the votes (long, mt-bench, multipref)", "mt-bench", **_OF_VOTES),
    "columns": Value("--column", ("annotations.columns",),
                     "Their columns (e.g. item=item,annotator=who,pool=pool,label=vote)",
                     "item=item,annotator=who,pool=pool,label=vote",
                     lambda text: short.parse_columns([text]), **_OF_VOTES),
    "labels": Value("--label", ("annotations.labels",), **_OF_VOTES),
    "preference": Value("--preference", ("annotations.preference",),
                        "Which preference is read (overall_pref, helpful_pref, ...)",
                        "overall_pref", **_OF_VOTES),
    "labellings": Value("--labellings", ("labellings.files", "labellings"),
                        f"File of labellings (e.g. {_FILE})", _FILE,
                        lambda text: (of_labellings.parse_labelling_file(text),),
                        **_OF_LABELLINGS),
    "form": Value("--form", ("labellings.form",), "What they are (spans, labels)", "spans",
                  **_OF_LABELLINGS),
    "outputs": Value("--outputs", ("labellings.outputs",), "What is scored (e.g. A,B)", "A,B",
                     partial(of_labellings.parse_names, option="--outputs"), **_OF_SWAP),
    "references": Value("--references", ("labellings.references",),
                        "What it is scored against, the delivered one first (e.g. gold,C)",
                        "gold,C", partial(of_labellings.parse_names, option="--references"),
                        **_OF_SWAP),
    "match": Value("--match", ("labellings.match",),
                   "When two marks are the same (strict, relaxed, coarse)", "relaxed", **_OF_SWAP),
    "pools": Value("--pool", ("annotations.pools", "labellings.pools"),
                   "The pools, pool 1 first (e.g. expert=expert_*,crowd=author_*)",
                   '"expert=expert_*" --pool "crowd=author_*"',
                   lambda text: short.parse_pools([text]), **_OF_VOTES),
    "key": Value("--key", ("annotations.key",), "Which votes are on one pair (stored, unordered)",
                 "unordered", **_OF_VOTES),
    "split": Value("--split", ("annotations.split",), "A pool that is split evenly (tie, exclude)",
                   "tie", **_OF_VOTES),
    "gap": Value("--gap", ("annotations.gap",), **_OF_PAIRS),
    "sample": Value("--sample", ("annotations.sample",), **_OF_PAIRS),
    "duplicates": Value("--duplicates", ("labellings.duplicates",),
                        "Rows of one item (keep_all, first, drop, merge_equal)", "keep_all",
                        **_OF_LABELLINGS),
    "merge": Value("--merge", ("merge",), **_OF_LABELLINGS),
    "family": Value("--family", ("family",), **_OF_SWAP),
    "scale_order": Value("--order", ("scale.order", "scale"), **_OF_ANNOTATORS),
    "scale_values": Value("--value", ("scale.values", "scale"), **_OF_ANNOTATORS),
    "adjudication": Value("--adjudication", ("adjudication",), **_OF_ANNOTATORS),
    "judge_runs": Value("--judge-run", ("judges",),
                        "A run of the judge (e.g. qwen=my-pairs/1:1; empty for a file of verdicts)",
                        "qwen=my-pairs/1:1", lambda text: (short.parse_judge_run(text),),
                        studies=("judge-pools",)),
    "verdicts": Value("--verdicts", ("judges[#].file", "judges[#].name"),
                      "The judge's name and file of verdicts (e.g. qwen=data/verdicts.jsonl)", "",
                      short.parse_verdicts, studies=("pairwise", "judge-pools")),
    "verdict_columns": Value("--verdict-columns", _VERDICT_PLACES,
                             "Columns of the verdicts (e.g. item=id,ab=slot_ab,ba=slot_ba)",
                             "item=id,ab=slot_ab,ba=slot_ba", short.parse_verdict_columns),
    "says": Value("--says", ("judges[#].says",),
                  "What a verdict is said of (slots = the answers as shown, answers = a and b)",
                  "slots"),
    "words": Value("--word", ("judges[#].words",), "What its words mean (e.g. A=a,B=b,tie=tie)",
                   "A=a,B=b,tie=tie", lambda text: short.parse_words([text], option="--word")),
    "resolve": Value("--resolve", ("resolve",),
                     "How two orders become one verdict (agree_or_tie, average, first)",
                     "agree_or_tie", studies=("pairwise", "judge-pools")),
    "resampling": Value("--resampling", ("resampling",),
                        "Resampling behind the intervals (e.g. 2000,seed=20261130[,by_stratum])",
                        "2000,seed=20261130", short.parse_resampling,
                        studies=(*STUDIES_OF_PAIRS, *STUDIES_OF_LABELLINGS)),
    "assumed": Value("--assume", ("assumed",), studies=("leaderboard",)),
    "seen": Value("--seen", ("exposure.seen",),
                  "What had already been run or seen of these inputs",
                  '"one run of the same rows, last week"'),
    "primary": Value("--primary", ("primary",),
                     "Id of the band or prediction that the question is about"),
    "study": Value("--study", ("study",)),
    "due": Value("--due", ("due",)),
    "notes": Value("--notes", ("notes",)),
    "bands": Value("--band", ("bands",), "A band (e.g. {})", "",
                   lambda text: (expressions.parse_band(text),)),
    "predictions": Value("--predict", ("predictions",)),
    "refuters": Value("--refute", ("refuters",)),
    "stop": Value("--stop", ("stop",)),
    "decisions": Value("--decide", ("decisions",)),
}  # fmt: skip
