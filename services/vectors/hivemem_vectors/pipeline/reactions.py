"""The reactions to the feed: memories, and events of sessions that ask for it, go into the index and out of it.

Workers share a reaction, so one worker may receive a session's first events before another one has noted that they are
wanted. Whoever notes it therefore reads the events that may be on their way to other workers.

An update may switch the index of a session on or off, or move the session. Then the session is read as it is now, and
if it asks, all of its events are. The update is acknowledged after that, so another worker begins again after a kill;
what is in the index already stays as it is.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, NamedTuple, cast

from hivemem_contracts.changes import Change
from hivemem_contracts.errors import NotFound
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_runtime.batches import grouped
from hivemem_runtime.bus.reactions.runner import BATCHES_OUT, Reaction, ReceivedChange
from hivemem_runtime.ledger.current import current_values
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.port import Ledger, system_write
from hivemem_runtime.turns import in_turns
from hivemem_vectors.pipeline.decisions.changes import (
    ERASED,
    AskingSession,
    ItemVersion,
    asking,
    follow,
    let_go,
    may_ask,
    object_of,
    version_of_change,
    version_of_event,
)
from hivemem_vectors.pipeline.decisions.item_states import is_followed
from hivemem_vectors.pipeline.endpoints.indexing import Indexer
from hivemem_vectors.pipeline.endpoints.peers import SessionService
from hivemem_vectors.pipeline.entities import FOLLOWED, ITEM, Followed, events_of

BATCH: Final = 500
GATHER_SECONDS: Final = 0.02
"""A memory is found that much later; then one commit is shared by many."""

ACK_WAIT_SECONDS: Final = 5.0
"""What a worker had in hand that was killed is found that much later."""

_reaction: Final = partial(Reaction, batch=BATCH, gather_seconds=GATHER_SECONDS, ack_wait_seconds=ACK_WAIT_SECONDS)


def memories_reaction(indexer: Indexer) -> Reaction:
    async def follow(changes: Sequence[ReceivedChange]) -> None:
        await indexer.take_up(await in_turns(newest(changes), version_of_change))

    return _reaction("memories", ("hive.chg.*.memory.>",), follow)


def newest(changes: Sequence[ReceivedChange]) -> list[Change]:
    """Of each memory the last that was told: older ones are of no use any more, but for erasures, which are counted."""
    found: dict[tuple[str, str, str | None], Change] = {}
    erased: list[Change] = []
    for received in changes:
        change = received.change
        name = change.tenant, change.namespace, change.key
        if change.operation == ERASED:
            erased.append(change)
        if name not in found or found[name].version < change.version:
            found[name] = change
    return [*erased, *(change for change in found.values() if change.operation != ERASED)]


ON_THEIR_WAY: Final = BATCHES_OUT * BATCH
ALL_EVENTS: Final = 2**53
REMOVED_AT_ONCE: Final = 100
_BEGINNINGS: Final = ("created", "forked")

Name = tuple[str, str]
"""A tenant and a session."""


class FeedStretch(NamedTuple):
    """Changes of the feed, in a range within which no session begins again."""

    begun: dict[Name, Change]
    updated: dict[Name, Change]
    events: list[Change]
    ended: dict[Name, Change]


def stretches(changes: Iterable[ReceivedChange]) -> Iterator[FeedStretch]:
    stretch = FeedStretch({}, {}, [], {})
    for received in changes:
        change = received.change
        name = change.tenant, change.namespace
        if change.entity == "event":
            stretch.events.append(change)
        elif change.operation in _BEGINNINGS:
            if name in stretch.ended:
                yield stretch
                stretch = FeedStretch({}, {}, [], {})
            stretch.begun[name] = change
        elif change.operation == "updated" and may_ask(change):
            stretch.updated[name] = change
        elif change.operation == "deleted":
            stretch.ended[name] = change
    yield stretch


class SessionFollower:
    def __init__(self, ledger: Ledger, indexer: Indexer, sessions: SessionService) -> None:
        self._ledger = ledger
        self._indexer = indexer
        self._sessions = sessions

    async def handle(self, changes: Sequence[ReceivedChange]) -> None:
        for stretch in stretches(changes):
            begun = [one for change in stretch.begun.values() if (one := await self._asking(change)) is not None]
            updated = [one for change in stretch.updated.values() if (one := await self._updated(change)) is not None]
            await self._begin(begun)
            await self._begin(updated)
            await self._index(stretch.events)
            for one in begun:
                await self._catch_up(one)
            for one in updated:
                await self._backfill(one)
            for change in await self._followed_ones(stretch.ended):
                await self._end(change.tenant, change.namespace, change.version)

    async def _asking(self, change: Change) -> AskingSession | None:
        if change.value_omitted:
            return await self._asking_now(change.tenant, change.namespace)
        return asking(change.tenant, object_of(change))

    async def _asking_now(self, tenant: str, session_id: str) -> AskingSession | None:
        session = await self._sessions.session(tenant, session_id)
        return None if session is None else asking(tenant, session)

    async def _updated(self, change: Change) -> AskingSession | None:
        """Return the session if it asks now; if not, its events are removed from the index."""
        now = await self._asking_now(change.tenant, change.namespace)
        if now is None:
            await self._end(change.tenant, change.namespace, change.version)
        return now

    async def _begin(self, sessions: Sequence[AskingSession]) -> None:
        for tenant, some in grouped([(begun.tenant, begun) for begun in sessions]).items():
            ids = [begun.session_id for begun in some]
            known = await self._followed(tenant, ids)
            for begun in some:
                before = known.get(begun.session_id)
                if before is not None and before.since < begun.since:
                    await self._end(tenant, begun.session_id, before.revision)
            reads = [(FOLLOWED, id) for id in ids]
            await self._ledger.commit(system_write(tenant, FOLLOWED, ids[0], partial(follow, some), reads))

    async def _index(self, events: Sequence[Change]) -> None:
        ids = grouped([(change.tenant, change.namespace) for change in events])
        followed = {tenant: await self._followed(tenant, found) for tenant, found in ids.items()}
        wanted = [
            change
            for change in events
            if is_followed(followed[change.tenant].get(change.namespace), microseconds_from_time(change.at))
        ]

        def told_by(change: Change, event: Mapping[str, Any]) -> ItemVersion:
            scope = followed[change.tenant][change.namespace].scope
            return version_of_event(change.tenant, change.namespace, scope, event)

        small = [change for change in wanted if not change.value_omitted]
        told = await in_turns(small, lambda change: told_by(change, object_of(change)))
        for change in wanted:
            if change.value_omitted:
                event = await self._sessions.event(change.tenant, change.namespace, change.version)
                told += [] if event is None else [told_by(change, event)]
        await self._indexer.take_up(told)

    async def _catch_up(self, begun: AskingSession) -> None:
        """Index events that other workers received before this one noted that they are wanted."""
        if (now := await self._still_asking(begun)) is not None:
            await self._read(now, ON_THEIR_WAY, self._indexer.take_up)

    async def _backfill(self, updated: AskingSession) -> None:
        """Index all events of a session, and move those that are indexed already."""
        if (now := await self._still_asking(updated)) is not None:
            await self._read(now, ALL_EVENTS, self._indexer.renew)

    async def _still_asking(self, noted: AskingSession) -> AskingSession | None:
        """Return the session as it is now. Other workers may have been told of its end, or of an update, before this
        one noted it, and had nothing to change then."""
        now = await self._asking_now(noted.tenant, noted.session_id)
        if now is None:
            await self._end(noted.tenant, noted.session_id, noted.revision)
        elif now.scope != noted.scope:
            await self._begin([now])
        return now

    async def _read(
        self, session: AskingSession, most: int, index: Callable[[list[ItemVersion]], Awaitable[None]]
    ) -> None:
        tenant, session_id, scope = session.tenant, session.session_id, session.scope
        try:
            async with aclosing(self._sessions.events(tenant, session_id, session.after, most)) as pages:
                async for events in pages:
                    await index([version_of_event(tenant, session_id, scope, event) for event in events])
        except NotFound:
            await self._end(tenant, session_id, session.revision)

    async def _followed_ones(self, ended: Mapping[Name, Change]) -> list[Change]:
        found: list[Change] = []
        for tenant, some in grouped(ended).items():
            found += [ended[tenant, id] for id in await self._followed(tenant, some)]
        return found

    async def _end(self, tenant: str, session_id: str, revision: int) -> None:
        """Set the fence, which refuses late events, and then remove the session's events from the index."""
        await self._ledger.commit(
            system_write(tenant, FOLLOWED, session_id, lambda heads, now: let_go(heads, session_id, revision))
        )
        low, high = events_of(session_id)
        async for found in pages(
            lambda cursor: self._ledger.covered(
                ITEM, tenant, "all", equals={}, low=low, high=high, cursor=cursor, limit=REMOVED_AT_ONCE
            )
        ):
            followed = (await self._followed(tenant, [session_id])).get(session_id)
            if followed is None or not followed.gone:
                return
            await self._indexer.take_up(
                ItemVersion(tenant, item.id, cast("int", item.values["heard"]), True, {}, None)
                for item in found
                if not item.values["gone"]
            )

    async def _followed(self, tenant: str, ids: Iterable[str]) -> dict[str, Followed]:
        return await current_values(self._ledger, FOLLOWED, tenant, dict.fromkeys(ids))


def reactions(ledger: Ledger, indexer: Indexer, sessions: SessionService) -> tuple[Reaction, ...]:
    following = SessionFollower(ledger, indexer, sessions)
    sessions_reaction = _reaction("sessions", ("hive.chg.*.session.*", "hive.chg.*.event.*"), following.handle)
    return memories_reaction(indexer), sessions_reaction
