"""Any endpoint that speaks OpenAI's `/v1/embeddings`: OpenAI itself, Ollama, vLLM and others."""

import asyncio
import base64
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal, cast

import httpx
import numpy as np
import orjson
from numpy.typing import NDArray

from hivemem_contracts.errors import HiveError, InvalidRequest, Unavailable
from hivemem_vectors.embedders.ports import Embeddings, check_texts, checked_rows, wrong_dimension

ANSWER_BYTES_PER_TEXT: Final = 256 * 1_024
"""An embedding of 8,192 numbers, each written as long as JSON makes them."""


def rows_of_answer(answer: bytes, texts: int, model: str, dimension: int) -> NDArray[np.float64]:
    """The rows in the order of the texts. Raises ValueError, TypeError or KeyError for what is no such answer."""
    data = _items(answer)
    if len(data) != texts:
        raise Unavailable(f"{model}: {len(data)} embeddings for {texts} texts", retry_after_ms=0)
    rows = np.full((texts, dimension), np.nan)
    taken: set[int] = set()
    for at, item in enumerate(data):
        index = item.get("index", at)
        if not isinstance(index, int) or not 0 <= index < texts or index in taken:
            raise ValueError(f"an embedding with the index {index!r}")
        taken.add(index)
        row = _numbers(item["embedding"])
        if row.shape != (dimension,):
            raise wrong_dimension(model, expected=dimension, actual=row.size)
        rows[index] = row
    return rows


def _items(answer: bytes) -> list[dict[str, Any]]:
    data: object = _decoded(answer)["data"]
    if not isinstance(data, list):
        raise TypeError("data that is no list")
    items = cast("list[object]", data)
    if not all(isinstance(item, dict) for item in items):
        raise TypeError("data that is no list of objects")
    return cast("list[dict[str, Any]]", items)


def _decoded(answer: bytes) -> Any:
    try:
        return orjson.loads(answer)
    except orjson.JSONDecodeError:
        # Python's own writer, and so many an endpoint, says NaN and Infinity, which JSON has no words for.
        import json

        return json.loads(answer)


def _numbers(embedding: Any) -> NDArray[np.float64]:
    """A list of numbers, or the bytes of such as 32-bit floats in base64; `null` stands for what is none."""
    if isinstance(embedding, str):
        packed = np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
        return packed.astype(np.float64)
    if not isinstance(embedding, list):
        raise TypeError(f"an embedding that is a {type(embedding).__name__}")
    numbers = cast("list[float | None]", embedding)
    return np.array([np.nan if number is None else number for number in numbers], dtype=np.float64)


ATTEMPTS: Final = 3
FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 5.0
"""Who is asked to wait for longer tells the caller, who has other things to do meanwhile."""

TIMEOUT_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 5.0
CONNECTIONS: Final = 8

_OK: Final = 200
_SENT_WRONGLY: Final = frozenset({400, 413, 422})
_PASSING: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 507, 529})
_LONGEST_RETRY_SECONDS: Final = 86_400
_SETTLED_RETRY_MS: Final = 60_000
_HEAD_BYTES: Final = 65_536
_SAID_CHARACTERS: Final = 200

Encoding = Literal["float", "base64"]


class OpenAIEmbedder:
    """Asks an endpoint over HTTP. What passes (no connection, a timeout, 429, 5xx) is tried again a few times, with
    growing pauses or after as long as the endpoint asks for. A refused key and an unknown model do not pass, but are
    no fault of the texts: they are `Unavailable` at once, for a minute."""

    def __init__(
        self,
        url: str,
        model: str,
        dimension: int,
        *,
        key: str = "",
        encoding: Encoding = "float",
        sends_dimension: bool = False,
        timeout_seconds: float = TIMEOUT_SECONDS,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`url` is what stands before `/embeddings`, such as `http://127.0.0.1:11434/v1`. `sends_dimension` asks a
        model that can be shortened for embeddings of `dimension`; others refuse to be asked."""
        self._url = f"{url.rstrip('/')}/embeddings"
        self._model, self._dimension = model, dimension
        self._options: dict[str, Any] = {"model": model, "encoding_format": encoding}
        if sends_dimension:
            self._options["dimensions"] = dimension
        self._pause = pause
        self._client = httpx.AsyncClient(
            headers={"authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(timeout_seconds, connect=min(CONNECT_SECONDS, timeout_seconds)),
            limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
        )
        self._timeout_seconds = timeout_seconds

    @property
    def model(self) -> str:
        return self._model

    @property
    def dimension(self) -> int:
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        check_texts(texts)
        if not texts:
            return np.empty((0, self._dimension), np.float32)
        body = orjson.dumps({**self._options, "input": list(texts)})
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._asked(body, len(texts))
            except Unavailable as error:
                asked_seconds = error.context.setdefault("retry_after_ms", 0) / 1_000
                pause = max(_pause_after(attempt), asked_seconds)
                if attempt == ATTEMPTS or pause > LONGEST_PAUSE_SECONDS:
                    error.context["retry_after_ms"] = int(pause * 1_000)
                    raise
            await self._pause(pause)
        raise AssertionError("the last attempt raises or returns")

    async def close(self) -> None:
        await self._client.aclose()

    async def _asked(self, body: bytes, texts: int) -> Embeddings:
        try:
            # httpx bounds each read; an answer that trickles in would take as long as it likes.
            async with asyncio.timeout(self._timeout_seconds):
                answer = await self._posted(body, texts)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise self._unavailable(f"no answer within {self._timeout_seconds:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._unavailable(f"{type(error).__name__}: {error}") from error
        except RuntimeError as error:  # what httpx says of a client that was closed
            raise self._unavailable(str(error)) from error
        try:
            rows = rows_of_answer(answer, texts, self._model, self._dimension)
        except (ValueError, TypeError, KeyError) as error:
            raise self._unavailable(f"an answer that is none of embeddings ({error})") from error
        return checked_rows(rows, texts=texts, model=self._model, dimension=self._dimension)

    async def _posted(self, body: bytes, texts: int) -> bytes:
        headers = {"content-type": "application/json"}
        async with self._client.stream("POST", self._url, content=body, headers=headers) as response:
            is_good = response.status_code == _OK
            limit = _HEAD_BYTES + (texts * ANSWER_BYTES_PER_TEXT if is_good else 0)
            answer = bytearray()
            async for piece in response.aiter_bytes():
                answer += piece
                if len(answer) > limit:
                    break
        if not is_good:
            raise self._refused(response, bytes(answer))
        if len(answer) > limit:
            raise self._unavailable(f"an answer of more than {limit} bytes for {texts} texts")
        return bytes(answer)

    def _refused(self, response: httpx.Response, answer: bytes) -> HiveError:
        status = response.status_code
        said = answer.decode("utf-8", "replace")[:_SAID_CHARACTERS].strip()
        if status in _SENT_WRONGLY:
            return InvalidRequest(f"text: {self._model} at {self._url} refused it with {status}: {said}", field="text")
        if status not in _PASSING:
            return self._unavailable(f"{status}: {said}", retry_after_ms=_SETTLED_RETRY_MS)
        return self._unavailable(
            f"{status}: {said}", retry_after_ms=_retry_after_ms(response.headers.get("retry-after", ""))
        )

    def _unavailable(self, reason: str, *, retry_after_ms: int = 0) -> Unavailable:
        return Unavailable(f"{self._model} at {self._url}: {reason}", retry_after_ms=retry_after_ms)


def _pause_after(attempt: int) -> float:
    """Growing, and never the same for all who wait."""
    return FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1) * random.uniform(0.5, 1.5)  # noqa: S311 nothing is kept secret


def _retry_after_ms(header: str) -> int:
    """Of seconds, as all of these endpoints give them; a date is left to our own pauses."""
    try:
        seconds = float(header)
    except ValueError:
        return 0
    return int(seconds * 1_000) if 0 <= seconds <= _LONGEST_RETRY_SECONDS else 0
