"""Calls to the memory and the session service, and the position of the index in the feed."""

from collections.abc import AsyncGenerator, Awaitable, Sequence
from typing import Any, Final

from hivemem_contracts.errors import NotFound, Unavailable
from hivemem_contracts.identifiers import derived_id, microseconds_from_time, time_from_microseconds
from hivemem_contracts.limits import BATCH_ITEMS, LIST_MAXIMUM
from hivemem_contracts.memory import operations, requests
from hivemem_contracts.memory.models import MemoryKey
from hivemem_contracts.sessions import operations as session_operations
from hivemem_contracts.sessions import requests as session_requests
from hivemem_contracts.subjects import encode_token, namespace_tokens
from hivemem_contracts.vectors.operations import NAME
from hivemem_runtime.background import Background
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.bus.feed.reading import FeedReading, FeedState
from hivemem_runtime.bus.requests.outgoing import Asking
from hivemem_runtime.clock import now_microseconds

MEMORIES: Final = f"{NAME}-memories"
SESSIONS: Final = f"{NAME}-sessions"
"""The feed's consumers: the reactions that index memories, and the events of sessions."""

AGENT: Final = "hivemem"
"""The agent in whose name the worker calls, if no agent asked for it."""

WORKER: Final = "vectors"
"""The name under which the worker confirms erasures."""

Body = dict[str, Any]
Name = tuple[str, str]
"""A namespace and a key."""


class MemoryService:
    """The memory service, called over the bus. Its calls are `Unavailable` while no memory worker answers."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def get_many(self, tenant: str, agent: str, names: Sequence[Name]) -> dict[Name, Body]:
        """Return the living memories of these names in their wire format."""
        found: dict[Name, Body] = {}
        left = list(names)
        while left:
            some, rest = await self.get_some(tenant, agent, left[:BATCH_ITEMS])
            found.update(some)
            left = rest + left[BATCH_ITEMS:]
        return found

    async def get_some(self, tenant: str, agent: str, names: Sequence[Name]) -> tuple[dict[Name, Body], list[Name]]:
        """Return as many of these memories as fit one answer, and the names of the rest."""
        body = requests.GetMemories(keys=[MemoryKey(namespace=namespace, key=key) for namespace, key in names])
        answer = await self._asking.ask(tenant, agent, operations.GET_MANY, body)
        found = {(memory["namespace"], memory["key"]): memory for memory in answer["items"]}
        return found, [(name["namespace"], name["key"]) for name in answer["left"]]

    async def newest(self, tenant: str, agent: str, name: Name) -> Body | None:
        """Return a memory as it is now, deleted or not; None if it is unknown."""
        body = requests.GetMemory(namespace=name[0], key=name[1], include_deleted=True)
        return await _if_found(self._asking.ask(tenant, agent, operations.GET, body))

    async def page(
        self, tenant: str, prefix: str, *, limit: int, cursor: str | None = None
    ) -> tuple[list[Body], str | None]:
        """Return a page of all memories below a prefix, deleted ones too, by namespace and key."""
        body = requests.ListMemories(prefix=prefix, include_deleted=True, limit=limit, cursor=cursor)
        answer = await self._asking.ask(tenant, AGENT, operations.LIST, body)
        return answer["items"], answer["cursor"]

    async def written_since(self, tenant: str, prefix: str, moment: int, *, limit: int) -> list[Body]:
        """Return the newest memories below a prefix that were written after a moment, deleted ones too."""
        body = requests.ListMemories(
            prefix=prefix,
            include_deleted=True,
            updated_after=time_from_microseconds(moment),
            sort="-updated_at",
            limit=limit,
        )
        items: list[Body] = (await self._asking.ask(tenant, AGENT, operations.LIST, body))["items"]
        return items

    async def erasure(self, tenant: str, receipt: str) -> Body | None:
        """Return the receipt of an erasure; None if it is unknown."""
        body = requests.ReadErasure(receipt=receipt)
        return await _if_found(self._asking.ask(tenant, AGENT, operations.ERASURE, body))

    async def confirm_erasure(self, tenant: str, receipt: str, removed: int) -> None:
        body = requests.ConfirmErasure(receipt=receipt, worker=WORKER, removed=removed)
        message_id = derived_id(WORKER, receipt, str(removed))
        await self._asking.ask(tenant, AGENT, operations.ERASE_CONFIRM, body, message_id=message_id)


async def _if_found(answer: Awaitable[Body]) -> Body | None:
    try:
        return await answer
    except NotFound:
        return None


PAGE: Final = 100
assert PAGE <= LIST_MAXIMUM


class SessionService:
    """The session service, called over the bus. Its calls are `Unavailable` while no session worker answers."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def session(self, tenant: str, session_id: str) -> Body | None:
        """Return a session in its wire format, or None."""
        body = session_requests.GetSession(session_id=session_id)
        answer = await _if_found(self._asking.ask(tenant, AGENT, session_operations.GET, body))
        return None if answer is None else answer["session"]

    async def event(self, tenant: str, session_id: str, sequence: int) -> Body | None:
        """Return an event; None if its session is gone."""
        body = session_requests.ListEvents(session_id=session_id, after=sequence - 1, before=sequence + 1, limit=1)
        answer = await _if_found(self._asking.ask(tenant, AGENT, session_operations.EVENTS, body))
        return answer["items"][0] if answer is not None and answer["items"] else None

    async def appended_since(self, tenant: str, session_id: str, moment: int, limit: int) -> list[Body]:
        """Return the newest events that a session got since a moment; none if it is gone."""
        body = session_requests.ListEvents(
            session_id=session_id, since=time_from_microseconds(moment), limit=limit, reverse=True
        )
        answer = await _if_found(self._asking.ask(tenant, AGENT, session_operations.EVENTS, body))
        return [] if answer is None else answer["items"]

    async def events(
        self, tenant: str, session_id: str, after: int, most: int, *, agent: str = AGENT
    ) -> AsyncGenerator[list[Body]]:
        """Yield pages of at most `most` events after a sequence. Raises `NotFound` if the session is gone."""
        cursor: str | None = None
        while most > 0:
            body = session_requests.ListEvents(session_id=session_id, after=after, limit=min(PAGE, most), cursor=cursor)
            answer = await self._asking.ask(tenant, agent, session_operations.EVENTS, body)
            yield answer["items"]
            cursor, most = answer["cursor"], most - len(answer["items"])
            if cursor is None:
                return


CHANGES_OF_MEMORIES: Final = "hive.chg.*.memory.>"
RETRY_AFTER_MS: Final = 500
PASSED_OVER: Final = 100
"""The most messages in a row that are no changes. The reaction removes them."""


class FeedPosition(Background):
    """The position of the index in the feed. Its calls are `Unavailable` before `start` and after `stop`."""

    def __init__(self) -> None:
        self._feed: FeedReading | None = None

    async def start(self, client: Client) -> None:
        self._feed = FeedReading(client)

    async def stop(self) -> None:
        self._feed = None

    async def changes(self) -> int:
        """Return how many changes the index has not taken up yet, over all tenants."""
        return await self.reading.waiting(MEMORIES)

    async def reaches_back_to(self) -> int:
        """Return the commit time of the oldest change that is not taken up, or else the time now, in microseconds since
        1970. All changes that were announced before that are taken up."""
        feed = self.reading
        now = now_microseconds()
        oldest = await feed.next(CHANGES_OF_MEMORIES, await feed.acknowledged(MEMORIES))
        for _ in range(PASSED_OVER):
            if oldest is None:
                return now
            change = oldest.change()
            if change is not None:
                return min(now, microseconds_from_time(change.at))
            oldest = await feed.next(CHANGES_OF_MEMORIES, oldest.sequence)
        raise Unavailable("the feed has too many messages that are no changes", retry_after_ms=RETRY_AFTER_MS)

    async def end(self) -> FeedState:
        """Return where the feed ends now."""
        return await self.reading.state()

    async def is_taken_up(self, tenant: str, prefix: str, end: FeedState) -> bool:
        """Return whether the index has taken up every change below a prefix through an end of the feed.
        False if the feed has another identity by now."""
        feed = self.reading
        tokens = ("hive", "chg", encode_token(tenant), "memory", *namespace_tokens(prefix), ">")
        oldest = await feed.next(".".join(tokens), await feed.acknowledged(MEMORIES))
        if oldest is not None and oldest.sequence <= end.last_sequence:
            return False
        return await feed.identity() == end.identity

    @property
    def reading(self) -> FeedReading:
        if self._feed is None:
            raise Unavailable("this worker is stopping", retry_after_ms=RETRY_AFTER_MS)
        return self._feed
