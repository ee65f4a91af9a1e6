"""What the pages print of a score is what the commands on the same page give."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from support import REPOSITORY, prereg

_BLOCK = re.compile(r"<!-- `(prereg score [^`]*)`: begin -->\n\n(.*?)\n\n<!-- end -->", re.DOTALL)
_NEW = re.compile(r"(?m)^    prereg (new (?:.*\\\n)*.*)$")
PAGES = ("reference-swap", "annotators")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_its_commands_print(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registered, locked and run by the page's own commands, the score has every line of the page,
    in the page's order; `...` on the page stands for lines that are left out.
    """
    monkeypatch.setenv("COLUMNS", "96")
    text = (REPOSITORY / f"docs/{page}.md").read_text(encoding="utf-8")
    root = tmp_path / "w"
    assert prereg("init", str(root), root=tmp_path).code == 0
    commands = {found[1]: found for found in map(_split, _NEW.findall(text))}
    blocks = _BLOCK.findall(text)
    assert blocks
    for score, block in blocks:
        ident = shlex.split(score)[2]
        for verb in (commands[ident], ["lock", ident], ["run", ident]):
            done = prereg(*verb, root=root)
            assert done.code == 0, done.err
        said = [
            line.rstrip() for line in prereg(*shlex.split(score)[1:], root=root).out.split("\n")
        ]
        at = 0
        for line in (line[4:].rstrip() for line in block.split("\n")):
            if line != "...":
                assert line in said[at:], line
                at = said.index(line, at) + 1


def _split(command: str) -> list[str]:
    return shlex.split(command.replace("\\\n", " "))
