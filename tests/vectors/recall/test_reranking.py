"""Recalls that ask for the reranker: its order, its scores, and answers without it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_vectors.rerankers.ports import TEXTS_PER_QUESTION

from .shelf import Body, Shelf, keys

pytestmark = pytest.mark.asyncio(loop_scope="session")


class LengthReranker:
    """Prefers short texts."""

    def __init__(self, failure: Unavailable | None = None) -> None:
        self.failure = failure
        self.asked: list[list[str]] = []

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        self.asked.append(list(texts))
        if self.failure is not None:
            raise self.failure
        return [1 / len(text) for text in texts]

    async def close(self) -> None:
        pass


def with_reranker(shelf: Shelf, reranker: LengthReranker) -> Shelf:
    desk = replace(shelf.desk, reranker=reranker)
    return Shelf(desk, shelf.bot, desk.service())


async def keep_three(shelf: Shelf) -> None:
    await shelf.keep("long", "a red car with a scratch", importance=1)
    await shelf.keep("middle", "some red tea", importance=0)
    await shelf.keep("short", "milk", importance=0)


def parts(answer: Body, name: str) -> list[float | None]:
    return [item["scores"][name] for item in answer["items"]]


async def test_the_reranker_orders_the_answer_and_its_score_is_the_relevance(shelf: Shelf) -> None:
    await keep_three(shelf)
    shelf = with_reranker(shelf, LengthReranker())

    plain = await shelf.answer("red car with a scratch")
    ordered = await shelf.answer("red car with a scratch", rerank=True)
    weighed = await shelf.answer("red car with a scratch", rerank=True, weights={"importance": 1})

    assert ordered["cursor"] is None
    with pytest.raises(InvalidRequest, match="cursor"):
        await shelf.answer("red car with a scratch", rerank=True, cursor="AAAA")
    assert keys(plain)[0] == "long"
    assert parts(plain, "rerank") == [None, None, None]
    assert keys(ordered) == ["short", "middle", "long"]
    assert parts(ordered, "rerank") == pytest.approx([1 / 4, 1 / 12, 1 / 24], abs=1e-6)
    assert [item["score"] for item in ordered["items"]] == parts(ordered, "rerank")
    assert keys(weighed) == ["long", "short", "middle"]
    assert weighed["items"][0]["score"] == pytest.approx((1 / 24 + 1) / 2, abs=1e-6)


async def test_more_items_than_wanted_are_reranked(shelf: Shelf) -> None:
    await keep_three(shelf)

    answer = await with_reranker(shelf, LengthReranker()).answer("red car with a scratch", rerank=True, limit=1)

    assert keys(answer) == ["short"]
    assert answer["cut"] is None


async def test_items_beyond_the_limit_of_the_reranker_follow(shelf: Shelf) -> None:
    for number in range(TEXTS_PER_QUESTION + 2):
        await shelf.keep(f"k{number:02}", f"a note{'!' * number}")
    reranker = LengthReranker()

    answer = await with_reranker(shelf, reranker).answer("note", rerank=True, limit=100)

    assert [len(texts) for texts in reranker.asked] == [TEXTS_PER_QUESTION]
    assert len(keys(answer)) == TEXTS_PER_QUESTION + 2
    assert [score is None for score in parts(answer, "rerank")] == [False] * TEXTS_PER_QUESTION + [True] * 2


async def test_an_item_that_changed_since_it_was_indexed_follows_too(shelf: Shelf) -> None:
    await keep_three(shelf)
    await shelf.bot.put("short", "milk and honey")

    answer = await with_reranker(shelf, LengthReranker()).answer("red car with a scratch", rerank=True)

    assert [(item["key"], item["text"] is None) for item in answer["items"]][-1] == ("short", True)
    assert parts(answer, "rerank")[-1] is None


async def test_without_the_reranker_the_order_is_that_of_the_search(shelf: Shelf) -> None:
    await keep_three(shelf)
    plain = await shelf.answer("red car with a scratch")

    failing = with_reranker(shelf, LengthReranker(Unavailable("the model is not loaded", retry_after_ms=1)))
    answer = await failing.answer("red car with a scratch", rerank=True)

    assert answer["items"] == plain["items"]
    assert answer["degraded"]["reasons"] == ["reranker"]
    assert "the model is not loaded" in answer["degraded"]["detail"]


async def test_nothing_found_is_nothing_to_rerank(shelf: Shelf) -> None:
    reranker = LengthReranker()

    assert (await with_reranker(shelf, reranker).answer("red", rerank=True))["items"] == []
    assert reranker.asked == []


async def test_a_hive_without_a_reranker_refuses_by_name(shelf: Shelf) -> None:
    with pytest.raises(InvalidRequest, match="HIVEMEM_RERANKER=none") as refused:
        await shelf.answer("red", rerank=True)

    assert refused.value.context["field"] == "rerank"
