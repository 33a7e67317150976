"""After random histories every version, every past moment and every page agrees with a plain model."""

import pytest

from .hive import Agent
from .random_history import RandomHistory

pytestmark = pytest.mark.asyncio(loop_scope="session")

STEPS = 100


@pytest.mark.parametrize("seed", [2, 7, 23])
async def test_a_random_history_agrees_with_the_model(bot: Agent, seed: int) -> None:
    history = RandomHistory(bot, seed)
    await history.live(STEPS)
    await history.everything_agrees()
    assert set(history.refused) >= {40001, 40401, 40901, 40902}, "the history was too tame"
    assert set(history.done) == {"put", "patch", "delete", "restore", "fork", "expire", "erase"}
