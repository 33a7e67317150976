"""Commits one batch: reads what is missing, decides, writes it in one transaction, and starts over on a conflict."""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.identifiers import time_from_microseconds
from hivemem_runtime.ledger.codec import decode_head, dump, plain, squeeze
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.mongo.cache import HeadKey, KnownHead
from hivemem_runtime.ledger.mongo.documents import (
    REQUESTS,
    MongoIdentities,
    head_id,
    heads_of,
    identities_of,
    indexed_fields,
    kept_stamp,
    record_document,
    record_id,
    records_of,
    request_document,
    stored_body,
)
from hivemem_runtime.ledger.mongo.driver import Document, Query
from hivemem_runtime.ledger.mongo.errors import CommitUnknown, Conflict, translated, unavailable
from hivemem_runtime.ledger.mongo.history import read_versions
from hivemem_runtime.ledger.mongo.operations import Operations
from hivemem_runtime.ledger.mongo.plan import Answered, Plan, Spent
from hivemem_runtime.ledger.mongo.purging import pending_purges
from hivemem_runtime.ledger.mongo.traces import has_landed, leave_trace
from hivemem_runtime.ledger.mongo.workbench import Workbench
from hivemem_runtime.ledger.port import Outcome, Record, Write

_CONFLICT_TRIES: Final = 40
_LOST_TRIES: Final = 3
_LOST_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.002
_LONGEST_PAUSE_SECONDS: Final = 0.1


@dataclass(slots=True)
class MongoBatch:
    bench: Workbench
    writes: Sequence[Write]
    known: dict[HeadKey, KnownHead] = field(default_factory=dict[HeadKey, KnownHead])
    fresh: set[HeadKey] = field(default_factory=set[HeadKey])
    asked: set[str] = field(default_factory=set[str])
    answered: dict[str, Answered] = field(default_factory=dict[str, Answered])
    suspects: list[tuple[str, Plan]] = field(default_factory=list[tuple[str, Plan]])
    read_again: bool = False
    identities: Sequence[MongoIdentities] = field(init=False)

    def __post_init__(self) -> None:
        self.identities = [identities_of(write) for write in self.writes]

    async def commit(self) -> Plan:
        """Return the plan that is durable now. It may end before the last write if the batch would be too large."""
        lost = 0
        patience = time.monotonic() + _LOST_SECONDS
        for attempt in range(_CONFLICT_TRIES):
            if attempt:
                await asyncio.sleep(_pause(attempt))
            try:
                return await self._attempt()
            except Conflict:
                self.read_again = True
            except Unavailable:
                lost += 1
                if lost == _LOST_TRIES or time.monotonic() > patience:
                    raise
                self.read_again = True
            finally:
                if self.read_again:
                    self._forget()
        raise unavailable(f"others wrote the same {len(self.known)} keys all the time")

    async def _attempt(self) -> Plan:
        if self.read_again:
            await self._read_all()
            landed = await self._landed()
            if landed is not None:
                return landed
        plan = await self._decided()
        if plan.committed or plan.requests:
            await self._apply(plan)
        return plan

    async def _decided(self) -> Plan:
        await self._know(self._named())
        # No document of a write would collide with these identities, so they are read first.
        await self._ask({found.elsewhere for found in self.identities if found.elsewhere is not None} - self.asked)
        while True:
            plan = Plan(self.known, self.bench.marks, self.answered, self.bench.clock)
            for write, identities in zip(self.writes, self.identities, strict=True):
                plan.add(write, identities)
                if plan.full:
                    break
            if plan.missing:
                await self._know(plan.missing)
                continue
            old = plan.doubtful - self.fresh - plan.heads.keys()
            unasked = plan.unasked - self.asked
            if not old and not unasked:
                return plan
            before = {key: (self.known[key].version, self.known[key].announced) for key in old}
            await asyncio.gather(self._load({key: self.known[key].entity for key in old}), self._ask(unasked))
            unchanged = all((self.known[key].version, self.known[key].announced) == was for key, was in before.items())
            if unchanged and not self.answered.keys() & unasked:
                return plan

    def _named(self) -> dict[HeadKey, AnyEntity]:
        """Return the heads that the writes name in advance."""
        wanted = {(write.entity.name, write.tenant, write.id): write.entity for write in self.writes}
        for write in self.writes:
            for entity, id in write.reads:
                wanted[entity.name, write.tenant, id] = entity
        return wanted

    async def _know(self, wanted: Mapping[HeadKey, AnyEntity]) -> None:
        missing: dict[HeadKey, AnyEntity] = {}
        for key, entity in wanted.items():
            if key in self.known:
                continue
            cached = self.bench.cache.get(key)
            if cached is None:
                missing[key] = entity
            else:
                self.known[key] = cached
        if missing:
            await self._load(missing)

    async def _load(self, wanted: Mapping[HeadKey, AnyEntity]) -> None:
        by_entity: dict[str, list[HeadKey]] = defaultdict(list)
        for key in wanted:
            by_entity[key[0]].append(key)
        await asyncio.gather(*(self._load_heads(wanted[keys[0]], keys) for keys in by_entity.values()))

    async def _load_heads(self, entity: AnyEntity, keys: Collection[HeadKey]) -> None:
        identities = [head_id(tenant, id) for _, tenant, id in keys]
        with translated():
            found = await self.bench.database.find(heads_of(entity.name), Query({"_id": {"$in": identities}}))
        for key in keys:
            self.known[key] = KnownHead(entity, key[1], key[2])
        for document in found:
            head = _known_head(entity, document)
            self.known[entity.name, head.tenant, head.id] = head
        self.fresh.update(keys)

    async def _ask(self, identities: Collection[str]) -> None:
        """Which of these requests were answered before, and how."""
        if not identities:
            return
        with translated():
            found = await self.bench.database.find(REQUESTS, Query({"_id": {"$in": list(identities)}}))
        self.asked.update(identities)
        by_entity: dict[str, list[Document]] = defaultdict(list)
        for document in found:
            if "spent" in document:
                self.answered[document["_id"]] = Answered(Spent(document["entity"]), None)
            else:
                by_entity[document["entity"]].append(document)
        for name, documents in by_entity.items():
            await self._answer(self.bench.entities[name], documents)

    async def _answer(self, entity: AnyEntity, requests: Sequence[Document]) -> None:
        wanted = {_place(request): "at" in request for request in requests if request["v"]}
        records, purges = await asyncio.gather(
            read_versions(self.bench.database, entity, [place for place, stamped in wanted.items() if not stamped]),
            pending_purges(self.bench, {(entity.name, tenant, id) for tenant, id, _ in wanted}),
        )
        erased = {(purge.tenant, purge.id): purge.through for purge in purges}
        outdated: list[Document] = []
        for request in requests:
            tenant, id, version = _place(request)
            first = _first_outcome(request, records.get((tenant, id, version)))
            if first is not None and (version == 0 or version > erased.get((tenant, id), 0)):
                self.answered[request["_id"]] = Answered(first, request.get("d"))
            elif "until" not in request:
                outdated.append(request)
            else:
                self.answered[request["_id"]] = Answered(Spent(entity.name), None)
        if outdated:
            await self._drop_requests(outdated)

    async def _drop_requests(self, requests: Iterable[Document]) -> None:
        """Drop the requests that live as long as their key, which is erased. The erasure drops them too, except
        requests whose answer is another key's."""
        operations = self.bench.operations()
        for request in requests:
            operations.delete(REQUESTS, {"_id": request["_id"], "v": request["v"]})
        await self.bench.write(operations)

    async def _read_all(self) -> None:
        wanted = {key: head.entity for key, head in self.known.items()}
        self.known.clear()
        self.fresh.clear()
        self.answered.clear()
        names = {name for identities in self.identities for name in identities.names}
        await asyncio.gather(self._load(wanted), self._ask(names))
        self.read_again = False

    async def _landed(self) -> Plan | None:
        """An earlier attempt whose commit was not answered, if it is in the store after all."""
        for token, plan in self.suspects:
            if not plan.committed:
                continue
            if await self._has_landed(token, plan):
                return plan
        return None

    async def _has_landed(self, token: str, plan: Plan) -> bool:
        first = plan.first_kept
        if first is None:
            return await has_landed(self.bench, token)
        stamp = plan.committed[first].stamp
        query = Query({"_id": record_id(stamp.tenant, stamp.id, stamp.version), "commit": token}, fields={"_id": 1})
        with translated():
            return bool(await self.bench.database.find(records_of(stamp.entity), query))

    async def _apply(self, plan: Plan) -> None:
        token = self.bench.token()
        operations = self.bench.operations()
        _add_records(operations, plan, token)
        _add_requests(operations, plan, self.bench.memory_microseconds)
        _add_heads(operations, plan)
        _add_guards(operations, plan, token)
        leaves_trace = plan.committed and plan.first_kept is None
        if leaves_trace:
            leave_trace(self.bench, operations, token)
        try:
            await self.bench.transact(operations)
        except CommitUnknown:
            self.suspects.append((token, plan))
            raise
        if leaves_trace:
            self.bench.settled = token

    def _forget(self) -> None:
        for key in self.known:
            self.bench.cache.drop(key)


def _pause(attempt: int) -> float:
    """Random, so that two processes that disturb one another do not keep step."""
    longest = min(_LONGEST_PAUSE_SECONDS, _PAUSE_SECONDS * 2**attempt)
    return random.uniform(0, longest)  # noqa: S311 - no secret


def _known_head(entity: AnyEntity, document: Mapping[str, Any]) -> KnownHead:
    erased = "erased" in document
    body = "" if erased else plain(document["body"])
    return KnownHead(
        entity,
        document["_id"]["t"],
        document["_id"]["i"],
        document["version"],
        document["at"],
        document["announced"],
        None if erased else decode_head(entity, document["schema"], body),
        erased,
        len(body),
    )


def _place(request: Mapping[str, Any]) -> tuple[str, str, int]:
    return request["t"], request["i"], request["v"]


def _first_outcome(request: Mapping[str, Any], record: Record[Any] | None) -> Outcome | None:
    if not request["v"]:
        return Outcome(None, None, None, duplicate=True)
    stamp = kept_stamp(request)
    if stamp is not None:
        return Outcome(stamp, None, None, duplicate=True)
    return None if record is None else Outcome(record.stamp, record.value, None, duplicate=True)


def _add_records(operations: Operations, plan: Plan, token: str) -> None:
    collections: dict[str, str] = {}
    first = plan.first_kept
    for number, (committed, record) in enumerate(zip(plan.committed, plan.records, strict=True)):
        if record is None:
            continue
        document = record_document(committed.stamp, record)
        held = plan.holds.get(number)
        if held:
            document["q"] = held
        if number == first:
            document["commit"] = token
        name = committed.stamp.entity
        collection = collections.get(name) or collections.setdefault(name, records_of(name))
        operations.insert(collection, document, len(record.body) + len(record.snapshot or ""))


def _add_requests(operations: Operations, plan: Plan, memory: int) -> None:
    until: dict[int, datetime] = {}
    for name, done in plan.requests.items():
        place = done.entity, done.tenant, done.id, done.version
        document = request_document(name, place, done.held, done.stamp)
        if done.digest is not None:
            document["d"] = done.digest
        if not done.as_long_as_key:
            second = (done.at + memory) // 1_000_000 + 1
            if second not in until:
                until[second] = time_from_microseconds(second * 1_000_000)
            document["until"] = until[second]
        operations.insert(REQUESTS, document)


def _add_heads(operations: Operations, plan: Plan) -> None:
    for key, head in plan.heads.items():
        base = plan.base(key)
        body = dump(head.value)
        stored = stored_body(squeeze(body))
        document: Document = {
            "_id": head_id(head.tenant, head.id),
            "version": head.version,
            "at": head.at,
            "announced": head.announced,
            "schema": head.entity.schema,
            "body": stored,
            "x": indexed_fields(head.entity, head.value),
        }
        if head.announced < head.version:
            document["due"] = True
        collection = heads_of(key[0])
        if base.version == 0:
            operations.insert(collection, document, len(stored))
        else:
            expected = {"version": base.version, "announced": base.announced}
            operations.replace(collection, expected, document, len(stored))
        head.size = len(body)


def _add_guards(operations: Operations, plan: Plan, token: str) -> None:
    """Lock what decisions relied on. It takes a real change, because the server locks nothing that it leaves as it is;
    so what is not there is put there and taken away again."""
    for head in plan.guarded():
        identity = head_id(head.tenant, head.id)
        collection = heads_of(head.entity.name)
        if head.version == 0:
            operations.insert(collection, {"_id": identity, "guard": token})
            operations.delete(collection, {"_id": identity, "guard": token})
        else:
            operations.update(collection, {"_id": identity, "version": head.version}, {"$set": {"guard": token}})
