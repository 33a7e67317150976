"""Permanent deletion of a session. Events that its forks share are kept for as long as a fork needs them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hivemem_contracts.subjects import Sender
from hivemem_runtime.erasing import Announcements, erase_announced
from hivemem_runtime.ledger.entity import Stamp
from hivemem_runtime.ledger.port import Ledger, Outcome, Write
from hivemem_sessions.decisions.preconditions import session_not_found
from hivemem_sessions.decisions.shares import SEGMENTS, end_shares
from hivemem_sessions.entities import SESSION, SHARE, Share, share_id

KEEP_ALL: Final = 2**53


class SessionEraser:
    """Erases sessions, and later the shared events of erased sessions once no fork needs them."""

    def __init__(self, ledger: Ledger, announcements: Announcements) -> None:
        self._ledger = ledger
        self._announcements = announcements

    async def delete(self, sender: Sender, session_id: str, begun: Outcome, *, cause: str) -> Stamp:
        """Erase the session whose deletion began, and return its tombstone. Events shared by living forks stay until
        the last of these forks is deleted.

        The first step writes the tombstone and keeps every event. From then on the session cannot be forked, so the set
        of forks is final. If a crash interrupts the later steps, a retry of the deletion completes them.
        """
        head = await self._ledger.head(SESSION, sender.tenant, session_id)
        assert head is not None, "it was there when its deletion was begun"
        assert begun.stamp is not None, "beginning a deletion appends"
        if head.value is not None and head.value.offset > begun.record.revision:
            # The deletion is complete and a new session has the id. Its positions begin above the tombstone.
            return begun.stamp._replace(version=head.value.offset)
        stamp = await self._erase(sender, session_id, cause, KEEP_ALL)
        if stamp is None:
            raise session_not_found(session_id)
        shares = await self._end(sender, session_id)
        for owner in (session_id, *(share.owner for share in shares)):
            await self._release(sender, owner, cause)
        await self._move(sender, shares, "released")
        # The id can be written again only after the tombstone is announced, and a caller may reuse it at once.
        await self._announcements.flush_tombstone(stamp)
        return stamp

    async def _end(self, sender: Sender, fork: str) -> list[Share]:
        """End the shares of a deleted fork, and return all of them, including shares that an earlier attempt ended."""
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
        """Remove the events of a deleted session that no living fork shares."""
        head = await self._ledger.head(SESSION, sender.tenant, owner)
        if head is not None and head.value is None:
            await self._erase(sender, owner, cause, await self._shared_through(sender.tenant, owner))

    async def _shared_through(self, tenant: str, owner: str) -> int:
        """Return the last position that a living fork shares, over all sessions that ever had this id."""
        page = await self._ledger.find(SHARE, tenant, "owner", equals={"owner": owner}, reverse=True, limit=1)
        return max((head.value.position for head in page.items if head.value is not None), default=0)
