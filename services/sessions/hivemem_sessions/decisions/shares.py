"""The rules for events that a session shares with its forks."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from hivemem_contracts.errors import TooLarge
from hivemem_runtime.ledger.port import Append, Decision, Heads
from hivemem_sessions.entities import SHARE, Share, share_id

SEGMENTS: Final = 256
"""The maximum number of sessions that contribute events to one session through forks of forks."""


def share_segments(
    fork: str, segments: Sequence[Sequence[Any]], owners: Sequence[str] = ()
) -> list[Append[Share, Share]]:
    """Return one share for each session whose events the new fork reads, and for each of `owners`, whose large
    values its state has."""
    positions = dict.fromkeys(owners, 0) | {owner: int(offset) + int(through) for owner, through, offset in segments}
    if len(positions) > SEGMENTS:
        raise TooLarge(
            f"fork: its events and values would come from {len(positions)} sessions, {SEGMENTS} at most",
            field="fork",
            limit=SEGMENTS,
            actual=len(positions),
        )
    return [Append(SHARE, share_id(owner, fork), Share(owner, fork, at)) for owner, at in positions.items()]


def end_shares(heads: Heads, shares: Sequence[Share], status: str) -> Decision:
    """Move the shares of a deleted fork to their next status. Shares of a newer fork with the same id stay
    unchanged."""
    found = [heads(SHARE, share_id(share.owner, share.fork)) for share in shares]
    return [
        Append(SHARE, head.id, replace(share, status=status))
        for head, share in zip(found, shares, strict=True)
        if head is not None and head.value == share
    ]
