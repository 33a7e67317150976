"""The audit trail: it records refusals and exports before they are answered, and serves the audit operations."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, cast

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from hivemem_contracts.errors import HiveError, InvalidRequest, Unavailable
from hivemem_contracts.identifiers import (
    Id,
    Namespace,
    covers,
    derived_id,
    format_microseconds,
    microseconds_from_time,
)
from hivemem_contracts.limits import ID_CHARACTERS
from hivemem_contracts.memory import operations, replies, requests
from hivemem_contracts.subjects import encode_token
from hivemem_memory.decisions.audit_chain import SKEW_MICROSECONDS, Refusal, link_refusals
from hivemem_memory.decisions.erasures import behind
from hivemem_memory.endpoints.chain_links import linked_versions, read_mark
from hivemem_memory.endpoints.chain_verification import ChainVerification
from hivemem_memory.endpoints.unlinked_memories import DUE
from hivemem_memory.entities.audit import CHAIN, CHAIN_ID, Link
from hivemem_memory.entities.memories import MEMORY
from hivemem_runtime.background import Background
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.bus.feed.reading import FeedReading
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.places import place_of, scope_of
from hivemem_runtime.ledger.port import Ledger, RequestId
from hivemem_runtime.paging import Bookmark, Lines
from hivemem_runtime.service import Call, Service

REACTION: Final = "audit"
LOOKED_AT: Final = 5_000
"""The maximum number of links that one request reads, even if few of them match."""
STEP: Final = 500
CATCH_UP_SECONDS: Final = 1.0
POLL_SECONDS: Final = 0.02
NEWEST: Final = 5
RECENT: Final = 200
"""The number of newest memories per tenant that are looked up in the chain when the list of unannounced keys is
longer than one read; otherwise `NEWEST`."""

_NAMESPACE: Final[TypeAdapter[str]] = TypeAdapter(Namespace)
_ID: Final[TypeAdapter[str]] = TypeAdapter(Id)


class AnnouncementProgress(Protocol):
    async def caught_up(self) -> None: ...


def bind(service: Service, trail: "AuditTrail") -> None:
    service.on_refused(trail.refused)
    service.handler(operations.AUDIT, trail.audit)
    service.handler(operations.AUDIT_VERIFY, trail.verify)


class AuditTrail(Background):
    """A tenant's audit chain as the operations use it. Links of successful writes come from the feed, through a
    reaction."""

    def __init__(self, ledger: Ledger, announcer: AnnouncementProgress) -> None:
        self._ledger = ledger
        self._announcer = announcer
        self._feed: FeedReading | None = None
        self._consumer = f"{operations.NAME}-{REACTION}"

    async def start(self, client: Client) -> None:
        self._feed = FeedReading(client)

    async def stop(self) -> None:
        self._feed = None

    @property
    def feed(self) -> FeedReading:
        assert self._feed is not None, "it was started"
        return self._feed

    async def refused(self, call: Call, error: HiveError) -> None:
        """Record a refused call in the chain before it is answered. A retry refused for the same reason adds no
        second link."""
        namespace, key = _named(call.body)
        await self._append(call, [_refusal(call, namespace, key, error.name, _task(call.body))])

    async def refused_parts(self, call: Call, parts: Sequence[BaseModel], results: Sequence[Any]) -> None:
        """Record each refused part of a call in the chain: a result that is a `HiveError`."""
        refusals = [
            _refusal(call, *_named(part), result.name, _task(part))
            for part, result in zip(parts, results, strict=True)
            if isinstance(result, HiveError)
        ]
        if refusals:
            await self._append(call, refusals)

    async def exported(self, call: Call, prefix: str) -> None:
        """Record an export in the chain before its first page is answered."""
        await self._append(call, [_refusal(call, prefix, None, None)])

    async def _append(self, call: Call, refusals: Sequence[Refusal]) -> None:
        said = [f"{refusal.namespace}|{refusal.key}|{refusal.error}" for refusal in refusals]
        request_id = RequestId(derived_id("refused", call.request_name, *said))
        write = call.step(
            CHAIN, CHAIN_ID, lambda heads, now: link_refusals(heads, refusals, now), request_id=request_id
        )
        # The message id is cut because it may be too long, which is then the reason for the refusal.
        await self._ledger.commit(replace(write, cause=call.message_id[:ID_CHARACTERS]))

    async def audit(self, call: Call, body: requests.ReadAudit) -> bytes:
        if body.key is not None and body.namespace is None:
            raise InvalidRequest("key: a key needs a namespace", field="key")
        tenant = call.sender.tenant
        behind = await self.behind(tenant)
        asked = (body.namespace, body.key, body.actor, body.operation, body.task_id, str(body.since), str(body.until))
        bookmark = Bookmark("audit", *asked)
        before: int | None = bookmark.find(body.cursor, int)[0] if body.cursor is not None else None
        lines = Lines(body.limit)
        more = await self._page(tenant, AuditFilter(body), lines, before)
        return lines.answer(None if more is None else bookmark.put(more), behind=behind)

    async def _page(self, tenant: str, wanted: "AuditFilter", lines: Lines, before: int | None) -> int | None:
        """Add matching links below position `before`, newest first. Returns where the next page begins, or None at
        the end."""
        after = 0
        if wanted.since is not None:
            after = await self._ledger.version_at(CHAIN, tenant, CHAIN_ID, wanted.since - SKEW_MICROSECONDS)
        looked_at = 0
        while looked_at < LOOKED_AT:
            records = await self._ledger.history(
                CHAIN,
                tenant,
                CHAIN_ID,
                after=after,
                before=before,
                limit=STEP,
                reverse=True,
                by_position=True,
                tag=wanted.tag,
            )
            for record in records:
                link = record.value
                if wanted.matches(link) and not lines.add(entry(link)):
                    return before
                before = link.position
            if len(records) < STEP:
                return None
            looked_at += len(records)
            await asyncio.sleep(0)
        return before

    async def verify(self, call: Call, body: requests.VerifyAudit) -> replies.AuditVerified:
        tenant = call.sender.tenant

        async def current() -> bool:
            await self._announcer.caught_up()
            return await self._catches_up(tenant, asyncio.get_running_loop().time() + CATCH_UP_SECONDS)

        return await ChainVerification(self._ledger, tenant, current).run(body.cursor)

    async def behind(self, tenant: str) -> int:
        """Return how many changes are not in the chain yet, after waiting up to a second for the tenant's.

        0 means that every write acknowledged before this call has its link, whichever worker committed it.
        """
        await self._announcer.caught_up()
        unlinked, complete = await self._acknowledged(tenant)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CATCH_UP_SECONDS
        current = await self._catches_up(tenant, deadline) and complete
        while True:
            linked = await linked_versions(self._ledger, tenant, unlinked)
            unlinked = {place: version for place, version in unlinked.items() if linked[place] < version}
            if current and not unlinked:
                return 0
            if not current or loop.time() >= deadline:
                return max(len(unlinked), await self._waiting())
            await asyncio.sleep(POLL_SECONDS)

    async def _catches_up(self, tenant: str, deadline: float) -> bool:
        """Return whether the chain has every change of the tenant on the feed, waiting until a deadline."""
        state = await self.feed.state()
        last = await self.feed.last(f"hive.chg.{encode_token(tenant)}.{MEMORY.name}.>")
        while True:
            mark = await read_mark(self._ledger, tenant)
            if mark.through(state.identity) >= (0 if last is None else last.sequence):
                # A chain ahead of the feed has linked messages that the feed has lost since.
                now = await self.feed.state()
                return mark.through(now.identity) <= now.last_sequence
            if asyncio.get_running_loop().time() >= deadline:
                return False
            await asyncio.sleep(POLL_SECONDS)

    async def _acknowledged(self, tenant: str) -> tuple[dict[str, int], bool]:
        """Return places and versions whose links may be missing: unannounced memories, and the newest ones, whose
        messages the feed may have lost. False if there may be more than one call looks up."""
        due = await self._ledger.due(older_than=now_microseconds() + SKEW_MICROSECONDS, limit=DUE)
        versions = {each.id: each.version for each in due if (each.entity, each.tenant) == (MEMORY.name, tenant)}
        low, limit = (due[-1].at, RECENT) if len(due) == DUE else (None, NEWEST)
        page = await self._ledger.covered(MEMORY, tenant, "update", equals={}, low=low, reverse=True, limit=limit)
        for newest in page.items:
            found = await self._ledger.covered(
                MEMORY, tenant, "current", equals={}, low=newest.id, high=behind(newest.id), limit=1
            )
            for memory in found.items:
                versions[memory.id] = max(versions.get(memory.id, 0), int(memory.values["version"] or 0))
        return versions, len(due) < DUE or page.cursor is None

    async def _waiting(self) -> int:
        """Return the lag of the whole fleet, because the feed is processed in order; at least 1."""
        try:
            return max(1, await self.feed.waiting(self._consumer))
        except Unavailable:
            return 1


class AuditFilter:
    """The filter of an audit request. `tag` is the index that matches the fewest links."""

    def __init__(self, body: requests.ReadAudit) -> None:
        self._body = body
        self.since = None if body.since is None else microseconds_from_time(body.since)
        self._until = None if body.until is None else microseconds_from_time(body.until)

    @property
    def tag(self) -> tuple[str, str] | None:
        body = self._body
        if body.namespace is not None:
            if body.key is not None:
                return "place", place_of(body.namespace, body.key)
            if ":" in body.namespace:
                return "scope", scope_of(body.namespace)
        if body.task_id is not None:
            return "task", body.task_id
        if body.actor is not None:
            return "actor", body.actor
        return None if body.operation is None else ("operation", body.operation)

    def matches(self, link: Link) -> bool:
        body = self._body
        if self.since is not None and link.at < self.since:
            return False
        if self._until is not None and link.at >= self._until:
            return False
        if body.actor is not None and link.actor != body.actor:
            return False
        if body.operation is not None and link.operation != body.operation:
            return False
        if body.task_id is not None and link.task_id != body.task_id:
            return False
        # The tag has already matched the key.
        return body.namespace is None or (link.namespace is not None and covers(body.namespace, link.namespace))


def entry(link: Link) -> dict[str, Any]:
    """Return the wire format of a link."""
    return {
        "position": link.position,
        "at": format_microseconds(link.at),
        "actor": link.actor,
        "operation": link.operation,
        "namespace": link.namespace,
        "key": link.key,
        "from_version": link.from_version,
        "to_version": link.to_version,
        "request_id": link.request_id,
        "task_id": link.task_id,
        "outcome": link.outcome,
        "error": link.error,
        "digest": link.digest,
        "hash": link.hash,
    }


def _refusal(call: Call, namespace: str | None, key: str | None, error: str | None, task: str | None = None) -> Refusal:
    request_id = call.message_id[:ID_CHARACTERS]
    return Refusal(call.sender.agent, call.operation.name, request_id, namespace, key, error, task)


def _task(body: BaseModel | bytes) -> str | None:
    return getattr(getattr(body, "source", None), "task_id", None)


def _named(body: BaseModel | bytes) -> tuple[str | None, str | None]:
    """Return the namespace and the key in a request, each None if it is absent or invalid."""
    if isinstance(body, BaseModel):
        return getattr(body, "namespace", None), getattr(body, "key", None)
    fields = _object(body)
    try:
        namespace = _NAMESPACE.validate_python(fields.get("namespace"))
    except ValidationError:
        return None, None
    try:
        return namespace, _ID.validate_python(fields.get("key"))
    except ValidationError:
        return namespace, None


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
