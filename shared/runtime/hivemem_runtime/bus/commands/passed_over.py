"""Puts consumers back that are ahead of the commands in INGEST.

A nats-server that could not write, because of a full disk or a damaged file, may come back with a consumer beyond the
messages of its stream. Such a consumer passes over every command below its place, new commands and done ones that could
not be removed. Delivered again, done commands are known by their ids.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import structlog
from nats.aio.client import Client

from hivemem_contracts.streams import INGEST
from hivemem_runtime.bus.jetstream import JetStreamRefused, ask
from hivemem_runtime.clock import elapsed_seconds

log = structlog.get_logger("hivemem.bus")

SETTLING_SECONDS: Final = 4.0
"""The server removes an acknowledged command a moment later; after this time it never will."""
NO_MESSAGE_FOUND: Final = (10037, 10057)


class PassedOver:
    """Any number of workers may look at once: a consumer is put back to the same place."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._found: dict[str, tuple[int, float]] = {}
        """Of each consumer the first command below its place, and when it was first seen there."""

    async def deliver(self, consumers: Sequence[Mapping[str, Any]]) -> int:
        """Return how many consumers were put back. Raises `Unavailable` or `JetStreamRefused`."""
        first = {str(info["name"]): await self._below(info) for info in consumers}
        seen = {name: sequence for name, sequence in first.items() if sequence is not None}
        known = self._found
        self._found = {
            name: known[name] if name in known and known[name][0] == sequence else (sequence, elapsed_seconds())
            for name, sequence in seen.items()
        }
        put_back = 0
        for name, (sequence, since) in list(self._found.items()):
            if elapsed_seconds() - since >= SETTLING_SECONDS:
                await ask(self._client, f"CONSUMER.RESET.{INGEST}.{name}", {"seq": sequence})
                log.error("a consumer was ahead of its commands, put back", consumer=name, sequence=sequence)
                del self._found[name]
                put_back += 1
        return put_back

    async def _below(self, info: Mapping[str, Any]) -> int | None:
        """The first command for a consumer, if it is below the consumer's place."""
        wanted = {"seq": 1, "next_by_subj": info["config"].get("filter_subject", ">")}
        try:
            found = await ask(self._client, f"STREAM.MSG.GET.{INGEST}", wanted)
        except JetStreamRefused as error:
            if error.code in NO_MESSAGE_FOUND:
                return None
            raise
        sequence = int(found["message"]["seq"])
        return sequence if sequence <= int(info["ack_floor"]["stream_seq"]) else None
