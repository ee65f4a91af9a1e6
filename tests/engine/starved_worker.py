"""The real worker, which runs out of memory during calls about `starve` or `starve-python`.

Started as `python -m engine.starved_worker`, as the real one is.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

import llama_cpp as lib

from prereg_judge.engine import worker

_ROOM = 8 << 20


class Starved(worker.Server):
    """Allows itself little more memory than it holds, and has llama.cpp or Python ask for more."""

    def _run(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        keys = [call["key"] for call in message["calls"]]
        if any("starve" in key for key in keys):
            long, buffer = b"word " * _ROOM, (lib.llama_token * 8)()
            n_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (n_bytes + _ROOM, n_bytes + _ROOM))
            if any("starve-python" in key for key in keys):
                bytearray(10 * _ROOM)
            lib.llama_tokenize(self._model._vocab, long, len(long), buffer, 8, False, True)
        return super()._run(message)


if __name__ == "__main__":
    worker.Server = Starved  # type: ignore[misc]
    sys.exit(worker.main(sys.argv[1:]))
