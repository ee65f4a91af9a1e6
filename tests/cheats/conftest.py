"""The workspace that is damaged, made once."""

from __future__ import annotations

import pytest

from cheats.workspaces import Rich, build, copied


@pytest.fixture(scope="session")
def rich_once(tmp_path_factory: pytest.TempPathFactory) -> Rich:
    """The workspace as it was made."""
    return build(tmp_path_factory.mktemp("rich"))


@pytest.fixture(scope="module")
def rich(rich_once: Rich, tmp_path_factory: pytest.TempPathFactory) -> Rich:
    """A module's own copy, which every test leaves as it was."""
    return copied(rich_once, tmp_path_factory.mktemp("copy") / "w")
