"""Reads the short forms of settings that are about labellings: files, names, maps, scales.

What they mean is the registration's question: a word that is none, or a name that is nowhere, is
refused by the form of the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from prereg_judge.registration.scanner import Scanner
from prereg_judge.registration.settings_text import CELL, WORD, cell, key_of

_FILE_EXAMPLE = "data/spans.jsonl,item=id,stratum=part,A=labellings.A,gold=gold"
_NAMES_EXAMPLE = "A,B"
_MERGE_EXAMPLE = "Insult=abuse,Threat=abuse"
_VALUE_EXAMPLE = "low=1,mid=2,high=4"
_ADJUDICATION_EXAMPLE = "data/settled.csv,item=id,label=label"
# Keys of a file's entry; in quotes, a labelling may be called so.
_FILE_KEYS = ("format", "item", "stratum", "same", "tags")
_FORMATS = {".jsonl": "rows", ".ndjson": "rows", ".csv": "rows", ".parquet": "rows"}
_FORMATS |= {".conll": "conll", ".bio": "conll", ".iob": "conll", ".iob2": "conll"}
# What a format needs beside the labellings, and what it is.
_NEEDS = {"rows": ("item", "the column of the item's name"), "conll": ("tags", "iob1, iob2, bioes")}


def parse_labelling_file(text: str, *, option: str = "--labellings") -> dict[str, Any]:
    """`FILE,item=id,A=labellings.A,gold=gold` as an entry of `labellings.files`.

    The format follows from the file's ending, unless `format=` says it; every key that is none of
    an entry is the name of a labelling.
    """
    scan = Scanner(text, option=option, example=_FILE_EXAMPLE)
    file = cell(scan, CELL)
    told: dict[str, str] = {}
    places: dict[str, str | int] = {}
    while scan.word(","):
        scan.space()
        start = scan.at
        name = cell(scan, WORD)
        plain = scan.text[start] not in "\"'"
        into: dict[str, Any] = told if plain and name in _FILE_KEYS else places
        if name in into:
            scan.at = start
            scan.fail("expected each once, not")
        if not scan.word("="):
            scan.fail("expected `=`")
        into[name] = cell(scan, CELL)
    scan.end()
    form = told.pop("format", None) or _format_of(file, scan)
    if form == "conll":
        places = {name: _column(str(place)) for name, place in places.items()}
    need, what = _NEEDS.get(form, (None, ""))
    if need is not None and need not in told:
        scan.fail(f"the format {form} also needs {need}= ({what})")
    if not places:
        scan.fail("names no labelling", "add NAME=PLACE, where the labelling stands")
    return {"file": file, "format": form, **told, "labellings": places}


def _format_of(file: str, scan: Scanner) -> str:
    found = _FORMATS.get(PurePosixPath(file).suffix.lower())
    return found or scan.fail(
        "the file's ending does not say its format", "add format=rows, conll or brat"
    )


def _column(place: str) -> str | int:
    """The number of a column; what is none is left for the form of the file to refuse."""
    return int(place) if place.isascii() and place.isdecimal() and len(place) < 10 else place


def parse_names(text: str, *, option: str) -> tuple[str, ...]:
    """`A,B` as a list of names, in their order."""
    scan = Scanner(text, option=option, example=_NAMES_EXAMPLE)
    names = [cell(scan, CELL)]
    while scan.word(","):
        names.append(cell(scan, CELL))
    scan.end()
    return tuple(names)


def parse_merge(texts: Iterable[str], *, option: str = "--merge") -> dict[str, str]:
    """`Insult=abuse`, several or with commas, as the mapping under `merge`; `""` is a type too."""
    merged: dict[str, str] = {}
    for text in texts:
        scan = Scanner(text, option=option, example=_MERGE_EXAMPLE)
        while True:
            name = _unlike(scan, merged, "is merged twice")
            merged[name] = cell(scan, CELL)
            if not scan.word(","):
                break
        scan.end()
    return merged


def parse_scale_values(texts: Iterable[str], *, option: str = "--value") -> dict[str, float]:
    """`low=1`, several or with commas, as the mapping under `scale.values`."""
    values: dict[str, float] = {}
    for text in texts:
        scan = Scanner(text, option=option, example=_VALUE_EXAMPLE)
        while True:
            name = _unlike(scan, values, "has two numbers")
            values[name] = scan.number()
            if not scan.word(","):
                break
        scan.end()
    return values


def _unlike(scan: Scanner, taken: Iterable[str], what: str) -> str:
    """`LABEL=` with a label that was not given yet."""
    scan.space()
    start = scan.at
    name = cell(scan, WORD, blank=True)
    if name in taken:
        scan.at = start
        scan.fail(what)
    if not scan.word("="):
        scan.fail("expected `=`")
    return name


def parse_adjudication(text: str, *, option: str = "--adjudication") -> dict[str, str]:
    """`FILE,item=id,label=label` as the mapping under `adjudication`."""
    scan = Scanner(text, option=option, example=_ADJUDICATION_EXAMPLE)
    told = {"file": cell(scan, CELL)}
    while scan.word(","):
        name = key_of(scan, ("item", "label"), told)
        told[name] = cell(scan, CELL)
    scan.end()
    lacking = [name for name in ("item", "label") if name not in told]
    if lacking:
        scan.fail(f"also needs {' and '.join(f'{name}=' for name in lacking)}")
    return told
