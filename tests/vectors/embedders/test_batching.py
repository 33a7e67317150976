import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_vectors.embedders.batching import BatchedEmbedder, BatchMass, text_mass
from hivemem_vectors.embedders.ports import CHARACTERS_PER_TEXT, TEXTS_PER_CALL

from .counting import Clock, ScriptedEmbedder, expected


def batched(
    inner: ScriptedEmbedder, clock: Clock, mass: BatchMass | None = None, *, texts: int = 64, side_by_side: int = 1
) -> BatchedEmbedder:
    return BatchedEmbedder(inner, mass or BatchMass(), texts_per_batch=texts, side_by_side=side_by_side, clock=clock)


@settings(deadline=None)  # other tests run in parallel
@given(st.lists(st.text("xyz", min_size=1, max_size=50), max_size=60), st.integers(1, 3))
def test_rows_come_in_the_order_of_the_texts(texts: list[str], side_by_side: int) -> None:
    inner = ScriptedEmbedder()
    mass = BatchMass(first=200, smallest=100, largest=400)
    embedder = batched(inner, Clock(), mass, texts=7, side_by_side=side_by_side)

    rows = asyncio.run(embedder.embed(texts))

    assert rows.tolist() == expected(texts).tolist()
    assert all(len(batch) <= 7 for batch in inner.asked)
    assert all(len(batch) == 1 or len(batch) * max(text_mass(text) for text in batch) <= 400 for batch in inner.asked)


async def test_a_few_batches_run_side_by_side_and_no_more() -> None:
    inner = ScriptedEmbedder()
    await batched(inner, Clock(), texts=1, side_by_side=3).embed(["a"] * 20)

    assert inner.most_at_once == 3


async def test_batches_grow_while_they_are_quick_and_shrink_when_they_are_slow() -> None:
    clock = Clock()
    per_text = 0.001

    def pass_time(texts: Sequence[str]) -> None:
        clock.now += per_text * len(texts)

    inner = ScriptedEmbedder(pass_time)
    embedder = batched(inner, clock, BatchMass(first=1_024, smallest=1_024, largest=8_192), texts=1_000)
    await embedder.embed(["x" * 16] * 2_000)
    sizes = [len(batch) for batch in inner.asked[:-1]]
    assert sizes[0] == 32
    assert sizes == sorted(sizes)
    assert max(sizes) > 150

    per_text = 0.1
    inner.asked.clear()
    await embedder.embed(["x" * 16] * 1_000)
    sizes = [len(batch) for batch in inner.asked[:-1]]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 32


def test_the_mass_stays_within_its_limits() -> None:
    mass = BatchMass(first=2_000, smallest=1_000, largest=3_000, target_seconds=1)
    for _ in range(10):
        mass.took(mass.limit, 0.01)
    assert mass.limit == 3_000
    for _ in range(10):
        mass.failed()
    assert mass.limit == 1_000


def test_a_batch_that_was_not_full_says_nothing_about_larger_ones() -> None:
    mass = BatchMass(first=2_000, smallest=1_000, largest=30_000)
    mass.took(100, 0.001)

    assert mass.limit == 2_000


def test_one_very_slow_batch_halves_the_mass_at_most() -> None:
    mass = BatchMass(first=8_000, smallest=100, largest=8_000, target_seconds=1)
    mass.took(8_000, 1_000)

    assert mass.limit == 4_000


async def test_a_failure_comes_as_itself_and_makes_batches_smaller() -> None:
    def fail(_: object) -> None:
        raise Unavailable("down", retry_after_ms=7)

    mass = BatchMass(first=4_096, smallest=1_024, largest=8_192)
    with pytest.raises(Unavailable, match="down"):
        await batched(ScriptedEmbedder(fail), Clock(), mass, texts=1, side_by_side=2).embed(["a", "b", "c"])
    assert mass.limit < 4_096


@pytest.mark.parametrize(
    "texts",
    [["ok", " "], ["x" * (CHARACTERS_PER_TEXT + 1)], ["x"] * (TEXTS_PER_CALL + 1)],
    ids=["blank", "long", "many"],
)
async def test_what_is_over_a_limit_is_refused_before_anything_is_embedded(texts: list[str]) -> None:
    inner = ScriptedEmbedder()
    with pytest.raises(InvalidRequest) as refused:
        await batched(inner, Clock()).embed(texts)

    assert refused.value.context["field"] == "text"
    assert inner.asked == []


@pytest.mark.parametrize("side_by_side", [1, 2])
async def test_a_refused_text_is_named_by_its_place_in_the_call(side_by_side: int) -> None:
    def refuse(texts: Sequence[str]) -> None:
        if "bad" in texts:
            raise InvalidRequest("no", field="embedding", index=texts.index("bad"))

    embedder = batched(ScriptedEmbedder(refuse), Clock(), texts=2, side_by_side=side_by_side)
    with pytest.raises(InvalidRequest) as refused:
        await embedder.embed(["longest", "bad", "longer", "a"])

    assert refused.value.context == {"field": "embedding", "index": 1}


async def test_it_is_named_after_what_it_asks_and_closes_it() -> None:
    inner = ScriptedEmbedder()
    embedder = batched(inner, Clock())
    await embedder.close()

    assert (embedder.model, embedder.dimension, inner.closed) == ("scripted", 2, True)
