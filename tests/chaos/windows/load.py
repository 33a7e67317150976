"""The load: programs that share windows, write to them, flush them, and check the budget at each read."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from nats.aio.client import Client

from ..asking import Asking, Refused
from ..journal import Journal, Sent
from ..service import Stopping

WINDOWS: Final = 3
WRITERS: Final = 9
MAX_TOKENS: Final = 300
_BETWEEN_FLUSHES: Final = 11
_RESOURCE: Final = {
    "id": "chat",
    "type": "token",
    "key": "{{ k }}",
    "max_tokens": MAX_TOKENS,
    "flushing": {"strategy": "hybrid_summary", "threshold": 0.7, "keep_last": 3},
}


async def run_writers(clients: Sequence[Client], journal: Journal, stopping: Stopping) -> None:
    askings = [Asking(clients[number % len(clients)], "windows") for number in range(WRITERS)]
    try:
        await askings[0].request("resource_put", {"resource": _RESOURCE}, "declare")
        await asyncio.gather(*(_write(asking, journal, number, stopping) for number, asking in enumerate(askings)))
    except Refused as refused:
        journal.findings.append(f"refused: {refused}")


def place(key: str) -> dict[str, Any]:
    return {"resource": "chat", "key": key}


async def _write(asking: Asking, journal: Journal, writer: int, stopping: Stopping) -> None:
    key = f"w{writer % WINDOWS}"
    number = 0
    while not stopping():
        number += 1
        message = {"role": "user", "content": f"writer {writer}, message {number}"}
        await _send(asking, journal, "append", key, writer, number, message=message)
        if number % _BETWEEN_FLUSHES == writer:
            await _send(asking, journal, "flush", key, writer, number)
        read = await asking.request("read", place(key))
        tokens = sum(message["tokens"] for message in read["messages"]) + (read["summary"] or {"tokens": 0})["tokens"]
        if tokens > MAX_TOKENS or tokens != read["tokens"]:
            journal.findings.append(f"{key}: a read has {tokens} tokens, and says {read['tokens']}")


async def _send(
    asking: Asking, journal: Journal, operation: str, key: str, writer: int, number: int, **fields: Any
) -> None:
    id = f"{operation}-{writer}-{number}"
    sent = Sent(id, operation, key, f"writer {writer}", number, {**place(key), **fields})
    journal.sent.append(sent)
    sent.answer = await asking.request(operation, sent.body, id, seconds=5.0)
