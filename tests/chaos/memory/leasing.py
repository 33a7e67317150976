"""Agents queue for one lease, and each writes under it a value that nobody else may write meanwhile."""

from typing import Final

from ..asking import Refused
from .journal import Grant, Refusal
from .writing import Writer, memory

GUARDED: Final = ("project:leased", "guarded")
TTL_MS: Final = 700
WAIT_MS: Final = 3_000
WRITES: Final = 3
LOST: Final = ("LeaseHeld", "RevisionConflict")
"""The ways in which an agent learns that a lease has ended."""
_ANSWER_SECONDS: Final = 0.5
"""Shorter than the wait, so that queued agents ask again, often of another worker or of one that has just started."""


async def take_turns(writer: Writer) -> None:
    while not writer.stopping():
        token = await _acquire(writer)
        if token is None:
            continue
        for _ in range(WRITES):
            value = {**writer.value(), "token": token}
            claim = memory(*GUARDED, token=token)
            if await writer.try_to_write("put", memory(*GUARDED, value=value, lease=claim), LOST) is None:
                break
        else:
            await _renew(writer, token)
        await _release(writer, token)


async def _acquire(writer: Writer) -> int | None:
    id = writer.next_id()
    body = memory(*GUARDED, ttl_ms=TTL_MS, wait_ms=WAIT_MS)
    try:
        granted = await writer.asking.request("lease", body, id, seconds=_ANSWER_SECONDS)
    except Refused as refused:
        if refused.name != "LeaseHeld":
            raise
        writer.journal.refusals.append(Refusal(id, refused.name))
        return None
    token: int = granted["token"]
    writer.journal.grants.append(Grant(writer.name, token))
    if writer.choice.random() < 0.2:
        again = await writer.asking.request("lease", body, id)
        writer.journal.repeated += 1
        if again["token"] != token:
            writer.journal.findings.append(f"{GUARDED}: {id} was granted {token} and, asked again, {again['token']}")
    return token


async def _renew(writer: Writer, token: int) -> None:
    if writer.choice.random() < 0.3:
        id = writer.next_id()
        try:
            await writer.asking.request("renew", memory(*GUARDED, token=token), id)
        except Refused as refused:
            if refused.name not in LOST:
                raise
            writer.journal.refusals.append(Refusal(id, refused.name))


async def _release(writer: Writer, token: int) -> None:
    """Release the lease, or now and then leave it to expire, like a holder that crashed."""
    if writer.choice.random() < 0.8:
        await writer.asking.request("release", memory(*GUARDED, token=token), writer.next_id())
