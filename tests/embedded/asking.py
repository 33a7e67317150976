"""One request of an agent, without any retry: who said that it is ready answers."""

from typing import Any, cast

import nats
import orjson

ANSWER_SECONDS = 5.0


async def ask(url: str, operation: str, body: dict[str, Any]) -> dict[str, Any]:
    client = await nats.connect(url)  # pyright: ignore[reportUnknownMemberType]  # its options are untyped
    try:
        reply = await client.request(
            f"hive.req.acme.bot.sessions.{operation}", orjson.dumps(body), timeout=ANSWER_SECONDS
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


async def contents(url: str, session: str) -> list[int]:
    answer = await ask(url, "events", {"session_id": session, "limit": 1000})
    return [event["content"] for event in answer["items"]]
