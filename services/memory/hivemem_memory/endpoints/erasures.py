"""Erasures. The receipt is committed first, then the keys are erased in slices. Any worker can resume an abandoned
erasure."""

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import structlog

from hivemem_contracts.errors import HiveError, RevisionConflict, Unavailable
from hivemem_contracts.memory import operations, requests
from hivemem_contracts.memory.models import ErasureReceipt
from hivemem_memory.decisions.erasures import (
    FEED_NAME,
    ErasureOrder,
    begin_erasure,
    behind,
    confirm_erasure,
    confirm_purge,
    count_erased,
    drop_followers,
    find_erasure,
    finish_removal,
    ranges_of,
)
from hivemem_memory.endpoints.erased_feed import ErasedFeed
from hivemem_memory.entities.erasures import DONE, ERASURE, REMOVED, RUNNING, Erasure, awaited_of, receipt_fields
from hivemem_memory.entities.memories import MEMORY, receipt_id
from hivemem_runtime.background import Background
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.erasing import TRIES, Announcements, erase_announced
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.places import below
from hivemem_runtime.ledger.port import SYSTEM, Covered, Decide, Head, Ledger, Outcome, Write, system_write
from hivemem_runtime.service import Call, Service

log = structlog.get_logger("hivemem.memory")

SLICE: Final = 100
"""The number of keys that are counted and erased in one step."""
PATIENCE_SECONDS: Final = 2.0
"""How long a request waits for its erasure to finish."""
POLL_SECONDS: Final = 0.05
ABANDONED_MICROSECONDS: Final = 10_000_000
"""An erasure without progress for this long is abandoned."""
SKEW_MICROSECONDS: Final = 1_000_000
"""The maximum clock skew between two workers."""


class ErasureAnnouncements(Announcements, Protocol):
    async def caught_up(self) -> None: ...


class ErasableMemory(NamedTuple):
    """A memory that is about to be erased, with its first existing version and its newest one."""

    place: str
    first: int
    newest: int

    @property
    def versions(self) -> int:
        return self.newest - self.first + 1


def bind(service: Service, eraser: "Eraser") -> None:
    service.handler(operations.ERASE, eraser.erase)
    service.handler(operations.ERASURE, eraser.erasure)
    service.command(operations.ERASE_CONFIRM, plan_confirm, answer_confirm)


def plan_confirm(call: Call, body: requests.ConfirmErasure) -> Write:
    return call.write(ERASURE, body.receipt, lambda heads, now: confirm_erasure(heads, body, now))


def answer_confirm(call: Call, body: requests.ConfirmErasure, outcome: Outcome) -> ErasureReceipt:
    return receipt_of(body.receipt, outcome.record)


class ErasureScope(NamedTuple):
    """The tenant and actor of an erasure. `latest` limits it to memories created by then; None covers all."""

    tenant: str
    actor: str
    cause: str | None
    latest: int | None


class Eraser(Background):
    """Carries out erasures, and resumes erasures that another worker abandoned."""

    def __init__(self, ledger: Ledger, announcer: ErasureAnnouncements) -> None:
        self._ledger = ledger
        self._announcer = announcer
        self._feed = ErasedFeed(ledger)
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._finishing: dict[tuple[str, str], asyncio.Task[None]] = {}
        """The purges: the timer does not wait for them, because they may take minutes."""

    async def start(self, client: Client) -> None:
        self._feed.start(client)

    async def stop(self) -> None:
        tasks = [*self._tasks.values(), *self._finishing.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def erase(self, call: Call, body: requests.EraseMemories) -> ErasureReceipt:
        """Begin an erasure and return its receipt. A durable command completes only once the memories are removed, so
        that the agent's next commands are not erased."""
        sender = call.sender
        receipt = receipt_id(sender.tenant, sender.agent, call.message_id)
        order = ErasureOrder((body.namespace,), body.key, sender.agent, call.message_id, call.published_at)
        begun = await self._ledger.commit(
            call.write(ERASURE, receipt, lambda heads, now: begin_erasure(heads, receipt, order, now))
        )
        if begun.record is not None and not begun.duplicate:
            self._carry_out(sender.tenant, receipt, None)
        # The commands behind a durable one wait only until the memories are removed.
        erasure = await self._wait(sender.tenant, receipt, DONE if call.route is None else REMOVED)
        if erasure.status == RUNNING and call.route is not None:
            raise Unavailable(f"erasure {receipt!r} is still running", retry_after_ms=500)
        return receipt_of(receipt, erasure)

    async def erasure(self, call: Call, body: requests.ReadErasure) -> ErasureReceipt:
        return receipt_of(body.receipt, await self._read(call.sender.tenant, body.receipt))

    async def erase_session(self, tenant: str, session_id: str, actor: str, cause: str | None, at: int) -> None:
        """Erase everything that belonged to a deleted session, and return when it is done."""
        namespaces = (f"session:{session_id}", f"temp:{session_id}")
        latest = at + SKEW_MICROSECONDS
        if cause is None or not await self._begin(tenant, ErasureOrder(namespaces, None, actor, cause, at)):
            for low, high in sorted(map(below, namespaces)):
                await self._erase_range(ErasureScope(tenant, actor, cause, latest), low, high)
            return
        receipt = receipt_id(tenant, actor, cause)
        self._carry_out(tenant, receipt, latest)
        while (await self._wait(tenant, receipt, REMOVED)).status == RUNNING:
            log.info("erasure of a session is running", session_id=session_id, receipt=receipt)

    async def _begin(self, tenant: str, order: ErasureOrder) -> bool:
        """Begin the erasure of a session. Returns False if there is nothing to erase, or another request has the
        receipt."""
        for low, high in map(below, order.namespaces):
            page = await self._ledger.covered(MEMORY, tenant, "current", equals={}, low=low, high=high, limit=1)
            if page.items:
                break
        else:
            return False
        receipt = receipt_id(tenant, order.actor, order.cause)
        work = ErasureScope(tenant, order.actor, order.cause, None)
        try:
            await self._commit(work, receipt, lambda heads, now: begin_erasure(heads, receipt, order, now))
        except HiveError as error:
            if error.retryable:
                raise
            return False
        return True

    def resume(self, tenant: str, receipt: str, head: Head[Erasure]) -> None:
        """Resume an abandoned erasure. Memories written after the erasure was requested are spared."""
        if head.value is not None and head.value.status == RUNNING and _abandoned(head):
            self._carry_out(tenant, receipt, head.value.requested_at + SKEW_MICROSECONDS)

    async def settle(self, tenant: str, erasures: Sequence[Head[Erasure]]) -> None:
        """Purge the feed for erasures that every other worker has confirmed, and end the wait for workers that do not
        follow erasures any more."""
        removed = [(head.id, head.value) for head in erasures if head.value and head.value.status == REMOVED]
        for receipt, erasure in removed:
            if awaited_of(erasure) == [FEED_NAME]:
                self._start(tenant, receipt, self._purge(tenant, receipt, erasure))
        waiting = [(receipt, erasure) for receipt, erasure in removed if awaited_of(erasure) != [FEED_NAME]]
        followers = {*await self._feed.followers(), FEED_NAME} if waiting else set[str]()
        for receipt, erasure in waiting:
            if not followers.issuperset(erasure.awaited):
                await self._commit(_scope_of(tenant, erasure), receipt, _dropping(receipt, followers))

    async def _purge(self, tenant: str, receipt: str, erasure: Erasure) -> None:
        removed = await self._feed.purge(tenant, erasure)
        if removed is not None:
            await self._commit(
                _scope_of(tenant, erasure), receipt, lambda heads, now: confirm_purge(heads, receipt, removed, now)
            )

    async def _finish_soon(self, tenant: str, receipt: str) -> None:
        """Purge the feed as soon as the others have confirmed. What takes longer is left to the timer."""
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE_SECONDS
        while loop.time() < until and (erasure := await self._read(tenant, receipt)).status == REMOVED:
            if awaited_of(erasure) == [FEED_NAME]:
                await self._purge(tenant, receipt, erasure)
            await asyncio.sleep(POLL_SECONDS)

    async def forget(self, entity: AnyEntity, tenant: str, id: str) -> None:
        """Remove an entity that is not a memory and whose retention has ended."""
        await erase_announced(self._ledger, self._announcer, entity, tenant, id, actor=SYSTEM, cause=None)

    async def _read(self, tenant: str, receipt: str) -> Erasure:
        return find_erasure(await self._ledger.head(ERASURE, tenant, receipt), receipt)

    async def _wait(self, tenant: str, receipt: str, wanted: str) -> Erasure:
        """Wait a limited time for an erasure to be `REMOVED` or `DONE`. Raises the error of this worker's own task."""
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE_SECONDS
        while True:
            task = self._tasks.get((tenant, receipt))
            if task is not None:
                await asyncio.wait({task}, timeout=max(until - loop.time(), 0))
                if task.done():
                    task.result()
            head = await self._ledger.head(ERASURE, tenant, receipt)
            erasure = find_erasure(head, receipt)
            if erasure.status in (DONE, wanted) or loop.time() >= until:
                return erasure
            if task is None and head is not None:
                self.resume(tenant, receipt, head)
            if task is None or task.done():
                await asyncio.sleep(POLL_SECONDS)

    def _carry_out(self, tenant: str, receipt: str, latest: int | None) -> None:
        key = tenant, receipt
        if key in self._tasks:
            return
        task = asyncio.create_task(self._run(tenant, receipt, latest), name=f"hivemem-erasure-{receipt}")
        self._tasks[key] = task

        def ended(task: asyncio.Task[None]) -> None:
            del self._tasks[key]
            _log_failure(task, receipt)

        task.add_done_callback(ended)

    def _start(self, tenant: str, receipt: str, finishing: Coroutine[Any, Any, None]) -> None:
        key = tenant, receipt
        if key in self._finishing:
            finishing.close()
            return
        task = asyncio.create_task(finishing, name=f"hivemem-erasure-{receipt}-purge")
        self._finishing[key] = task

        def ended(task: asyncio.Task[None]) -> None:
            del self._finishing[key]
            _log_failure(task, receipt)

        task.add_done_callback(ended)

    async def _run(self, tenant: str, receipt: str, latest: int | None) -> None:
        erasure = await self._read(tenant, receipt)
        work = ErasureScope(tenant, erasure.requested_by, erasure.cause, latest)
        reached = erasure.reached
        try:
            for low, high in ranges_of(erasure):
                if reached is not None and reached >= low:
                    # The previous worker counted this range, but may not have erased all of it.
                    await self._erase_range(work, low, min(high, behind(reached)))
                    low = behind(reached)
                reached = await self._count_and_erase(work, receipt, low, high, reached)
            await self._announcer.caught_up()
            followers = await self._feed.followers()
            await self._commit(
                work, receipt, lambda heads, now: finish_removal(heads, receipt, reached, followers, now)
            )
            self._start(tenant, receipt, self._finish_soon(tenant, receipt))
        except RevisionConflict:
            log.info("another worker carries out an erasure", receipt=receipt)

    async def _count_and_erase(
        self, work: ErasureScope, receipt: str, low: str, high: str, reached: str | None
    ) -> str | None:
        """Count and erase a range in slices, and return the last counted place."""
        while low < high:
            keys, last = await self._slice(work, low, high)
            if last is None:
                break
            await self._commit(work, receipt, _counting(receipt, reached, last, keys))
            await self._erase_keys(work, keys)
            reached, low = last, behind(last)
        return reached

    async def _erase_range(self, work: ErasureScope, low: str, high: str) -> None:
        while low < high:
            keys, last = await self._slice(work, low, high)
            if last is None:
                return
            await self._erase_keys(work, keys)
            low = behind(last)

    async def _slice(self, work: ErasureScope, low: str, high: str) -> tuple[list[ErasableMemory], str | None]:
        """Return the next keys of a range and the last place that was read; None at the end of the range."""
        page = await self._ledger.covered(MEMORY, work.tenant, "current", equals={}, low=low, high=high, limit=SLICE)
        if not page.items:
            return [], None
        keys = await asyncio.gather(*(self._key(work, found) for found in page.items))
        return [key for key in keys if key is not None], page.items[-1].id

    async def _key(self, work: ErasureScope, found: Covered) -> ErasableMemory | None:
        """Return a memory to erase, or None for one created after `latest`."""
        first = await self._ledger.history(MEMORY, work.tenant, found.id, limit=1)
        if not first or (work.latest is not None and first[0].stamp.at > work.latest):
            return None
        return ErasableMemory(found.id, first[0].stamp.version, int(found.values["version"] or 0))

    async def _erase_keys(self, work: ErasureScope, keys: Sequence[ErasableMemory]) -> None:
        await asyncio.gather(*(self._erase_key(work, key) for key in keys))

    async def _erase_key(self, work: ErasureScope, key: ErasableMemory) -> None:
        """Erase a memory, whatever its version is by then. If its first version changed, another worker has erased
        it and an agent has written a new memory, which is spared."""
        erase = partial(erase_announced, self._ledger, self._announcer, MEMORY, work.tenant, key.place)
        newest = key.newest
        for _ in range(TRIES):
            try:
                await erase(actor=work.actor, cause=work.cause, version=newest)
            except RevisionConflict as error:
                newest = int(error.context["actual"])
            else:
                return
            first = await self._ledger.history(MEMORY, work.tenant, key.place, limit=1)
            if not first or first[0].stamp.version != key.first:
                return
        raise Unavailable("too many concurrent writes to a memory", retry_after_ms=500)

    async def _commit(self, work: ErasureScope, receipt: str, decide: Decide) -> Outcome:
        return await self._ledger.commit(system_write(work.tenant, ERASURE, receipt, decide, actor=work.actor))


def _scope_of(tenant: str, erasure: Erasure) -> ErasureScope:
    return ErasureScope(tenant, erasure.requested_by, erasure.cause, None)


def _dropping(receipt: str, followers: Collection[str]) -> Decide:
    return lambda heads, now: drop_followers(heads, receipt, followers, now)


def _counting(receipt: str, reached: str | None, further: str, keys: Sequence[ErasableMemory]) -> Decide:
    versions = sum(key.versions for key in keys)
    return lambda heads, now: count_erased(heads, receipt, reached, further, len(keys), versions)


def receipt_of(receipt: str, erasure: Erasure) -> ErasureReceipt:
    return ErasureReceipt.model_validate(receipt_fields(receipt, erasure))


def _log_failure(task: asyncio.Task[None], receipt: str) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.warning("erasure postponed", receipt=receipt, error=str(error))


def _abandoned(head: Head[Erasure]) -> bool:
    return head.at < now_microseconds() - ABANDONED_MICROSECONDS
