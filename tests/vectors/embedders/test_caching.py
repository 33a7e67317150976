from collections.abc import Sequence

import numpy as np
import pytest

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_vectors.embedders.cache import CachedEmbedder, RecentEmbeddings, content_hash

from .counting import ScriptedEmbedder, expected


async def test_a_text_is_embedded_once() -> None:
    inner = ScriptedEmbedder()
    embedder = CachedEmbedder(inner, RecentEmbeddings())

    first = await embedder.embed(["a", "bb", "a"])
    second = await embedder.embed(["bb", "ccc"])

    assert inner.asked == [["a", "bb"], ["ccc"]]
    assert first.tolist() == expected(["a", "bb", "a"]).tolist()
    assert second.tolist() == expected(["bb", "ccc"]).tolist()


async def test_no_texts_give_no_rows() -> None:
    inner = ScriptedEmbedder()

    assert (await CachedEmbedder(inner, RecentEmbeddings()).embed([])).shape == (0, 2)
    assert inner.asked == []


async def test_what_failed_is_not_kept() -> None:
    def fail(texts: object) -> None:
        if len(inner.asked) == 1:
            raise Unavailable("down", retry_after_ms=1)

    inner = ScriptedEmbedder(fail)
    embedder = CachedEmbedder(inner, RecentEmbeddings())

    with pytest.raises(Unavailable):
        await embedder.embed(["a"])
    assert (await embedder.embed(["a"])).tolist() == expected(["a"]).tolist()


async def test_a_refused_text_is_named_by_its_place_in_the_call() -> None:
    def refuse(texts: Sequence[str]) -> None:
        if "bad" in texts:
            raise InvalidRequest("no", field="embedding", index=texts.index("bad"))

    embedder = CachedEmbedder(ScriptedEmbedder(refuse), RecentEmbeddings())
    await embedder.embed(["a", "b"])
    with pytest.raises(InvalidRequest) as refused:
        await embedder.embed(["a", "b", "c", "bad"])

    assert refused.value.context["index"] == 3


async def test_it_is_named_after_what_it_asks_and_closes_it() -> None:
    inner = ScriptedEmbedder()
    embedder = CachedEmbedder(inner, RecentEmbeddings())
    await embedder.close()

    assert (embedder.model, embedder.dimension, inner.closed) == ("scripted", 2, True)


def row(number: float) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    return np.full(256, number, np.float32)


def test_the_cache_is_bounded_by_bytes_and_forgets_what_was_asked_for_longest_ago() -> None:
    cache = RecentEmbeddings(limit_bytes=4_096)  # three rows of 1,024 bytes and their overhead
    a, b, c, d = (content_hash(text) for text in "abcd")
    for number, key in enumerate((a, b, c)):
        cache.put(key, row(number))
    assert cache.get(a) is not None

    cache.put(d, row(3))

    assert [key for key in (a, b, c, d) if cache.get(key) is None] == [b]
    assert cache.bytes <= 4_096
    assert len(cache) == 3
    assert (cache.hits, cache.misses) == (4, 1)


def test_putting_again_replaces_and_what_is_larger_than_the_cache_is_left_out() -> None:
    cache = RecentEmbeddings(limit_bytes=2_000)
    key = content_hash("a")
    cache.put(key, row(1))
    size = cache.bytes
    cache.put(key, row(2))
    cache.put(content_hash("b"), np.zeros(1_000, np.float32))

    kept = cache.get(key)
    assert kept is not None
    assert kept[0] == 2
    assert (cache.bytes, len(cache)) == (size, 1)


def test_a_kept_row_cannot_be_changed() -> None:
    cache = RecentEmbeddings()
    given = row(1)
    cache.put(content_hash("a"), given)
    given[0] = 7
    kept = cache.get(content_hash("a"))

    assert kept is not None
    assert kept[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 7
