"""A worker that dies between calls costs no trial an attempt."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from prereg_judge.engine.protocol import Call, Constraint, Decoding, ModelSpec, Reply
from prereg_judge.engine.supervisor import Limits, LlamaBackend
from support import model_path

SCHEMA = {
    "type": "object",
    "properties": {"v": {"type": "string", "enum": ["a", "b"]}},
    "required": ["v"],
    "additionalProperties": False,
}


@pytest.mark.model
def test_a_worker_that_died_while_idle_is_replaced_without_a_failure(tmp_path: Path) -> None:
    """No call was in flight, so the next one gets a new worker and a reply."""
    told: list[str] = []
    backend = LlamaBackend(
        ModelSpec(str(model_path()), n_ctx=256, n_gpu_layers=0, n_threads=1),
        Constraint(SCHEMA, ",", ":"),
        decoding=Decoding("greedy"),
        max_tokens=16,
        limits=Limits(120, None, 120),
        log=tmp_path / "worker.log",
        announce=told.append,
    )
    try:
        call = Call("x", (1, 2, 3), (), None)
        assert isinstance(backend.attempt(call), Reply)
        assert backend._client is not None
        process = backend._client.process
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert isinstance(backend.attempt(call), Reply)
        assert any("idle" in text for text in told)
    finally:
        backend.close()
