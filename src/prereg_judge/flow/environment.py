"""What a run's numbers came from: versions, build, machine, model. Recorded, never compared."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from dataclasses import asdict
from typing import Any

import psutil

from prereg_judge import __version__
from prereg_judge.engine.inspect import system_info
from prereg_judge.flow.prepare import Inputs
from prereg_judge.flow.prompts import ModelInputs
from prereg_judge.flow.settings import every_setting, model_spec
from prereg_judge.registration.lock import tool_source_sha256
from prereg_judge.registration.schema_model import LocalModel

_LIBRARIES = (
    *("llama-cpp-python", "llguidance", "numpy", "scipy", "statsmodels", "jinja2", "httpx"),
)


def machine() -> dict[str, Any]:
    """This machine and the libraries installed on it, as JSON values."""
    return {
        "tool": {"version": __version__, "source_sha256": tool_source_sha256()},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "libraries": {name: importlib.metadata.version(name) for name in _LIBRARIES},
        "llama_cpp": system_info(),
        "cpu": {
            "name": _cpu_name(),
            "physical": psutil.cpu_count(logical=False),
            "usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        },
        "memory": {
            "total": psutil.virtual_memory().total,
            "available": psutil.virtual_memory().available,
        },
        "gpus": gpus(),
    }


def environment(inputs: Inputs, model: ModelInputs) -> dict[str, Any]:
    """`machine` together with the model and how it is loaded, for every setting of the run.

    A local model is named as the registration writes it, so that a record says nothing about where
    things lie on this machine. What servers say of theirs is recorded when they are asked.
    """
    told, local = machine(), inputs.model.model
    if not inputs.model.calls:
        return told
    settings = every_setting(inputs.model)
    told["settings"] = [asdict(each) for each in settings]
    if not isinstance(local, LocalModel) or model.facts is None:
        return told
    facts = {**asdict(model.facts), "path": local.gguf}
    facts["control_texts"] = len(model.facts.control_texts)
    facts["chat_template"] = (
        None if model.facts.chat_template is None else len(model.facts.chat_template)
    )
    specs = [asdict(model_spec(local, model.files[0], each)) for each in settings]
    return {**told, "model": facts, "load": {**specs[0], "path": local.gguf}}


def gpus() -> list[dict[str, str]]:
    """The NVIDIA GPUs that the driver's own tool reports; empty where there is none.

    Memory may read `[N/A]`, as on machines whose GPU shares the host's memory.
    """
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    query = "name,driver_version,memory.total,memory.free"
    try:
        done = subprocess.run(
            [tool, f"--query-gpu={query}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (subprocess.SubprocessError, OSError):
        return []
    rows = (line.split(", ") for line in done.stdout.strip().splitlines())
    names = ("name", "driver", "memory_total", "memory_free")
    return [dict(zip(names, row, strict=False)) for row in rows]


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:  # noqa: PTH123
            for line in stream:
                if line.startswith(("model name", "Model")):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
