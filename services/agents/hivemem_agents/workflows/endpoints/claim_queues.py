"""Queues of claims, one for each workflow: claims get steps in turn, and no step goes to two of them.

A queue looks for steps when a commit of this worker makes one ready, when a known claim ends, and every half second for
commits of other workers.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hivemem_agents.workflows.decisions.steps import Claim, NothingLeft, claim_steps, claimable
from hivemem_agents.workflows.entities import ENDED, RUN, STEP, RunHead, StepExecution, run_of, step_place
from hivemem_contracts.errors import HiveError, Overloaded, Unavailable
from hivemem_runtime.background import Background
from hivemem_runtime.bus.requests.admission import Shares
from hivemem_runtime.clock import elapsed_seconds, now_microseconds
from hivemem_runtime.ledger.port import Committed, Covered, Ledger, Outcome, Page, Write, value_of
from hivemem_runtime.service import Call

POLL_SECONDS: Final = 0.5
"""Between two looks at what other workers committed."""
LEAST_EXAMINED: Final = 32


@dataclass(eq=False, slots=True)
class PendingClaim:
    """A claim that waits for steps: `until` is by the clock of `elapsed_seconds`."""

    call: Call
    claim: Claim
    limit: int
    until: float
    run_id: str | None = None
    answer: "asyncio.Future[Outcome | None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def end(self, outcome: Outcome | None) -> None:
        if not self.answer.done():
            self.answer.set_result(outcome)

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class _Queue:
    """The claims of one workflow on this worker."""

    def __init__(self, tenant: str, workflow: str) -> None:
        self.tenant = tenant
        self.workflow = workflow
        self.claims: list[PendingClaim] = []
        self.woken = asyncio.Event()
        self.next_at: int | None = None
        self.task: asyncio.Task[None] | None = None


class ClaimQueues(Background):
    """All claims that wait on this worker."""

    def __init__(self, ledger: Ledger, limit: int) -> None:
        self._ledger = ledger
        self._shares = Shares(limit)
        self._queues: dict[tuple[str, str], _Queue] = {}
        self._leaving = False
        ledger.on_commit(self._committed)

    async def start(self, client: object) -> None:
        del client
        self._leaving = False

    async def stop(self) -> None:
        self.leave()
        tasks = [queue.task for queue in self._queues.values() if queue.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def leave(self) -> None:
        """Refuse all waiting claims; another worker takes them."""
        self._leaving = True
        for queue in self._queues.values():
            for claim in queue.claims:
                claim.fail(_stopping())

    async def take(self, workflow: str, claim: PendingClaim) -> Outcome | None:
        """Return the outcome of the claim, or None if there was no step in time. Raises `Overloaded`."""
        tenant = claim.call.sender.tenant
        if self._leaving:
            raise _stopping()
        if not self._shares.has_room(tenant):
            limit = self._shares.limit
            detail = f"too many claims of this tenant wait for steps; the limit for all tenants is {limit}"
            raise Overloaded(detail, limit=limit, retry_after_ms=250)
        queue = self._queues.setdefault((tenant, workflow), _Queue(tenant, workflow))
        for other in queue.claims:
            if other.claim.id == claim.claim.id:
                other.fail(Unavailable("the request was sent again", retry_after_ms=1_000))
        queue.claims.append(claim)
        queue.woken.set()
        if queue.task is None or queue.task.done():
            queue.task = asyncio.create_task(self._serve(queue))
        self._shares.take(tenant)
        try:
            return await claim.answer
        finally:
            self._shares.done(tenant)

    def _committed(self, batch: Sequence[Committed]) -> None:
        if not self._queues:
            return
        for committed in batch:
            head = committed.head
            if isinstance(head, StepExecution):
                if head.available_at is not None:
                    self._wake(committed.stamp.tenant, head.workflow, head.available_at)
            elif isinstance(head, RunHead) and head.status in ENDED:
                self._wake(committed.stamp.tenant, head.name, 0)

    def _wake(self, tenant: str, workflow: str, at: int) -> None:
        queue = self._queues.get((tenant, workflow))
        if queue is None:
            return
        if at <= now_microseconds():
            queue.woken.set()
        else:
            queue.next_at = at if queue.next_at is None else min(queue.next_at, at)

    async def _serve(self, queue: _Queue) -> None:
        """Hand out steps until no claim waits any more."""
        try:
            while queue.claims:
                queue.woken.clear()
                asked = list(queue.claims)
                await self._round(queue, asked)
                now = elapsed_seconds()
                for claim in asked:
                    if claim.until <= now:
                        claim.end(None)
                queue.claims = [claim for claim in queue.claims if not claim.answer.done()]
                if queue.claims and not queue.woken.is_set():
                    await self._rest(queue)
        except Exception as error:
            for claim in queue.claims:
                claim.fail(error)
        finally:
            if self._queues.get((queue.tenant, queue.workflow)) is queue:
                del self._queues[queue.tenant, queue.workflow]

    async def _rest(self, queue: _Queue) -> None:
        seconds = min(POLL_SECONDS, *(claim.until - elapsed_seconds() for claim in queue.claims))
        if queue.next_at is not None:
            seconds = min(seconds, (queue.next_at - now_microseconds()) / 1_000_000)
            queue.next_at = None
        try:
            async with asyncio.timeout(max(seconds, 0.001)):
                await queue.woken.wait()
        except TimeoutError:
            pass

    async def _round(self, queue: _Queue, asked: Sequence[PendingClaim]) -> None:
        """Look for steps once, and commit what each claim gets, in the order of the claims."""
        given: set[str] = set()
        parts: list[tuple[PendingClaim, list[str]]] = []
        for claim in asked:
            if claim.run_id is not None and not claim.answer.done():
                places = await self._of_run(queue, claim, given)
                given.update(places)
                if places:
                    parts.append((claim, places))
        parts += await self._of_all(queue, [claim for claim in asked if claim.run_id is None], given)
        # A claim may be over by now.
        work = [self._commit(claim, places) for claim, places in parts if not claim.answer.done()]
        await asyncio.gather(*work)

    async def _of_run(self, queue: _Queue, claim: PendingClaim, given: set[str]) -> list[str]:
        assert claim.run_id is not None, "the claim is for one run"
        run = value_of(await self._ledger.head(RUN, queue.tenant, claim.run_id))
        if run is None or run.status in ENDED or run.name != queue.workflow:
            claim.end(None)
            return []
        places = [step_place(claim.run_id, number) for number in run.active]
        heads = await self._ledger.heads(STEP, queue.tenant, places)
        now = now_microseconds()
        found: list[str] = []
        for place, head in sorted(heads.items()):
            step = head.value
            if step is None or step.available_at is None or not claim.claim.wants(step.name) or place in given:
                continue
            if claimable(step, now):
                found.append(place)
            else:
                queue.next_at = step.available_at if queue.next_at is None else min(queue.next_at, step.available_at)
        return found[: claim.limit]

    async def _of_all(
        self, queue: _Queue, claims: Sequence[PendingClaim], given: set[str]
    ) -> list[tuple[PendingClaim, list[str]]]:
        """Share the ready steps, the longest-waiting first, among claims of any run."""
        found: dict[PendingClaim, list[str]] = {claim: [] for claim in claims}
        open_claims = list(claims)

        def share(name: str, places: Iterable[str]) -> None:
            for place in places:
                taker = next((claim for claim in open_claims if claim.claim.wants(name)), None)
                if taker is None or place in given:
                    continue
                given.add(place)
                found[taker].append(place)
                if len(found[taker]) == taker.limit:
                    open_claims.remove(taker)

        cursor: str | None = None
        now = now_microseconds()
        while open_claims:
            limit = max(LEAST_EXAMINED, min(2 * _missing(open_claims, found), 500))
            page = await self._ready(queue, now, limit, cursor)
            for covered in page.items:
                share(str(covered.values["name"]), [covered.id])
            cursor = page.cursor
            if cursor is None:
                await self._note_next(queue, now)
                break
            if all(claim.claim.handlers is not None for claim in open_claims):
                # Any number of other steps may come first.
                for name in sorted({name for claim in open_claims for name in claim.claim.handlers or ()}):
                    page = await self._ready(queue, now, limit, None, name)
                    share(name, [covered.id for covered in page.items])
                await self._note_next(queue, now)
                break
        return [(claim, places) for claim, places in found.items() if places]

    async def _ready(
        self, queue: _Queue, now: int, limit: int, cursor: str | None, name: str | None = None
    ) -> Page[Covered]:
        index, equals = "ready", {"workflow": queue.workflow}
        if name is not None:
            index, equals = "ready_handler", {**equals, "name": name}
        return await self._ledger.covered(
            STEP, queue.tenant, index, equals=equals, high=now + 1, cursor=cursor, limit=limit
        )

    async def _note_next(self, queue: _Queue, now: int) -> None:
        """Note when the next step of the workflow can be claimed: after a pause, or the end of a claim."""
        equals = {"workflow": queue.workflow}
        page = await self._ledger.find(STEP, queue.tenant, "ready", equals=equals, low=now + 1, limit=1)
        for head in page.items:
            if head.value is not None and head.value.available_at is not None:
                self._wake(queue.tenant, queue.workflow, head.value.available_at)

    async def _commit(self, claim: PendingClaim, places: Sequence[str]) -> None:
        reads = [key for place in places for key in ((STEP, place), (RUN, run_of(place)))]
        write: Write = claim.call.write(
            STEP,
            places[0],
            lambda heads, now: claim_steps(heads, places, claim.claim, now),
            reads,
        )
        try:
            claim.end(await self._ledger.commit(write))
        except NothingLeft:
            pass  # others were faster: the next round looks again
        except HiveError as error:
            claim.fail(error)


def _missing(claims: Sequence[PendingClaim], found: Mapping[PendingClaim, Sequence[str]]) -> int:
    return sum(claim.limit - len(found[claim]) for claim in claims)


def _stopping() -> Unavailable:
    return Unavailable("this worker is stopping", retry_after_ms=50)
