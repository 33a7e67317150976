"""After random histories every head, page, past state and the whole feed agree with a plain model."""

import pytest

from .hive import Agent
from .random_history import RandomHistory

pytestmark = pytest.mark.asyncio(loop_scope="session")

STEPS = 400


@pytest.mark.parametrize("seed", [1, 11, 19])
async def test_a_random_history_agrees_with_the_model(bot: Agent, seed: int) -> None:
    history = RandomHistory(bot, seed)
    await history.live(STEPS)
    await history.everything_agrees()
    assert set(history.refused) >= {40401, 40901, 40902, 40903}, "the history was too tame"
