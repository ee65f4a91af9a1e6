"""A registration of a served model from flags to score, and servers that are not what they were."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.openai.scripted_server import (
    Action,
    Body,
    Handler,
    Scripted,
    drop,
    right,
    says,
    serving,
    stall,
    status,
    stop,
)
from engine.openai.test_llama_server import COMMAND, llama_server
from prereg_judge.record.attempt import AttemptLine
from prereg_judge.record.run import read_record
from support import Done, make_workspace, new, prereg, verdict_reply

RUN = "runs/x/1"
SEEDED = "seeded,seed=7,temperature=1,top_k=0,top_p=1,min_p=0"


def served(root: Path, *urls: str, **changed: str | list[str] | None) -> Done:
    """`prereg new` with servers in the place of a file."""
    flags: dict[str, str | list[str] | None] = {
        "gguf": None,
        "n_ctx": None,
        "gpu_layers": None,
        "base_url": list(urls),
        "served_model": "small",
        "decoding": SEEDED,
        "hang": "20s,retries=1",
    }
    return new(root, "x", **{**flags, **changed})


def with_load_timeout(root: Path, seconds: int) -> None:
    """Write into `x`, before its lock, how long a server may take to become ready."""
    file = root / "registrations/x.yaml"
    text = file.read_text(encoding="utf-8")
    changed = text.replace("  # load_timeout_s: 300", f"  load_timeout_s: {seconds}")
    assert changed != text
    file.write_text(changed, encoding="utf-8")


def locked(root: Path, *urls: str, **changed: str | list[str] | None) -> Path:
    """A workspace with a locked registration `x` of four rows and two passes, served."""
    make_workspace(root, n=4)
    done = served(root, *urls, **changed)
    assert done.code == 0, done.err
    with_load_timeout(root, 3)
    done = prereg("lock", "x", root=root)
    assert done.code == 0, done.err
    return root


def attempts(root: Path) -> tuple[AttemptLine, ...]:
    """What the run recorded."""
    return read_record(root / RUN, shown=RUN).attempts


def notes(root: Path, event: str) -> list[dict[str, Any]]:
    """The record's notes of one kind."""
    return [n for n in read_record(root / RUN, shown=RUN).notes if n["event"] == event]


def free_port() -> int:
    """A port at which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def by_row(handler: Handler, body: Body) -> None:
    """YES to the row about a river, NO to the others."""
    said = body["messages"][-1]["content"]
    says(verdict_reply("YES" if "river" in said else "NO"))(handler, body)


# --- From flags to score ------------------------------------------------------------------------


def test_a_served_model_from_flags_to_score(tmp_path: Path) -> None:
    """check, lock, run and score: each verdict is the server's, what it says of itself is locked
    and noted, and requests carry what is registered.
    """
    with serving(lambda _: by_row) as server:
        root = locked(tmp_path / "w", server.url, parallel="2", prefix="whole")
        assert (len(server.canaries), server.bodies) == (1, [])  # the lock asks what it is
        asked = len(server.asked)
        done = prereg("check", "x", "--json", root=root)
        assert (done.code, done.json["ok"], done.json["longest_prompt"]) == (0, True, None)
        assert len(server.asked) == asked
        done = prereg("run", "x", root=root)
        assert done.code == 0, done.err
    done = prereg("score", "x", "--json", root=root)
    assert (done.code, done.json["verdict"]) == (1, "FAIL")
    (agreement,) = [
        m for m in done.json["metrics"]
        if m["metric"] == "sentinel.agreement.rate" and not m["params"]
    ]  # fmt: skip
    assert (agreement["k"], agreement["n"]) == (4, 4)
    assert [a.verdict for a in sorted(attempts(root), key=lambda a: a.index)] == [
        "NO", "YES", "NO", "NO",
    ] * 2  # fmt: skip
    (note,) = notes(root, "served")
    (said,) = note["servers"]
    assert (said["base_url"], said["build_info"], said["answered_as"]) == (
        server.url,
        "b1-abc",
        "small",
    )
    assert said["model_file"] == "small.gguf"
    lock = json.loads((root / "registrations/x.lock.json").read_text(encoding="utf-8"))
    assert lock["served"]["servers"] == note["servers"]
    assert len(server.canaries) == 1 + 3  # at the lock; before the record begins, and at each pass
    assert server.most_in_flight <= 2
    for body in server.bodies:
        assert body["temperature"] == 1
        assert body["max_tokens"] == 16
        assert body["seed"] == 7
        assert body["cache_prompt"] is False
        assert body["messages"][0]["role"] == "system"


def test_a_lock_needs_no_server(tmp_path: Path) -> None:
    """Nothing listens: the registration is checked and locked, and says what cannot be hashed;
    the run then waits its time and is refused, before any attempt.
    """
    root = make_workspace(tmp_path / "w", n=4)
    url = f"http://127.0.0.1:{free_port()}"
    assert served(root, url).code == 0
    with_load_timeout(root, 1)
    assert prereg("check", "x", root=root).code == 0
    done = prereg("lock", "x", root=root)
    assert done.code == 0, done.err
    assert "a served model cannot be hashed" in done.err
    assert "8 trials, prompts are counted by the server" in done.out
    lock = json.loads((root / "registrations/x.lock.json").read_text(encoding="utf-8"))
    assert [entry["role"] for entry in lock["inputs"]] == ["judge", "items.sentinel"]
    assert lock["served"] is None
    assert "no server answered" in done.err
    done = prereg("run", "x", root=root)
    assert done.code not in (0, 1), done
    assert url in done.err
    assert attempts(root) == ()
    assert prereg("score", "x", root=root).code == 5


# --- Secrets ------------------------------------------------------------------------------------

KEY = "sk-never-to-be-written-5f0c"


def test_the_key_is_sent_and_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every request bears the key, even one that fails and echoes it; no file of the workspace
    and no output holds it.
    """
    seen: list[str | None] = []

    def guarded(then: Action) -> Action:
        def act(handler: Handler, body: Body) -> None:
            seen.append(handler.headers["Authorization"])
            then(handler, body)

        return act

    def echo(handler: Handler, body: Body) -> None:
        status(500, f"bad key {handler.headers['Authorization']}")(handler, body)

    monkeypatch.setenv("JUDGE_TEST_KEY", KEY)
    with serving(lambda n: guarded(echo if n == 1 else by_row)) as server:
        server.canary = guarded(right)
        root = locked(tmp_path / "w", server.url, api_key_env="JUDGE_TEST_KEY")
        done = prereg("run", "x", root=root)
        assert done.code == 0, done.err
    scored = prereg("score", "x", root=root)
    assert len(seen) == len(server.canaries) + len(server.bodies) == 1 + 3 + 9
    assert set(seen) == {f"Bearer {KEY}"}
    assert [a.unscored for a in attempts(root) if a.unscored] == ["http"]
    for file in (path for path in root.rglob("*") if path.is_file()):
        assert KEY.encode() not in file.read_bytes(), file
    assert KEY not in done.out + done.err + scored.out + scored.err


def test_a_key_that_is_not_there_is_said_before_any_call(tmp_path: Path) -> None:
    """An unset variable is named, and no request is made without it."""
    with serving() as server:
        root = locked(tmp_path / "w", server.url, api_key_env="JUDGE_TEST_KEY_UNSET")
        done = prereg("run", "x", root=root)
        assert done.code not in (0, 1)
        assert "JUDGE_TEST_KEY_UNSET" in done.err
        assert server.bodies == server.canaries == []


# --- What goes wrong ----------------------------------------------------------------------------


def test_a_server_that_stalls_is_a_hang(tmp_path: Path) -> None:
    """A call that is not answered in time is a hang, tried again as registered, and counted."""
    with serving(lambda n: stall if n in (1, 2) else by_row) as server:
        root = locked(tmp_path / "w", server.url, hang="1s,retries=1")
        done = prereg("run", "x", root=root)
        assert done.code == 0, done.err
    tried = read_record(root / RUN, shown=RUN).by_trial
    assert {t: [a.unscored for a in made] for t, made in tried.items() if made[-1].unscored} == {
        "sentinel/r01/ab/1": ["hang", "hang"]
    }
    done = prereg("score", "x", "--json", root=root)
    (hangs,) = [m for m in done.json["metrics"] if m["metric"] == "calls.hangs"]
    assert (hangs["k"], hangs["n"]) == (2, 9)


def test_a_server_that_drops_a_call_is_asked_again(tmp_path: Path) -> None:
    """A lost connection costs one attempt; the trial is scored by the next."""
    with serving(lambda n: drop if n == 2 else by_row) as server:
        root = locked(tmp_path / "w", server.url)
        assert prereg("run", "x", root=root).code == 0
    tried = read_record(root / RUN, shown=RUN).by_trial["sentinel/r02/ab/1"]
    assert [a.verdict for a in tried] == [None, "NO"]
    assert tried[0].unscored in ("crash", "http")


@pytest.mark.parametrize("canary", [says("Once upon a time"), says('{"other": 1}')])
def test_a_server_without_the_schema_gets_no_call(canary: Action, tmp_path: Path) -> None:
    """Prose or other JSON to the canary: refused before any attempt, and the run can go on with a
    server that obeys.
    """
    with serving(lambda _: by_row) as server:
        server.canary = canary
        root = locked(tmp_path / "w", server.url)
        done = prereg("run", "x", root=root)
        assert done.code not in (0, 1)
        assert "schema" in done.err
        assert server.bodies == []
        assert attempts(root) == ()
        server.canary = right
        assert prereg("run", "x", root=root).code == 0
    assert len(attempts(root)) == 8


def test_replies_off_the_schema_are_not_verdicts(tmp_path: Path) -> None:
    """A server that passes the canary and then says what it likes: nothing is scored, no pass."""
    replies = itertools.cycle(['{"verdict":"MAYBE"}', "YES", '{"verdict":"YES","more":1}'])
    with serving(lambda _: says(next(replies))) as server:
        root = locked(tmp_path / "w", server.url, band="sentinel.agreement.count=1..3")
        assert prereg("run", "x", root=root).code == 0
    assert {a.unscored for a in attempts(root)} <= {"off_menu", "unreadable"}
    assert all(a.text for a in attempts(root))
    done = prereg("score", "x", "--json", root=root)
    assert done.code == 6
    assert done.json["verdict"] == "INCONCLUSIVE"


def broken_off(root: Path) -> int:
    """A run whose server goes away in its fourth call; the port at which it was."""

    def away(handler: Handler, body: Body) -> None:
        stop(server)
        drop(handler, body)

    with serving(lambda n: by_row if n < 3 else away) as server:
        port = int(server.server_address[1])
        locked(root, server.url, hang="20s,retries=2")
        done = prereg("run", "x", root=root)
        assert done.code not in (0, 1), done
    return port


def change_build(server: Scripted) -> None:
    """The server says that it is another build."""
    server.pages["/props"][1]["build_info"] = "b2-def"


def change_file(server: Scripted) -> None:
    """The server has loaded another file."""
    server.pages["/props"][1]["model_path"] = "/models/other.gguf"


def change_template(server: Scripted) -> None:
    """The server has another chat template."""
    server.pages["/props"][1]["chat_template"] = "{{ bos_token }}"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (change_build, ("build_info", "b1-abc", "b2-def")),
        (change_file, ("model_file", "small.gguf", "other.gguf")),
        (change_template, ("chat_template_sha256",)),
    ],
)
def test_a_run_does_not_go_on_with_another_server(
    change: Callable[[Scripted], None], words: tuple[str, ...], tmp_path: Path
) -> None:
    """Another build, file or template at the same address is another judge: no further attempt is
    made; with the server as it was, the run goes on to its end.
    """
    root = tmp_path / "w"
    port = broken_off(root)
    before = attempts(root)
    with serving(lambda _: by_row, port=port) as other:
        change(other)
        done = prereg("run", "x", root=root)
        assert done.code not in (0, 1), done
        assert other.bodies == []
    for word in ("is not what it was", *words):
        assert word in done.err
    assert attempts(root) == before
    with serving(lambda _: by_row, port=port):
        done = prereg("run", "x", root=root)
        assert done.code == 0, done.err
    assert {a.trial for a in attempts(root) if a.verdict} == {
        f"sentinel/r0{row}/ab/{pass_no}" for row in range(4) for pass_no in (1, 2)
    }
    assert prereg("score", "x", root=root).code == 1


def test_two_servers_share_the_calls(tmp_path: Path) -> None:
    """Both are asked; where one goes away, the other answers the rest."""
    with serving(lambda _: by_row) as one, serving(lambda _: by_row) as two:
        root = locked(tmp_path / "w", one.url, two.url)
        assert prereg("run", "x", root=root).code == 0
        assert one.bodies
        assert two.bodies
        assert len(one.bodies) + len(two.bodies) == 8
    (note,) = notes(root, "served")
    assert {said["base_url"] for said in note["servers"]} == {one.url, two.url}


@pytest.mark.model
@pytest.mark.skipif(COMMAND is None, reason="needs llama-server: see engine/openai")
def test_a_real_llama_server(tmp_path: Path) -> None:
    """A real server with the real model: every trial is answered with a verdict, seeded passes
    agree, and the build is noted.
    """
    with llama_server(tmp_path / "log.txt") as server:
        root = make_workspace(tmp_path / "w", n=4)
        done = served(root, server.url, prefix="whole", max_tokens="96", hang="120s,retries=1")
        assert done.code == 0, done.err
        with_load_timeout(root, 120)
        assert prereg("lock", "x", root=root).code == 0
        done = prereg("run", "x", root=root)
        assert done.code == 0, done.err
    made = attempts(root)
    assert all(a.verdict in ("YES", "NO") for a in made)
    by_trial = {a.trial: a.verdict for a in made}
    assert all(by_trial[t] == by_trial[f"{t[:-1]}2"] for t in by_trial if t.endswith("1"))
    (note,) = notes(root, "served")
    assert note["servers"][0]["build_info"]
    assert prereg("score", "x", root=root).code == 1
