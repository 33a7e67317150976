"""Waits for changes: each is followed on the feed from the place where it began.

A live change only wakes its follower, which then reads the feed itself. So a restart misses nothing, and what is no
change, or not signed by a worker, is passed over.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import structlog

from hivemem_agents.workflows.decisions.conditions import StepBroken, holds
from hivemem_agents.workflows.decisions.definitions import Plan
from hivemem_agents.workflows.decisions.progress import FeedPlace
from hivemem_agents.workflows.decisions.steps import see_change
from hivemem_agents.workflows.endpoints.settling import Settling
from hivemem_agents.workflows.entities import RUN, STEP, StepExecution
from hivemem_contracts.errors import HiveError
from hivemem_contracts.subjects import change_filters, change_prefix
from hivemem_runtime.background import Timer, for_each_tenant
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.bus.feed.live import LiveChanges
from hivemem_runtime.bus.feed.reading import FeedReading, StoredChange
from hivemem_runtime.clock import elapsed_seconds
from hivemem_runtime.expressions.budget import Meter
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.port import Committed, Decision, Heads, Ledger, system_write, value_of

log = structlog.get_logger("hivemem.workflows")

SWEEP_SECONDS: Final = 5.0
"""Between two looks for waits of other workers, and at the feed where nothing woke a follower."""
WAITS: Final = 10_000
TURN_SECONDS: Final = 0.1
"""What the waits of one tenant may take in a round, because a condition can be costly."""
AT_ONCE: Final = 200


@dataclass(eq=False, slots=True)
class _Follower:
    """The waits of a tenant for changes below one prefix; `waits` have how far the feed was read for each."""

    tenant: str
    filters: tuple[str, ...]
    live: list[LiveChanges] = field(default_factory=list[LiveChanges])
    waits: dict[str, FeedPlace] = field(default_factory=dict[str, FeedPlace])
    woken: bool = True


class ChangeWaits(Timer):
    """Follows the feed for all steps that wait for changes."""

    def __init__(self, ledger: Ledger, settling: Settling) -> None:
        super().__init__("change-waits", (self.sweep, self.read), 1.0, rest_factor=0.0)
        self._ledger = ledger
        self._settling = settling
        self._followers = OrderedDict[tuple[str, str], _Follower]()
        self._new: dict[tuple[str, str], StepExecution] = {}
        self._swept = -SWEEP_SECONDS
        self._client: Client | None = None
        ledger.on_commit(self._committed)

    async def start(self, client: Client) -> None:
        self._client = client
        await super().start(client)

    async def stop(self) -> None:
        await super().stop()
        for follower in self._followers.values():
            for live in follower.live:
                await live.stop()
        self._followers.clear()

    def _committed(self, batch: Sequence[Committed]) -> None:
        found = False
        for committed in batch:
            head = committed.head
            if isinstance(head, StepExecution) and head.change is not None and head.status == "waiting":
                self._new[committed.stamp.tenant, committed.stamp.id] = head
                found = True
        if found:
            self.wake()

    async def sweep(self) -> None:
        """Begin to follow what is new; from time to time, look for the waits of all workers."""
        if elapsed_seconds() - self._swept > SWEEP_SECONDS:
            self._swept = elapsed_seconds()
            for follower in self._followers.values():
                follower.woken = True
            await for_each_tenant(self._ledger, STEP, self.find)
        new, self._new = self._new, {}
        for (tenant, place), step in new.items():
            await self._follow(tenant, place, step)

    async def find(self, tenant: str) -> None:
        """Find the waits of a tenant."""
        async for some in pages(
            lambda cursor: self._ledger.find(STEP, tenant, "listening", equals={}, cursor=cursor, limit=AT_ONCE)
        ):
            for head in some:
                if head.value is not None:
                    await self._follow(tenant, head.id, head.value)

    async def _follow(self, tenant: str, place: str, step: StepExecution) -> None:
        assert step.change is not None, "it waits for a change"
        prefix = change_prefix(step.change[0], *step.change[1:]) if len(step.change) > 1 else step.change[0]
        follower = self._followers.get((tenant, prefix))
        if follower is None:
            follower = self._followers[tenant, prefix] = _Follower(tenant, change_filters(tenant, prefix))
            assert self._client is not None, "it was started"
            stir = partial(self._stir, follower)
            for subject in follower.filters:
                live = LiveChanges(subject, stir, stir)
                follower.live.append(live)
                await live.start(self._client)
        if place not in follower.waits and len(follower.waits) < WAITS:
            follower.waits[place] = FeedPlace(step.feed or "", step.after)
            follower.woken = True

    def _stir(self, follower: _Follower, *change: object) -> None:
        del change
        follower.woken = True
        self.wake()

    async def read(self) -> None:
        """Read the feed for the followers that were woken."""
        if self._client is None:
            return
        feed = FeedReading(self._client)
        began = elapsed_seconds()
        left: dict[str, float] = defaultdict(lambda: TURN_SECONDS)
        for key, follower in list(self._followers.items()):
            if follower.woken and left[follower.tenant] > 0 and not self.stopping:
                follower.woken = False
                self._followers.move_to_end(key)
                turn = elapsed_seconds()
                await self._read(feed, follower, turn + left[follower.tenant])
                left[follower.tenant] -= elapsed_seconds() - turn
            if not follower.waits:
                del self._followers[key]
                for live in follower.live:
                    await live.stop()
        if any(seconds <= 0 for seconds in left.values()):
            await self.rest(elapsed_seconds() - began)
            self.wake()

    async def _read(self, feed: FeedReading, follower: _Follower, until: float) -> None:
        try:
            state = await feed.state()
            # A sequence of another feed says nothing: begin again with what this one holds.
            follower.waits = {
                place: began if began.identity == state.identity else FeedPlace(state.identity, 0)
                for place, began in follower.waits.items()
            }
            while follower.waits and not self.stopping:
                after = min(began.sequence for began in follower.waits.values())
                stored = [await feed.next(subject, after) for subject in follower.filters]
                found = min((one for one in stored if one is not None), key=lambda one: one.sequence, default=None)
                if found is None:
                    newest = FeedPlace(state.identity, max(after, state.last_sequence))
                    follower.waits = dict.fromkeys(follower.waits, newest)
                    return
                await self._offer(follower, found, until)
                if elapsed_seconds() > until:
                    follower.woken = True
                    return
        except HiveError as error:
            log.warning("waits for changes postponed", tenant=follower.tenant, error=str(error))
            follower.woken = True

    async def _offer(self, follower: _Follower, stored: StoredChange, until: float) -> None:
        """Show a change to the waits that have not seen it: to one at least, and to more as long as there is time."""
        change = stored.change()
        for place, began in list(follower.waits.items()):
            if began.sequence >= stored.sequence:
                continue
            if change is not None and await self._ends(follower.tenant, place, change.model_dump(mode="json")):
                del follower.waits[place]
            else:
                follower.waits[place] = FeedPlace(began.identity, stored.sequence)
            if elapsed_seconds() > until:
                return

    async def _ends(self, tenant: str, place: str, change: dict[str, Any]) -> bool:
        """Return whether a wait is over, with this change or without."""
        step = value_of(await self._ledger.head(STEP, tenant, place))
        if step is None or step.status != "waiting":
            return True
        facts, plan = await self._settling.plans.of_run(tenant, step.run_id)
        if not await self._wanted(tenant, step, plan, change):
            return False
        feed = await self._settling.plans.feed(plan)

        def decide(heads: Heads, now: int) -> Decision:
            return see_change(heads, step.run_id, step.number, plan, change, now, feed)

        write = system_write(tenant, RUN, step.run_id, decide, ((STEP, place),), actor=facts.created_by)
        await self._ledger.commit(write)
        await self._settling.settle_all(tenant, step.run_id)
        return True

    async def _wanted(self, tenant: str, step: StepExecution, plan: Plan, change: dict[str, Any]) -> bool:
        wait = plan.steps[step.id].declared.wait
        if wait is None or wait.when is None:
            return True
        run = value_of(await self._ledger.head(RUN, tenant, step.run_id))
        if run is None:
            return False
        state = run.state
        if run.session_id is not None:
            facts = await self._settling.plans.facts(tenant, step.run_id)
            state = (await self._settling.sessions.view(tenant, facts)).state or {}
        variables = {"change": change, "state": state, "input": run.input}
        try:
            return holds(step.id, wait.when, variables, Meter())
        except StepBroken as broken:
            log.warning("a change is passed over", run_id=step.run_id, step=step.id, error=str(broken))
            return False
