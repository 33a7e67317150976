"""Endpoints with a `/rerank`, good and bad, over a real socket."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_runtime.openai_http import ATTEMPTS
from hivemem_vectors.rerankers.endpoint import EndpointReranker

from ..embedders.endpoint import Answer, Endpoint


async def no_pause(_: float) -> None:
    pass


@asynccontextmanager
async def reranker_of(endpoint: Endpoint, **options: Any) -> AsyncGenerator[EndpointReranker]:
    opened = EndpointReranker(endpoint.url, "some-model", pause=no_pause, **options)
    try:
        yield opened
    finally:
        await opened.close()


def results(*pairs: tuple[Any, Any]) -> Answer:
    listed = [{"index": index, "relevance_score": score, "document": {"text": "…"}} for index, score in pairs]
    return Answer(body=json.dumps({"results": listed}).encode())


async def test_texts_are_asked_for_in_the_words_of_the_interface() -> None:
    best_first = results((1, 0.9), (2, 0.25), (0, 0))
    async with Endpoint(best_first) as endpoint, reranker_of(endpoint, key="sesame") as reranker:
        scores = await reranker.scores("who?", ["a", "b", "c"])

    assert scores == [0, 0.9, 0.25]
    [request] = endpoint.requests
    assert request.path == "/v1/rerank"
    assert request.headers["authorization"] == "Bearer sesame"
    assert request.body == {"model": "some-model", "query": "who?", "documents": ["a", "b", "c"], "top_n": 3}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (results((0, 7.74), (1, 0)), "a relevance_score of 7.74, which is not from 0 to 1"),
        (results((0, -0.5), (1, 0)), "a relevance_score of -0.5, which is not from 0 to 1"),
        (results((0, 0.5)), "1 results for 2 documents"),
        (results((0, 0.5), (0, 0.5)), "a result with the index 0"),
        (results((0, 0.5), (2, 0.5)), "a result with the index 2"),
        (results((0, "good"), (1, 0.5)), "another form"),
        (results((0, None), (1, 0.5)), "another form"),
        (Answer(body=b'{"results": [1, 2]}'), "another form"),
        (Answer(body=b"[]"), "another form"),
        (Answer(body=b"<html>welcome</html>"), "another form"),
    ],
)
async def test_an_answer_that_is_no_ranking_is_unavailable_and_says_why(told: Answer, said: str) -> None:
    async with Endpoint(*[told] * ATTEMPTS) as endpoint, reranker_of(endpoint) as reranker:
        with pytest.raises(Unavailable, match=f"some-model at .*{said}"):
            await reranker.scores("who?", ["a", "b"])


async def test_texts_that_the_endpoint_refuses_are_invalid() -> None:
    async with Endpoint(Answer(422, b"too long")) as endpoint, reranker_of(endpoint) as reranker:
        with pytest.raises(InvalidRequest, match="422: too long"):
            await reranker.scores("who?", ["a"])
