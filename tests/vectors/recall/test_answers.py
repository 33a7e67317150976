"""The construction of an answer: its order, its scores, and its size."""

import time
from typing import Any

import pytest

from hivemem_contracts.limits import REPLY_BYTES
from hivemem_runtime.tokens import estimated_tokens
from hivemem_vectors.pipeline.decisions.changes import version_of_memory

from .shelf import Body, Shelf, keys

pytestmark = pytest.mark.asyncio(loop_scope="session")
DAY = 86_400_000_000


async def keep(shelf: Shelf, key: str, value: Any, *, days_old: float = 0, **fields: Any) -> None:
    told = version_of_memory(shelf.tenant, await shelf.bot.put(key, value, **fields))
    updated_at = time.time_ns() // 1_000 - int(days_old * DAY)
    await shelf.sync(told._replace(fields={**told.fields, "updated_at": updated_at}))


def adds_up(item: Body, weights: Body) -> bool:
    """Return whether a score follows from its parts."""
    scores = item["scores"]
    dense = weights.get("dense", 0.5)
    relevance = scores["hints"] * (dense * scores["dense"] + (1 - dense) * scores["keyword"])
    parts = {"relevance": relevance, "recency": scores["recency"], "importance": scores["importance"]}
    shares = {"relevance": 1.0, "recency": 0.0, "importance": 0.0} | weights
    total = sum(shares[name] for name in parts)
    expected = sum(shares[name] * part for name, part in parts.items()) / total
    return bool(item["score"] == pytest.approx(expected, abs=1e-5))


@pytest.mark.parametrize(
    "weights",
    [
        {},
        {"dense": 0.0},
        {"dense": 1.0},
        {"relevance": 0.5, "recency": 0.3, "importance": 0.2},
        {"relevance": 0.0, "recency": 1.0, "half_life_days": 3.0},
        {"relevance": 0.0, "importance": 0.1},
    ],
)
async def test_scores_add_up_and_the_best_is_first(shelf: Shelf, weights: Body) -> None:
    await keep(shelf, "a", "a red car", days_old=1, importance=0.1)
    await keep(shelf, "b", "an automobile", days_old=5, importance=0.9)
    await keep(shelf, "c", "a car park", days_old=3)
    await keep(shelf, "d", "a glass of milk", days_old=2, importance=1)

    items = (await shelf.answer("red car", weights=weights))["items"]

    assert len(items) == 4
    assert all(adds_up(item, weights) for item in items)
    parts = [(name, part) for item in items for name, part in item["scores"].items()]
    assert all(part is None if name == "rerank" else 0 <= part <= 1 for name, part in parts)
    order = [item["score"] for item in items]
    assert order == sorted(order, reverse=True)


async def test_recency_halves_with_each_half_life(shelf: Shelf) -> None:
    for days in (0, 30, 60):
        await keep(shelf, str(days), "a note", days_old=days)

    async def recency(**weights: float) -> list[float]:
        items = (await shelf.answer("note", weights={"recency": 1.0, **weights}))["items"]
        assert keys({"items": items}) == ["0", "30", "60"]
        return [item["scores"]["recency"] for item in items]

    assert await recency() == pytest.approx([1, 0.5, 0.25], abs=1e-3)
    assert await recency(half_life_days=60) == pytest.approx([1, 0.5**0.5, 0.5], abs=1e-3)


async def test_what_nobody_has_weighed_is_of_usual_importance(shelf: Shelf) -> None:
    await keep(shelf, "low", "a note", importance=0)
    await keep(shelf, "unsaid", "a note")
    await keep(shelf, "high", "a note", importance=1)

    items = (await shelf.answer("note", weights={"importance": 1.0}))["items"]

    assert [(item["key"], item["scores"]["importance"]) for item in items] == [("high", 1), ("unsaid", 0.5), ("low", 0)]


async def test_equals_stand_in_the_order_of_their_keys(shelf: Shelf) -> None:
    for key in "cab":
        await keep(shelf, key, "a note")

    assert await shelf.recall("note", weights={"relevance": 1.0}) == ["a", "b", "c"]


async def test_a_budget_of_tokens_is_kept_by_the_best(shelf: Shelf) -> None:
    for number in range(5):
        await shelf.keep(f"k{number}", f"a red car and {'nothing else ' * 20}{number}")
    whole = (await shelf.answer("red car"))["items"]
    each = [estimated_tokens(f'"{item["value"]}"') for item in whole]

    for count in range(1, 6):
        budget = sum(each[:count])
        answer = await shelf.answer("red car", max_tokens=budget)
        assert keys(answer) == keys({"items": whole[:count]})
        assert answer["cut"] == (None if count == 5 else "tokens")
        less = await shelf.answer("red car", max_tokens=budget - 1)
        assert keys(less) == keys({"items": whole[: count - 1]})
        assert less["cut"] == "tokens"


async def test_what_is_over_the_whole_budget_does_not_stand_in_the_way(shelf: Shelf) -> None:
    await shelf.keep("large", "red car " * 400)
    await shelf.keep("small", "a red car of another colour")

    answer = await shelf.answer("red car", max_tokens=50)

    assert keys(answer) == ["small"]
    assert answer["cut"] == "tokens"


async def test_an_answer_fits_a_message(shelf: Shelf) -> None:
    for number in range(4):
        await shelf.keep(f"k{number}", "x" * 300_000, metadata={"text": "a red car"})

    answer = await shelf.answer("red car")

    assert len(keys(answer)) == 2
    assert answer["cut"] == "bytes"


async def test_the_largest_memory_of_all_is_answered(shelf: Shelf) -> None:
    value = "x" * 524_200
    await shelf.keep("large", value, metadata={"text": "a red car", "data": "y" * 262_000})
    await shelf.keep("small", "a red car")

    first, *_ = (await shelf.answer("red car"))["items"]

    assert (first["key"], first["value"]) == ("large", value)
    assert len(value) + len(first["metadata"]["data"]) > REPLY_BYTES - 1_000


async def test_only_a_part_of_what_is_large_is_read_at_once(shelf: Shelf) -> None:
    for number in range(30):
        await shelf.keep(f"k{number:02}", "x" * 40_000, metadata={"text": "a red car"})

    answer = await shelf.answer("red car", limit=30)

    assert keys(answer) == [f"k{number:02}" for number in range(len(keys(answer)))]
    assert 18 <= len(keys(answer)) < 20
    assert answer["cut"] == "bytes"
