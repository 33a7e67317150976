"""Membership: each worker of a service renews an entry in a key-value bucket, which all of them watch."""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import nats.errors
import orjson
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.streams import MEMBERS
from hivemem_runtime.bus import jetstream
from hivemem_runtime.bus.subscriptions import subscribe
from hivemem_runtime.clock import elapsed_seconds
from hivemem_runtime.loops import Loop

log = structlog.get_logger("hivemem.bus")

TTL_SECONDS: Final = 3
MEMBERS_MAXIMUM: Final = 1_000
NAME_CHARACTERS: Final = 64
SHOWN: Final = 100
UNSAID_SECONDS: Final = 6.0
END_OF_LIST: Final = ("204", "404")


@lru_cache(maxsize=64)
def assign(members: Sequence[str], partitions: int) -> tuple[str, ...]:
    """The owner of each partition: as even as can be, and few of them move when a member comes or goes."""
    share, extra = divmod(partitions, len(members))
    held = dict.fromkeys(members, 0)
    owners: list[str] = []
    for partition in range(partitions):
        room = [member for member in members if held[member] < share or (held[member] == share and extra > 0)]
        owner = max(room, key=lambda member: _weight(member, partition))
        extra -= held[owner] == share
        held[owner] += 1
        owners.append(owner)
    return tuple(owners)


def _weight(member: str, partition: int) -> bytes:
    return blake2b(f"{member}/{partition}".encode(), digest_size=8).digest()


class Members:
    """The living workers of one service, including this one from `start` to `leave`.

    Membership is a hint which worker should pull from a partition. Two workers may see different members for a moment;
    the pin of the partition's consumer decides.
    """

    def __init__(self, client: Client, service: str, *, ttl_seconds: int = TTL_SECONDS) -> None:
        self.name = new_id()
        self._client = client
        self._prefix = f"$KV.{MEMBERS}.{service}"
        self._ttl_seconds = ttl_seconds
        self._until: dict[str, float] = {}
        self._present = False
        self._listeners: list[Callable[[], None]] = []
        self._subscription: Subscription | None = None
        self._loop = Loop(f"{service}-member", self._live)
        self._said_at = 0.0
        self._body = orjson.dumps({"host": socket.gethostname(), "pid": os.getpid()})

    @property
    def living(self) -> tuple[str, ...]:
        here = {self.name} if self._present else set[str]()
        return tuple(sorted(here.union(self._until)))

    def owns(self, partition: int, partitions: int) -> bool:
        return self._present and assign(self.living, partitions)[partition] == self.name

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    async def start(self) -> None:
        """Hear of the others, then join. Raises `Unavailable` if the bucket cannot be reached."""
        self._subscription = await subscribe(self._client, f"{self._prefix}.*", self._heard)
        await self._list()
        await self._say()
        self._present = True
        self._loop.start()
        self._changed()

    async def leave(self) -> None:
        """Say goodbye, so that the others need not wait for the silence."""
        self._present = False
        await self._loop.stop()
        with suppress(Unavailable):
            await self._say(goodbye=True)
        if self._subscription is not None:
            with suppress(nats.errors.Error):
                await self._subscription.unsubscribe()

    def status(self) -> dict[str, Any]:
        unsaid = elapsed_seconds() - self._said_at
        late = f"membership was last confirmed {unsaid:.0f} s ago" if unsaid > UNSAID_SECONDS else None
        found: dict[str, Any] = {"member": self.name, "living": list(self.living)[:SHOWN]}
        trouble = self._loop.trouble or (late if self._present else None)
        return found | {"trouble": trouble} if trouble else found

    async def _live(self) -> None:
        tick = self._ttl_seconds / 6
        beat = True
        while self._present:
            slept = elapsed_seconds()
            await asyncio.sleep(tick)
            woke = elapsed_seconds()
            if woke - slept > self._ttl_seconds / 2:
                # This process stood still, and what the others said meanwhile is not read yet.
                self._until = dict.fromkeys(self._until, woke + self._ttl_seconds)
            self._forget_silent(woke)
            beat = not beat
            if beat:
                await self._say_or_log()

    def _forget_silent(self, at: float) -> None:
        silent = [member for member, until in self._until.items() if until < at]
        for member in silent:
            del self._until[member]
        if silent:
            log.info("members fell silent", members=silent)
            self._changed()

    async def _say_or_log(self) -> None:
        """Renew the entry and log any error: a worker whose loop ended here would never take over partitions."""
        try:
            await self._say()
        except Unavailable as error:
            log.info("membership not confirmed", error=str(error))
        except Exception:
            log.exception("membership not said")

    async def _say(self, *, goodbye: bool = False) -> None:
        headers = {"Nats-TTL": f"{self._ttl_seconds}s"}
        if goodbye:
            headers["KV-Operation"] = "DEL"
        body = b"" if goodbye else self._body
        timeout = self._ttl_seconds / 3
        await jetstream.publish(self._client, f"{self._prefix}.{self.name}", body, headers, timeout_seconds=timeout)
        self._said_at = elapsed_seconds()

    async def _list(self) -> None:
        """The members that are there already, by one direct read; who is missed is heard within a beat."""
        inbox = self._client.new_inbox()
        subscription = await subscribe(self._client, inbox)
        body = orjson.dumps({"multi_last": [f"{self._prefix}.*"], "batch": MEMBERS_MAXIMUM})
        try:
            await self._client.publish(f"{jetstream.API}.DIRECT.GET.KV_{MEMBERS}", body, reply=inbox)
            for _ in range(MEMBERS_MAXIMUM):
                message = await subscription.next_msg(timeout=self._ttl_seconds)
                headers = message.headers or {}
                # The server adds this to stored messages, whose publishers may have written a status.
                if "Nats-Subject" in headers:
                    self._note(headers["Nats-Subject"], headers)
                elif headers.get("Status") in END_OF_LIST:
                    return
        except (TimeoutError, nats.errors.Error) as error:
            raise Unavailable(f"the bucket {MEMBERS} cannot be read: {error!r}", retry_after_ms=1000) from error
        finally:
            await subscription.unsubscribe()

    async def _heard(self, message: Msg) -> None:
        if self._note(message.subject, message.headers or {}):
            self._changed()

    def _note(self, subject: str, headers: dict[str, str]) -> bool:
        """Take note of one entry of the bucket; whether that changed who is alive."""
        member = subject.rpartition(".")[2]
        if member == self.name or len(member) > NAME_CHARACTERS:
            return False
        if "KV-Operation" in headers or "Nats-Marker-Reason" in headers:
            return self._until.pop(member, None) is not None
        known = member in self._until
        if not known and len(self._until) >= MEMBERS_MAXIMUM:
            return False
        self._until[member] = elapsed_seconds() + self._ttl_seconds
        return not known

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()
