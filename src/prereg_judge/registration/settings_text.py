"""Reads the short forms of settings on the command line: decoding, limits, arms, tables.

What they mean is the registration's question: a word that is none, or a number out of range, is
refused by the form of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from prereg_judge.registration.scanner import NAME, Scanner, whole
from prereg_judge.strict_yaml import MAX_INT

_DRAWN = ("temperature", "top_k", "top_p", "min_p")
_MODE_KEYS = {"sampled": _DRAWN, "seeded": ("seed", *_DRAWN), "greedy": ()}
_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60}

_DECODING_EXAMPLE = "sampled,temperature=0.8,top_k=40,top_p=0.95,min_p=0.05"
_OFF = "top_k=0, top_p=1 and min_p=0 are off"
_HANG_EXAMPLE = "120s,retries=1,heartbeat=30s"
_ARM_EXAMPLE = "path=choice,prefix=shared,parallel=4"
_RESAMPLING_EXAMPLE = "2000,seed=20261130"
_SAMPLE_EXAMPLE = "200,seed=7"
_ASSUMED_EXAMPLE = "span=0.201,shift_sd=0.0187"
_COLUMNS_EXAMPLE = "item=comparison,annotator=worker,label=choice"
_POOL_EXAMPLE = "expert=expert_*"
_WORDS_EXAMPLE = "A=a"
_RUN_EXAMPLE = "qwen=my-pairs/1:1"
_VERDICTS_EXAMPLE = "qwen=data/verdicts.jsonl"
_VERDICT_COLUMNS_EXAMPLE = "item=question_id,models=model_a+model_b,ab=slot_ab,ba=slot_ba"
_LISTS = ("item", "models")
_VERDICT_COLUMNS = (*_LISTS, "ab", "ba", "stratum")
_ARM_WORDS = ("path", "prefix")
_ARM_NUMBERS = ("parallel", "n_gpu_layers", "n_threads", "n_batch")


def parse_decoding(text: str, *, option: str = "--decoding") -> dict[str, Any]:
    """`greedy`, or `sampled,temperature=0.8,...`, as the mapping under `decoding`."""
    scan = Scanner(text, option=option, example=_DECODING_EXAMPLE)
    mode = scan.take(NAME)
    if mode is None or mode.group() not in _MODE_KEYS:
        scan.at = 0
        scan.fail("expected sampled, seeded or greedy")
    known = _MODE_KEYS[mode.group()]
    settings: dict[str, Any] = {"mode": mode.group()}
    while scan.word(","):
        key, start = scan.take(NAME), scan.at
        if key is None or key.group() not in known or key.group() in settings:
            scan.at = start - (len(key.group()) if key else 0)
            takes = f"takes each of {', '.join(known)} once" if known else "takes no settings"
            scan.fail(f"{mode.group()} {takes}, not what stands")
        if not scan.word("="):
            scan.fail("expected `=`")
        settings[key.group()] = scan.number()
    scan.end()
    missing = [k for k in known if k not in settings]
    if missing:
        scan.fail(f"{mode.group()} also needs {', '.join(missing)}", _OFF)
    return settings


def parse_hang(text: str, *, option: str = "--hang") -> dict[str, Any]:
    """`120s,retries=1[,heartbeat=30s]` as the mapping under `hang`; s and m are known units."""
    scan = Scanner(text, option=option, example=_HANG_EXAMPLE)
    settings: dict[str, Any] = {"call_timeout_s": _duration(scan)}
    while scan.word(","):
        start = scan.at
        key = scan.take(NAME)
        name = key.group() if key else ""
        if name not in ("retries", "heartbeat") or {name, f"{name}_s"} & settings.keys():
            scan.at = start
            scan.fail("expected retries or heartbeat, each once")
        if not scan.word("="):
            scan.fail("expected `=`")
        if name == "retries":
            settings["retries"] = whole(scan)
        else:
            settings["heartbeat_s"] = _duration(scan)
    scan.end()
    if "retries" not in settings:
        scan.fail("also needs retries=N")
    return settings


def parse_arm(text: str, *, option: str = "--arm") -> dict[str, Any]:
    """`path=choice,prefix=shared,parallel=4` as one entry under `arms`; each key at most once."""
    scan = Scanner(text, option=option, example=_ARM_EXAMPLE)
    settings: dict[str, Any] = {}
    while True:
        start = scan.at
        key = scan.take(NAME)
        name = key.group() if key else ""
        if name not in (*_ARM_WORDS, *_ARM_NUMBERS) or name in settings:
            scan.at = start
            scan.fail(f"expected one of {', '.join((*_ARM_WORDS, *_ARM_NUMBERS))}, each once")
        if not scan.word("="):
            scan.fail("expected `=`")
        if name in _ARM_NUMBERS:
            settings[name] = _number(scan)
        else:
            word = scan.take(NAME)
            settings[name] = word.group() if word else scan.fail("expected a word")
        if not scan.word(","):
            scan.end()
            return settings


def parse_orders(text: str) -> tuple[str, ...]:
    """`ab,ba` as the list under `orders`, whatever the words are."""
    return tuple(order.strip() for order in text.split(","))


def parse_resampling(text: str, *, option: str = "--resampling") -> dict[str, Any]:
    """`2000,seed=7[,by_stratum]` as the mapping under `resampling`."""
    scan = Scanner(text, option=option, example=_RESAMPLING_EXAMPLE)
    settings = {"resamples": whole(scan), "seed": _seed(scan), "by_stratum": False}
    if scan.word(","):
        if not scan.word("by_stratum"):
            scan.fail("expected by_stratum, or nothing")
        settings["by_stratum"] = True
    scan.end()
    return settings


def parse_sample(text: str, *, option: str = "--sample") -> dict[str, Any]:
    """`200,seed=7` as the mapping under `annotations.sample`."""
    scan = Scanner(text, option=option, example=_SAMPLE_EXAMPLE)
    settings = {"items": whole(scan), "seed": _seed(scan)}
    scan.end()
    return settings


def _seed(scan: Scanner) -> int:
    if not (scan.word(",") and scan.word("seed") and scan.word("=")):
        scan.fail("expected `,seed=` and a whole number")
    return whole(scan)


def parse_assumed(text: str, *, option: str = "--assume") -> dict[str, Any]:
    """`span=0.201,shift_sd=0.0187` as the mapping under `assumed`."""
    scan = Scanner(text, option=option, example=_ASSUMED_EXAMPLE)
    settings: dict[str, Any] = {}
    while True:
        name = key_of(scan, ("span", "shift_sd"), settings)
        settings[name] = scan.number()
        if not scan.word(","):
            break
    scan.end()
    if len(settings) < 2:
        scan.fail("needs both span and shift_sd")
    return settings


def parse_columns(texts: Iterable[str], *, option: str = "--column") -> dict[str, str]:
    """`item=comparison`, several or with commas, as the mapping under `annotations.columns`."""
    columns: dict[str, str] = {}
    for text in texts:
        scan = Scanner(text, option=option, example=_COLUMNS_EXAMPLE)
        while True:
            role = key_of(scan, (), columns)
            columns[role] = cell(scan, CELL)
            if not scan.word(","):
                break
        scan.end()
    return columns


def parse_words(texts: Iterable[str], *, option: str) -> dict[str, str]:
    """`A=a`, several or with commas: what each word of a file means."""
    words: dict[str, str] = {}
    for text in texts:
        scan = Scanner(text, option=option, example=_WORDS_EXAMPLE)
        while True:
            start = scan.at
            word = cell(scan, WORD)
            if word in words:
                scan.at = start
                scan.fail("means two things")
            if not scan.word("="):
                scan.fail("expected `=` and a, b or tie")
            words[word] = cell(scan, CELL)
            if not scan.word(","):
                break
        scan.end()
    return words


def parse_pools(texts: Iterable[str], *, option: str = "--pool") -> tuple[dict[str, Any], ...]:
    """`expert=expert_*|author_*`, several or with commas, as the list under `annotations.pools`."""
    pools: list[dict[str, Any]] = []
    for text in texts:
        scan = Scanner(text, option=option, example=_POOL_EXAMPLE)
        while True:
            name = _named(scan)
            patterns = [cell(scan, _PATTERN)]
            while scan.word("|"):
                patterns.append(cell(scan, _PATTERN))
            pools.append({"name": name, "match": patterns if len(patterns) > 1 else patterns[0]})
            if not scan.word(","):
                break
        scan.end()
    return tuple(pools)


def parse_judge_run(text: str, *, option: str = "--judge-run") -> dict[str, Any]:
    """`qwen=my-pairs/1:2` as an entry of `judges`: a name, an earlier run, one of its passes."""
    scan = Scanner(text, option=option, example=_RUN_EXAMPLE)
    judge: dict[str, Any] = {"name": _named(scan)}
    run = scan.take(_RUN)
    if run is None:
        scan.fail("expected the id of a registration, or ID/N")
    judge["run"] = run.group().strip()
    if not scan.word(":"):
        scan.fail("expected `:` and the pass")
    judge["pass"] = whole(scan)
    scan.end()
    return judge


def parse_verdicts(text: str, *, option: str = "--verdicts") -> dict[str, str]:
    """`qwen=data/verdicts.jsonl` as the beginning of an entry of `judges`."""
    scan = Scanner(text, option=option, example=_VERDICTS_EXAMPLE)
    name = _named(scan)
    return {"name": name, "file": scan.rest("a file")}


def parse_verdict_columns(text: str, *, option: str = "--verdict-columns") -> dict[str, Any]:
    """`item=question_id,models=model_a+model_b,ab=slot_ab` as keys of an entry of `judges`."""
    scan = Scanner(text, option=option, example=_VERDICT_COLUMNS_EXAMPLE)
    columns: dict[str, Any] = {}
    while True:
        name = key_of(scan, _VERDICT_COLUMNS, columns)
        found = [cell(scan, _COLUMN)]
        while name in _LISTS and scan.word("+"):
            found.append(cell(scan, _COLUMN))
        columns[name] = found if name in _LISTS else found[0]
        if not scan.word(","):
            break
    scan.end()
    lacking = [name for name in ("item", "ab") if name not in columns]
    if lacking:
        scan.fail(f"also needs {' and '.join(lacking)}")
    return columns


# Text up to a mark that ends it; in quotes it may hold any.
CELL = re.compile(r"""(?:"([^"]*)"|'([^']*)'|([^,"']*))""")
WORD = re.compile(r"""(?:"([^"]*)"|'([^']*)'|([^=,"']*))""")
_PATTERN = re.compile(r"""(?:"([^"]*)"|'([^']*)'|([^|,"']*))""")
_COLUMN = re.compile(r"""(?:"([^"]*)"|'([^']*)'|([^+,"']*))""")
_RUN = re.compile(r"[^:]+")


def cell(scan: Scanner, pattern: re.Pattern[str], *, blank: bool = False) -> str:
    """A text, quoted or up to the next mark; with `blank`, two quotes stand for an empty one."""
    start = scan.at
    match = scan.take(pattern)
    assert match is not None  # it matches nothing too
    quoted = match.group(1) if match.group(1) is not None else match.group(2)
    text = quoted if quoted is not None else match.group(3).strip()
    if not text.strip() and not (blank and quoted is not None):
        scan.at = start
        scan.fail("expected a name, in quotes where it holds a mark,")
    return text


def _named(scan: Scanner) -> str:
    """`NAME=`, as pools and judges begin."""
    name = cell(scan, WORD)
    if not scan.word("="):
        scan.fail("expected `=` behind the name")
    return name


def key_of(scan: Scanner, known: tuple[str, ...], taken: Iterable[str]) -> str:
    """`KEY=` with a key that is known, where any are, and not taken."""
    scan.space()
    start = scan.at
    key = scan.take(NAME)
    name = key.group() if key else ""
    if not name or (known and name not in known) or name in taken:
        scan.at = start
        what = f"one of {', '.join(known)}" if known else "a key"
        scan.fail(f"expected {what}, once,")
    if not scan.word("="):
        scan.fail("expected `=`")
    return name


def _number(scan: Scanner) -> int:
    """A whole number that may be below 0, as in `n_gpu_layers=-1`."""
    start = scan.at
    value = scan.number()
    if not isinstance(value, int):
        scan.at = start
        scan.fail("expected a whole number")
    return value


_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|min|m)?(?![\w.])")


def _duration(scan: Scanner) -> int | float:
    match = scan.take(_DURATION)
    if match is None:
        scan.fail("expected seconds, such as 120s or 2m")
    text, unit = match.groups()
    value = (float(text) if "." in text else int(text)) * _SECONDS[unit or ""]
    if not 0 < value <= MAX_INT:
        scan.at = match.start()
        scan.fail("expected a time above 0")
    return value
