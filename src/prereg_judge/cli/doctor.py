"""`prereg doctor`: what this machine can do for a judge, and what to do about what is missing."""

from __future__ import annotations

import os
from typing import Any

from rich.markup import escape
from rich.table import Table

from prereg_judge.cli.common import Json, print_json
from prereg_judge.flow.environment import machine
from prereg_judge.report.terminal import console

_LITTLE_MEMORY = 4e9


def doctor(json_out: Json = False) -> None:
    """Report llama.cpp's build, GPU, memory and threads, with advice; exit 0 whatever is found."""
    found = machine()
    advice = _advice(found)
    if json_out:
        print_json({**found, "advice": advice})
        return
    out = console()
    table = Table.grid(padding=(0, 2))
    llama, cpu, memory = found["llama_cpp"], found["cpu"], found["memory"]
    rows = {
        "prereg-judge": found["tool"]["version"],
        "Python": f"{found['python']} on {found['platform']}",
        "llama-cpp-python": llama["llama_cpp_python"],
        "llama.cpp build": llama["build"],
        "GPU offload": "yes" if llama["gpu_offload"] else "no",
        "GPUs": "; ".join(" ".join(g.values()) for g in found["gpus"]) or "none seen",
        "CPU": f"{cpu['name']}, {cpu['physical']} cores, {cpu['usable']} usable",
        "memory": f"{memory['available'] / 1e9:.1f} GB free of {memory['total'] / 1e9:.1f} GB",
        "libraries": ", ".join(f"{k} {v}" for k, v in found["libraries"].items()),
    }
    for name, value in rows.items():
        table.add_row(name, escape(str(value)))
    out.print(table)
    for line in advice or ["Nothing is missing."]:
        out.print(f"- {escape(line)}", soft_wrap=True)


def _advice(found: dict[str, Any]) -> list[str]:
    advice = []
    offload, gpus = found["llama_cpp"]["gpu_offload"], found["gpus"]
    if gpus and not offload:
        advice.append(
            "A GPU is here but llama.cpp was built without GPU support: rebuild with "
            'CMAKE_ARGS="-DGGML_CUDA=on" pip install --force-reinstall --no-cache-dir '
            "--no-binary llama-cpp-python llama-cpp-python==0.3.36"
        )
    if not gpus and not offload:
        advice.append(
            "No GPU: the CPU is used. Register n_gpu_layers: 0; a small quantised model is best."
        )
    if offload and not gpus:
        advice.append("llama.cpp can offload, but no GPU answers: check the driver (nvidia-smi).")
    if found["memory"]["available"] < _LITTLE_MEMORY:
        advice.append("Less than 4 GB of memory is free: close something before loading a model.")
    threads = os.environ.get("OMP_NUM_THREADS")
    if threads:
        advice.append(
            f"OMP_NUM_THREADS={threads} is set; the thread count that counts is n_threads in the "
            "registration."
        )
    return advice
