"""Set-up for all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

import hypothesis
import pytest

# A shell that starts a job in the background lets it ignore Ctrl-C, and its children with it;
# the commands that the tests interrupt must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says how busy the machine is, and nothing of what is tested.
hypothesis.settings.register_profile("prereg", deadline=None)
hypothesis.settings.load_profile("prereg")

# The width of whoever started the tests, or of a worker that has none, is no business of theirs.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)


@pytest.hookimpl(tryfirst=True)  # the groups are read off by a hook of the same name
def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """With two workers: what loads the model one after the other in one, the rest file by file.

    Two models at once would take each other's cores, and a file's fixtures are made once.
    """
    for item in items:
        loads = item.get_closest_marker("model") is not None
        item.add_marker(pytest.mark.xdist_group("model" if loads else item.path.name))
