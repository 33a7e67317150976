"""Forks of a namespace: the memories that lived at a moment are copied to another namespace in slices."""

import asyncio
from typing import Final

import orjson

from hivemem_contracts.errors import AlreadyExists, HiveError, InvalidRequest, TooLarge
from hivemem_contracts.identifiers import covers, microseconds_from_time, time_from_microseconds
from hivemem_contracts.limits import ID_CHARACTERS
from hivemem_contracts.memory import operations, replies, requests
from hivemem_memory.decisions.copies import ForkProgress, MemoryCopy, copy_slice, fork_progress, reads_of
from hivemem_memory.decisions.preconditions import expired
from hivemem_memory.endpoints.snapshots import bounds_after, lived_at, read_snapshot, settled_moment
from hivemem_memory.entities.answers import ANSWER
from hivemem_memory.entities.memories import MEMORY, require_announceable
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.identities import idempotency_conflict, require_same_command
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.places import below, moved, namespace_and_key
from hivemem_runtime.ledger.port import Append, Decision, Heads, Ledger, RequestId
from hivemem_runtime.paging import READ_AT_ONCE
from hivemem_runtime.service import Call, Service

SLICE_ITEMS: Final = 500
SLICE_BYTES: Final = 2 * 1024 * 1024
"""The maximum size of a slice, which is one commit."""
_FIRST_ITEMS: Final = 32
_PLACES_AT_ONCE: Final = 1_000


def bind(service: Service) -> None:
    service.handler(operations.FORK, Forks(service.ledger).fork)


class Forks:
    """The operation `fork`.

    The progress is committed with each slice. A retry continues from it, and returns the same answer once all slices
    are done.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def fork(self, call: Call, body: requests.ForkNamespace) -> replies.NamespaceForked:
        if covers(body.namespace, body.into) or covers(body.into, body.namespace):
            raise InvalidRequest(f"into: {body.into!r} and {body.namespace!r} overlap", field="into")
        known = await self._ledger.head(ANSWER, call.sender.tenant, call.request_name)
        if known is None or known.value is None:
            duplicate = False
            progress = await self._begin(call, body)
        else:
            progress = fork_progress(known.value)
            duplicate = progress.done
            digest = None if progress.digest is None else bytes.fromhex(progress.digest)
            require_same_command(digest, call.request_id.digest)
        if (progress.namespace, progress.into) != (body.namespace, body.into):
            raise idempotency_conflict()
        while not progress.done:
            progress = await self._go_on(call, progress)
        return replies.NamespaceForked(
            namespace=progress.namespace,
            into=progress.into,
            as_of=time_from_microseconds(progress.as_of),
            entries=progress.entries,
            duplicate=duplicate,
        )

    async def _begin(self, call: Call, body: requests.ForkNamespace) -> ForkProgress:
        asked = None if body.as_of is None else microseconds_from_time(body.as_of)
        at = await settled_moment(self._ledger, call, asked)
        await self._require_nothing(call, body.into)
        await self._require_names(call, body, at)
        digest = None if call.digest is None else call.digest.hex()
        progress = ForkProgress(body.namespace, body.into, at, digest=digest)

        def decide(heads: Heads, now: int) -> Decision:
            return [Append(ANSWER, call.request_name, progress.answer(now))]

        return fork_progress((await self._ledger.commit(call.write(ANSWER, call.request_name, decide))).record)

    async def _require_nothing(self, call: Call, into: str) -> None:
        """Raise `AlreadyExists` if a memory lives at or below the target."""
        low, high = below(into)
        tenant = call.sender.tenant
        async for heads in pages(
            lambda cursor: self._ledger.find(
                MEMORY, tenant, "live", equals={}, low=low, high=high, cursor=cursor, limit=READ_AT_ONCE
            )
        ):
            now = now_microseconds()
            for head in heads:
                if head.value is not None and not expired(head.value, now):
                    namespace, key = namespace_and_key(head.id)
                    raise AlreadyExists(f"into: {key!r} already exists in {namespace!r}", namespace=namespace, key=key)

    async def _require_names(self, call: Call, body: requests.ForkNamespace, at: int) -> None:
        """Refuse copies whose names would be too long, before the first slice."""
        tenant, reached = call.sender.tenant, ""
        while True:
            low, high = bounds_after(body.namespace, reached)
            page = await self._ledger.covered(
                MEMORY, tenant, "current", equals={}, low=low, high=high, limit=_PLACES_AT_ONCE
            )
            for entry in page.items:
                reached = entry.id
                refusal = _refusal(tenant, moved(reached, body.namespace, body.into))
                if refusal is not None and await lived_at(self._ledger, tenant, reached, at):
                    raise refusal
            if page.cursor is None:
                return
            await asyncio.sleep(0)

    async def _go_on(self, call: Call, progress: ForkProgress) -> ForkProgress:
        """Copy the next slice, or return the progress of another attempt that has copied it."""
        copies, reached, more = await self._next_copies(call.sender.tenant, progress)
        after = progress._replace(through=reached, done=not more)
        agent, published_at = call.sender.agent, call.published_at

        def decide(heads: Heads, now: int) -> Decision:
            return copy_slice(heads, call.request_name, copies, after, agent, published_at, now)

        request_id = RequestId(f"{call.request_name}#{progress.slices + 1}", call.digest)
        reads = reads_of(copies, published_at)
        write = call.step(ANSWER, call.request_name, decide, reads, request_id=request_id)
        return fork_progress((await self._ledger.commit(write)).record)

    async def _next_copies(self, tenant: str, progress: ForkProgress) -> tuple[list[MemoryCopy], str, bool]:
        """Return the next slice, its last place, and whether there may be more."""
        copies: list[MemoryCopy] = []
        reached, more, size = progress.through, True, 0
        average = SLICE_BYTES // _FIRST_ITEMS
        while more and len(copies) < SLICE_ITEMS:
            limit = min(READ_AT_ONCE, SLICE_ITEMS - len(copies), 1 + (SLICE_BYTES - size) // average)
            stretch = await read_snapshot(self._ledger, tenant, progress.namespace, progress.as_of, reached, limit)
            for place, memory in stretch.entries:
                copies.append(MemoryCopy(place, moved(place, progress.namespace, progress.into), memory))
                size += len(orjson.dumps((memory.value, memory.metadata)))
                if size >= SLICE_BYTES:
                    return copies, place, True
            reached, more = stretch.reached, stretch.more
            average = 1 + size // (len(copies) or 1)
        return copies, reached, more


def _refusal(tenant: str, place: str) -> HiveError | None:
    """Return why the name of a copy is invalid, or None."""
    namespace, key = namespace_and_key(place)
    if len(namespace) > ID_CHARACTERS:
        return InvalidRequest(f"into: {namespace!r} would exceed {ID_CHARACTERS} characters", field="into")
    try:
        require_announceable(tenant, namespace, key or "")
    except TooLarge as error:
        return error
    return None
