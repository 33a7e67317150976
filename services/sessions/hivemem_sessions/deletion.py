"""Deleting a session for good, without taking from its forks the events that they share."""

from typing import Final, Protocol

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.subjects import Sender
from hivemem_runtime.ledger.entity import AnyEntity, Stamp
from hivemem_runtime.ledger.port import Head, Ledger
from hivemem_sessions.decisions.standing import session_not_found
from hivemem_sessions.entities import SESSION, SessionHead

_TRIES: Final = 20
_FAMILY_PAGE: Final = 200
KEEP_ALL: Final = 2**53


class Announcements(Protocol):
    """What deletion needs of the announcer: nothing may be erased that the feed has not told yet."""

    async def flush(self, entity: AnyEntity, tenant: str, id: str, version: int, announced: int) -> None: ...


class Deletion:
    def __init__(self, ledger: Ledger, announcements: Announcements) -> None:
        self._ledger = ledger
        self._announcements = announcements

    async def delete(self, sender: Sender, session_id: str, *, cause: str) -> Stamp:
        """Erase a session and answer its tombstone. Events that living forks share stay until the last of them goes.

        The tombstone comes first, with every event kept: from then on nobody can fork the session, so those who share
        its events are known for good, also where two of a family are deleted at once.
        """
        head = await self._ledger.head(SESSION, sender.tenant, session_id)
        if head is None:
            raise session_not_found(session_id)
        stamp = await self._erase(sender, session_id, cause, KEEP_ALL)
        if stamp is None:
            raise session_not_found(session_id)
        session = head.value
        if session is not None:
            family = await self._family(sender.tenant, session.root or session_id)
            for owner in (session_id, *(str(owner) for owner, *_ in session.segments)):
                await self._release(sender, owner, cause, family)
        return stamp

    async def _erase(self, sender: Sender, session_id: str, cause: str, keep: int) -> Stamp | None:
        for _ in range(_TRIES):
            try:
                return await self._ledger.erase(
                    SESSION,
                    sender.tenant,
                    session_id,
                    actor=sender.agent,
                    cause=cause,
                    keep_through_position=keep,
                )
            except Unavailable as error:
                announced = error.context.get("announced")
                head = await self._ledger.head(SESSION, sender.tenant, session_id)
                if announced is None or head is None:
                    raise
            await self._announcements.flush(SESSION, sender.tenant, session_id, head.version, int(announced))
        raise Unavailable(f"session {session_id!r} is written to all the time", retry_after_ms=500)

    async def _release(self, sender: Sender, owner: str, cause: str, family: list[Head[SessionHead]]) -> None:
        """Remove those events of a deleted session that no living fork shares."""
        head = await self._ledger.head(SESSION, sender.tenant, owner)
        if head is not None and head.value is None:
            await self._erase(sender, owner, cause, shared_through(owner, family))

    async def _family(self, tenant: str, root: str) -> list[Head[SessionHead]]:
        """Every session that descends from the same first one."""
        family: list[Head[SessionHead]] = []
        cursor: str | None = None
        while True:
            page = await self._ledger.find(
                SESSION, tenant, "root", equals={"root": root}, cursor=cursor, limit=_FAMILY_PAGE
            )
            family += page.items
            cursor = page.cursor
            if cursor is None:
                return family


def shared_through(session_id: str, family: list[Head[SessionHead]]) -> int:
    """The last position of a session that any living fork still shares."""
    return max(
        (
            int(through) + int(offset)
            for head in family
            if head.value is not None
            for owner, through, offset in head.value.segments
            if owner == session_id
        ),
        default=0,
    )
