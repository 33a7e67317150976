"""Endpoints with the API of OpenAI, good and bad, over a real socket."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_runtime.openai_http import ATTEMPTS, LONGEST_PAUSE_SECONDS
from hivemem_vectors.embedders.openai import OpenAIEmbedder

from .endpoint import Answer, Endpoint, Hang, Hangup, Told, embedding_of, embeddings

LIMIT = 10.0


class Pauses:
    """Records the pauses between retries instead of sleeping."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@asynccontextmanager
async def embedder_of(
    endpoint: Endpoint, pauses: Pauses | None = None, *, timeout_seconds: float = LIMIT, **options: Any
) -> AsyncGenerator[OpenAIEmbedder, None]:
    opened = OpenAIEmbedder(
        endpoint.url, "some-model", 3, timeout_seconds=timeout_seconds, pause=pauses or Pauses(), **options
    )
    try:
        yield opened
    finally:
        await opened.close()


async def test_texts_are_asked_for_in_the_words_of_the_interface() -> None:
    async with Endpoint() as endpoint, embedder_of(endpoint, key="sesame") as embedder:
        rows = await embedder.embed(["a", "bcd"])

    assert rows.tolist() == [embedding_of("a"), embedding_of("bcd")]
    assert (embedder.model, embedder.dimension) == ("some-model", 3)
    [request] = endpoint.requests
    assert request.path == "/v1/embeddings"
    assert request.headers["authorization"] == "Bearer sesame"
    assert request.body == {"model": "some-model", "encoding_format": "float", "input": ["a", "bcd"]}


async def test_without_a_key_none_is_sent() -> None:
    async with Endpoint() as endpoint, embedder_of(endpoint) as embedder:
        await embedder.embed(["a"])

    assert "authorization" not in endpoint.requests[0].headers


async def test_rows_are_put_in_order_by_their_index() -> None:
    backwards = embeddings([[1, 0, 0], [2, 0, 0]], backwards=True)
    async with Endpoint(backwards) as endpoint, embedder_of(endpoint) as embedder:
        assert (await embedder.embed(["a", "b"]))[:, 0].tolist() == [1, 2]


async def test_no_texts_ask_nobody() -> None:
    async with Endpoint() as endpoint, embedder_of(endpoint) as embedder:
        assert (await embedder.embed([])).shape == (0, 3)
    assert endpoint.requests == []


@pytest.mark.parametrize(
    "passing",
    [Answer(500), Answer(503, b"busy"), Answer(429), Answer(408), Hangup()],
    ids=["500", "503", "429", "408", "hangup"],
)
async def test_what_passes_is_tried_again_after_growing_pauses(passing: Told) -> None:
    pauses = Pauses()
    async with Endpoint(passing, passing) as endpoint, embedder_of(endpoint, pauses) as embedder:
        assert (await embedder.embed(["abc"])).tolist() == [embedding_of("abc")]

    assert len(endpoint.requests) == 3
    assert 0.1 <= pauses.seconds[0] <= 0.3
    assert 0.2 <= pauses.seconds[1] <= 0.6


async def test_what_does_not_pass_in_time_is_unavailable_and_says_so() -> None:
    pauses = Pauses()
    async with Endpoint(*[Answer(502, b"bad gateway")] * 9) as endpoint, embedder_of(endpoint, pauses) as embedder:
        with pytest.raises(Unavailable, match=r"some-model at .*: 502: bad gateway") as failed:
            await embedder.embed(["a"])

    assert len(endpoint.requests) == ATTEMPTS
    assert len(pauses.seconds) == ATTEMPTS - 1
    assert failed.value.context["retry_after_ms"] > 0


async def test_a_retry_after_is_waited_for() -> None:
    pauses = Pauses()
    told = Answer(429, headers=("Retry-After: 2",))
    async with Endpoint(told) as endpoint, embedder_of(endpoint, pauses) as embedder:
        await embedder.embed(["a"])

    assert pauses.seconds == [2]


async def test_a_retry_after_that_is_too_long_is_handed_to_the_caller() -> None:
    pauses = Pauses()
    told = Answer(429, headers=(f"Retry-After: {LONGEST_PAUSE_SECONDS + 15:g}",))
    async with Endpoint(told) as endpoint, embedder_of(endpoint, pauses) as embedder:
        with pytest.raises(Unavailable) as failed:
            await embedder.embed(["a"])

    assert failed.value.context["retry_after_ms"] == (LONGEST_PAUSE_SECONDS + 15) * 1_000
    assert pauses.seconds == []


@pytest.mark.parametrize("header", ["soon", "Wed, 21 Oct 2026 07:28:00 GMT", "-3", "nan", "1e99"])
async def test_a_retry_after_that_is_no_time_is_passed_over(header: str) -> None:
    pauses = Pauses()
    told = Answer(429, headers=(f"Retry-After: {header}",))
    async with Endpoint(told) as endpoint, embedder_of(endpoint, pauses) as embedder:
        await embedder.embed(["a"])

    assert 0.1 <= pauses.seconds[0] <= 0.3


async def test_an_endpoint_that_does_not_answer_times_out() -> None:
    async with Endpoint(*[Hang()] * 3) as endpoint, embedder_of(endpoint, timeout_seconds=0.05) as embedder:
        with pytest.raises(Unavailable, match=r"no answer within 0\.05 s"):
            await embedder.embed(["a"])

    assert len(endpoint.requests) == ATTEMPTS


async def test_an_endpoint_that_is_not_there_is_unavailable() -> None:
    async with Endpoint() as endpoint:
        url = endpoint.url
    embedder = OpenAIEmbedder(url, "some-model", 3, pause=Pauses())
    with pytest.raises(Unavailable, match="ConnectError"):
        await embedder.embed(["a"])
    await embedder.close()


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_what_the_endpoint_refuses_is_not_tried_again(status: int) -> None:
    async with Endpoint(Answer(status, b"too long")) as endpoint, embedder_of(endpoint) as embedder:
        with pytest.raises(InvalidRequest, match=f"{status}: too long") as refused:
            await embedder.embed(["a"])

    assert refused.value.context["field"] == "text"
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("status", [401, 403, 404, 302])
async def test_a_wrong_setting_is_no_fault_of_the_text_and_not_tried_again_at_once(status: int) -> None:
    async with Endpoint(Answer(status)) as endpoint, embedder_of(endpoint) as embedder:
        with pytest.raises(Unavailable, match=f": {status}") as failed:
            await embedder.embed(["a"])

    assert failed.value.context["retry_after_ms"] == 60_000
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("packed", [False, True])
async def test_a_wrong_dimension_is_refused_by_name(packed: bool) -> None:
    told = embeddings([[1, 2, 3], [1, 2, 3, 4]], packed=packed)
    async with Endpoint(told) as endpoint, embedder_of(endpoint) as embedder:
        with pytest.raises(InvalidRequest) as refused:
            await embedder.embed(["a", "b"])

    assert refused.value.context == {"field": "dimension", "expected": 3, "actual": 4}
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
async def test_numbers_that_are_not_finite_are_refused_by_name(number: float, packed: bool) -> None:
    told = embeddings([[1, 2, 3], [1, number, 3]], packed=packed)
    async with Endpoint(told) as endpoint, embedder_of(endpoint) as embedder:
        with pytest.raises(InvalidRequest) as refused:
            await embedder.embed(["a", "b"])

    assert refused.value.context == {"field": "embedding", "index": 1}


async def test_null_in_place_of_a_number_is_refused_by_name() -> None:
    told = Answer(body=b'{"data": [{"embedding": [1, null, 3]}]}')
    async with Endpoint(told) as endpoint, embedder_of(endpoint) as embedder:
        with pytest.raises(InvalidRequest) as refused:
            await embedder.embed(["a"])

    assert refused.value.context["field"] == "embedding"


def short(body: dict[str, Any]) -> Answer:
    return embeddings([embedding_of(text) for text in body["input"][1:]])


@pytest.mark.parametrize(
    "told",
    [
        short,
        Answer(body=b"<html>welcome</html>"),
        Answer(body=b"[]"),
        Answer(body=b'{"data": {}}'),
        Answer(body=b'{"data": [7, 8]}'),
        Answer(body=b'{"data": [{"embedding": 7}, {"embedding": 7}]}'),
        Answer(body=b'{"data": [{"embedding": "%%%"}, {"embedding": "%%%"}]}'),
        Answer(body=b'{"data": [{"embedding": ["a", 1, 2]}, {"embedding": [1, 2, 3]}]}'),
        Answer(body=b'{"data": [{"index": 0, "embedding": [1, 2, 3]}, {"index": 0, "embedding": [1, 2, 3]}]}'),
        Answer(body=b'{"data": [{"index": 5, "embedding": [1, 2, 3]}, {"index": 0, "embedding": [1, 2, 3]}]}'),
        Answer(body=b" " * 1_000_000),
    ],
    ids=["short", "html", "list", "object", "numbers", "scalar", "base64", "words", "twice", "outside", "endless"],
)
async def test_what_is_no_answer_is_asked_for_again(told: Answer | Callable[[dict[str, Any]], Answer]) -> None:
    async with Endpoint(*[told] * ATTEMPTS) as endpoint, embedder_of(endpoint) as embedder:
        with pytest.raises(Unavailable):
            await embedder.embed(["a", "b"])
        assert (await embedder.embed(["a"])).tolist() == [embedding_of("a")]

    assert len(endpoint.requests) == ATTEMPTS + 1


async def test_closed_it_is_unavailable_and_closing_twice_is_fine() -> None:
    async with Endpoint() as endpoint, embedder_of(endpoint) as embedder:
        await embedder.close()
        with pytest.raises(Unavailable):
            await embedder.embed(["a"])
