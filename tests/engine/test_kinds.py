"""Models of other kinds, really run: recurrent ones and ones with a sliding window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.small_model import FREE, among, call, numbers, shared, spec, whole_reply
from engine.tiny_models import mamba, windowed
from prereg_judge.engine.llama import Model
from prereg_judge.engine.protocol import Call, SessionSettings
from prereg_judge.engine.session import Session

pytestmark = pytest.mark.filterwarnings("ignore:llama_token_get_attr is deprecated")

LABELS = ("A_MUCH", "A_LITTLE", "B")


@pytest.fixture(params=[mamba, windowed], scope="module")
def tiny(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Model]:
    """A tiny model of each kind."""
    path: Path = request.param(tmp_path_factory.mktemp("tiny") / "tiny.gguf")
    yield Model(spec(path), beat=lambda: None)
    path.unlink()


def answered(
    model: Model, path: str, groups: list[list[Call]], *, parallel: int
) -> list[tuple[object, ...]]:
    """What comes of groups of calls in one session; how much was reused comes last."""
    constraint = among(*LABELS)
    texts = {label: whole_reply(constraint, label) for label in LABELS}
    settings = SessionSettings(constraint, FREE, 16, parallel=parallel)
    if path == "choice":
        settings = replace(settings, path="choice", texts=texts)
    one = Session(model, settings)
    found = [(*numbers(r), r.n_reused) for group in groups for r in one.run(group)]
    one.close()
    return found


@pytest.mark.parametrize("path", ["generate", "choice"])
def test_no_kind_of_model_remembers_the_call_before(tiny: Model, path: str) -> None:
    """Alone or after others, a call's numbers are the same; a recurrent model reuses nothing."""
    calls = [call(t, seed=i, cuts=(10, shared())) for i, t in enumerate(("cat", "table", "cats"))]
    fresh = [answered(tiny, path, [[c]], parallel=1)[0][:-1] for c in calls]
    found = answered(tiny, path, [[calls[i]] for i in (0, 1, 2, 1, 0)], parallel=1)
    assert [f[:-1] for f in found] == [fresh[i] for i in (0, 1, 2, 1, 0)]
    reused = [0] * 5 if tiny.facts().recurrent else [0] + [shared()] * 4
    assert [f[-1] for f in found] == reused


@pytest.mark.parametrize("path", ["generate", "choice"])
def test_a_group_of_any_kind_is_as_good_as_alone(tiny: Model, path: str) -> None:
    """Four at once get the verdicts that they get alone, with masses as near as digits allow."""
    words = ("cat", "table", "cats", "the river")
    calls = [call(t, seed=i, cuts=(10, shared())) for i, t in enumerate(words)]
    alone = answered(tiny, path, [[c] for c in calls], parallel=1)
    together = answered(tiny, path, [calls, calls], parallel=4)
    assert [f[0] for f in together] == [f[0] for f in alone] * 2
    masses, expected = (np.array([f[4] for f in run], dtype=float) for run in (together, alone * 2))
    np.testing.assert_allclose(masses, expected, rtol=1e-3)
    assert together[4:][0][:-1] == together[0][:-1]
    if tiny.facts().recurrent:
        assert [f[-1] for f in together] == [0] * 8
