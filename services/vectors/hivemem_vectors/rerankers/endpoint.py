"""Reranking by any endpoint with the `/rerank` that Cohere, Jina, vLLM and others share."""

from collections.abc import Sequence
from typing import Any, Final

import orjson

from hivemem_runtime.openai_http import OpenAIEndpoint

ANSWER_BYTES_PER_TEXT: Final = 32 * 1_024
"""The size of a result, which may repeat its text with every character escaped."""


class EndpointReranker:
    """Asks an endpoint. `url` is the part before `/rerank`, such as `http://127.0.0.1:8000/v1`."""

    def __init__(self, url: str, model: str, **options: Any) -> None:
        """The options are passed on to `OpenAIEndpoint`."""
        self._model = model
        self._endpoint = OpenAIEndpoint(f"{url.rstrip('/')}/rerank", model, **options)

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        def parse(answer: bytes) -> list[float]:
            return _scores_of_answer(answer, len(texts))

        body = {"model": self._model, "query": query, "documents": list(texts), "top_n": len(texts)}
        return await self._endpoint.post(body, parse, most_bytes=len(texts) * ANSWER_BYTES_PER_TEXT, field="text")

    async def close(self) -> None:
        await self._endpoint.close()


def _scores_of_answer(answer: bytes, texts: int) -> list[float]:
    """Return the scores in the order of the texts. Raises ValueError, TypeError or KeyError for any other answer."""
    scores: dict[int, float] = {}
    for result in orjson.loads(answer)["results"]:
        index, score = result["index"], result["relevance_score"]
        if index not in range(texts) or index in scores:
            raise ValueError(f"a result with the index {index!r}")
        if not 0 <= score <= 1:
            raise ValueError(f"a relevance_score of {score!r}, which is not from 0 to 1")
        scores[index] = float(score)
    if len(scores) != texts:
        raise ValueError(f"{len(scores)} results for {texts} documents")
    return [scores[index] for index in range(texts)]
