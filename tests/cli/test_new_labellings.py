"""`prereg new` for labellings and annotators: what flags become, what is asked, what is refused."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from cli.test_new_tables import Flags, asked, write
from labelling_work import ADJUDICATED, LABELS_FILE, VOTES_FILE, write_labels, write_spans
from prereg_judge.registration.load import load_registration, read_registration
from prereg_judge.registration.schema_forms import TableRegistration
from support import REPOSITORY, make_workspace, prereg

COMMON: Flags = {"title": "Is it so?", "seen": "nothing", "resampling": "200,seed=7,by_stratum"}
SWAP: Flags = {
    **COMMON, "study": "reference-swap", "form": "spans", "outputs": "A,B",
    "labellings": "data/spans.jsonl,item=id,stratum=part,A=by.A,B=by.B,gold=by.gold,C=by.C",
    "references": "gold,C", "match": "relaxed", "duplicates": "keep_all",
    "band": "delta[output=A]=0.1..0.9",
}  # fmt: skip
VOTED: Flags = {
    **COMMON, "study": "annotators", "votes": VOTES_FILE, "layout": "long",
    "column": "item=item,annotator=who,label=label,stratum=part", "pool": "all=*", "key": "stored",
    "split": "exclude", "band": "agreement.rate=0.3..0.9",
}  # fmt: skip
LABELLED: Flags = {
    **COMMON, "study": "annotators", "form": "labels", "pool": ["near=A|gold", "far=B|C"],
    "labellings": f"{LABELS_FILE},item=item,stratum=part,A=A,B=B,gold=gold,C=C",
    "band": "agreement.rate=0.3..0.9",
}  # fmt: skip


def workspace(path: Path) -> Path:
    """A workspace with marks as rows, CoNLL and brat, and labels as rows and votes."""
    root = make_workspace(path)
    for kind in ("rows", "conll", "brat"):
        write_spans(root, kind)
    write_labels(root)
    return root


def loaded(root: Path) -> TableRegistration:
    """The registration that was written."""
    model = load_registration(root / "registrations/x.yaml", shown="x.yaml").model
    assert isinstance(model, TableRegistration)
    return model


def told(root: Path) -> dict[str, Any]:
    """The same as plain data."""
    return loaded(root).model_dump(by_alias=True, exclude_none=True)


def test_references_with_a_map_and_a_family(tmp_path: Path) -> None:
    """Every flag stands in the file, and what is written passes every check."""
    root = workspace(tmp_path / "w")
    flags = {**SWAP, "merge": ["PER=NAME,LOC=NAME", "ORG=NAME"], "match": "coarse",
             "family": ["delta[output=A]", "skew[reference=gold]"]}  # fmt: skip
    done = write(root, flags)
    assert done.code == 0, done.err
    data = told(root)
    assert data["labellings"] == {
        "form": "spans",
        "files": ({
            "file": "data/spans.jsonl", "format": "rows", "item": "id", "stratum": "part",
            "labellings": {"A": "by.A", "B": "by.B", "gold": "by.gold", "C": "by.C"},
        },),
        "match": "coarse", "duplicates": "keep_all", "outputs": ("A", "B"),
        "references": ("gold", "C"),
    }  # fmt: skip
    assert data["merge"] == {"PER": "NAME", "LOC": "NAME", "ORG": "NAME"}
    assert data["family"] == (
        {"metric": "delta", "output": "A"}, {"metric": "skew", "reference": "gold"}
    )  # fmt: skip
    assert data["resampling"] == {"resamples": 200, "seed": 7, "by_stratum": True}
    checked = prereg("check", "x", root=root)
    assert checked.code == 0, checked.err


def test_files_of_each_format_together(tmp_path: Path) -> None:
    """One flag a file: columns of tags by number, sub-folders of standoff files by name."""
    root = workspace(tmp_path / "w")
    files = ["data/spans.conll,tags=iob2,A=2,B=3", "ann,format=brat,gold=gold,C=C"]
    done = write(root, {**SWAP, "labellings": files})
    assert done.code == 0, done.err
    assert told(root)["labellings"]["files"] == (
        {"file": "data/spans.conll", "format": "conll", "tags": "iob2",
         "labellings": {"A": 2, "B": 3}},
        {"file": "ann", "format": "brat", "labellings": {"gold": "gold", "C": "C"}},
    )  # fmt: skip


def test_annotators_who_voted(tmp_path: Path) -> None:
    """One pool is enough; a scale by rank and an adjudicator's file stand in the file."""
    root = workspace(tmp_path / "w")
    flags = {
        **VOTED,
        "order": "low,mid,high",
        "adjudication": f"{ADJUDICATED},item=item,label=label",
    }
    done = write(root, flags)
    assert done.code == 0, done.err
    data = told(root)
    assert data["scale"] == {"order": ("low", "mid", "high")}
    assert data["adjudication"] == {"file": ADJUDICATED, "item": "item", "label": "label"}
    assert data["annotations"]["pools"] == ({"name": "all", "match": ("*",)},)
    checked = prereg("check", "x", root=root)
    assert checked.code == 0, checked.err


def test_annotators_whose_labels_are_columns(tmp_path: Path) -> None:
    """Pools are of labellings' names then, and a number for each label is read as numbers."""
    root = workspace(tmp_path / "w")
    done = write(root, {**LABELLED, "value": ["low=1", "mid=2,high=4.5"]})
    assert done.code == 0, done.err
    data = told(root)
    assert "annotations" not in data
    assert data["labellings"]["pools"] == (
        {"name": "near", "match": ("A", "gold")}, {"name": "far", "match": ("B", "C")}
    )  # fmt: skip
    assert data["scale"] == {"values": {"low": 1, "mid": 2, "high": 4.5}}
    checked = prereg("check", "x", root=root)
    assert checked.code == 0, checked.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({**SWAP, "labellings": None}, "missing: --labellings data/spans.jsonl,item=id,"),
        ({**SWAP, "labellings": "s.jsonl,A=b"}, "--labellings: the format rows also needs item="),
        ({**SWAP, "labellings": "s.jsonl,item=id,tags=iob2,A=a,B=b,gold=g,C=c"},
         "--labellings (labellings.files[0].tags): `tags` is not for the format rows"),
        ({**SWAP, "labellings": "s.conll,tags=bio,A=2,B=3,gold=4,C=5"},
         "--labellings (labellings.files[0].tags): must be"),
        ({**SWAP, "form": None}, "missing: --form spans"),
        ({**SWAP, "form": "text"}, "--form: must be 'spans' or 'labels'"),
        ({**SWAP, "outputs": None}, "missing: --outputs A,B"),
        ({**SWAP, "outputs": "A"}, "--outputs: needs two outputs or more"),
        ({**SWAP, "outputs": "A,D"}, "--outputs: `D` is no labelling of these files"),
        ({**SWAP, "outputs": "A,,B"}, "--outputs: expected a name"),
        ({**SWAP, "references": None}, "missing: --references gold,C"),
        ({**SWAP, "references": "A,gold"}, "--references: `A` is an output and a reference"),
        ({**SWAP, "match": None}, "missing: --match relaxed"),
        ({**SWAP, "match": "loose"}, "--match: must be"),
        ({**SWAP, "match": "coarse"}, "--match: coarse types are those of a map"),
        ({**SWAP, "duplicates": None}, "missing: --duplicates keep_all"),
        ({**SWAP, "duplicates": "merge"}, "--duplicates: must be"),
        ({**SWAP, "merge": "a=b,b=c"}, "--merge (merge): maps `a` to `b`"),
        ({**SWAP, "merge": "a"}, "--merge: expected `=`"),
        ({**SWAP, "family": "f1[output=A]"}, "--family (family[0].metric): is no test"),
        ({**SWAP, "family": ["interaction", "interaction"]}, "--family (family): names a test"),
        ({**SWAP, "family": "delta[output=A] > 0"}, "--family: did not expect more"),
        ({**SWAP, "resampling": None}, "missing: --resampling 2000,seed=20261130"),
        ({**SWAP, "band": None}, 'missing: --band "delta[output=A]=0..0.1"'),
        ({**SWAP, "pool": "all=*"}, "--pool: is for pairwise, pools, judge-pools, leaderboard, "),
        ({**SWAP, "votes": "v.csv"}, "--votes: is for pairwise"),
        ({**SWAP, "order": "a,b"}, "--order: is for annotators"),
        ({**SWAP, "adjudication": "s.csv,item=i,label=l"}, "--adjudication: is for annotators"),
        ({**SWAP, "judge": "judge/a.yaml"}, "--judge: is for a study that calls a judge"),
        ({**SWAP, "stop": "calls.hangs >= 1"}, "--stop (stop)"),
        ({**VOTED, "votes": None, "layout": None, "column": None, "pool": None, "key": None,
          "split": None}, "missing: --votes data/votes.csv # File of votes; or --labellings"),
        ({**VOTED, "pool": None}, "missing: --pool"),
        ({**VOTED, "gap": "credit"}, "--gap: is for pairwise, pools, judge-pools, leaderboard"),
        ({**VOTED, "sample": "40,seed=1"}, "--sample: is for pairwise"),
        ({**VOTED, "family": "interaction"}, "--family: is for reference-swap"),
        ({**VOTED, "outputs": "A,B"}, "--outputs: is for reference-swap"),
        ({**VOTED, **LABELLED}, "--labellings: labellings are given, and votes too"),
        ({**VOTED, "order": "low"}, "--order: needs at least 2 entries"),
        ({**VOTED, "order": "low,mid", "value": "low=1,mid=2"},
         "needs one of `order` and `values`"),
        ({**VOTED, "value": "low=1,mid=1"}, "--value (scale.values): two labels have one number"),
        ({**VOTED, "value": "low=x"}, "--value: expected a number"),
        ({**VOTED, "adjudication": "s.csv,item=i"}, "--adjudication: also needs label="),
        ({**LABELLED, "pool": None}, "missing: --pool"),
        ({**LABELLED, "pool": "near=A"}, "--pool (labellings.pools): `B` belongs to no pool"),
        ({**LABELLED, "form": "spans"}, "missing: --duplicates keep_all"),
        ({**LABELLED, "duplicates": "first"}, "--duplicates: `duplicates` is not for single"),
        ({**LABELLED, "form": "spans", "duplicates": "first", "order": "low,mid"},
         "--order: `scale` is for single labels"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_by_its_flag(flags: Flags, words: str, tmp_path: Path) -> None:
    """Exit 2, the flag, what would do; and no file."""
    root = make_workspace(tmp_path / "w")
    done = write(root, flags)
    assert (done.code, done.out) == (2, "")
    assert words in " ".join(done.err.split())
    assert not (root / "registrations/x.yaml").exists()


@pytest.mark.parametrize("flag", [("labellings", "s.csv,item=i,A=a"), ("form", "spans"),
                                  ("outputs", "A,B"), ("merge", "a=b"), ("family", "interaction"),
                                  ("duplicates", "first"), ("match", "strict")])  # fmt: skip
@pytest.mark.parametrize("study", ["pools", "self-agreement"])
def test_other_studies_take_no_flag_of_labellings(
    study: str, flag: tuple[str, str], tmp_path: Path
) -> None:
    """Such a flag is refused for what it is."""
    done = write(make_workspace(tmp_path / "w"), {"study": study, flag[0]: flag[1]})
    assert done.code == 2
    assert f"--{flag[0]}: is for reference-swap" in done.err


def test_a_draft_leaves_what_is_missing_to_be_filled_in(tmp_path: Path) -> None:
    """--draft writes what is known; `check` then names every gap and nothing else."""
    root = make_workspace(tmp_path / "w")
    assert write(root, {"study": "reference-swap", "outputs": "A,B"}, "--draft").code == 0
    done = prereg("check", "x", root=root)
    assert done.code == 2
    lines = [line for line in done.err.splitlines() if "error: " in line]
    # title, form, files, match, duplicates, references, resampling, bands, seen
    assert len(lines) == done.err.count("placeholder TODO") == 9


def test_a_person_is_asked_for_references(tmp_path: Path) -> None:
    """A name that is no labelling's, or stands on both sides, is asked for again at once."""
    root = workspace(tmp_path / "w")
    answers = [
        "Does it move?",
        *("data/spans.jsonl,A=by.A", str(SWAP["labellings"])),
        *("words", "spans"),
        *("A,D", "A,B"),
        *("gold,B", "gold,C"),
        *("coarse", "relaxed"),
        *("drop all", "keep_all"),
        *("2000", "200,seed=7"),
        "nothing",
        *("delta", "delta[output=A]=0.1..0.9"),
    ]
    code, shown = asked(root, ["new", "x", "--study", "reference-swap"], answers)
    assert code == 0, shown
    for words in ("`D` is no labelling", "`B` is an output and a reference", "those of a map"):
        assert words in shown
    assert loaded(root).labellings is not None
    assert prereg("check", "x", root=root).code == 0


def test_a_person_chooses_between_votes_and_labellings(tmp_path: Path) -> None:
    """An empty answer for votes leads to files of labellings, and to what these need."""
    root = workspace(tmp_path / "w")
    answers = [
        "Do they agree?", "", str(LABELLED["labellings"]), "labels",
        *("near=A", "near=A|gold,far=B|C"), "200,seed=7", "nothing", "agreement.rate=0.3..0.9",
    ]  # fmt: skip
    code, shown = asked(root, ["new", "x", "--study", "annotators"], answers)
    assert code == 0, shown
    assert "`B` belongs to no pool" in shown
    assert "Layout of the votes" not in shown
    assert told(root)["labellings"]["form"] == "labels"
    (root / "registrations/x.yaml").unlink()
    answers = [
        "Do they agree?", VOTES_FILE, "long", "item=item,annotator=who,label=label", "all=*",
        "stored", "exclude", "200,seed=7", "nothing", "agreement.rate=0.3..0.9",
    ]  # fmt: skip
    code, shown = asked(root, ["new", "x", "--study", "annotators"], answers)
    assert code == 0, shown
    assert loaded(root).annotations is not None


def test_metrics_are_searched_for(tmp_path: Path) -> None:
    """--grep keeps the metrics whose name or meaning has the text; none is an error that helps."""
    found = prereg("metrics", "annotators", "--grep", "KAPPA", "--json").json["annotators"]
    assert found
    assert all("kappa" in f"{m['metric']} {m['summary']}".lower() for m in found)
    shown = " ".join(prereg("metrics", "reference-swap", "--grep", "skew").out.split())
    assert "skew" in shown
    assert "band.width" not in shown
    assert "pass" not in shown
    nothing = prereg("metrics", "annotators", "--grep", "kapa")
    assert nothing.code == 2
    assert "--grep" in nothing.err


def _commands(page: str) -> list[list[str]]:
    """The `prereg new` commands of a page, as a shell splits them."""
    text = (REPOSITORY / f"docs/{page}.md").read_text(encoding="utf-8")
    found = re.findall(r"(?m)^    prereg (new (?:.*\\\n)*.*)$", text)
    return [shlex.split(command.replace("\\\n", " ")) for command in found]


@pytest.mark.parametrize("page", ["reference-swap", "annotators"])
def test_commands_and_registrations_of_the_pages_work(page: str, tmp_path: Path) -> None:
    """Each command writes a registration that passes every check; so does each YAML example, and it
    says the same as the command of its id.
    """
    root = make_workspace(tmp_path / "w")
    for name in ("requests-spans.jsonl", "requests-votes.csv"):
        (root / "sentinels" / name).write_bytes((REPOSITORY / "sentinels" / name).read_bytes())
    commands = _commands(page)
    assert commands
    for command in commands:
        done = prereg(*command, root=root)
        assert done.code == 0, done.err
        checked = prereg("check", command[1], root=root)
        assert checked.code == 0, checked.err
    text = (REPOSITORY / f"docs/{page}.md").read_text(encoding="utf-8")
    examples = [y for y in re.findall(r"(?s)```yaml\n(.*?)```", text) if y.startswith("prereg: 1")]
    assert examples
    for example in examples:
        model = read_registration(example.encode(), shown=page).model
        path = root / f"registrations/{model.id}.yaml"
        assert model == load_registration(path, shown=path.name).model
