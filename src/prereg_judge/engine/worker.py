"""The process that holds the model: `python -m prereg_judge.engine.worker CONN BEAT`.

Reads one JSON message at a time from the inherited socket CONN and answers each. Counts its
work in the shared page BEAT. What llama.cpp prints goes to standard error, which the parent
keeps as a log. Ends when the parent does.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

from prereg_judge.engine.protocol import Constraint, ModelSpec
from prereg_judge.engine.wire import call_from, settings_from
from prereg_judge.errors import EngineError

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> int:
    """Serve until the parent closes the connection."""
    connection, beat_fd, parent = Connection(int(argv[0])), int(argv[1]), int(argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    _die_with(parent)
    page = mmap.mmap(beat_fd, 8)
    counter = ctypes.c_uint64.from_buffer(page)

    def beat() -> None:
        counter.value += 1

    server = Server(beat)
    while True:
        try:
            message = json.loads(connection.recv_bytes())
        except EOFError:
            return 0
        connection.send_bytes(json.dumps(server.answer(message)).encode())


def _die_with(parent: int) -> None:
    """Ask Linux to kill this process when its parent dies, however it dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the request took effect
        os._exit(1)


class Server:
    """Dispatches messages; keeps the model and the session between them."""

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._model: Any = None
        self._session: Any = None
        self._operations: dict[str, Callable[[dict[str, Any]], Any]] = {
            "load": self._load,
            "facts": lambda _: asdict(self._model.facts()),
            "tokenize": lambda m: [self._model.tokenize(text) for text in m["texts"]],
            "respell": lambda m: [
                self._model.spell(self._model.tokenize(text)) for text in m["texts"]
            ],
            "compile": self._compile,
            "session": self._open_session,
            "clear": lambda _: self._session.clear(),
            "run": self._run,
            "system": lambda _: _system(),
        }

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Answer one message; what goes wrong is an answer too, told apart by its key."""
        from prereg_judge.engine.llama import DecodeFaultError

        try:
            return {"ok": self._operations[message["op"]](message)}
        except EngineError as exc:
            return {"refused": [asdict(p) for p in exc.problems]}
        except DecodeFaultError as exc:
            return {"fault": str(exc)}
        except MemoryError:
            return {"fault": "the worker has no memory left"}
        except Exception:
            return {"bug": traceback.format_exc()}

    def _load(self, message: dict[str, Any]) -> None:
        from prereg_judge.engine.llama import Model

        self._model = Model(ModelSpec(**message["spec"]), beat=self._beat)

    def _compile(self, message: dict[str, Any]) -> str:
        from prereg_judge.engine.llama import compile_constraint

        return compile_constraint(Constraint(**message["constraint"]))

    def _open_session(self, message: dict[str, Any]) -> None:
        from prereg_judge.engine.session import Session

        if self._session is not None:
            self._session.close()
        self._session = Session(self._model, settings_from(message["settings"]))

    def _run(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        calls = [call_from(values) for values in message["calls"]]
        return [asdict(reply) for reply in self._session.run(calls)]


def _system() -> dict[str, Any]:
    """What llama.cpp was built with and what it sees."""
    import llama_cpp as lib

    return {
        "llama_cpp_python": lib.__version__,
        "build": lib.llama_print_system_info().decode("utf-8", "replace").strip(),
        "gpu_offload": bool(lib.llama_supports_gpu_offload()),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
