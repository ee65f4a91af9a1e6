"""Sentinels are confirmed by rule, and an edit that carries meaning never is."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prereg_judge.errors import InputError
from prereg_judge.sentinels import SENTINEL_KINDS, SYNONYMS, _cardinal, check_rows, confirm

ROOT = Path(__file__).resolve().parents[1]


def _rows(path: str) -> list[dict[str, object]]:
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


SHIPPED = _rows("sentinels/customer-service-72.jsonl")

# Each carries meaning; none may be confirmed, whatever kind it claims to be.
PLANTED = [
    # a changed value
    ("You have 30 days.", "You have 20 days."),
    ("You have three days.", "You have 4 days."),
    ("You have thirty days.", "You have 13 days."),
    ("It is the second door.", "It is the 3rd door."),
    ("It is the 21st of May.", "It is the twenty-second of May."),
    ("Up to two hundred and fifty seats.", "Up to 205 seats."),
    ("Up to two hundred and fifty seats.", "Up to 200 and 50 seats."),
    ("A two-hour window.", "A 3-hour window."),
    ("Use code 007.", "Use code seven."),
    ("Use code 1234.", "Use code 1243."),
    ("Between one hundred and two hundred items.", "Between 102 hundred items."),
    ("Up to two, hundred seats.", "Up to 200 seats."),
    ("It is the 3th door.", "It is the third door."),
    ("Take one hundred and two more.", "Take 100 and two more."),
    ("Take twenty five dollar notes.", "Take 25 dollar notes."),
    ("No one can cancel.", "No 1 can cancel."),
    ("Wait a second please.", "Wait a 2nd please."),
    ("Set a twenty-second delay.", "Set a 22nd delay."),
    # a sign that belongs to a number
    ("The rate is 2.5 a year.", "The rate is 25 a year."),
    ("The fee is 1,000 dollars.", "The fee is 1.000 dollars."),
    ("The fee is 1,000 dollars.", "The fee is 1 000 dollars."),
    ("It costs .5 cents.", "It costs 5 cents."),
    ("It costs, say, .5 cents.", "It costs, say, 5 cents."),
    ("Choose 3. 5 is taken.", "Choose 3, 5 is taken."),
    ("The balance is -5 today.", "The balance is 5 today."),
    ("The balance is \u22125 today.", "The balance is 5 today."),
    ("Your balance - $5 today.", "Your balance, $5 today."),
    ("The doors open at 10:30.", "The doors open at 1030."),
    ("Delivery takes 3-5 days.", "Delivery takes 3 5 days."),
    ("Choose slots 3, 5 and 7.", "Choose slots 35 and 7."),
    ("Choose slots 3, 5 and 7.", "Choose slots 3 5 and 7."),
    ("The discount is 10%.", "The discount is 10."),
    ("The discount is 10%.", "The discount is $10."),
    ("The fee is $40.", "The fee is \u20ac40."),
    ("The fee is $40.", "The fee is 40."),
    ('The screen is 24" wide.', "The screen is 24 wide."),
    ("The balance is (50) now.", "The balance is 50 now."),
    # a negation, or what it covers
    ("We do ship abroad.", "We do not ship abroad."),
    ("You can cancel.", "You can't cancel."),
    ("No, refunds are free.", "No refunds are free."),
    ("No. Refunds are free.", "No refunds are free."),
    ("We do not ship. Tomorrow call us.", "We do not ship tomorrow. Call us."),
    ("It includes everything.", "It includes nothing."),
    ("Stop, don't wait and call.", "Stop don't, wait and call."),
    ("It covers anything but fees.", "It covers anything, but fees."),
    ("Only members, and guests pay.", "Only, members and guests pay."),
    # words
    ("Ask for Marta at the desk.", "Ask for Maria at the desk."),
    ("Please call the bank now.", "Please call the now."),
    ("Please call the bank now.", "Please call the the bank now."),
    ("The seller pays the buyer.", "The buyer pays the seller."),
    ("You must sign in.", "You may sign in."),
    ("Return it before Friday.", "Return it after Friday."),
    ("We purchase old phones.", "We sell old phones."),
    ("We buy old phones.", "We purchase old tablets."),
    ("We buy old phones.", "We do not purchase old phones."),
    ("Use it every day.", "Use it everyday."),
    ("Please re-sign the form.", "Please resign the form."),
    ("We're closed.", "Were closed."),
    ("We'll call.", "Well call."),
    ("The customers' data is kept.", "The customers data is kept."),
    ("Send it to us.", "Send it to US."),
    ("Please polish the shoes.", "Please Polish the shoes."),
    ("Your r\u00e9sum\u00e9 is here.", "Your resume is here."),
    # marks
    ("Buy it here.", "purchase it here."),
    ("We ship today\nCall us.", "We ship today. Call us."),
    ("You can wait.", "You can wait?"),
    ("It is free?", "It is free!"),
    ("Call, John will wait.", "Call John, will wait."),
    ("Please contact John.", "Please contact, John."),
    ("Guests who smoke pay more.", "Guests, who smoke, pay more."),
    ("We pay and/or repair.", "We pay and or repair."),
    ('The "free" gift is here.', "The free gift is here."),
    ("The gift is here.", 'The "gift" is here.'),
    ("Sure.", "Sure..."),
    ("Read this.", "Read this!!!"),
    ("Go to example.com now.", "Go to example com now."),
    ("Use the -v option.", "Use the v option."),
    ("Please call \u200bus.", "Please call us."),
]

# Nothing changes; each must be confirmed, for its kind alone.
HARMLESS = [
    ("punctuation", "We ship today.", "We ship today"),
    ("punctuation", "We ship today, and call.", "We ship today and call."),
    ("punctuation", "We ship; you wait.", "We ship. You wait."),
    ("punctuation", "Thank you! It ships.", "Thank you. It ships."),
    ("punctuation", "Press \u201cGo\u201d, it\u2019s on.", 'Press "Go", it\'s on.'),
    ("punctuation", "Open Monday-Friday - call.", "Open Monday\u2013Friday \u2014 call."),
    ("punctuation", "It is $2.50 here.  Pay.", "It is $2.50 here.\nPay."),
    ("punctuation", "Ready.\nPay now.", "Ready\nPay now."),
    ("punctuation", "Is it 10% off? Yes.", "Is it 10% off? Yes"),
    ("numeral", "Wait three days.", "Wait 3 days."),
    ("numeral", "Wait 24 hours.", "Wait twenty-four hours."),
    ("numeral", "Zero fees.", "0 fees."),
    ("numeral", "The 101st order.", "The one hundred and first order."),
    ("numeral", "It is the twelfth.", "It is the 12th."),
    ("numeral", "It is the fortieth.", "It is the 40th."),
    ("numeral", "Up to 12,345 seats.", "Up to twelve thousand three hundred and forty-five seats."),
    ("numeral", "A 24-hour line, 7 days.", "A twenty-four-hour line, seven days."),
    ("synonym", "Buy it here.", "Purchase it here."),
    ("synonym", "We can help and repair it.", "We can assist and mend it."),
]

WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=8)
TEXTS = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)


def test_shipped_set_is_confirmed() -> None:
    """Every shipped sentinel is confirmed, and the counts are the ones in its name."""
    report = check_rows(SHIPPED)
    assert [(r.id, r.confirmation.reason) for r in report.unconfirmed] == []
    assert report.all_confirmed
    counts = {k.kind: (k.rows, k.confirmed) for k in report.kinds}
    assert counts == {"punctuation": (48, 48), "numeral": (18, 18), "synonym": (6, 6)}


def test_shipped_set_is_distinct() -> None:
    """All 72 shipped rows differ by content, in id, original and question, and are DROP."""
    report = check_rows(SHIPPED)
    assert (report.distinct, report.duplicates) == (72, ())
    for field in ("id", "original", "question"):
        assert len({row[field] for row in SHIPPED}) == 72
    assert {row["label"] for row in SHIPPED} == {"DROP"}


def test_shipped_rows_hold_under_no_other_kind() -> None:
    """A shipped sentinel is confirmed for the kind it declares and for no other."""
    for row in SHIPPED:
        for kind in set(SENTINEL_KINDS) - {row["kind"]}:
            assert not confirm(str(row["original"]), str(row["rewrite"]), kind).confirmed, row["id"]


def test_sample_data_is_not_confirmed() -> None:
    """No row of the sample data passes as a sentinel, and its rows differ by content."""
    rows = _rows("data/customer-service-60.jsonl")
    assert Counter(row["label"] for row in rows) == {"KEEP": 32, "DROP": 28}
    for kind in SENTINEL_KINDS:
        report = check_rows([{**row, "kind": kind} for row in rows])
        assert len(report.unconfirmed) == report.distinct == 60


@pytest.mark.parametrize(("original", "rewrite"), PLANTED)
@pytest.mark.parametrize("kind", SENTINEL_KINDS)
def test_signal_is_never_confirmed(original: str, rewrite: str, kind: str) -> None:
    """An edit that carries meaning is refused under every kind, both ways round, with a reason."""
    for pair in ((original, rewrite), (rewrite, original)):
        found = confirm(*pair, kind)
        assert not found.confirmed, found.reason
        assert found.reason


@pytest.mark.parametrize(("kind", "original", "rewrite"), HARMLESS)
def test_harmless_edit_is_confirmed_for_its_kind(kind: str, original: str, rewrite: str) -> None:
    """An edit that changes nothing is confirmed both ways round, under its own kind only."""
    for pair in ((original, rewrite), (rewrite, original)):
        got = {str(k): confirm(*pair, k) for k in SENTINEL_KINDS}
        assert {k for k, c in got.items() if c.confirmed} == {kind}, got
        assert got[kind].rule == f"{kind}/1"


def test_reason_names_what_differs() -> None:
    """A refusal quotes the words that differ and says why that is not the kind."""
    assert "'Marta' became 'Maria'" in confirm("Ask Marta.", "Ask Maria.", "punctuation").reason
    assert "'not' became nothing" in confirm("Do not pay.", "Do pay.", "punctuation").reason
    assert "'three' became '4'" in confirm("In three days.", "In 4 days.", "numeral").reason
    assert "'buy' became 'sell'" in confirm("We buy it.", "We sell it.", "synonym").reason
    assert "denied" in confirm("No, pay.", "No pay.", "punctuation").reason


@pytest.mark.parametrize("kind", SENTINEL_KINDS)
def test_equal_texts_are_not_sentinels(kind: str) -> None:
    """Texts that are equal, or equal once in NFC, were not edited and are not confirmed."""
    text = "Caf\u00e9 cr\u00e8me costs 3 dollars."
    for other in (text, unicodedata.normalize("NFD", text)):
        assert confirm(text, other, kind).reason == "nothing was edited"
        assert not confirm(text, other, kind).confirmed


def test_unicode_form_plays_no_part() -> None:
    """A harmless edit is confirmed though one text is composed and the other decomposed."""
    text = "Le caf\u00e9 est pr\u00eat."
    assert confirm(text, unicodedata.normalize("NFD", text)[:-1], "punctuation").confirmed


@pytest.mark.parametrize(("original", "rewrite"), [("", "."), ("...", "."), ("", "Hello.")])
def test_text_without_words_is_refused(original: str, rewrite: str) -> None:
    """Where there is no word, nothing can be shown to be the same."""
    assert not confirm(original, rewrite, "punctuation").confirmed


def test_unknown_kind_is_refused() -> None:
    """A kind without a rule is not confirmed, and the reason lists the kinds that have one."""
    found = confirm("We ship.", "We ship", "degradation")
    assert (found.confirmed, found.rule) == (False, "none")
    assert "punctuation" in found.reason


def test_copies_under_new_ids_count_once() -> None:
    """Distinct rows are counted by NFC content, so a copy with a new id adds nothing."""
    row = {"id": "a", "kind": "punctuation", "original": "Caf\u00e9.", "rewrite": "Caf\u00e9"}
    copy = {**row, "id": "b", "original": "Cafe\u0301."}
    report = check_rows([row, copy, {**row, "id": "c", "original": "Cafe."}])
    assert (report.distinct, report.duplicates) == (2, (("a", "b"),))
    assert [r.id for r in report.unconfirmed] == ["c"]
    assert (report.kinds[0].rows, report.kinds[0].confirmed) == (3, 2)


def test_empty_set_is_not_all_confirmed() -> None:
    """No rows show nothing, so an empty set is never reported as confirmed."""
    report = check_rows([])
    assert (report.all_confirmed, report.distinct, report.kinds) == (False, 0, ())


def test_row_without_kind_or_id_is_reported() -> None:
    """A row that declares no kind is unconfirmed, and is named by its place."""
    report = check_rows([{"a": "We ship.", "b": "We ship"}], original="a", rewrite="b")
    assert [(r.id, r.kind) for r in report.unconfirmed] == [("row 1", "")]


def test_missing_text_names_every_row() -> None:
    """Rows without text in the named fields are refused together, each by id and field."""
    with pytest.raises(InputError) as caught:
        check_rows([{"id": "a", "original": "We ship."}, {"id": "b", "original": 3}])
    places = [(p.where, p.what.split("'")[1]) for p in caught.value.problems]
    assert places == [("a", "rewrite"), ("b", "original"), ("b", "rewrite")]


def test_missing_text_is_told_with_file_and_line_up_to_twenty() -> None:
    """Each row by its line, twenty of them, and how many more."""
    places = [("s.jsonl", n) for n in range(2, 74)]
    with pytest.raises(InputError) as caught:
        check_rows(SHIPPED, original="foo", places=places)
    told = caught.value.problems
    assert [(p.file, p.line) for p in told[:20]] == places[:20]
    assert "question, original, rewrite" in str(told[0].remedy)
    assert (len(told), "52 more" in told[20].what) == (21, True)


@pytest.mark.parametrize(
    ("kind", "words"),
    [(None, "declares no kind"), ("tone", "no rule is known for the kind 'tone'")],
)
def test_a_kind_without_a_rule_is_said_in_words(kind: str | None, words: str) -> None:
    """No Python value stands in the reason, and the kinds that have a rule are listed."""
    row = {"id": "a", "kind": kind, "original": "We ship.", "rewrite": "We ship"}
    (found,) = check_rows([row]).unconfirmed
    assert words in found.confirmation.reason
    assert "punctuation, numeral, synonym" in found.confirmation.reason
    assert not {"None", "("} & set(found.confirmation.reason.replace(";", " ").split())


def test_synonym_table_is_pairs_of_plain_words() -> None:
    """Every entry of the table is two different lower-case words."""
    for pair in SYNONYMS:
        assert len(pair) == 2
        assert all(word.isalpha() and word.islower() for word in pair)


@settings(deadline=None)
@given(TEXTS, st.sampled_from([".", "!", ";", ",", " ."]))
def test_final_mark_is_always_confirmed(text: str, mark: str) -> None:
    """Any words with a final mark added or removed are a punctuation sentinel."""
    assert confirm(text, text + mark, "punctuation").confirmed
    assert confirm(text + mark, text, "punctuation").confirmed


@settings(deadline=None)
@given(TEXTS, st.integers(0, 99_999), st.integers(0, 4), st.integers(1, 9))
def test_changed_digit_is_never_confirmed(text: str, number: int, place: int, step: int) -> None:
    """A number with one digit changed is refused under every kind."""
    digits = str(number)
    place %= len(digits)
    digit = (int(digits[place]) + step) % 10
    changed = f"{digits[:place]}{digit}{digits[place + 1 :]}"
    for kind in SENTINEL_KINDS:
        assert not confirm(f"{text} {digits} days", f"{text} {changed} days", kind).confirmed


@settings(deadline=None)
@given(TEXTS, st.data())
def test_deleted_word_is_never_confirmed(text: str, data: st.DataObject) -> None:
    """A text with one word taken out is refused under every kind."""
    words = [*text.split(), "end"]
    at = data.draw(st.integers(0, len(words) - 1))
    shorter = " ".join(words[:at] + words[at + 1 :])
    for kind in SENTINEL_KINDS:
        assert not confirm(" ".join(words), shorter, kind).confirmed


@settings(deadline=None)
@given(st.text(max_size=40), st.text(max_size=40), st.sampled_from(SENTINEL_KINDS))
def test_order_of_the_texts_plays_no_part(one: str, two: str, kind: str) -> None:
    """Confirmation is symmetric for texts that hold words, and never raises."""
    one, two = f"word {one}", f"word {two}"
    assert confirm(one, two, kind).confirmed == confirm(two, one, kind).confirmed


@settings(deadline=None)
@given(st.integers(0, 99_999), st.integers(0, 99_999))
def test_spellings_belong_to_one_number(one: int, two: int) -> None:
    """No spelling of a number is a spelling of another, and each is confirmed for its own."""
    for spelled in _cardinal(one):
        sentence = f"Keep {spelled} items."
        assert confirm(sentence, f"Keep {one} items.", "numeral").confirmed
        assert confirm(sentence, f"Keep {two} items.", "numeral").confirmed == (one == two)
