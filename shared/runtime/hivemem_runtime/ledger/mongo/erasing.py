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
from hivemem_runtime.ledger.mongo.errors import CommitUnknown, Conflict, translated
from hivemem_runtime.ledger.mongo.operations import Operations
from hivemem_runtime.ledger.mongo.purging import KEYS_AT_ONCE, Purge, pending_purges, purge
from hivemem_runtime.ledger.mongo.traces import has_landed, leave_trace
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
        """Finish the erasures that were requested."""
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


class _Attempt(NamedTuple):
    """Tombstones that are left together, and what the listeners will hear of them."""

    token: str
    burials: dict[HeadKey, Burial]
    told: dict[HeadKey, Committed]


async def bury(bench: Workbench, erasures: Sequence[Erasure]) -> list[Burial]:
    """Leave the tombstones, all in one transaction; where others write one of the keys, each in its own."""
    suspects: list[_Attempt] = []

    async def attempt(group: Sequence[Erasure]) -> list[Burial]:
        try:
            done = await _bury(bench, suspects, group)
        except Conflict:
            if len(group) == 1:
                raise
        else:
            _tell(bench, [done.told[each.key] for each in group if each.key in done.told])
            return [done.burials[each.key] for each in group]
        return [burial for each in group for burial in await persistently(partial(attempt, [each]))]

    return await persistently(partial(attempt, erasures))


async def _landed(bench: Workbench, suspects: Sequence[_Attempt], group: Sequence[Erasure]) -> _Attempt | None:
    """An earlier attempt whose commit was not answered, if it is in the store after all."""
    for suspect in suspects:
        if all(each.key in suspect.burials for each in group) and await has_landed(bench, suspect.token):
            return suspect
    return None


async def _bury(bench: Workbench, suspects: list[_Attempt], group: Sequence[Erasure]) -> _Attempt:
    heads = await _read_heads(bench, group)
    landed = await _landed(bench, suspects, group)
    if landed is not None:
        return landed
    operations = bench.operations()
    attempt = _Attempt(bench.token(), {}, {})
    for erasure in group:
        head = heads.get(erasure.key)
        burial = Buried(None, None) if head is None else _burial(bench, erasure, head)
        attempt.burials[erasure.key] = burial
        if head is not None and "erased" not in head and isinstance(burial, Buried):
            attempt.told[erasure.key] = _add_tombstone(bench, operations, erasure, head, burial)
    if attempt.told:
        leave_trace(bench, operations, attempt.token)
        try:
            await bench.transact(operations)
        except CommitUnknown:
            suspects.append(attempt)
            raise
        bench.settled = attempt.token
    return attempt


def _burial(bench: Workbench, erasure: Erasure, head: Mapping[str, Any]) -> Burial:
    version, at = head["version"], head["at"]
    if "erased" in head:
        same = erasure.cause is not None and (head["actor"], head["cause"]) == (erasure.actor, erasure.cause)
        return Buried(_stamp(erasure, version, at) if same else None, _purge(erasure, version))
    if erasure.version not in (None, version):
        return _another_version(erasure, version)
    announced = _announced(bench, erasure, head)
    if announced < version:
        return _not_announced(erasure, version, announced)
    stamp = _stamp(erasure, version + 1, max(bench.clock(), at + 1))
    return Buried(stamp, _purge(erasure, stamp.version))


def _announced(bench: Workbench, erasure: Erasure, head: Mapping[str, Any]) -> int:
    """Up to where the key is known as announced."""
    announced: int = max(head["announced"], bench.marks.get(erasure.key, 0))
    return announced if erasure.entity.history else max(announced, head["version"])


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
    bench: Workbench, operations: Operations, erasure: Erasure, head: Mapping[str, Any], burial: Buried
) -> Committed:
    stamp, purge = burial
    assert stamp is not None
    assert purge is not None
    tombstone: Document = {
        "_id": head["_id"],
        "version": stamp.version,
        "at": stamp.at,
        "erased": True,
        "actor": stamp.actor,
        "cause": stamp.cause,
    }
    if erasure.entity.history:
        tombstone |= {"announced": _announced(bench, erasure, head), "due": True}
    else:
        tombstone["announced"] = stamp.version
    expected = {"version": head["version"], "announced": head["announced"]}
    operations.replace(heads_of(erasure.entity.name), expected, tombstone)
    operations.insert(PURGES, purge.document)
    return Committed(erasure.entity, stamp, None, None, tombstone["announced"], erased=True)


def _tell(bench: Workbench, told: Sequence[Committed]) -> None:
    for committed in told:
        stamp = committed.stamp
        key = stamp.entity, stamp.tenant, stamp.id
        bench.cache.drop(key)
        if bench.marks.get(key, 0) <= committed.announced:
            bench.marks.pop(key, None)
    if told:
        bench.tell(told)
