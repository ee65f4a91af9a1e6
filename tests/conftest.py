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
    """With two workers a file's tests stay in one, so that its fixtures are made once."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(item.path.name))
