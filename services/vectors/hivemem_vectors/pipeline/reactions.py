"""The reactions to the feed: memories, and events of sessions that ask for it, go into the index and out of it.

Workers share a reaction, so one worker may receive a session's first events before another one has noted that they are
wanted. Whoever notes it therefore reads the events that may be on their way to other workers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final, NamedTuple, cast

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
    Begun,
    ItemVersion,
    asks,
    can_be_followed,
    follow,
    is_new_life,
    let_go,
    object_of,
    shared_through,
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
REMOVED_AT_ONCE: Final = 100
_BEGINNINGS: Final = ("created", "forked")

Name = tuple[str, str]
"""A tenant and a session."""


class FeedStretch(NamedTuple):
    """Changes of the feed, in a range within which no session begins again."""

    begun: dict[Name, Change]
    events: list[Change]
    ended: dict[Name, Change]


def stretches(changes: Iterable[ReceivedChange]) -> Iterator[FeedStretch]:
    stretch = FeedStretch({}, [], {})
    for received in changes:
        change = received.change
        name = change.tenant, change.namespace
        if not can_be_followed(change.namespace):
            continue
        if change.entity == "event":
            stretch.events.append(change)
        elif change.operation in _BEGINNINGS:
            if name in stretch.ended:
                yield stretch
                stretch = FeedStretch({}, [], {})
            stretch.begun[name] = change
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
            await self._begin(begun)
            await self._index(stretch.events)
            for one in begun:
                await self._catch_up(one)
            for change in await self._followed_ones(stretch.ended):
                await self._end(change.tenant, change.namespace, microseconds_from_time(change.at))

    async def _asking(self, change: Change) -> Begun | None:
        """Return the session if it asks for its events to be indexed."""
        tenant, session_id = change.tenant, change.namespace
        session = await self._sessions.session(tenant, session_id) if change.value_omitted else object_of(change)
        if session is None or not asks(session):
            return None
        return Begun(tenant, session_id, microseconds_from_time(change.at), shared_through(session))

    async def _begin(self, sessions: Sequence[Begun]) -> None:
        for tenant, some in grouped([(begun.tenant, begun) for begun in sessions]).items():
            ids = [begun.session_id for begun in some]
            known = await self._followed(tenant, ids)
            for begun in some:
                before = known.get(begun.session_id)
                if before is not None and is_new_life(before, begun.since):
                    await self._end(tenant, begun.session_id, before.since)
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
        told = await in_turns([change for change in wanted if not change.value_omitted], _told_by)
        for change in wanted:
            if change.value_omitted:
                event = await self._sessions.event(change.tenant, change.namespace, change.version)
                told += [] if event is None else [version_of_event(change.tenant, change.namespace, event)]
        await self._indexer.take_up(told)

    async def _catch_up(self, begun: Begun) -> None:
        """Index events that other workers received before this one noted that they are wanted."""
        tenant, session_id = begun.tenant, begun.session_id
        try:
            async with aclosing(self._sessions.events(tenant, session_id, begun.after, ON_THEIR_WAY)) as pages:
                async for events in pages:
                    await self._indexer.take_up([version_of_event(tenant, session_id, event) for event in events])
        except NotFound:
            # It is deleted, which another worker may have been told of before.
            await self._end(tenant, session_id, begun.since)

    async def _followed_ones(self, ended: Mapping[Name, Change]) -> list[Change]:
        found: list[Change] = []
        for tenant, some in grouped(ended).items():
            found += [ended[tenant, id] for id in await self._followed(tenant, some)]
        return found

    async def _end(self, tenant: str, session_id: str, at: int) -> None:
        """Set the fence, which refuses late events, and then remove the session's events from the index."""
        outcome = await self._ledger.commit(
            system_write(tenant, FOLLOWED, session_id, lambda heads, now: let_go(heads, session_id, at))
        )
        if outcome.record is None:
            followed = (await self._followed(tenant, [session_id])).get(session_id)
            if followed is None or not followed.gone:
                return
        low, high = events_of(session_id)
        async for found in pages(
            lambda cursor: self._ledger.covered(
                ITEM, tenant, "all", equals={}, low=low, high=high, cursor=cursor, limit=REMOVED_AT_ONCE
            )
        ):
            await self._indexer.take_up(
                ItemVersion(tenant, item.id, cast("int", item.values["heard"]), True, {}, None)
                for item in found
                if not item.values["gone"]
            )

    async def _followed(self, tenant: str, ids: Iterable[str]) -> dict[str, Followed]:
        return await current_values(self._ledger, FOLLOWED, tenant, dict.fromkeys(ids))


def _told_by(change: Change) -> ItemVersion:
    return version_of_event(change.tenant, change.namespace, object_of(change))


def reactions(ledger: Ledger, indexer: Indexer, sessions: SessionService) -> tuple[Reaction, ...]:
    following = SessionFollower(ledger, indexer, sessions)
    sessions_reaction = _reaction("sessions", ("hive.chg.*.session.*", "hive.chg.*.event.*"), following.handle)
    return memories_reaction(indexer), sessions_reaction
