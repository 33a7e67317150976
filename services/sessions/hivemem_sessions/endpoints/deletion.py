"""Deleting a session for good, without taking from its forks the events that they share."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hivemem_contracts.subjects import Sender
from hivemem_runtime.erasing import Announcements, erase_announced
from hivemem_runtime.ledger.entity import Stamp
from hivemem_runtime.ledger.port import Ledger, Outcome, Write
from hivemem_sessions.decisions.sharing import SEGMENTS, end_shares
from hivemem_sessions.decisions.standing import session_not_found
from hivemem_sessions.entities import SESSION, SHARE, Share, share_id

KEEP_ALL: Final = 2**53


class Eraser:
    """Erases sessions, and what is left of erased ones once nobody shares it any more."""

    def __init__(self, ledger: Ledger, announcements: Announcements) -> None:
        self._ledger = ledger
        self._announcements = announcements

    async def delete(self, sender: Sender, session_id: str, begun: Outcome, *, cause: str) -> Stamp:
        """Erase the session that a deletion was begun for, and answer its tombstone. Events that living forks share
        stay until the last of them goes.

        The tombstone comes first, with every event kept: from then on nobody can fork the session, so those who share
        its events are known for good. What is interrupted after it is finished by the same deletion sent again.
        """
        head = await self._ledger.head(SESSION, sender.tenant, session_id)
        assert head is not None, "it was there when its deletion was begun"
        assert begun.stamp is not None, "beginning a deletion appends"
        if head.value is not None and head.value.offset > begun.record.revision:
            # It is done, and another session has the id by now; its numbers begin above the tombstone.
            return begun.stamp._replace(version=head.value.offset)
        stamp = await self._erase(sender, session_id, cause, KEEP_ALL)
        if stamp is None:
            raise session_not_found(session_id)
        shares = await self._end(sender, session_id)
        for owner in (session_id, *(share.owner for share in shares)):
            await self._release(sender, owner, cause)
        await self._move(sender, shares, "released")
        # Until it is told, nothing can be written under the id: who hears of the deletion may use it again at once.
        await self._announcements.flush_tombstone(stamp)
        return stamp

    async def _end(self, sender: Sender, fork: str) -> list[Share]:
        """What a deleted session shared, ended by now, whoever began it."""
        page = await self._ledger.find(SHARE, sender.tenant, "fork", equals={"fork": fork}, limit=SEGMENTS)
        shares = [head.value for head in page.items if head.value is not None]
        await self._move(sender, [share for share in shares if share.status == "shared"], "ended")
        return [replace(share, status="ended") for share in shares]

    async def _move(self, sender: Sender, shares: Sequence[Share], status: str) -> None:
        if shares:
            id = share_id(shares[0].owner, shares[0].fork)
            await self._ledger.commit(
                Write(sender.tenant, sender.agent, SHARE, id, lambda heads, now: end_shares(heads, shares, status))
            )

    async def _erase(self, sender: Sender, session_id: str, cause: str, keep: int) -> Stamp | None:
        return await erase_announced(
            self._ledger,
            self._announcements,
            SESSION,
            sender.tenant,
            session_id,
            actor=sender.agent,
            cause=cause,
            keep_through_position=keep,
        )

    async def _release(self, sender: Sender, owner: str, cause: str) -> None:
        """Remove those events of a deleted session that no living fork shares."""
        head = await self._ledger.head(SESSION, sender.tenant, owner)
        if head is not None and head.value is None:
            await self._erase(sender, owner, cause, await self._shared_through(sender.tenant, owner))

    async def _shared_through(self, tenant: str, owner: str) -> int:
        """The last position of a session that any living fork shares, of all who ever had its id."""
        page = await self._ledger.find(SHARE, tenant, "owner", equals={"owner": owner}, reverse=True, limit=1)
        return max((head.value.position for head in page.items if head.value is not None), default=0)
