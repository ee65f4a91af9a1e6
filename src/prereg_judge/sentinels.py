"""Confirm sentinels by rule: is this edit of the kind it is declared to be, and nothing more?

A sentinel is a row whose answer is known because its edit changes nothing. The three rules here
show that with no model call, and say for each row that they cannot confirm which tokens differ
and why that is not the declared kind. They are meant to refuse too much rather than too little:
a real sentinel that is refused costs one row, a real change that is confirmed makes every number
computed on the set wrong. They cannot read: of grammar they know the few words listed below.
Knows nothing of files, judges or models; pure functions on strings.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, NamedTuple, get_args

from prereg_judge.errors import Problem, raise_all
from prereg_judge.wording import capped

SentinelKind = Literal["punctuation", "numeral", "synonym"]
SENTINEL_KINDS: tuple[SentinelKind, ...] = get_args(SentinelKind)

# Stated in every confirmation. Raise them when a rule, or the synonym table, changes.
RULES_VERSION = 1
SYNONYMS_VERSION = 1

_words = str.split

# Symmetric pairs, not groups: a/b and b/c do not make a/c. Each holds in every sense in which
# both words are grammatical; words with a second meaning of their own ("complete", "large",
# "select", "permit") are left out on purpose.
SYNONYMS: frozenset[frozenset[str]] = frozenset(
    frozenset(pair.split("/"))
    for pair in _words(
        "allowed/permitted assist/help assists/helps assisted/helped begin/start begins/starts "
        "began/started buy/purchase buys/purchases buying/purchasing bought/purchased "
        "choosing/selecting chosen/selected displayed/shown error/mistake errors/mistakes "
        "immediately/instantly incorrect/wrong mend/repair mended/repaired need/require "
        "needs/requires needed/required normally/usually phone/telephone photo/picture "
        "photos/pictures quickly/rapidly replied/responded reply/respond speak/talk"
    )
)

_SCALES = _words("hundred thousand")
_TENS = _words("twenty thirty forty fifty sixty seventy eighty ninety")
_BELOW_HUNDRED = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
# Only with the hyphen: "twenty five dollar notes" may be 25 notes or 20 of them.
_BELOW_HUNDRED += [
    f"{ten}-{one}".removesuffix("-zero") for ten in _TENS for one in _BELOW_HUNDRED[:10]
]
# Ordinals that are not the cardinal with "th", by the cardinal's last word.
_ORDINALS = dict(
    pair.split("/")
    for pair in _words(
        "one/first two/second three/third five/fifth eight/eighth nine/ninth twelve/twelfth"
    )
) | {ten: ten[:-1] + "ieth" for ten in _TENS}

# Beside these, a mark decides what is denied or meant: "No, refunds are free"; "all, but fees".
_SCOPE = _words("no not yes never none nor neither without cannot only all nothing anything")
# Before these a comma is optional; anywhere else it may change who does what to whom.
_CONJUNCTIONS = _words("and or but although though")
# "no one" counts nobody; "the second floor" is an ordinal, "a twenty-second wait" is not.
_ONE_IS_NO_COUNT_AFTER = _words("no any every each some")
_SECOND_IS_ORDINAL_AFTER = _words("the your our my their his her its")

_DASHES = "-\u2013\u2014"
_CURRENCY = "$\u00a2\u00a3\u00a4\u00a5\u20ac\u20b9"
# Quotes and hyphens to plain ones; the minus sign U+2212 stays a sign.
_FORMS = str.maketrans("\u2018\u2019\u201a\u201c\u201d\u201e\u2010\u2011", "'''" + '"""--')
# A word or number with what belongs inside it (3.5, 1,000, 10:30, don't, twenty-four,
# example.com), or a mark that is not plain punctuation, or something that may stand between words.
_SCAN = re.compile(
    r"""
    (?P<token>
        (?:(?<![\w.])\.(?=\d))? [^\W_]+
        (?:(?:['.\-\u2013](?=[^\W_]) | (?<=\d)[:,](?=\d)) [^\W_]+)*
      | \.{2,} | !{2,}
    )
    | (?P<gap> \s+ | [.,;:!'"] | \u2014 | -{2,} | (?<!\S)[-\u2013](?!\S) )
    | (?P<symbol> . )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Confirmation:
    """The name and version of a rule (`none` for a kind without one), and what it found and why."""

    confirmed: bool
    rule: str
    reason: str


@dataclass(frozen=True)
class RowCheck:
    """One row's confirmation: its place (from 0), id (or `row N`), declared kind, and outcome."""

    index: int
    id: str
    kind: str
    confirmation: Confirmation


@dataclass(frozen=True)
class KindCount:
    """How many rows declare a kind, and how many of them were confirmed."""

    kind: str
    rows: int
    confirmed: int


@dataclass(frozen=True)
class SentinelReport:
    """The check of a whole set: its rows in order, and counts per kind as kinds first appear.

    `distinct` is the number of different pairs of texts in NFC: copies under new ids count once.
    `duplicates` holds the ids that share one pair of texts, a group an entry.
    """

    rows: tuple[RowCheck, ...]
    kinds: tuple[KindCount, ...]
    distinct: int
    duplicates: tuple[tuple[str, ...], ...]

    @property
    def unconfirmed(self) -> tuple[RowCheck, ...]:
        """The rows that no rule confirms."""
        return tuple(row for row in self.rows if not row.confirmation.confirmed)

    @property
    def all_confirmed(self) -> bool:
        """Whether every row is confirmed; False for an empty set, which shows nothing."""
        return bool(self.rows) and not self.unconfirmed


class _Token(NamedTuple):
    """A word, number or symbol, and what stands between it and the one before."""

    gap: str
    text: str


def _scan(text: str) -> list[_Token]:
    """Split `text`; the last token is empty and holds what stands at the end."""
    tokens: list[_Token] = []
    gap = ""
    for match in _SCAN.finditer(text.translate(_FORMS).replace("\u2026", "...")):
        if match.lastgroup == "gap":
            gap += match.group()
            continue
        found = match.group()
        if match.lastgroup == "token" and found[-1].isalnum():
            found = found.replace("\u2013", "-")  # 5-7 and 5\u20137 are one range
        tokens.append(_Token(gap, "-" if found == "\u2013" else found))
        gap = ""
    return [*tokens, _Token(gap, "")]


def _differing(one: list[_Token], two: list[_Token]) -> str:
    """Say in words where two token sequences differ, case aside: the first three places."""
    a, b = ([t.text for t in tokens] for tokens in (one, two))
    folded = [t.casefold() for t in a], [t.casefold() for t in b]
    said = [
        f"{' '.join(a[i1:i2])!r} became {' '.join(b[j1:j2])!r}"
        for op, i1, i2, j1, j2 in SequenceMatcher(None, *folded, autojunk=False).get_opcodes()
        if op != "equal"
    ]
    more = f" and {len(said) - 3} more" if len(said) > 3 else ""
    return "; ".join(said[:3]).replace("''", "nothing") + more


def _break(gap: str) -> str:
    """Class of what stands between two tokens: `stop`, `pause`, `comma`, or `` for a space."""
    classes = ("stop", ".!"), ("pause", ";:" + _DASHES), ("comma", ",")
    return next((name for name, marks in classes if set(marks) & set(gap)), "")


def _gap_problem(before: str, one: _Token, two: _Token) -> str | None:
    """Say why the change from one gap to another may carry meaning, or None where it does not."""
    old, new = (re.sub(r"\s+", "", t.gap) for t in (one, two))
    after = one.text
    where = f"between {before!r} and {after!r}, {old or 'a space'!r} became {new or 'a space'!r}"
    if re.findall("['\"]", old) != re.findall("['\"]", new):
        return f"{where}: a quotation mark or apostrophe was added or removed"
    if not after:
        return None  # the end of the text: any mark or none
    if before[-1:].isdigit() and after[0].isdigit() and old != new:
        return f"{where}: marks between two numbers can belong to the numbers"
    number = after[0] in _CURRENCY or after.lstrip(".")[:1].isdigit()
    if number and bool(set(old) & set(_DASHES)) != bool(set(new) & set(_DASHES)):
        return f"{where}: a dash before a number can be a minus sign"
    a, b = _break(one.gap), _break(two.gap)
    if a == b or (a and b):
        return None
    words = before.casefold(), after.casefold()
    if any(w in _SCOPE or w.endswith("n't") for w in words):
        return f"{where}: beside {' or '.join(words)!r} a mark decides what is denied"
    if "\n" in one.gap and "\n" in two.gap:
        return None  # a line ends there in both
    if {a, b} == {"", "comma"}:
        if words[1] in _CONJUNCTIONS:
            return None
        return f"{where}: a comma that stands before no conjunction can change what belongs where"
    return f"{where}: a mark that splits or joins sentences was added or removed"


def _case_problem(one: _Token, two: _Token) -> str | None:
    """Say why a change of case is not explained by a sentence that begins or no longer begins."""
    if one.text == two.text:
        return None
    upper, lower = (one, two) if one.text[0].isupper() else (two, one)
    begins = _break(upper.gap) == "stop" != _break(lower.gap)
    if begins and upper.text[0].lower() + upper.text[1:] == lower.text:
        return None
    return f"{one.text!r} became {two.text!r}: no sentence begins or ends there"


def _punctuation(a: list[_Token], b: list[_Token]) -> tuple[bool, str]:
    """Same words and numbers; between them only marks that carry no meaning differ."""
    said = _differing(a, b)
    if said:
        return False, f"{said}: punctuation changes no word, number or symbol"
    before = ""
    for one, two in zip(a, b, strict=True):
        problem = _case_problem(one, two) or _gap_problem(before, one, two)
        if problem:
            return False, problem
        before = one.text
    return True, f"{len(a) - 1} tokens are the same; only punctuation, spacing or quotes differ"


def _cardinal(n: int) -> list[str]:
    """Spell a whole number below 100,000, with and without "and"."""
    if n < 100:
        return [_BELOW_HUNDRED[n]]
    scale, name = (1000, "thousand") if n >= 1000 else (100, "hundred")
    heads, rest = [f"{head} {name}" for head in _cardinal(n // scale)], n % scale
    if not rest:
        return heads
    joins = (" and ", " ") if rest < 100 else (" ",)
    return [h + join + tail for h in heads for join in joins for tail in _cardinal(rest)]


def _spelled(figure: str) -> list[str]:
    """All spellings of 3, 1,000, 21st or 3-day in words; none where the rule cannot read it."""
    read = re.fullmatch(r"([0-9]{1,5}|[0-9]{1,2},[0-9]{3})(st|nd|rd|th)?(-[a-z-]+)?", figure)
    if not read or (read[1][0] == "0" and read[1] != "0"):
        return []  # not a whole number below 100,000, or a code such as 007
    n, ordinal, tail = int(read[1].replace(",", "")), read[2], read[3] or ""
    words = _cardinal(n)
    if ordinal:
        last = {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
        if ordinal != ("th" if n // 10 % 10 == 1 else last):
            return []
        split = [re.fullmatch(r"(.*?)([a-z]+)", word) for word in words]
        words = [m[1] + _ORDINALS.get(m[2], f"{m[2]}th") for m in split if m]
    return [word + tail for word in words]


def _numeral(a: list[_Token], b: list[_Token]) -> tuple[bool, str]:
    """Everything the same but for numbers written once in words and once in figures."""
    at, to, said = 0, 0, []
    while at < len(a):  # both end at once: the empty last token equals nothing but its like
        one, two = a[at], b[to]
        if one.gap != two.gap:
            return False, f"{one.gap!r} became {two.gap!r} before {one.text!r}: not a numeral"
        if one.text == two.text:
            at, to = at + 1, to + 1
            continue
        figures_first = one.text[:1].isdigit()
        rest, start = (b, to) if figures_first else (a, at)
        size = _spelled_at(one.text if figures_first else two.text, rest, start)
        if not size:
            return False, f"{_differing(a, b)}: not one whole number in words and in figures"
        words = " ".join(t.text for t in rest[start : start + size])
        said.append(f"{(one if figures_first else two).text} is {words!r}")
        at, to = (at + 1, to + size) if figures_first else (at + size, to + 1)
    return bool(said), "; ".join(said) or "no number was edited"


def _spelled_at(figure: str, tokens: list[_Token], at: int) -> int:
    """How many tokens from `at` on spell `figure`; 0 where they do not, or may mean otherwise."""
    before = tokens[at - 1].text.casefold() if at else ""
    for words in (spelling.split() for spelling in _spelled(figure)):
        end = at + len(words)
        after = [t.text.casefold() for t in tokens[end : end + 2] if t.text.casefold() != "and"]
        goes_on = _SCALES + (_BELOW_HUNDRED if words[-1] in _SCALES else [])
        if (
            [t.text.casefold() for t in tokens[at:end]] == words
            and all(t.gap == " " for t in tokens[at + 1 : end])
            and not set(after[:1]) & set(goes_on)
            and not (words[0].startswith("one") and before in _ONE_IS_NO_COUNT_AFTER)
            and not ("second" in words[-1] and before not in _SECOND_IS_ORDINAL_AFTER)
        ):
            return len(words)
    return 0


def _synonym(a: list[_Token], b: list[_Token]) -> tuple[bool, str]:
    """Everything the same but for words exchanged for their pair in the table."""
    said = _differing(a, b)
    if len(a) != len(b):
        return False, f"{said}: a synonym replaces one word by one word"
    for one, two in zip(a, b, strict=True):
        if one.gap != two.gap:
            return False, f"{one.gap!r} became {two.gap!r} before {one.text!r}: not a synonym"
        if one.text == two.text:
            continue
        if frozenset((one.text.lower(), two.text.lower())) not in SYNONYMS:
            return False, f"{said}: not a pair in synonym table {SYNONYMS_VERSION}"
        if one.text.istitle() != two.text.istitle() or not (one.text[1:] + two.text[1:]).islower():
            return False, f"{said}: the case changed as well"
    return bool(said), f"{said or 'no word was exchanged'}: synonym table {SYNONYMS_VERSION}"


_RULES: dict[str, Callable[[list[_Token], list[_Token]], tuple[bool, str]]]
_RULES = dict(zip(SENTINEL_KINDS, (_punctuation, _numeral, _synonym), strict=True))


def confirm(original: str, rewrite: str, kind: str) -> Confirmation:
    """Confirm by rule that `rewrite` differs from `original` in the declared kind and no more.

    Both texts are compared in Unicode form NFC. `punctuation` allows spacing, straight or curly
    quotes, dash forms, any mark at the very end, one mark for another (with the capital that
    follows), and a comma before a conjunction. Signs inside numbers, currency and per cent signs,
    brackets, question marks, ellipses and repeated exclamation marks are no punctuation here.
    `numeral` allows a whole number below 100,000 in words for the same number in figures.
    `synonym` allows a pair of `SYNONYMS` in the same case.

    An edit of any other kind is not confirmed, nor one where the texts are equal in NFC ("nothing
    was edited") or hold no word.
    """
    one, two = unicodedata.normalize("NFC", original), unicodedata.normalize("NFC", rewrite)
    if kind not in _RULES:
        said = f"no rule is known for the kind {kind!r}" if kind else "the row declares no kind"
        return Confirmation(False, "none", f"{said}; rules exist for {', '.join(SENTINEL_KINDS)}")
    rule = f"{kind}/{RULES_VERSION}"
    if one == two:
        return Confirmation(False, rule, "nothing was edited")
    a, b = _scan(one), _scan(two)
    if not any(t.text[-1:].isalnum() for t in a):
        return Confirmation(False, rule, "the original holds no word")
    confirmed, reason = _RULES[kind](a, b)
    return Confirmation(confirmed, rule, reason)


def check_rows(
    rows: Sequence[Mapping[str, object]],
    *,
    original: str = "original",
    rewrite: str = "rewrite",
    places: Sequence[tuple[str | None, int | None]] = (),
) -> SentinelReport:
    """Confirm every row of a set, and count rows by kind and by content.

    `original` and `rewrite` name the fields that hold the texts, `places` each row's file and line.
    A row without a `kind` is not confirmed; no rows are not `all_confirmed`.

    Raises
    ------
    InputError
        Where a text is absent or is not text; such rows are named at once, up to 20.
    """
    names = [str(row.get("id", f"row {n}")) for n, row in enumerate(rows, start=1)]
    at = places or [(None, None)] * len(rows)
    has = ", ".join(name for row in rows[:1] for name in row if name not in ("id", "kind"))
    remedy = f"name the fields with the text before and after the edit; the first row has {has}"
    bad = [
        Problem(f"field {f!r} holds no text", file, line, name, repr(row.get(f))[:60], remedy)
        for name, row, (file, line) in zip(names, rows, at, strict=True)
        for f in (original, rewrite)
        if not isinstance(row.get(f), str)
    ]
    raise_all(capped(bad))
    checks: list[RowCheck] = []
    groups: dict[tuple[str, str], list[str]] = {}
    for index, (name, row) in enumerate(zip(names, rows, strict=True)):
        one, two = (unicodedata.normalize("NFC", str(row[f])) for f in (original, rewrite))
        kind = str(row.get("kind") or "")
        checks.append(RowCheck(index, name, kind, confirm(one, two, kind)))
        groups.setdefault((one, two), []).append(name)
    held = Counter(check.kind for check in checks if check.confirmation.confirmed)
    return SentinelReport(
        rows=tuple(checks),
        kinds=tuple(
            KindCount(kind, n, held[kind]) for kind, n in Counter(c.kind for c in checks).items()
        ),
        distinct=len(groups),
        duplicates=tuple(tuple(ids) for ids in groups.values() if len(ids) > 1),
    )
