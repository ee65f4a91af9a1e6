"""What a registration may say of backends, arms, thinking and executors, and what it may not."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from prereg_judge.registration.schema import Registration, meaning
from prereg_judge.registration.schema_model import LocalModel, ServedModel

DECODING = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}
GGUF = {"gguf": "m.gguf", "n_ctx": 512, "n_gpu_layers": 0}
SERVED = {"backend": "openai", "base_urls": ["http://127.0.0.1:8080"], "model": "m"}
ARMS = [{"path": "generate", "prefix": "whole", "parallel": 1}, {"path": "choice", "parallel": 4}]


def made(
    *, model: dict[str, Any] | None = None, study: str = "self-agreement", **protocol: Any
) -> Registration:
    """A registration with these parts."""
    base = {
        "passes": 2,
        "orders": ["ab"],
        "path": "generate",
        "prefix": "shared",
        "decoding": {"mode": "seeded", "seed": 1, **DECODING},
        "max_tokens": 16,
        "parallel": 1,
        "hang": {"call_timeout_s": 60.0, "retries": 1},
    }
    executor = protocol.pop("executor", None)
    values = {
        "prereg": 1,
        "id": "x",
        "title": "Is it so?",
        "study": study,
        "judge": "j.yaml",
        "items": {"sentinel": "s.jsonl"},
        "model": model or GGUF,
        "protocol": {**base, **protocol},
        "missing": "disagree",
        "exposure": {"seen": "nothing"},
    }
    return Registration.model_validate(values | ({"executor": executor} if executor else {}))


def refused(words: str, **parts: Any) -> None:
    """The parts are refused with these words."""
    with pytest.raises(ValidationError, match=words):
        made(**parts)


def test_a_model_is_a_file_or_is_served() -> None:
    """Which of the two it is shows in its keys."""
    assert isinstance(made().model, LocalModel)
    served = made(model=SERVED).model
    assert isinstance(served, ServedModel)
    assert served.base_urls == ("http://127.0.0.1:8080",)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"base_urls": []}, "at least 1"),
        ({"base_urls": ["http://a:1", "http://a:1"]}, "twice"),
        ({"base_urls": ["http://user:secret@a:1"]}, "user name or password"),
        ({"base_urls": ["ftp://a"]}, "not the address"),
        ({"base_urls": ["http://a?key=1"]}, "not the address"),
        ({"base_urls": ["http://a:99999"]}, "not the address"),
        ({"api_key_env": "sk-123"}, "not the name of an environment variable"),
        ({"n_ctx": 512}, "Extra inputs"),
        ({"model": " "}, "is empty"),
    ],
)
def test_a_served_model_is_checked(changed: dict[str, Any], words: str) -> None:
    """An address is an address, a key stands in the environment, nothing is loaded here."""
    refused(words, model={**SERVED, **changed})


def test_a_secret_is_not_repeated() -> None:
    """What may be a password or a key is not in what the schema itself says of it."""
    for changed in ({"base_urls": ["http://u:hunter2@a"]}, {"api_key_env": "hunter2-key"}):
        with pytest.raises(ValidationError) as caught:
            made(model={**SERVED, **changed})
        said = [str(e.get("ctx", {})) for e in caught.value.errors(include_input=False)]
        assert "hunter2" not in " ".join(said)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"path": "choice"}, "no logits"),
        ({"thinking": {"start": "", "end": "x", "max_tokens": 9}}, "set there"),
        ({"executor": {"kind": "local", "workers": 2}}, "named by `base_urls`"),
    ],
)
def test_what_a_server_cannot_do_is_refused(parts: dict[str, Any], words: str) -> None:
    """Before the lock, not in the middle of a run."""
    refused(words, model=SERVED, **parts)


def test_two_arms_are_two_passes() -> None:
    """The second pass is made under the second arm's settings."""
    registered = made(study="path-fidelity", arms=ARMS)
    assert registered.protocol.arms is not None
    assert [arm.path for arm in registered.protocol.arms] == ["generate", "choice"]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, "two arms, one a pass"),
        ({"arms": ARMS[:1]}, "two arms, one a pass"),
        ({"arms": ARMS, "passes": 3}, "two arms, one a pass"),
        ({"arms": [{}, {}]}, "are the same"),
        ({"arms": [{}, {"temperature": 1}]}, "Extra inputs"),
        ({"arms": ARMS, "decoding": {"mode": "sampled", **DECODING}}, "fresh draws differ"),
    ],
)
def test_arms_that_compare_nothing_are_refused(parts: dict[str, Any], words: str) -> None:
    """Two settings that are one, or draws that differ by themselves, show nothing of a path."""
    refused(words, study="path-fidelity", **parts)


@pytest.mark.parametrize(
    ("executor", "words"),
    [
        ({"kind": "local", "workers": 0}, "greater than or equal to 1"),
        ({"kind": "local", "workers": 2, "gpus_per_worker": 1.0}, "are for Ray"),
        ({"kind": "ray", "workers": 2, "devices": ["0"]}, "places its actors itself"),
        ({"kind": "slurm", "workers": 2}, "'local' or 'ray'"),
    ],
)
def test_executors_are_checked(executor: dict[str, Any], words: str) -> None:
    """A key that has no effect is refused, not ignored."""
    refused(words, executor=executor)


def test_the_engine_settings_are_part_of_what_is_meant() -> None:
    """A path, a number of sequences, an arm or a cap changes the meaning that is locked."""
    plain = meaning(made())
    assert meaning(made(path="choice")) != plain
    assert meaning(made(parallel=2)) != plain
    assert meaning(made(thinking={"start": "a", "end": "b", "max_tokens": 9})) != plain
    arms = [meaning(made(study="path-fidelity", arms=a)) for a in (ARMS, ARMS[::-1])]
    assert arms[0] != arms[1]
