"""One request of an agent, without a retry, because a fleet that reports ready has to answer."""

from base64 import b64decode, b64encode
from typing import Any, cast

import nats
import orjson

ANSWER_SECONDS = 5.0


async def ask(url: str, operation: str, body: dict[str, Any], service: str = "sessions") -> dict[str, Any]:
    client = await nats.connect(url)  # pyright: ignore[reportUnknownMemberType]  # its options are untyped
    try:
        reply = await client.request(
            f"hive.req.acme.bot.{service}.{operation}", orjson.dumps(body), timeout=ANSWER_SECONDS
        )
    finally:
        await client.close()
    return cast("dict[str, Any]", orjson.loads(reply.data))


async def create_session(url: str, session: str) -> None:
    answer = await ask(url, "create", {"session_id": session, "app_name": "app", "user_id": "alice"})
    assert answer.get("session_id") == session, answer


async def append_event(url: str, session: str, number: int) -> None:
    event = {"type": "note", "content": number}
    answer = await ask(url, "append", {"session_id": session, "event": event, "state_delta": {"last": number}})
    assert answer.get("sequence") == number, answer


async def remember(url: str, key: str, value: object) -> int:
    """Put a memory and return its version."""
    answer = await ask(url, "put", {"namespace": "user:alice", "key": key, "value": value}, "memory")
    return int(answer["version"])


async def remembered(url: str, key: str) -> Any:
    return (await ask(url, "get", {"namespace": "user:alice", "key": key}, "memory"))["value"]


async def save(url: str, name: str, data: bytes) -> int:
    """Save a file and return its version."""
    body = {"session_id": "s1", "name": name, "data_base64": b64encode(data).decode()}
    return int((await ask(url, "save", body, "artifacts"))["version"])


async def saved(url: str, name: str) -> bytes:
    found = await ask(url, "get", {"session_id": "s1", "name": name}, "artifacts")
    return b64decode(found["data_base64"])


async def recall(url: str, query: str, **fields: Any) -> dict[str, Any]:
    """Recall and return the whole answer; `wait_ms` must be far below the time limit of the request."""
    return await ask(url, "recall", {"query": query, "namespace_prefix": "user:alice", **fields}, "vectors")


async def contents(url: str, session: str) -> list[int]:
    answer = await ask(url, "events", {"session_id": session, "limit": 1000})
    return [event["content"] for event in answer["items"]]
