"""Moving old records to cold storage, and erasing keys."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.ledger.entity import AnyEntity, Stamp
from hivemem_runtime.ledger.mongo.documents import (
    PURGES,
    REQUESTS,
    chunk_document,
    cold_of,
    head_id,
    heads_of,
    is_once,
    purge_id,
    record_from,
    records_of,
    versions_between,
)
from hivemem_runtime.ledger.mongo.driver import Document, Query
from hivemem_runtime.ledger.mongo.errors import Conflict, translated, unavailable
from hivemem_runtime.ledger.mongo.workbench import Operations, Workbench
from hivemem_runtime.ledger.port import Committed
from hivemem_runtime.ledger.stored import CHUNK_RECORDS, unpack

_TRIES: Final = 5
_CHUNK_CHARACTERS: Final = 2 * 1024 * 1024
_REMOVED_AT_ONCE: Final = 500
_RESUMED_AT_ONCE: Final = 1_000
_ANNOUNCE_FIRST_MS: Final = 50

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Erasure:
    """Removal for good, in two steps: the tombstone, that everybody sees at once, and then the records below it."""

    bench: Workbench
    entity: AnyEntity
    tenant: str
    id: str
    actor: str
    cause: str | None
    keep: int

    async def resume(self) -> None:
        """Finish an earlier erasure of the key that was cut off, so that nothing is kept by the terms of this one."""
        pending = await _pending(self.bench, self.entity, self.tenant, self.id)
        if pending is not None:
            await purge(self.bench, self.entity, self.tenant, self.id, pending["through"], pending["keep"])

    async def bury(self) -> tuple[Stamp | None, int]:
        """Leave the tombstone. Answers its stamp, or None where somebody else's is there already, and up to which
        version records have to be removed."""
        token = self.bench.token()
        return await _persistently(lambda: self._bury(token))

    async def _bury(self, token: str) -> tuple[Stamp | None, int]:
        head = await _read_head(self.bench, self.entity, self.tenant, self.id)
        if head is None:
            return None, 0
        if "erased" in head:
            return self._repeated(head, token), head["version"]
        announced = max(head["announced"], self.bench.marks.get(self._key, 0))
        if announced < head["version"]:
            raise Unavailable(
                f"version {head['version']} of this {self.entity.name} is not announced yet",
                retry_after_ms=_ANNOUNCE_FIRST_MS,
                announced=announced,
            )
        at = max(self.bench.clock(), head["at"] + 1)
        stamp = Stamp(self.tenant, self.entity.name, self.id, head["version"] + 1, at, self.actor, self.cause)
        await self.bench.transact(self._tombstone(head, stamp, announced, token))
        self._tell(announced, stamp)
        return stamp, stamp.version

    def _tombstone(self, head: Mapping[str, Any], stamp: Stamp, announced: int, token: str) -> Operations:
        operations = self.bench.operations()
        expected = {"version": head["version"], "announced": head["announced"]}
        tombstone: Document = {
            "version": stamp.version,
            "at": stamp.at,
            "announced": announced,
            "due": True,
            "erased": True,
            "actor": stamp.actor,
            "cause": stamp.cause,
            "guard": token,
        }
        operations.replace(heads_of(self.entity.name), head["_id"], expected, tombstone)
        pending = {"_id": purge_id(self.entity.name, self.tenant, self.id), "through": stamp.version, "keep": self.keep}
        operations.insert(PURGES, pending)
        return operations

    def _repeated(self, head: Mapping[str, Any], token: str) -> Stamp | None:
        """The tombstone's stamp, if it is this erasure's own: the call is repeated, or its last attempt got through."""
        stamp = Stamp(self.tenant, self.entity.name, self.id, head["version"], head["at"], self.actor, self.cause)
        if head.get("guard") == token:
            self._tell(head["announced"], stamp)
            return stamp
        same = self.cause is not None and (head["actor"], head["cause"]) == (self.actor, self.cause)
        return stamp if same else None

    def _tell(self, announced: int, stamp: Stamp) -> None:
        self.bench.cache.drop(self._key)
        if self.bench.marks.get(self._key, 0) <= announced:
            self.bench.marks.pop(self._key, None)
        self.bench.tell([Committed(self.entity, stamp, None, None, announced, erased=True)])

    @property
    def _key(self) -> tuple[str, str, str]:
        return self.entity.name, self.tenant, self.id


async def resume_purges(bench: Workbench) -> None:
    """Finish what a process left that ended in the middle of an erasure."""
    with translated():
        pending = await bench.database.find(PURGES, Query({}, limit=_RESUMED_AT_ONCE))
    for each in pending:
        entity = bench.entities.get(each["_id"]["e"])
        if entity is not None:
            await purge(bench, entity, each["_id"]["t"], each["_id"]["i"], each["through"], each["keep"])


async def purge(bench: Workbench, entity: AnyEntity, tenant: str, id: str, through: int, keep: int) -> None:
    """Remove records through a version, except those whose position is at most `keep`, and all their requests."""
    after = 0
    while True:
        query = Query(
            {"_id": versions_between(tenant, id, after, through + 1)},
            fields={"p": 1, "q": 1},
            sort=[("_id", 1)],
            limit=_REMOVED_AT_ONCE,
        )
        with translated():
            records = await bench.database.find(records_of(entity.name), query)
        if not records:
            break
        after = records[-1]["_id"]["v"]
        operations = bench.operations()
        _forget_requests(operations, records, through)
        gone = [record["_id"] for record in records if not 0 < record.get("p", 0) <= keep]
        if gone:
            operations.delete(records_of(entity.name), {"_id": {"$in": gone}})
        if len(operations):
            await bench.write(operations)
    await _purge_cold(bench, entity, tenant, id, through, keep)
    operations = bench.operations()
    operations.delete(REQUESTS, {"entity": entity.name, "t": tenant, "i": id, "v": 0})
    await bench.write(operations)
    operations = bench.operations()
    operations.delete(PURGES, {"_id": purge_id(entity.name, tenant, id), "through": through})
    await bench.write(operations)


async def _purge_cold(bench: Workbench, entity: AnyEntity, tenant: str, id: str, through: int, keep: int) -> None:
    after = 0
    while True:
        query = Query({"_id": versions_between(tenant, id, after, through + 1)}, sort=[("_id", 1)], limit=1)
        with translated():
            chunks = await bench.database.find(cold_of(entity.name), query)
        if not chunks:
            return
        after = chunks[0]["_id"]["v"]
        await _purge_chunk(bench, entity, chunks[0], through, keep)


async def _purge_chunk(bench: Workbench, entity: AnyEntity, chunk: Document, through: int, keep: int) -> None:
    """What is kept is stored before the old chunk goes: a crash in between leaves both, which readers do not notice."""
    tenant, id, version = chunk["_id"].values()
    records = unpack(chunk["chunk"])
    kept = [record for record in records if record.position is not None and record.position <= keep]
    if kept and len(kept) < len(records):
        operations = bench.operations()
        operations.put(cold_of(entity.name), chunk_document(tenant, id, kept, ()))
        await bench.write(operations)
    operations = bench.operations()
    _forget_requests(operations, [chunk], through)
    if not kept or kept[-1].version != version:
        operations.delete(cold_of(entity.name), {"_id": chunk["_id"]})
    if len(operations):
        await bench.write(operations)


def _forget_requests(operations: Operations, holders: Sequence[Document], through: int) -> None:
    """Only those that answer with what is removed: the same id may have been used again since."""
    requests = [request for holder in holders for request in holder.get("q", ())]
    if requests:
        operations.delete(REQUESTS, {"_id": {"$in": requests}, "held": {"$lte": through}})


async def freeze_some(
    bench: Workbench,
    exclusively: Callable[[Callable[[], Awaitable[int]]], Awaitable[int]],
    entity: AnyEntity,
    tenant: str,
    id: str,
    through: int,
    limit: int,
) -> int:
    """Move the oldest announced records into one chunk. Answers how many there were."""

    async def attempt() -> int:
        head = await _read_head(bench, entity, tenant, id)
        if head is None or await _pending(bench, entity, tenant, id):
            return 0
        announced = max(head["announced"], bench.marks.get((entity.name, tenant, id), 0))
        documents = await _oldest(bench, entity, tenant, id, min(through, announced), min(limit, CHUNK_RECORDS))
        if documents:
            await bench.transact(_freezing(bench, entity, head, documents))
        return len(documents)

    return await exclusively(lambda: _persistently(attempt))


async def _oldest(
    bench: Workbench, entity: AnyEntity, tenant: str, id: str, through: int, limit: int
) -> list[Document]:
    query = Query({"_id": versions_between(tenant, id, 0, through + 1)}, sort=[("_id", 1)], limit=limit)
    taken: list[Document] = []
    size = 0
    with translated():
        async with bench.database.stream(records_of(entity.name), query) as records:
            async for record in records:
                size += len(record["body"]) + len(record.get("snapshot", ""))
                if taken and size > _CHUNK_CHARACTERS:
                    break
                taken.append(record)
    return taken


def _freezing(
    bench: Workbench, entity: AnyEntity, head: Mapping[str, Any], documents: Sequence[Document]
) -> Operations:
    tenant, id = head["_id"]["t"], head["_id"]["i"]
    records = [record_from(document) for document in documents]
    remembered = bench.clock() - bench.memory_microseconds
    requests = [
        request
        for document in documents
        for request in document.get("q", ())
        if is_once(request) or document["at"] > remembered
    ]
    operations = bench.operations()
    operations.insert(cold_of(entity.name), chunk_document(tenant, id, records, requests))
    operations.delete(records_of(entity.name), {"_id": {"$in": [document["_id"] for document in documents]}})
    # The head is changed too, so that an erasure at the same moment conflicts, which would overlook the chunk.
    where = {"_id": head["_id"], "version": head["version"]}
    operations.update(heads_of(entity.name), where, {"$set": {"guard": bench.token()}})
    return operations


async def _pending(bench: Workbench, entity: AnyEntity, tenant: str, id: str) -> Document | None:
    with translated():
        found = await bench.database.find(PURGES, Query({"_id": purge_id(entity.name, tenant, id)}))
    return found[0] if found else None


async def _read_head(bench: Workbench, entity: AnyEntity, tenant: str, id: str) -> Document | None:
    query = Query({"_id": head_id(tenant, id)}, fields={"body": 0, "x": 0})
    with translated():
        found = await bench.database.find(heads_of(entity.name), query)
    return found[0] if found else None


async def _persistently(attempt: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Again after a conflict or a lost connection. Each attempt reads anew what became of the one before."""
    for last in (False,) * (_TRIES - 1) + (True,):
        try:
            return await attempt()
        except Conflict as error:
            if last:
                raise unavailable("others wrote the same key all the time") from error
        except Unavailable as error:
            if last or "announced" in error.context:
                raise
    raise AssertionError("the last attempt answers or raises")
