"""A random history of two ledgers on one store, compared with a model and with a simulated bus."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from hivemem_contracts.errors import HiveError, NotFound, Unavailable
from hivemem_runtime.ledger.entity import Stamp
from hivemem_runtime.ledger.port import Committed, Due, Ledger, Outcome, Write

from .agreement import agree_on_key
from .backends import Backend, within
from .clock import SECOND
from .entities import ENTITIES
from .model import Key, Model, is_first_outcome, key_of
from .random_writes import WriteSource
from .waiting import FAR, eventually

BURST = 30
PAGE = 50


@dataclass(slots=True)
class Bus:
    """Takes announcements of versions and drops duplicates. A gap, or a step back beyond a duplicate, is a failure."""

    heard: dict[Key, int] = field(default_factory=dict[Key, int])

    def publish(self, key: Key, version: int) -> None:
        last = self.heard.get(key, 0)
        assert version <= last + 1, f"{key}: {version} is announced after {last}"
        self.heard[key] = max(last, version)


@dataclass(slots=True)
class Process:
    """One ledger, its commits since the last check, and the pending announcements."""

    ledger: Ledger
    committed: list[Committed] = field(default_factory=list[Committed])
    queue: list[Committed] = field(default_factory=list[Committed])

    def listen(self, batch: Sequence[Committed]) -> None:
        self.committed.extend(batch)
        self.queue.extend(batch)


class RandomHistory:
    def __init__(self, backend: Backend, seed: int) -> None:
        self.backend = backend
        self.draw = random.Random(seed)
        self.model = Model(ENTITIES)
        self.bus = Bus()
        self.source = WriteSource(self.draw)
        self.processes: list[Process] = []

    async def run(self, steps: int) -> None:
        self.processes = [await self._start() for _ in range(2)]
        actions = (
            (self._write, 30),
            (self._burst, 12),
            (self._turn_clock, 10),
            (self._announce, 12),
            (self._crash_announcer, 4),
            (self._sweep, 6),
            (self._freeze, 6),
            (self._erase, 4),
            (self._restart, 2),
            (self._compare_one, 6),
        )
        chosen = self.draw.choices([action for action, _ in actions], [weight for _, weight in actions], k=steps)
        for action in chosen:
            await within(action())
        await self._sweep_all()

    async def _start(self) -> Process:
        process = Process(await self.backend.open())
        process.ledger.on_commit(process.listen)
        return process

    def _some_process(self) -> Process:
        return self.draw.choice(self.processes)

    async def _turn_clock(self) -> None:
        self.backend.clock.advance(self.draw.choice((-2 * SECOND, -1, 0, 1, 1000, SECOND, SECOND)))

    async def _write(self) -> None:
        """Commit one write alone; its outcome must equal the model's."""
        write = self.source.next(self._versions())
        first = self.model.repeated(write)
        refusal: HiveError | None = None
        does_nothing = False
        if first is None and not self.model.is_spent(write):
            try:
                does_nothing = not write.decide(self.model.heads(write.tenant), 0)
            except HiveError as error:
                refusal = error
        (result,) = await self._commit([write])
        if isinstance(result, Unavailable) or self.model.is_spent(write):
            return
        if refusal is not None:
            assert isinstance(result, HiveError)
            assert (type(result), result.context) == (type(refusal), refusal.context)
            return
        assert isinstance(result, Outcome), f"{write.cause}: {result!r}"
        assert (result.stamp is None) is (does_nothing or (first is not None and first[0] is None))
        # A request that appended nothing may be forgotten with its key, and then appends nothing again.
        assert result.stamp is None or result.duplicate is (first is not None), f"{write}: first {first}, now {result}"

    async def _burst(self) -> None:
        """Commit many writes at once at both ledgers. Their outcomes give the order, which must explain all of them."""
        writes = [self.source.next(self._versions()) for _ in range(self.draw.randint(2, BURST))]
        await self._commit(writes)

    def _versions(self) -> dict[Key, int]:
        return {key: kept.version for key, kept in self.model.keys.items()}

    async def _commit(self, writes: Sequence[Write]) -> list[Outcome | BaseException]:
        # An erased key takes no write until its erasure is known as announced: here a write may be refused.
        waiting = {key[1] for key, kept in self.model.keys.items() if kept.erased and kept.entity.history}
        queued = [self._some_process().ledger.commit(write) for write in writes]
        results = await asyncio.gather(*queued, return_exceptions=True)
        groups = self._follow({write.cause or "": write for write in writes})
        for write, result in zip(writes, results, strict=True):
            if isinstance(result, Outcome) and not result.duplicate and result.stamp is None:
                self.model.did_nothing(write)
        for write, result in zip(writes, results, strict=True):
            assert not isinstance(result, Unavailable) or write.tenant in waiting, f"{write.cause}: {result!r}"
            self._check(write, result, groups.get(write.cause or "", []))
        return results

    def _follow(self, writes: dict[str, Write]) -> dict[str, list[Committed]]:
        """Apply the commits to the model, in an order in which each write follows the versions that it saw."""
        groups: dict[str, list[Committed]] = {}
        for process in self.processes:
            for committed in process.committed:
                groups.setdefault(committed.stamp.cause or "", []).append(committed)
            process.committed.clear()
        waiting = dict(groups)
        while waiting:
            ready = [cause for cause, group in waiting.items() if self._follows(group)]
            assert ready, f"no order explains {[each.stamp for group in waiting.values() for each in group]}"
            self.model.apply(writes[ready[0]], waiting.pop(ready[0]))
        return groups

    def _follows(self, group: Sequence[Committed]) -> bool:
        """Return whether these versions are, key by key, the next ones in the model."""
        last = {key_of(each.stamp): 0 for each in group}
        last |= {key: kept.version for key, kept in self.model.keys.items() if key in last}
        for each in group:
            key = key_of(each.stamp)
            if each.stamp.version != last[key] + 1:
                return False
            last[key] += 1
        return True

    def _check(self, write: Write, result: Outcome | BaseException, group: Sequence[Committed]) -> None:
        if self.model.is_spent(write):
            assert isinstance(result, NotFound)
            assert result.context["erased"] is True
        elif isinstance(result, BaseException):
            assert isinstance(result, HiveError), f"{write.cause}: {result!r}"
            assert not group, f"{write.cause} was refused and is there"
        elif result.duplicate:
            first = self.model.repeated(write)
            assert first is not None
            assert is_first_outcome(result, first)
            assert not group
        elif result.stamp is None:
            assert not group
        else:
            assert (result.stamp, result.record, result.head) == (group[0].stamp, group[0].record, group[0].head)

    async def _announce(self) -> None:
        """Announce as after a commit: first the versions that another process left, then the new version."""
        process = self._some_process()
        for committed in process.queue:
            if not committed.entity.history:
                assert committed.announced == committed.stamp.version
                continue
            await self._announce_one(process.ledger, committed)
        process.queue.clear()

    async def _announce_one(self, ledger: Ledger, committed: Committed) -> None:
        stamp = committed.stamp
        key = key_of(stamp)
        for record in await ledger.history(
            committed.entity, stamp.tenant, stamp.id, after=committed.announced, before=stamp.version, limit=1000
        ):
            self.bus.publish(key, record.stamp.version)
        self.bus.publish(key, stamp.version)
        ledger.announced(*key, stamp.version)

    async def _crash_announcer(self) -> None:
        self._some_process().queue.clear()

    async def _sweep(self) -> None:
        ledger = self._some_process().ledger
        for due in await ledger.due(older_than=FAR, limit=self.draw.choice((1, 3, PAGE))):
            await self._sweep_one(ledger, due)

    async def _sweep_one(self, ledger: Ledger, due: Due) -> None:
        key = (due.entity, due.tenant, due.id)
        kept = self.model.keys[key]
        assert (due.version, due.erased, due.at) == (kept.version, kept.erased, kept.at)
        assert due.announced <= self.bus.heard.get(key, 0)
        entity = self.model.entities[due.entity]
        for record in await ledger.history(entity, due.tenant, due.id, after=due.announced, limit=1000):
            self.bus.publish(key, record.stamp.version)
        if due.erased:
            self.bus.publish(key, due.version)
        assert self.bus.heard[key] == due.version
        ledger.announced(due.entity, due.tenant, due.id, due.version)

    async def _sweep_all(self) -> None:
        """Sweep as if every announcer had died: the marks alone tell which versions are due."""
        for process in self.processes:
            process.queue.clear()

        async def nothing_left() -> bool:
            ledger = self._some_process().ledger
            found = await ledger.due(older_than=FAR, limit=PAGE)
            for due in found:
                await self._sweep_one(ledger, due)
            return not found

        await eventually(nothing_left, "everything is announced")
        told = {key: kept for key, kept in self.model.keys.items() if kept.entity.history}
        assert self.bus.heard == {key: kept.version for key, kept in told.items()}

    async def _freeze(self) -> None:
        keys = sorted(key for key, kept in self.model.keys.items() if kept.entity.history)
        if not keys:
            return
        key = self.draw.choice(keys)
        entity, through = self.model.entities[key[0]], self.draw.randint(0, self.model.keys[key].version)
        limit = self.draw.choice((1, 5, 1000))
        moved = await self._some_process().ledger.freeze(entity, key[1], key[2], through, limit=limit)
        assert 0 <= moved <= min(limit, through)

    async def _erase(self) -> None:
        if not self.model.keys:
            return
        key = self.draw.choice(sorted(self.model.keys))
        kept = self.model.keys[key]
        process = self._some_process()
        keep = self.draw.choice((0, 0, kept.version // 2, kept.version)) if key[0] == "note" else 0
        await self._sweep_all()
        erased: list[Stamp | None] = []

        async def known_as_announced() -> bool:
            try:
                stamp = await process.ledger.erase(
                    kept.entity, key[1], key[2], actor="eve", cause="gdpr", keep_through_position=keep
                )
            except Unavailable:
                return False
            erased.append(stamp)
            return True

        await eventually(known_as_announced, "the marks reach the store")
        self._follow_erasure(process, key, erased[0], keep)
        if self.draw.random() < 0.7:
            await self._sweep_all()

    def _follow_erasure(self, process: Process, key: Key, stamp: Stamp | None, keep: int) -> None:
        told, process.committed[:] = tuple(process.committed), []
        if stamp is None or self.model.keys[key].erased:
            # A second erasure, or a repetition of the first: nothing new is announced, fewer records may be shared.
            assert self.model.keys[key].erased
            assert told == ()
            self.model.share_less(key, keep)
            return
        assert [(each.stamp, each.head, each.record, each.erased) for each in told] == [(stamp, None, None, True)]
        self.model.erase(stamp, keep)

    async def _restart(self) -> None:
        place = self.draw.randrange(len(self.processes))
        await self.backend.close(self.processes[place].ledger)
        self.processes[place] = await self._start()

    async def _compare_one(self) -> None:
        if self.model.keys:
            key = self.draw.choice(sorted(self.model.keys))
            await agree_on_key(self._some_process().ledger, self.model, key, self.draw)
