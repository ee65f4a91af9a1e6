"""What the package promises about itself: pins, shipped files, schemas."""

from __future__ import annotations

import importlib.metadata
import json
import re
import tomllib
from pathlib import Path

import jsonschema

from support import REPOSITORY, locked, make_workspace, prereg, run_scripted, verdict_reply

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_llama_cpp_python_is_pinned_exactly_and_installed_so() -> None:
    """The low-level structs move, so exactly one version is accepted."""
    pins = [d for d in PROJECT["dependencies"] if d.startswith("llama-cpp-python")]
    assert pins == [f"llama-cpp-python=={importlib.metadata.version('llama-cpp-python')}"]


def test_every_runtime_dependency_has_an_upper_bound() -> None:
    """A new major version of a library is taken on purpose only."""
    for dependency in PROJECT["dependencies"]:
        assert re.search(r"==|<", dependency), dependency


def test_the_two_commands_are_one() -> None:
    """`prereg` and `prereg-judge` start the same program."""
    scripts = PROJECT["scripts"]
    assert scripts["prereg"] == scripts["prereg-judge"]


def test_a_score_follows_its_shipped_schema(tmp_path: Path) -> None:
    """What `score --json` prints and `score.json` holds validates, and both are equal."""
    root = make_workspace(tmp_path / "w")
    locked(root, "schema", stop="calls.hangs >= 1 in 2 over 4", decide="calls.hangs >= 1 => stop")
    run_scripted(
        root, "schema", lambda key, _before: verdict_reply("YES" if "r01" in key else "NO")
    )
    shown = prereg("score", "schema", "--json", root=root).json
    path = REPOSITORY / "src/prereg_judge/report/score.schema.json"
    jsonschema.validate(shown, json.loads(path.read_text(encoding="utf-8")))
    written = json.loads((root / "runs/schema/1/score.json").read_text(encoding="utf-8"))
    assert written == shown
