"""Inputs made to break the reader get a message and exit 2, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from prereg_judge import sandbox
from prereg_judge.errors import EngineError, Problem
from support import (
    JUDGE,
    locked,
    make_workspace,
    new,
    prereg,
    run_scripted,
    verdict_reply,
    write_items,
)

PROMPT = 'prompt: "{{ text }}: YES or NO?"'


@pytest.mark.parametrize(
    "template",
    [
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }} {{ text }}",
        "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }} {{ text }}",
        "{{ " + "not " * 3000 + "1 }} {{ text }}",
        "{% for a in text %}" * 25 + "{% endfor %}" * 25,
        "{{ text + 1 }}",
        "{{ text.nothing.at.all }}",
        "{% for a in range(9999) %}" * 4 + "{% endfor %}" * 4 + "{{ text }}",
        "{{ 9 ** 9 ** 9 }} {{ text }}",
        "{{ text * 10000000000 }}",
        "{{ [text, 'b'] | random }}",
        "{{ lipsum() }} {{ text }}",
    ],
    ids=[
        *("endless macro", "parentheses", "nots", "loops", "wrong type", "no such field"),
        *("slow", "power", "long text", "random filter", "random text"),
    ],
)
def test_a_template_that_cannot_be_rendered_is_refused(
    tmp_path: Path, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a template does, also without an end or by chance, the judge file is named."""
    monkeypatch.setattr(sandbox, "RENDER_LIMIT_S", 0.5)
    judge = JUDGE.replace(PROMPT, f"prompt: {json.dumps(template)}")
    root = make_workspace(tmp_path / "w", judge=judge)
    assert new(root, "x").code == 0
    done = prereg("check", "x", root=root)
    assert (done.code, "Traceback" in done.err) == (2, False)
    assert "judge/yes-no.yaml" in done.err


@pytest.mark.parametrize("depth", [900, 100_000])
def test_a_deeply_nested_row_is_refused(tmp_path: Path, depth: int) -> None:
    """A field that nests too deeply is an error of its line."""
    root = make_workspace(tmp_path / "w")
    deep = "[" * depth + "]" * depth
    row = '{"id": "r", "text": "a", "more": ' + deep + "}\n"
    (root / "sentinels/small.jsonl").write_text(row, encoding="utf-8")
    assert new(root, "x").code == 0
    done = prereg("check", "x", root=root)
    assert (done.code, "Traceback" in done.err) == (2, False)
    assert "small.jsonl" in done.err


def test_a_control_token_across_two_fields_is_refused(tmp_path: Path) -> None:
    """What no field holds and the message does: the row is named by its line."""
    judge = JUDGE.replace("fields: [text]", "fields: [a, b]").replace(
        "{{ text }}", "{{ a }}{{ b }}"
    )
    root = make_workspace(tmp_path / "w", judge=judge)
    rows = [{"id": f"r{n}", "a": "<|im_" if n == 2 else "x", "b": "end|>"} for n in range(4)]
    write_items(root / "sentinels/small.jsonl", rows)
    assert new(root, "x").code == 0
    done = prereg("check", "x", root=root)
    assert done.code == 2
    assert "small.jsonl:3: row 'r2'" in done.err
    assert "'<|im_end|>'" in done.err
    assert done.err.count("error:") == 1


def test_a_plan_that_nobody_can_run_is_refused(tmp_path: Path) -> None:
    """Rows times passes are computed before anything walks through them."""
    root = make_workspace(tmp_path / "w", n=1001)
    assert new(root, "x", passes="10000").code == 0
    done = prereg("check", "x", root=root)
    assert done.code == 2
    assert "registrations/x.yaml:44: protocol.passes: 1001 rows" in done.err
    assert "10010000 trials" in done.err


@pytest.mark.parametrize(
    ("text", "n_ctx"), [("word " * 300, "256"), ("a <|im_end|>", "1024"), (["a"], "1024")],
    ids=["long", "control", "list"],
)  # fmt: skip
def test_two_hundred_bad_rows_are_twenty_lines(tmp_path: Path, text: object, n_ctx: str) -> None:
    """Rows that do not fit or cannot be shown are listed up to twenty, then counted."""
    root = make_workspace(tmp_path / "w")
    rows = [{"id": f"r{n}", "label": "NO", "text": text} for n in range(200)]
    write_items(root / "sentinels/small.jsonl", rows)
    assert new(root, "x", n_ctx=n_ctx).code == 0
    done = prereg("check", "x", root=root)
    assert (done.code, done.err.count("error:")) == (2, 21)
    assert "and 180 more" in done.err


def test_a_schema_that_the_grammar_refuses_names_the_judge_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the judge's own checks let through is still told as the judge file's `output`."""

    def refuse(*_: object) -> str:
        raise EngineError(Problem("the output schema cannot be made into a grammar: no"))

    monkeypatch.setattr("prereg_judge.engine.inspect.Inspector.compile", refuse)
    root = make_workspace(tmp_path / "w")
    assert new(root, "x").code == 0
    done = prereg("check", "x", root=root)
    assert done.code == 2
    assert "judge/yes-no.yaml:13: output: the output schema cannot" in done.err


def test_sentinel_check_without_the_texts_names_lines(tmp_path: Path) -> None:
    """A wrong field's name is told by file and line, twenty times and then counted."""
    rows = [{"id": f"r{n}", "original": "a", "rewrite": "b"} for n in range(30)]
    rows.append({"id": "last", "original": "a", "rewrite": "b", "foo": "c"})
    write_items(tmp_path / "s.jsonl", rows)
    done = prereg("sentinel", "check", str(tmp_path / "s.jsonl"), "--original", "foo")
    assert (done.code, done.err.count("error:")) == (2, 21)
    assert "s.jsonl:1: r0: field 'foo' holds no text" in done.err
    assert "and 10 more" in done.err
    done = prereg("sentinel", "check", str(tmp_path / "s.jsonl"))
    assert done.code == 1
    assert "r0: not confirmed: the row declares no kind; rules exist for" in done.out
    assert "None" not in done.out


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    """Any single flipped byte is read as the same table, another one, or an error."""
    root = make_workspace(tmp_path / "w")
    path = root / "sentinels/small.parquet"
    pl.DataFrame({"id": ["a", "b"], "text": ["cat", "dog"]}).write_parquet(path)
    good = path.read_bytes()
    assert new(root, "x", sentinel="sentinels/small.parquet", band="calls.hangs=1..2").code == 0
    for at in range(0, len(good), 7):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :])
        done = prereg("check", "x", root=root)
        assert done.code in (0, 2), (at, done.err)
        assert "Traceback" not in done.err


@pytest.mark.parametrize("text", ["[" * 100_000, '{"files": {}}', "[]", "null"])
def test_a_manifest_that_is_none_is_invalid(tmp_path: Path, text: str) -> None:
    """In an open run as in a finished one, what is not a manifest is named as such."""
    root = make_workspace(tmp_path / "w")
    locked(root, "x")
    run_scripted(root, "x", lambda _key, _n: verdict_reply("NO"))
    (root / "runs/x/1/manifest.json").write_text(text, encoding="utf-8")
    for verb in ("score", "run"):
        done = prereg(verb, "x", *(["--again"] if verb == "run" else []), root=root)
        assert "Traceback" not in done.err
        assert done.code in (0, 5), done.err
    assert prereg("score", "x", "--run", "1", root=root).code == 5
    assert prereg("status", root=root).code == 0


def test_a_bug_does_not_exit_with_a_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception that nobody expected prints its traceback and exits 70, not 1 (FAIL)."""
    root = make_workspace(tmp_path / "w")

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("prereg_judge.cli.status.standing", broken)
    assert new(root, "x").code == 0
    done = prereg("status", root=root)
    assert done.code == 70
    assert "ZeroDivisionError" in done.err
