"""Calls to any HTTP endpoint that speaks OpenAI's interface: OpenAI itself, Ollama, vLLM and others."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import httpx
import orjson

from hivemem_contracts.errors import HiveError, InvalidRequest, Unavailable
from hivemem_runtime.backoff import backoff_seconds

ATTEMPTS: Final = 3
FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 5.0
"""An endpoint that asks for a longer pause is not waited for: the caller hears of it, and has other work meanwhile."""

TIMEOUT_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 5.0
CONNECTIONS: Final = 8

ResultT = TypeVar("ResultT")

_OK: Final = 200
_SENT_WRONGLY: Final = frozenset({400, 413, 422})
_TRANSIENT: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 507, 529})
_LONGEST_RETRY_SECONDS: Final = 86_400
_WRONG_SETUP_RETRY_MS: Final = 60_000
_HEAD_BYTES: Final = 65_536
_QUOTED_CHARACTERS: Final = 200


class OpenAIEndpoint:
    """One path of an endpoint, asked for one model.

    Transient failures (no connection, a timeout, 429, 5xx) are retried a few times, with exponential backoff and
    jitter, or after the pause that the endpoint asks for. A refused key and an unknown model are `Unavailable` at
    once, for a minute: a retry cannot help, and the request is not at fault.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key: str = "",
        timeout_seconds: float = TIMEOUT_SECONDS,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._url, self._model = url, model
        self._pause = pause
        self._client = httpx.AsyncClient(
            headers={"authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(timeout_seconds, connect=min(CONNECT_SECONDS, timeout_seconds)),
            limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
        )
        self._timeout_seconds = timeout_seconds

    async def post(
        self, body: Mapping[str, Any], parse: Callable[[bytes], ResultT], *, most_bytes: int, field: str
    ) -> ResultT:
        """Return what `parse` makes of a good answer, which has at most `most_bytes` besides a small head.

        `parse` raises ValueError, TypeError or KeyError for an answer of another form; that is a transient failure too.
        Raises `Unavailable`, `InvalidRequest` with `field` for a request that the endpoint refuses, and every
        `HiveError` of `parse`.
        """
        content = orjson.dumps(body)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._parsed(await self._post(content, most_bytes + _HEAD_BYTES, field), parse)
            except Unavailable as error:
                asked_seconds = error.context.setdefault("retry_after_ms", 0) / 1_000
                pause = max(_backoff(attempt), asked_seconds)
                if attempt == ATTEMPTS or pause > LONGEST_PAUSE_SECONDS:
                    error.context["retry_after_ms"] = int(pause * 1_000)
                    raise
            await self._pause(pause)
        raise AssertionError("the last attempt raises or returns")

    async def close(self) -> None:
        await self._client.aclose()

    def unavailable(self, reason: str, *, retry_after_ms: int = 0) -> Unavailable:
        """Return an error that names the model and the endpoint."""
        return Unavailable(f"{self._model} at {self._url}: {reason}", retry_after_ms=retry_after_ms)

    def _parsed(self, answer: bytes, parse: Callable[[bytes], ResultT]) -> ResultT:
        try:
            return parse(answer)
        except (ValueError, TypeError, KeyError) as error:
            raise self.unavailable(f"an answer of another form ({error})") from error

    async def _post(self, content: bytes, limit: int, field: str) -> bytes:
        try:
            # httpx bounds each read, but an answer that trickles in could take any time.
            async with asyncio.timeout(self._timeout_seconds):
                response, answer = await self._read(content, limit)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise self.unavailable(f"no answer within {self._timeout_seconds:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self.unavailable(f"{type(error).__name__}: {error}") from error
        except RuntimeError as error:  # httpx raises it for a client that was closed
            raise self.unavailable(str(error)) from error
        if response.status_code != _OK:
            raise self._refused(response, answer, field)
        if len(answer) > limit:
            raise self.unavailable(f"an answer of more than {limit} bytes")
        return answer

    async def _read(self, content: bytes, limit: int) -> tuple[httpx.Response, bytes]:
        headers = {"content-type": "application/json"}
        async with self._client.stream("POST", self._url, content=content, headers=headers) as response:
            if response.status_code != _OK:
                limit = _HEAD_BYTES
            answer = bytearray()
            async for piece in response.aiter_bytes():
                answer += piece
                if len(answer) > limit:
                    break
        return response, bytes(answer)

    def _refused(self, response: httpx.Response, answer: bytes, field: str) -> HiveError:
        status = response.status_code
        said = answer.decode("utf-8", "replace")[:_QUOTED_CHARACTERS].strip()
        if status in _SENT_WRONGLY:
            return InvalidRequest(
                f"{field}: {self._model} at {self._url} refused it with {status}: {said}", field=field
            )
        if status not in _TRANSIENT:
            return self.unavailable(f"{status}: {said}", retry_after_ms=_WRONG_SETUP_RETRY_MS)
        asked = _retry_after_ms(response.headers.get("retry-after", ""))
        return self.unavailable(f"{status}: {said}", retry_after_ms=asked)


def _backoff(attempt: int) -> float:
    jitter = random.uniform(0.5, 1.5)  # noqa: S311 nothing is kept secret
    return backoff_seconds(attempt, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS) * jitter


def _retry_after_ms(header: str) -> int:
    """Return a `Retry-After` in seconds, as these endpoints send it. A date is ignored, and the backoff holds."""
    try:
        seconds = float(header)
    except ValueError:
        return 0
    return int(seconds * 1_000) if 0 <= seconds <= _LONGEST_RETRY_SECONDS else 0
