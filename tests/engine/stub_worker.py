"""A light worker that speaks the real one's protocol and answers at once, or slowly.

Started as `python -m engine.stub_worker CONN BEAT PARENT`, as the real one is. Calls whose key
holds `always-hangs` or `always-dies` stop or kill the process each time they are made; a few
others, by their seed, are slow.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

SLOW_ONE_IN = 50
SLOW_S = 0.03
_ENDS = {"always-hangs": signal.SIGSTOP, "always-dies": signal.SIGKILL}


def reply(call: dict[str, Any]) -> dict[str, Any]:
    """What a model might have said; the verdict follows from the seed."""
    for word, number in _ENDS.items():
        if word in call["key"]:
            os.kill(os.getpid(), number)
    if call["seed"] % SLOW_ONE_IN == 0:
        time.sleep(SLOW_S)
    return {
        "text": '{"verdict":"%s"}' % ("YES" if call["seed"] % 3 else "NO"),
        "tokens": [1, 2, 3],
        "finish": "complete",
        "n_prompt": len(call["tokens"]),
        "n_reused": 0,
        "n_forced": 2,
        "n_sampled": 1,
        "allowed_mass": 0.5,
        "seconds": 0.001,
        "thought": None,
        "n_thought": 0,
        "probabilities": None,
        "nodes": [],
    }


def main(argv: list[str]) -> int:
    """Answer messages until the parent hangs up."""
    connection = Connection(int(argv[0]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            message = json.loads(connection.recv_bytes())
        except EOFError:
            return 0
        answer = [reply(call) for call in message["calls"]] if message["op"] == "run" else None
        connection.send_bytes(json.dumps({"ok": answer}).encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
