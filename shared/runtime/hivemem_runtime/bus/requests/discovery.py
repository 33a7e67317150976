"""Discovery by the NATS services protocol (ADR-32): `nats service` and the doctor find workers through it.

The caller names the reply subject, so answers go to inboxes only. An answer is made at most 100 times a second, once
for all callers in between, and the number of waiting callers is bounded."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import nats.errors
import orjson
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from hivemem_contracts.errors import HiveError
from hivemem_contracts.identifiers import new_id
from hivemem_runtime.bus.requests.replies import Unanswered, inbox_of
from hivemem_runtime.bus.subscriptions import drain, subscribe_direct
from hivemem_runtime.bus.wire import plain_frame, write

log = structlog.get_logger("hivemem.discovery")

WAITING: Final = 256
"""How many may wait for an answer of each kind; more are not answered."""

PAUSE_SECONDS: Final = 0.01
"""After an answer; who asks meanwhile gets the next one."""

METADATA: Final = {"product": "hivemem"}


@dataclass(slots=True, eq=False)
class Endpoint:
    """A subject that is served, and its figures since the start."""

    name: str
    subject: str
    queue_group: str
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    requests: int = 0
    errors: int = 0
    seconds: float = 0.0
    last_error: str = ""

    def count(self, seconds: float) -> None:
        """Count a request that was answered, with a reply or an error, after this long."""
        self.requests += 1
        self.seconds += seconds

    def fail(self, error: HiveError) -> None:
        """Count an error, whose request is counted by itself."""
        self.errors += 1
        self.last_error = f"{error.code}:{error.name}"

    def refuse(self, error: HiveError) -> None:
        """Count a request that was refused at once."""
        self.count(0.0)
        self.fail(error)

    def info(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "queue_group": self.queue_group, "metadata": self.metadata}

    def stats(self, health: dict[str, Any]) -> dict[str, Any]:
        average = self.seconds / self.requests if self.requests else 0.0
        return {
            "name": self.name,
            "subject": self.subject,
            "queue_group": self.queue_group,
            "num_requests": self.requests,
            "num_errors": self.errors,
            "last_error": self.last_error,
            "processing_time": int(self.seconds * 1e9),
            "average_processing_time": int(average * 1e9),
            "data": {
                "completed": self.requests,
                "errors": self.errors,
                "average_ms": round(average * 1_000, 3),
                "health": health,
            },
        }


class Discovery:
    """Answers `$SRV.PING`, `$SRV.INFO` and `$SRV.STATS` for one worker."""

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        version: str,
        description: str,
        endpoints: Sequence[Endpoint],
        health: Callable[[], dict[str, Any]],
    ) -> None:
        self._client = client
        self._identity = {"name": name, "id": new_id(), "version": version, "metadata": METADATA}
        self._description = description
        self._endpoints = endpoints
        self._health = health
        self._started = ""
        self._verbs = {"PING": self._ping, "INFO": self._info, "STATS": self._stats}
        self._waiting: dict[str, dict[str, None]] = {verb: {} for verb in self._verbs}
        self._answering: asyncio.Task[None] | None = None
        self._subscriptions: list[Subscription] = []
        self._unanswered = Unanswered()

    async def start(self) -> None:
        self._started = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        name, id = self._identity["name"], self._identity["id"]
        for verb in self._verbs:
            for subject in (f"$SRV.{verb}", f"$SRV.{verb}.{name}", f"$SRV.{verb}.{name}.{id}"):
                self._subscriptions.append(await subscribe_direct(self._client, subject, partial(self._take, verb)))

    async def stop(self) -> None:
        """Take nothing more, and answer whoever asked."""
        await asyncio.gather(*(drain(subscription) for subscription in self._subscriptions))
        self._subscriptions = []
        if self._answering is not None:
            await self._answering

    def _take(self, verb: str, message: Msg) -> None:
        if inbox_of(message.reply) is None:
            self._unanswered.add(message.subject, message.reply)
            return
        waiting = self._waiting[verb]
        if len(waiting) < WAITING:
            waiting[message.reply] = None
            if self._answering is None:
                self._answering = asyncio.create_task(self._answer())

    async def _answer(self) -> None:
        try:
            while any(self._waiting.values()):
                for verb, make in self._verbs.items():
                    replies, self._waiting[verb] = self._waiting[verb], {}
                    if replies:
                        data = orjson.dumps(make(), default=str)
                        await write(self._client, [plain_frame(reply, data) for reply in replies])
                await asyncio.sleep(PAUSE_SECONDS)
        except (nats.errors.Error, OSError) as error:
            log.warning("discovery could not be answered", error=repr(error))
        finally:
            self._answering = None

    def _ping(self) -> dict[str, Any]:
        return {"type": "io.nats.micro.v1.ping_response", **self._identity}

    def _info(self) -> dict[str, Any]:
        endpoints = [endpoint.info() for endpoint in self._endpoints]
        kind = "io.nats.micro.v1.info_response"
        return {"type": kind, **self._identity, "description": self._description, "endpoints": endpoints}

    def _stats(self) -> dict[str, Any]:
        health = self._health()
        endpoints = [endpoint.stats(health) for endpoint in self._endpoints]
        kind = "io.nats.micro.v1.stats_response"
        return {"type": kind, **self._identity, "started": self._started, "endpoints": endpoints}
