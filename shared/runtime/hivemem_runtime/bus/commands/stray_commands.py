"""Moves commands that no consumer of INGEST takes, such as commands of a misspelt service, to DEAD.

INGEST keeps a command until a consumer acknowledges it, so strays would stay for ever and fill it. A service of the
catalogue keeps its commands while its workers are down, and so does any service that has a consumer.
"""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import structlog
from nats.aio.client import Client

from hivemem_contracts.catalog import SERVICES
from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_contracts.frames import parse_headers
from hivemem_contracts.nearest_name import nearest_name
from hivemem_contracts.streams import INGEST
from hivemem_runtime.bus.commands.execution import dead_letter
from hivemem_runtime.bus.commands.passed_over import NO_MESSAGE_FOUND, PassedOver
from hivemem_runtime.bus.dead_letters import DeadLetters
from hivemem_runtime.bus.delivery import DurableMessage
from hivemem_runtime.bus.jetstream import NANOSECONDS, JetStreamRefused, ask
from hivemem_runtime.clock import elapsed_seconds
from hivemem_runtime.loops import Loop

log = structlog.get_logger("hivemem.bus")

MOVED_AT_ONCE: Final = 500
"""Strays that one look moves; in a flood, the next look follows at once."""
AT_ONCE: Final = 32
LOOK_SECONDS: Final = 2.0
LISTED_AGAIN_SECONDS: Final = 10.0
"""After all subjects were listed and no stray was found: what waits is of services whose workers are down."""
SHOWN: Final = 10
SHOWN_CHARACTERS: Final = 64
SERVICE_TOKEN: Final = 5
"""Its place in a stored subject: `hive.in.<partition>.<tenant>.<agent>.<service>.<operation>.<route>`."""


class StrayCommands:
    """Any number of workers may look at once: the id of a dead letter is that of its message, so one is kept."""

    def __init__(self, client: Client, dead: DeadLetters) -> None:
        self._client = client
        self._dead = dead
        self._passed_over = PassedOver(client)
        self._loop = Loop("stray-commands", self._keep_moving)
        self._listed_at = 0.0
        self._offset = 0
        self._found = False
        self.moved = 0

    def start(self) -> None:
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = {"moved": self.moved}
        return found | {"trouble": self._loop.trouble} if self._loop.trouble else found

    async def _keep_moving(self) -> None:
        while not self._loop.stopping.is_set():
            try:
                info = await ask(self._client, f"STREAM.INFO.{INGEST}")
                moved = await self.move(info["state"])
                self.moved += moved
                if moved >= MOVED_AT_ONCE:
                    continue
            except (Unavailable, JetStreamRefused) as error:
                log.info("stray commands cannot be looked for", error=str(error))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._loop.stopping.wait(), LOOK_SECONDS)

    async def move(self, state: Mapping[str, Any]) -> int:
        """Answers how many went to DEAD, given the state of the stream. Raises what keeps it from that."""
        if not state["messages"]:
            return 0
        consumers = await self._consumers()
        taken = sum(int(info["num_pending"]) + int(info["num_ack_pending"]) for info in consumers)
        if int(state["messages"]) <= taken:
            return 0
        await self._passed_over.deliver(consumers)
        if not self._found and elapsed_seconds() - self._listed_at < LISTED_AGAIN_SECONDS:
            return 0
        known = {contract.name for contract in SERVICES} | {_service(_filter(info)) for info in consumers}
        strays = [subject for subject in await self._subjects() if _service(subject) not in known]
        self._found = bool(strays)
        moved = 0
        for subject in strays:
            if moved >= MOVED_AT_ONCE:
                break
            moved += await self._move_subject(subject, sorted(known), MOVED_AT_ONCE - moved)
        if moved:
            services = sorted({_service(subject)[:SHOWN_CHARACTERS] for subject in strays})[:SHOWN]
            log.warning("commands of unknown services went to the dead letters", services=services, count=moved)
        return moved

    async def _subjects(self) -> list[str]:
        """Of what waits, a page at a time, and the next page the next time."""
        self._listed_at = elapsed_seconds()
        found = await ask(self._client, f"STREAM.INFO.{INGEST}", {"subjects_filter": ">", "offset": self._offset})
        subjects: list[str] = list(found["state"].get("subjects") or ())
        more = self._offset + len(subjects) < int(found.get("total", 0))
        self._offset = self._offset + len(subjects) if more else 0
        return subjects

    async def _consumers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            page = await ask(self._client, f"CONSUMER.LIST.{INGEST}", {"offset": len(found)})
            found += page.get("consumers") or ()
            if not page.get("consumers") or len(found) >= int(page["total"]):
                return found

    async def _move_subject(self, subject: str, known: Sequence[str], limit: int) -> int:
        service = _service(subject)[:SHOWN_CHARACTERS]
        # A token of a stored subject may look like a wildcard, and must not match other commands.
        messages = [message for message in await self._read(subject, limit) if message.subject == subject]
        nearest = nearest_name(service, known)
        hint = f"; did you mean {nearest!r}?" if nearest else f"; there are {', '.join(known)}"
        reason = InvalidRequest(f"subject: there is no service {service!r}{hint}", field="subject")
        moved = 0
        for start in range(0, len(messages), AT_ONCE):
            moving = [self._move(message, reason) for message in messages[start : start + AT_ONCE]]
            for result in await asyncio.gather(*moving, return_exceptions=True):
                if isinstance(result, BaseException):
                    log.warning("a stray command stays for now", service=service, error=repr(result))
                else:
                    moved += 1
        return moved

    async def _read(self, subject: str, limit: int) -> list[DurableMessage]:
        found: list[DurableMessage] = []
        sequence = 1
        while len(found) < limit:
            try:
                answer = await ask(self._client, f"STREAM.MSG.GET.{INGEST}", {"seq": sequence, "next_by_subj": subject})
            except JetStreamRefused as error:
                if error.code in NO_MESSAGE_FOUND:
                    break
                raise
            found.append(_stored(answer["message"]))
            sequence = found[-1].sequence + 1
        return found

    async def _move(self, message: DurableMessage, reason: InvalidRequest) -> None:
        await self._dead.publish(dead_letter(message, reason))
        try:
            await ask(self._client, f"STREAM.MSG.DELETE.{INGEST}", {"seq": message.sequence, "no_erase": True})
        except JetStreamRefused as error:
            if error.code not in NO_MESSAGE_FOUND:  # another worker was faster
                raise


def _filter(info: Mapping[str, Any]) -> str:
    return str(info["config"].get("filter_subject", ""))


def _service(subject: str) -> str:
    """The service token of a stored subject, escaped."""
    tokens = subject.split(".")
    return tokens[SERVICE_TOKEN] if len(tokens) > SERVICE_TOKEN else ""


def _stored(message: Mapping[str, Any]) -> DurableMessage:
    headers = parse_headers(base64.b64decode(message.get("hdrs") or ""))
    seconds, _, fraction = str(message["time"]).rstrip("Z").partition(".")
    stored_at = int(datetime.fromisoformat(f"{seconds}+00:00").timestamp()) * NANOSECONDS + int(f"{fraction:0<9}")
    return DurableMessage(
        subject=str(message["subject"]),
        headers=headers,
        data=base64.b64decode(message.get("data") or ""),
        sequence=int(message["seq"]),
        delivery=0,
        deliveries=0,
        stored_at=stored_at,
        ack="",
    )
