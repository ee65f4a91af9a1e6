"""Remembered hashes: given again for the very same file only, and never in the way."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prereg_judge import hashing
from prereg_judge.errors import InputError
from prereg_judge.flow import locking
from prereg_judge.hashing import CACHE_NAME, MOST_ENTRIES, FileHashes, Hashed, cache_folder
from prereg_judge.workspace import Workspace, model_files

SIZE = 2 << 20


def true_hash(path: Path) -> str:
    """The hash that nothing remembers."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Gives files of 2 MiB, no two alike, that have lain long enough to be remembered.

    All of them are made at once, for each test would have to wait for its own.
    """
    folder = tmp_path_factory.mktemp("settled")
    for n in range(24):
        (folder / f"{n}.bin").write_bytes(n.to_bytes(2, "big") * (SIZE // 2))
    wait_until_settled(folder / "23.bin")
    left = iter(sorted(folder.iterdir()))
    return lambda: next(left)


@pytest.fixture
def big(settled: Callable[[], Path]) -> Path:
    """One settled file that no other test has."""
    return settled()


@pytest.fixture
def hashes(tmp_path: Path) -> FileHashes:
    """An empty cache."""
    return FileHashes(tmp_path / "cache")


def wait_until_settled(path: Path) -> None:
    """Wait until a file's last change is old enough."""
    ready = path.stat().st_ctime_ns + hashing.SETTLED_NS
    while time.time_ns() <= ready:
        time.sleep(0.05)


def cache_of(folder: Path) -> dict[str, Any]:
    """What the cache in a folder holds, by path."""
    files: dict[str, Any] = json.loads((folder / CACHE_NAME).read_text())["files"]
    return files


def test_a_file_that_did_not_change_is_read_once(big: Path, tmp_path: Path) -> None:
    """The second hash is the first one, says when the file was read, and ends the progress."""
    first: list[int] = []
    second: list[int] = []
    fresh = FileHashes(tmp_path / "c").hashed(big, first.append)
    again = FileHashes(tmp_path / "c").hashed(big, second.append)  # another process would do so
    assert fresh == Hashed(true_hash(big), None)
    assert again.sha256 == fresh.sha256
    assert again.cached_at == cache_of(tmp_path / "c")[str(big)]["hashed_at"]
    assert (first, second) == ([1 << 20, 1 << 20], [SIZE])


def test_cheat_change_in_place_and_set_the_time_back(big: Path, hashes: FileHashes) -> None:
    """One byte changed with size, inode and time of modification as they were is found."""
    before, old = big.stat(), hashes.sha256(big)
    with big.open("r+b") as stream:
        stream.seek(SIZE // 2)
        stream.write(b"!")
    os.utime(big, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = big.stat()
    assert (after.st_size, after.st_ino) == (before.st_size, before.st_ino)
    assert after.st_mtime_ns == before.st_mtime_ns
    found = hashes.hashed(big)
    assert found == Hashed(true_hash(big), None)
    assert found.sha256 != old


def test_cheat_put_another_file_in_its_place(
    settled: Callable[[], Path], hashes: FileHashes
) -> None:
    """A hard link to another file with the same times and size is found by its inode."""
    path, other = settled(), settled()
    hashes.sha256(path)
    hashes.sha256(other)
    status = path.stat()
    path.unlink()
    os.link(other, path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert hashes.hashed(path) == Hashed(true_hash(other), None)


def test_a_renamed_file_is_read_again(big: Path, hashes: FileHashes) -> None:
    """A hash belongs to a path: under a new name, and back under the old one, it is read."""
    old = hashes.sha256(big)
    moved = big.rename(big.with_name("moved.bin"))
    assert hashes.hashed(moved) == Hashed(old, None)
    assert hashes.hashed(moved.rename(big)) == Hashed(old, None)


def test_a_symbolic_link_stands_for_what_it_leads_to(
    settled: Callable[[], Path], hashes: FileHashes, tmp_path: Path
) -> None:
    """A snapshot that links to a blob shares its hash; led elsewhere, it has another."""
    blob, other = settled(), settled()
    snapshot = tmp_path / "snapshots/main/model.gguf"
    snapshot.parent.mkdir(parents=True)
    snapshot.symlink_to(blob)
    assert hashes.hashed(snapshot) == Hashed(true_hash(blob), None)
    assert hashes.hashed(blob).cached_at is not None
    assert list(cache_of(tmp_path / "cache")) == [str(blob)]
    snapshot.unlink()
    snapshot.symlink_to(other)
    assert hashes.hashed(snapshot) == Hashed(true_hash(other), None)


def test_small_files_are_always_read(tmp_path: Path, hashes: FileHashes) -> None:
    """Below 1 MiB nothing is remembered, so a cache is not even made."""
    path = tmp_path / "small"
    path.write_bytes(b"x" * ((1 << 20) - 1))
    wait_until_settled(path)
    assert hashes.hashed(path) == hashes.hashed(path) == Hashed(true_hash(path), None)
    path.write_bytes(b"")
    assert hashes.sha256(path) == hashlib.sha256(b"").hexdigest()
    assert not (tmp_path / "cache").exists()


def test_a_file_that_was_just_written_is_not_remembered(tmp_path: Path, hashes: FileHashes) -> None:
    """Within the clock's step a change could go unseen; after it, the hash is remembered."""
    path = tmp_path / "new.bin"
    path.write_bytes(b"x" * SIZE)
    os.utime(path, (0, 0))  # an old time of modification alone does not make it old
    hashes.sha256(path)
    assert hashes.hashed(path).cached_at is None
    wait_until_settled(path)
    assert hashes.hashed(path).cached_at is None
    assert hashes.hashed(path).cached_at is not None


def test_a_time_in_the_future_is_not_remembered(tmp_path: Path, hashes: FileHashes) -> None:
    """A file that claims to be changed tomorrow is read each time, and is no error."""
    path = tmp_path / "future.bin"
    path.write_bytes(b"x" * SIZE)
    os.utime(path, (time.time() + 1e5, time.time() + 1e5))
    wait_until_settled(path)
    assert hashes.hashed(path) == hashes.hashed(path) == Hashed(true_hash(path), None)


@pytest.mark.parametrize("grow", [True, False])
def test_a_file_that_changes_while_it_is_read_is_refused(
    big: Path, hashes: FileHashes, tmp_path: Path, grow: bool
) -> None:
    """A hash of half the old and half the new bytes belongs to no file: none is given or kept."""

    def write(_: int) -> None:
        with big.open("ab" if grow else "r+b") as stream:
            stream.write(b"more")

    with pytest.raises(InputError, match=r"changed while it was read.*Wait until") as caught:
        hashes.sha256(big, write)
    assert caught.value.problems[0].file == str(big)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"\xff\xfe", b"[" * 99_999, b"null", b"[]", b"{}", b'{"form": 2, "files": {}}',
        b'{"form": 1, "files": []}', b'{"form": 1, "files": {"PATH": null}}',
        b'{"form": 1, "files": {"PATH": {"sha256": "00"}}}',
    ],
)  # fmt: skip
def test_a_damaged_cache_is_replaced(
    content: bytes, hashes: FileHashes, tmp_path: Path, shared_big: Path
) -> None:
    """Whatever the file holds, the hash is right, and is remembered from then on."""
    cache = tmp_path / "cache" / CACHE_NAME
    cache.parent.mkdir()
    cache.write_bytes(content.replace(b"PATH", str(shared_big).encode()))
    assert hashes.hashed(shared_big) == Hashed(true_hash(shared_big), None)
    assert hashes.hashed(shared_big).cached_at is not None


@pytest.fixture(scope="module")
def shared_big(settled: Callable[[], Path]) -> Path:
    """One settled file for tests that only read it."""
    return settled()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sha256", "0" * 63), ("sha256", "A" * 64), ("sha256", None), ("sha256", "0" * 64 + "\n"),
        ("hashed_at", "yesterday"), ("used_at", 5), ("size", True), ("size", float(SIZE)),
        ("inode", "1"), ("mtime_ns", 0), ("ctime_ns", 0), ("device", 0),
    ],
)  # fmt: skip
def test_an_entry_that_does_not_fit_is_not_used(
    key: str, value: object, hashes: FileHashes, tmp_path: Path, shared_big: Path
) -> None:
    """An entry of another shape, or with another mark of the file, is as good as none."""
    hashes.sha256(shared_big)
    files = cache_of(tmp_path / "cache")
    files[str(shared_big)][key] = value
    (tmp_path / "cache" / CACHE_NAME).write_text(json.dumps({"form": 1, "files": files}))
    assert hashes.hashed(shared_big) == Hashed(true_hash(shared_big), None)


def test_a_cache_that_lies_is_believed_unless_asked_afresh(
    hashes: FileHashes, tmp_path: Path, shared_big: Path
) -> None:
    """Its owner can edit the cache; `fresh=True` reads the file, and puts the cache right."""
    hashes.sha256(shared_big)
    cache = tmp_path / "cache" / CACHE_NAME
    lie = "0" * 64
    cache.write_text(cache.read_text().replace(true_hash(shared_big), lie))
    assert hashes.sha256(shared_big) == lie
    pieces: list[int] = []
    assert hashes.hashed(shared_big, pieces.append, fresh=True).cached_at is None
    assert sum(pieces) == SIZE
    assert hashes.sha256(shared_big) == true_hash(shared_big)


def test_the_cache_is_private_and_one_that_others_can_write_is_not_believed(
    hashes: FileHashes, tmp_path: Path, shared_big: Path
) -> None:
    """Files are made for their owner alone; a cache open to others could hold their lies."""
    hashes.sha256(shared_big)
    folder = tmp_path / "cache"
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in folder.iterdir()}
    assert modes[CACHE_NAME] == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {mode & 0o077 for mode in modes.values()} == {0}
    (folder / CACHE_NAME).chmod(0o620)
    assert hashes.hashed(shared_big).cached_at is None


@pytest.mark.parametrize("kind", ["a file for a folder", "a folder for the file", "no home"])
def test_a_cache_that_cannot_be_written_is_no_error(
    kind: str, tmp_path: Path, shared_big: Path
) -> None:
    """The hash is right each time; nothing is raised."""
    folder: Path | None = tmp_path / "cache"
    if kind == "a file for a folder":
        (tmp_path / "cache").touch()
    elif kind == "a folder for the file":
        (tmp_path / "cache" / CACHE_NAME).mkdir(parents=True)
    hashes = FileHashes(folder)
    if kind == "no home":
        hashes._folder = None
    for _ in range(2):
        assert hashes.hashed(shared_big) == Hashed(true_hash(shared_big), None)
    assert not list(tmp_path.glob("cache/.hashes.json.?*[!k]"))  # no half-written file is left


def test_the_cache_keeps_what_was_used_last(
    hashes: FileHashes, tmp_path: Path, shared_big: Path
) -> None:
    """Beyond a thousand files those go first that were not asked for longest."""
    hashes.sha256(shared_big)
    files = cache_of(tmp_path / "cache")
    mine = files.pop(str(shared_big))
    for n in range(MOST_ENTRIES):
        used = f"2020-01-01T00:00:{n // 100:02d}.{n % 100:03d}Z"
        files[f"/gone/{n}"] = {**mine, "used_at": used}
    (tmp_path / "cache" / CACHE_NAME).write_text(json.dumps({"form": 1, "files": files}))
    hashes.sha256(shared_big)
    kept = cache_of(tmp_path / "cache")
    assert len(kept) == MOST_ENTRIES
    assert set(files) - set(kept) == {"/gone/0"}
    assert str(shared_big) in kept


def _hash_all(folder: str, paths: list[str]) -> None:
    for path in paths:
        FileHashes(Path(folder)).sha256(Path(path))


def test_several_processes_at_once_lose_nothing(
    settled: Callable[[], Path], tmp_path: Path
) -> None:
    """Three real processes that share a cache leave every file's entry in it."""
    sets = [[str(settled()) for _ in range(3)] for _ in range(3)]
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_hash_all, args=(str(tmp_path / "c"), s)) for s in sets]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    kept = cache_of(tmp_path / "c")
    assert {p: kept[p]["sha256"] for p in kept} == {
        p: true_hash(Path(p)) for one in sets for p in one
    }


def test_where_the_cache_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool's own variable wins over the desktop's, and that over the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    home = tmp_path / ".cache/prereg"
    assert cache_folder({"PREREG_CACHE": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert cache_folder({"PREREG_CACHE": "", "XDG_CACHE_HOME": "/b"}) == Path("/b/prereg")
    assert cache_folder({"XDG_CACHE_HOME": "relative"}) == cache_folder({}) == home
    monkeypatch.setenv("PREREG_CACHE", str(tmp_path / "own"))
    assert FileHashes()._folder == tmp_path / "own"


def test_what_is_not_there_is_an_os_error(hashes: FileHashes, tmp_path: Path) -> None:
    """A missing file and a folder are said as the system says them."""
    with pytest.raises(FileNotFoundError):
        hashes.sha256(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        hashes.sha256(tmp_path)


def test_a_lock_names_every_shard_of_a_split_model(tmp_path: Path) -> None:
    """Each shard has an entry of its own, by its own name, bytes and size."""
    (tmp_path / "registrations").mkdir()
    for n in (1, 2):
        (tmp_path / f"m-0000{n}-of-00002.gguf").write_bytes(b"GGUF" + bytes([n]) * n)
    files = model_files(Workspace(tmp_path), "m-00001-of-00002.gguf")
    entries = [locking._entry("model", path.name, path) for path in files]
    assert [(e.role, e.name, e.sha256, e.n_bytes) for e in entries] == [
        ("model", f"m-0000{n}-of-00002.gguf", true_hash(path), 4 + n)
        for n, path in enumerate(files, start=1)
    ]
