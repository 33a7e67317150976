"""After random writes, retries, conflicts, freezes, erasures and restarts, all answers agree with the model."""

import random

import pytest

from .agreement import agree
from .backends import Backend
from .random_history import RandomHistory

STEPS = 80
FRESH = random.SystemRandom()


@pytest.mark.parametrize("seed", [1, 2, None], ids=lambda seed: f"seed-{seed or 'fresh'}")
async def test_everything_agrees_with_the_model_after_a_random_life(backend: Backend, seed: int | None) -> None:
    seed = seed or FRESH.randrange(2**32)
    try:
        life = RandomHistory(backend, seed)
        await life.run(STEPS)
        for ledger in (*[process.ledger for process in life.processes], await backend.open()):
            await agree(ledger, life.model, life.draw)
    except BaseException as error:
        error.add_note(f"the seed of this life is {seed}")
        raise
