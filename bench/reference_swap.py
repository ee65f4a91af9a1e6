"""What the study of exchanged references costs on a real corpus of spans.

10,530 items with three annotators' spans (two of them taken as outputs) and their gold, 2,000
resamples within strata, every statistic that a report shows and every sentence; one process, one
thread. Gold has no types, so spans match by place. The target is ten seconds and 1 GB.

    python bench/reference_swap.py            three rounds
    python bench/reference_swap.py --quick    one round

The spans lie in spans/toxic_spans.jsonl below PREREG_CORPORA, or below shared/data beside the
repository.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from prereg_judge.cli.common import say
from prereg_judge.labellings.form import FileForm, LabellingForm
from prereg_judge.labellings.table import labelled_of, load_labellings
from prereg_judge.study import reference_swap
from prereg_judge.study.metric import MetricRef
from prereg_judge.study.outcomes import Resampling, StudyInput, SwapInput

ROOT = Path(__file__).parents[1]
RESAMPLES, SEED = 2_000, 7
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
PLACES: dict[str, str | int] = {name: f"labellings.{name}" for name in "ABC"} | {"gold": "gold"}


def corpus() -> Path:
    """The file of spans."""
    told = os.environ.get("PREREG_CORPORA")
    folder = Path(told) if told else ROOT.parent / "shared/data"
    path = folder / "spans/toxic_spans.jsonl"
    if not path.is_file():
        sys.exit(f"there is no {path}: set PREREG_CORPORA")
    return path


def swap_input(path: Path) -> SwapInput:
    """Annotators A and B as outputs; gold as delivered, annotator C as the alternative."""
    file = FileForm(path.name, "rows", PLACES, item="id", stratum="stratum")
    table = load_labellings(LabellingForm("spans", (file,)), path_of=lambda _: path)
    family = [MetricRef.of("delta", output=output) for output in "AB"]
    family.append(MetricRef.of("interaction"))
    return SwapInput(
        labelled=labelled_of(table, names=tuple(PLACES), merge=None),
        outputs=("A", "B"),
        references=("gold", "C"),
        match="relaxed",
        duplicates="keep_all",
        family=tuple(family),
    )


def study_input(swap: SwapInput) -> StudyInput:
    """A study of these labellings and nothing else."""
    return StudyInput(
        items=(),
        outcomes={},
        calls=(),
        verdicts=(),
        ships=None,
        passes=1,
        orders=("ab",),
        missing="undefined",
        decoding="greedy",
        earlier={},
        resampling=Resampling(RESAMPLES, SEED, by_stratum=True),
        swap=swap,
    )


def main() -> None:
    """Measure and print; write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--show", action="store_true", help="print the numbers and sentences too")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results/reference_swap.json")
    options = parser.parse_args()
    if any(os.environ.get(name) != "1" for name in THREADS):
        # The libraries read these when they are loaded: begin again with one thread.
        os.execve(
            sys.executable, [sys.executable, *sys.argv], os.environ | dict.fromkeys(THREADS, "1")
        )
    began = time.perf_counter()
    data = study_input(swap_input(corpus()))
    assert data.swap is not None
    read_s = time.perf_counter() - began
    seconds: list[float] = []
    metrics: tuple[Any, ...] = ()
    words: list[str] = []
    for _ in range(1 if options.quick else options.rounds):
        began = time.perf_counter()
        metrics = reference_swap.summary(data)
        words = reference_swap.plain_words(data)
        reference_swap.view(data)
        seconds.append(time.perf_counter() - began)
    if options.show:
        for m in metrics:
            i = m.interval
            limits = f"[{i.low:.4f}, {i.high:.4f}]" if i else ""
            print(m.ref, m.value, m.undefined or "", limits, f"n={m.n}", m.note or "", sep="  ")
        print(*words, sep="\n")
    scale = 1024 if sys.platform == "darwin" else 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 // scale
    with_interval = sum(m.interval is not None for m in metrics)
    print(
        f"{len(data.swap.labelled.items)} items, {len(metrics)} metrics, {with_interval} of them "
        f"with an interval, {RESAMPLES} resamples: {statistics.median(seconds):.2f} s "
        f"(reading: {read_s:.2f} s), at most {peak / 1e6:.0f} MB"
    )
    result = {
        "items": len(data.swap.labelled.items),
        "metrics": len(metrics),
        "intervals": with_interval,
        "resamples": RESAMPLES,
        "read_seconds": read_s,
        "seconds": seconds,
        "peak_bytes": peak,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    say(f"wrote {options.out}")


if __name__ == "__main__":
    main()
