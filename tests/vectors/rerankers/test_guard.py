"""The guard bounds what a reranker is asked, and for how long."""

import asyncio
from collections.abc import Sequence

import pytest

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.circuit_breaker import FAILURES, CircuitBreaker
from hivemem_vectors.rerankers import ports
from hivemem_vectors.rerankers.ports import CHARACTERS_PER_TEXT, GuardedReranker


class HangingReranker:
    """Answers only if its gate is open."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []
        self.gate = asyncio.Event()

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        self.asked.append((query, list(texts)))
        await self.gate.wait()
        return [0.5 for _ in texts]

    async def close(self) -> None:
        pass


async def test_only_the_beginning_of_a_long_text_is_read() -> None:
    inner = HangingReranker()
    inner.gate.set()

    scores = await GuardedReranker(inner, CircuitBreaker("it")).scores("q" * 8_192, ["x" * 3_000, "y"])

    assert scores == [0.5, 0.5]
    assert inner.asked == [("q" * CHARACTERS_PER_TEXT, ["x" * CHARACTERS_PER_TEXT, "y"])]


async def test_a_reranker_that_keeps_hanging_is_given_up_and_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "LONGEST_SECONDS", 0.01)
    inner = HangingReranker()
    guarded = GuardedReranker(inner, CircuitBreaker("the reranker"))

    for _ in range(FAILURES):
        with pytest.raises(Unavailable, match="takes too long"):
            await guarded.scores("q", ["a"])
    with pytest.raises(Unavailable, match="the reranker is left alone"):
        await guarded.scores("q", ["a"])

    assert len(inner.asked) == FAILURES
