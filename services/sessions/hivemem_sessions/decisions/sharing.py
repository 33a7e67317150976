"""Which events of a session its forks share, and until when."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from hivemem_contracts.errors import TooLarge
from hivemem_runtime.ledger.port import Append, Decision, Heads
from hivemem_sessions.entities import SHARE, Share, share_id

SEGMENTS: Final = 256
"""How many sessions the events of one may come from: a fork of a fork of a fork."""


def share_segments(fork: str, segments: Sequence[Sequence[Any]]) -> list[Append[Share, Share]]:
    """One share for each session that a new fork reads from."""
    if len(segments) > SEGMENTS:
        raise TooLarge(
            f"fork: its events would come from {len(segments)} sessions, {SEGMENTS} at most",
            field="fork",
            limit=SEGMENTS,
            actual=len(segments),
        )
    return [
        Append(SHARE, share_id(owner, fork), Share(owner, fork, int(offset) + int(through)))
        for owner, through, offset in segments
    ]


def end_shares(heads: Heads, shares: Sequence[Share], status: str) -> Decision:
    """The shares of a fork that is gone go to their next status; those that a new fork of the id made stay."""
    found = [heads(SHARE, share_id(share.owner, share.fork)) for share in shares]
    return [
        Append(SHARE, head.id, replace(share, status=status))
        for head, share in zip(found, shares, strict=True)
        if head is not None and head.value == share
    ]
