"""Erasing keys: first the tombstone, that everybody sees at once, then what is below it. Many at once go together."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from hivemem_contracts.errors import RevisionConflict, Unavailable
from hivemem_runtime.ledger.entity import AnyEntity, Stamp
from hivemem_runtime.ledger.mongo.cache import HeadKey
from hivemem_runtime.ledger.mongo.documents import PURGES, head_id, heads_of
from hivemem_runtime.ledger.mongo.driver import Document, Query
from hivemem_runtime.ledger.mongo.errors import Conflict, translated
from hivemem_runtime.ledger.mongo.operations import Operations
from hivemem_runtime.ledger.mongo.purging import KEYS_AT_ONCE, Purge, pending_purges, purge
from hivemem_runtime.ledger.mongo.workbench import Workbench, persistently
from hivemem_runtime.ledger.port import Committed

_ANNOUNCE_FIRST_MS: Final = 50

ResultT = TypeVar("ResultT")


class Exclusively(Protocol):
    """Runs something between two batches."""

    def __call__(self, run: Callable[[], Awaitable[ResultT]], /) -> Awaitable[ResultT]: ...


class Erasure(NamedTuple):
    entity: AnyEntity
    tenant: str
    id: str
    actor: str
    cause: str | None
    keep: int
    version: int | None = None

    @property
    def key(self) -> HeadKey:
        return self.entity.name, self.tenant, self.id


class Buried(NamedTuple):
    """The tombstone's stamp, or None where somebody else's is there already, and what has to be removed."""

    stamp: Stamp | None
    purge: Purge | None


Burial = Buried | Unavailable | RevisionConflict


class Eraser:
    """Takes erasures in groups: whoever asks while one group is being buried is in the next."""

    def __init__(self, bench: Workbench, exclusively: Exclusively) -> None:
        self._bench = bench
        self._exclusively = exclusively
        self._waiting: deque[tuple[Erasure, asyncio.Future[Stamp | None]]] = deque()
        self._burying: asyncio.Task[None] | None = None
        self._removing: set[asyncio.Task[None]] = set()

    async def erase(self, erasure: Erasure) -> Stamp | None:
        answer: asyncio.Future[Stamp | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((erasure, answer))
        if self._burying is None or self._burying.done():
            self._burying = asyncio.create_task(self._bury_all(), name="hivemem-mongo-erasing")
        return await answer

    async def stop(self) -> None:
        """Finish what was asked for."""
        if self._burying is not None:
            await self._burying
        await asyncio.gather(*self._removing)

    async def _bury_all(self) -> None:
        while self._waiting:
            group = self._take()
            try:
                # An earlier erasure of a key that was cut off is finished first, so that nothing is kept by the terms
                # of this one.
                await purge(self._bench, await pending_purges(self._bench, group))
                erasures = [erasure for erasure, _ in group.values()]
                buried = await self._exclusively(partial(bury, self._bench, erasures))
            except Exception as error:  # whoever asked hears of it
                for _, answer in group.values():
                    _refuse(answer, error)
            else:
                answers = [answer for _, answer in group.values()]
                removing = asyncio.create_task(self._remove(buried, answers))
                self._removing.add(removing)
                removing.add_done_callback(self._removing.discard)

    def _take(self) -> dict[HeadKey, tuple[Erasure, "asyncio.Future[Stamp | None]"]]:
        """Each key once: of two erasures of one key the second has to find what the first one left."""
        group: dict[HeadKey, tuple[Erasure, asyncio.Future[Stamp | None]]] = {}
        while self._waiting and len(group) < KEYS_AT_ONCE and self._waiting[0][0].key not in group:
            erasure, answer = self._waiting.popleft()
            group[erasure.key] = erasure, answer
        return group

    async def _remove(self, buried: Sequence[Burial], answers: Sequence["asyncio.Future[Stamp | None]"]) -> None:
        lost: Exception | None = None
        try:
            await purge(self._bench, [each.purge for each in buried if isinstance(each, Buried) and each.purge])
        except Exception as error:  # whoever asked hears of it
            lost = error
        for each, answer in zip(buried, answers, strict=True):
            if isinstance(each, Exception):
                _refuse(answer, each)
            elif each.purge is not None and lost is not None:
                _refuse(answer, lost)
            elif not answer.done():
                answer.set_result(each.stamp)


def _refuse(answer: "asyncio.Future[Stamp | None]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


async def bury(bench: Workbench, erasures: Sequence[Erasure]) -> list[Burial]:
    """Leave the tombstones, all in one transaction; where others write one of the keys, each in its own."""
    token = bench.token()

    async def attempt(group: Sequence[Erasure]) -> list[Burial]:
        try:
            return await _bury(bench, group, token)
        except Conflict:
            if len(group) == 1:
                raise
        return [burial for each in group for burial in await persistently(partial(attempt, [each]))]

    return await persistently(partial(attempt, erasures))


async def _bury(bench: Workbench, erasures: Sequence[Erasure], token: str) -> list[Burial]:
    heads = await _read_heads(bench, erasures)
    operations = bench.operations()
    burials: list[Burial] = []
    told: list[Committed] = []
    for erasure in erasures:
        head = heads.get(erasure.key)
        if head is None:
            burials.append(Buried(None, None))
            continue
        announced = max(head["announced"], bench.marks.get(erasure.key, 0))
        version, at = head["version"], head["at"]
        if "erased" in head:
            stamp = _stamp(erasure, version, at)
            own = head.get("guard") == token
            same = erasure.cause is not None and (head["actor"], head["cause"]) == (erasure.actor, erasure.cause)
            burials.append(Buried(stamp if own or same else None, _purge(erasure, version)))
            if own:
                # The last attempt got through after all.
                told.append(Committed(erasure.entity, stamp, None, None, head["announced"], erased=True))
        elif erasure.version not in (None, version):
            burials.append(_another_version(erasure, version))
        elif announced < version:
            burials.append(_not_announced(erasure, version, announced))
        else:
            stamp = _stamp(erasure, version + 1, max(bench.clock(), at + 1))
            burials.append(Buried(stamp, _purge(erasure, stamp.version)))
            told.append(Committed(erasure.entity, stamp, None, None, announced, erased=True))
            _add_tombstone(operations, erasure, head, told[-1], token)
    if len(operations):
        await bench.transact(operations)
    _tell(bench, told)
    return burials


async def _read_heads(bench: Workbench, erasures: Sequence[Erasure]) -> dict[HeadKey, Document]:
    entities = {erasure.entity.name for erasure in erasures}

    async def read(name: str) -> list[tuple[HeadKey, Document]]:
        wanted = [head_id(erasure.tenant, erasure.id) for erasure in erasures if erasure.entity.name == name]
        query = Query({"_id": {"$in": wanted}}, fields={"body": 0, "x": 0})
        with translated():
            found = await bench.database.find(heads_of(name), query)
        return [((name, head["_id"]["t"], head["_id"]["i"]), head) for head in found]

    return {key: head for part in await asyncio.gather(*map(read, entities)) for key, head in part}


def _stamp(erasure: Erasure, version: int, at: int) -> Stamp:
    return Stamp(erasure.tenant, erasure.entity.name, erasure.id, version, at, erasure.actor, erasure.cause)


def _purge(erasure: Erasure, through: int) -> Purge:
    return Purge(erasure.entity, erasure.tenant, erasure.id, through, erasure.keep)


def _another_version(erasure: Erasure, version: int) -> RevisionConflict:
    return RevisionConflict(
        f"this {erasure.entity.name} is at version {version} by now", expected=erasure.version, actual=version
    )


def _not_announced(erasure: Erasure, version: int, announced: int) -> Unavailable:
    return Unavailable(
        f"version {version} of this {erasure.entity.name} is not announced yet",
        retry_after_ms=_ANNOUNCE_FIRST_MS,
        announced=announced,
    )


def _add_tombstone(
    operations: Operations, erasure: Erasure, head: Mapping[str, Any], committed: Committed, token: str
) -> None:
    stamp = committed.stamp
    tombstone: Document = {
        "_id": head["_id"],
        "version": stamp.version,
        "at": stamp.at,
        "announced": committed.announced,
        "due": True,
        "erased": True,
        "actor": stamp.actor,
        "cause": stamp.cause,
        "guard": token,
    }
    expected = {"version": head["version"], "announced": head["announced"]}
    operations.replace(heads_of(erasure.entity.name), expected, tombstone)
    operations.insert(PURGES, _purge(erasure, stamp.version).document)


def _tell(bench: Workbench, told: Sequence[Committed]) -> None:
    for committed in told:
        stamp = committed.stamp
        key = stamp.entity, stamp.tenant, stamp.id
        bench.cache.drop(key)
        if bench.marks.get(key, 0) <= committed.announced:
            bench.marks.pop(key, None)
    if told:
        bench.tell(told)
