"""A model in a Ray actor: the worker's own dispatcher, asked over a cluster.

The actor holds the engine in its own process. There is no heartbeat across a cluster: only the
deadline of a call tells work from a hang. The model's files must lie at the same paths on every
node; their SHA-256 is compared there before the model is loaded. Ray is an extra and imported
here only.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prereg_judge.canon import sha256_file
from prereg_judge.engine.client import (
    WorkerDiedError,
    WorkerFaultError,
    WorkerSilentError,
    library_environment,
)
from prereg_judge.errors import EngineError, IntegrityError, Problem

# What decides a reply; it must be the same on every node.
_LIBRARIES = ("prereg-judge", "llama-cpp-python", "llguidance", "numpy")

_CONNECT_WAIT_S = 120.0
_REACH_WAIT_S = 10.0

_QUIET = {
    # No report of use to Ray's makers from a tool that is about local models.
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray prints to standard output what becomes of actors, whatever `log_to_driver` says; this
    # drops every line. What matters of them is in the error that a call ends with.
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    "RAY_SCHEDULER_EVENTS": "0",
}


class _Engine:
    """What runs in the actor. Messages and answers are JSON, as between a worker and its parent."""

    def __init__(self) -> None:
        os.environ.update(library_environment())
        from prereg_judge.engine.worker import Server

        self._server = Server(lambda: None)

    def answer(self, message: str) -> str:
        """Answer one message as a worker process does."""
        return json.dumps(self._server.answer(json.loads(message)))

    def node(self) -> str:
        """Where this is and with which versions: JSON with `node`, `pid`, `versions`."""
        import ray

        node = ray.get_runtime_context().get_node_id()
        return json.dumps({"node": node, "pid": os.getpid(), "versions": _versions()})

    def seen(self, path: str) -> str:
        """What changes when the file at `path` is replaced or written to; empty = no file."""
        try:
            stat = Path(path).stat()
        except OSError:
            return ""
        parts = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        return " ".join(map(str, parts))

    def sha256(self, path: str) -> str:
        """SHA-256 of the file at `path`."""
        return sha256_file(Path(path))


class _Hashes:
    """SHA-256 of files on nodes, so that each is read once a node, whoever asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._known: dict[tuple[str, str, str], str] = {}

    def of(self, client: RayClient, path: str, *, node: str, timeout_s: float) -> str:
        """The hash of the file at `path` on the node of `client`; empty = no file."""
        with self._lock:
            lock = self._locks.setdefault(node, threading.Lock())
        with lock:  # the second client of a node waits for the first to have read the file
            seen = client.call("seen", path, timeout_s=timeout_s)
            key = (node, path, seen)
            if seen and key not in self._known:
                self._known[key] = client.call("sha256", path, timeout_s=timeout_s)
            return self._known[key] if seen else ""


_HASHES = _Hashes()


class RayClient:
    """One actor, as a `Client` of the supervisor.

    Parameters
    ----------
    n_gpus
        GPUs that the actor asks of the cluster; may be a fraction.
    n_cpus
        CPUs that it asks for; may be a fraction.
    sha256
        Expected SHA-256 of the model's files by path; None = not compared.
    address
        The cluster, as for `connect`.

    Raises
    ------
    EngineError
        If Ray is not installed, or no cluster can be reached.
    """

    def __init__(
        self,
        *,
        n_gpus: float,
        n_cpus: float,
        sha256: Mapping[str, str] | None = None,
        address: str | None = None,
    ) -> None:
        self._ray = connect(address)
        self._asked_for = f"{n_cpus:g} CPUs and {n_gpus:g} GPUs"
        self._sha256 = dict(sha256 or {})
        options = {"num_gpus": n_gpus, "num_cpus": n_cpus, "max_restarts": 0, "max_concurrency": 1}
        self._actor = self._ray.remote(_Engine).options(**options).remote()
        self._node: dict[str, Any] | None = None
        self._ended = False

    @property
    def pid(self) -> int:
        """Process id of the actor on its node; 0 = it was not asked anything yet."""
        return int(self._node["pid"]) if self._node else 0

    @property
    def name(self) -> str:
        """What to call it in messages."""
        where = f" on node {self._node['node'][:8]}" if self._node else ""
        return f"actor {self._actor._actor_id.hex()[:8]}{where}"

    @property
    def alive(self) -> bool:
        """Whether it has not been found dead."""
        return not self._ended

    def ask(
        self,
        message: dict[str, Any],
        *,
        timeout_s: float,
        heartbeat_s: float | None = None,  # noqa: ARG002  # an actor has none
    ) -> Any:
        """Send a message and wait for its answer; errors as `WorkerClient.ask`.

        The first message also waits for the cluster to start the actor. `heartbeat_s` is not
        used: an actor has none.

        Raises
        ------
        EngineError
            Also if the cluster has no room for the actor, or its node has other versions of what
            decides a reply, or lacks a file.
        IntegrityError
            If a file of the model differs on the actor's node.
        """
        if self._node is None:
            self._node = self._begin(timeout_s)
        if message["op"] == "load":
            self._compare_files(self._node["node"], timeout_s)
        answer = json.loads(self.call("answer", json.dumps(message), timeout_s=timeout_s))
        if "ok" in answer:
            return answer["ok"]
        if "refused" in answer:
            raise EngineError(*(Problem(**p) for p in answer["refused"]))
        if "fault" in answer:
            raise WorkerFaultError(answer["fault"])
        raise RuntimeError(f"the actor failed:\n{answer['bug']}")

    def call(self, method: str, *args: str, timeout_s: float) -> str:
        """Call a method of the actor.

        Raises
        ------
        WorkerDiedError, WorkerSilentError
            If the actor or its node is gone, or does not answer in time.
        RuntimeError
            For a bug in the actor, with its traceback.
        """
        errors = self._ray.exceptions
        try:
            return str(self._ray.get(getattr(self._actor, method).remote(*args), timeout=timeout_s))
        except errors.GetTimeoutError as exc:
            raise WorkerSilentError(f"no answer within {timeout_s:g} s") from exc
        except errors.RayTaskError as exc:
            raise RuntimeError(f"the actor failed:\n{exc}") from exc
        except errors.RayError as exc:
            self._ended = True
            raise WorkerDiedError(f"the actor ended: {_cause(exc)}") from exc

    def _begin(self, timeout_s: float) -> dict[str, Any]:
        """Wait for the actor to run; refuse one that would answer differently."""
        try:
            node: dict[str, Any] = json.loads(self.call("node", timeout_s=timeout_s))
        except WorkerSilentError as exc:
            what = f"the cluster started no actor with {self._asked_for} within {timeout_s:g} s"
            remedy = "see `ray status` for what it has, and ask for less or for fewer workers"
            raise EngineError(Problem(what, remedy=remedy)) from exc
        ours = _versions()
        if problems := [
            Problem(
                f"node {node['node'][:8]} has another version of {library}",
                found=f"{theirs}; here: {ours[library]}",
                remedy="install the same versions on every node",
            )
            for library, theirs in node["versions"].items()
            if theirs != ours[library]
        ]:
            raise EngineError(*problems)
        return node

    def _compare_files(self, node: str, timeout_s: float) -> None:
        remedy = "copy the same file to the same path on every node"
        for path, expected in self._sha256.items():
            found = _HASHES.of(self, path, node=node, timeout_s=timeout_s)
            if not found:
                what = f"there is no such file on node {node[:8]}"
                raise EngineError(Problem(what, path, remedy=remedy))
            if found != expected:
                what = f"is another file on node {node[:8]}"
                raise IntegrityError(Problem(what, path, found=f"SHA-256 {found}", remedy=remedy))

    def kill(self) -> None:
        """End the actor at once."""
        self._ended = True
        if self._ray.is_initialized():
            self._ray.kill(self._actor, no_restart=True)


def _versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in _LIBRARIES}


def _cause(exc: BaseException) -> str:
    """The one line of a Ray error that says what happened, without its advice."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    return lines[-1].split(" Some common causes", 1)[0] if lines else type(exc).__name__


_CONNECTING = threading.Lock()


def connect(address: str | None = None) -> Any:
    """The `ray` module, connected to a cluster.

    An existing connection is used as it is. Otherwise the cluster is the one at `address`, or at
    RAY_ADDRESS, or one that runs on this machine, or a new one on this machine, which ends with
    this process.

    Raises
    ------
    EngineError
        If Ray is not installed or no cluster answers.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)  # Ray reads them when it is imported
    try:
        import ray
    except ImportError as exc:
        remedy = 'install it: pip install "prereg-judge[ray]"'
        raise EngineError(Problem("the executor `ray` needs Ray", remedy=remedy)) from exc
    with _CONNECTING:
        if not ray.is_initialized():
            _initialise(ray, address)
    return ray


def _initialise(ray: Any, address: str | None) -> None:
    """Connect, in a thread that lasts as long as the process.

    Linux ends a new cluster's processes together with the thread that started them. And in the
    main thread Ray would take over the handler of SIGTERM.
    """
    done, errors = threading.Event(), list[Exception]()

    def work() -> None:
        try:
            ray.init(address, include_dashboard=False, log_to_driver=False, logging_level="error")
        except Exception as exc:  # raised anew below
            errors.append(exc)
        done.set()
        if not errors:
            threading.Event().wait()

    _reach(address or os.environ.get("RAY_ADDRESS", ""))
    threading.Thread(target=work, daemon=True, name="ray").start()
    if not done.wait(_CONNECT_WAIT_S):
        raise _unreachable(f"no answer within {_CONNECT_WAIT_S:g} s", address)
    for exc in errors:
        if not isinstance(exc, ConnectionError | OSError | RuntimeError | ValueError):
            raise exc
        raise _unreachable(str(exc), address) from exc


def _reach(address: str) -> None:
    """Refuse an address where nothing listens; Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or "/" in host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_WAIT_S).close()
    except (OSError, OverflowError) as exc:
        raise _unreachable(str(exc), address) from exc


def _unreachable(why: str, address: str | None) -> EngineError:
    remedy = "start one with `ray start --head`, or name the one that runs"
    return EngineError(
        Problem(f"no Ray cluster can be reached: {why}", found=address, remedy=remedy)
    )
