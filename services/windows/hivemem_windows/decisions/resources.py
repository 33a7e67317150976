"""The rules of resources: which fields go together, and versions."""

from math import fsum
from typing import Any

from hivemem_contracts.errors import InvalidRequest, NotFound, RevisionConflict
from hivemem_contracts.windows.models import WindowResource
from hivemem_contracts.windows.requests import PutResource
from hivemem_runtime.ledger.port import Append, Decided, Heads
from hivemem_windows.decisions.templates import parse_template
from hivemem_windows.entities.resources import RESOURCE, ResourceRecord


def check_resource(resource: WindowResource) -> None:
    """Raise `InvalidRequest` for fields that do not go together."""
    parse_template(resource.key)
    if resource.type == "token" and resource.max_tokens is None:
        raise _wrong("max_tokens", "a resource of the type 'token' needs it")
    if resource.type == "message" and resource.max_messages is None:
        raise _wrong("max_messages", "a resource of the type 'message' needs it")
    if resource.max_tokens is None and resource.max_messages is None:
        raise _wrong("max_tokens", "a resource of the type 'buffer' needs max_tokens or max_messages")
    _check_allocation(resource)
    _check_flushing(resource)


def _check_allocation(resource: WindowResource) -> None:
    allocation = resource.allocation
    if allocation is None:
        return
    if resource.max_tokens is None:
        raise _wrong("allocation", "it divides max_tokens, which is missing")
    total = fsum((allocation.system, allocation.long_term, allocation.short_term))
    if abs(total - 1) > 1e-6:
        raise _wrong("allocation", f"its shares add up to 1, got {total:g}")


def _check_flushing(resource: WindowResource) -> None:
    flushing = resource.flushing
    if flushing is None:
        return
    if flushing.strategy == "message_count" and flushing.every_messages is None:
        raise _wrong("flushing.every_messages", "the strategy 'message_count' needs it")
    if flushing.strategy == "time" and flushing.every_seconds is None:
        raise _wrong("flushing.every_seconds", "the strategy 'time' needs it")
    if flushing.strategy == "token_threshold" and resource.max_tokens is None:
        raise _wrong("max_tokens", "the strategy 'token_threshold' needs it")
    if flushing.summary_tokens is not None and flushing.summary_tokens * 2 > (resource.max_tokens or 2**63):
        raise _wrong(
            "flushing.summary_tokens",
            f"at most half of max_tokens {resource.max_tokens}, got {flushing.summary_tokens}",
        )


def _wrong(field: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"resource.{field}: {reason}", field=f"resource.{field}")


def put_resource(heads: Heads, body: PutResource, declared: dict[str, Any], sender: str, now: int) -> Decided:
    """Declare a resource. A request that changes nothing appends nothing: programs declare at each of their starts."""
    id = body.resource.id
    head = heads(RESOURCE, id)
    there = None if head is None else head.value
    actual = 0 if head is None or there is None or there.declared is None else head.version
    if body.expect_version is not None and body.expect_version != actual:
        raise RevisionConflict(
            f"resource {id!r} is at version {actual}, {body.expect_version} was expected",
            expected=body.expect_version,
            actual=actual,
        )
    if there is not None and there.declared == declared:
        return Decided((), (actual, there))
    record = ResourceRecord(declared, sender, now)
    return Decided([Append(RESOURCE, id, record)], ((0 if head is None else head.version) + 1, record))


def delete_resource(heads: Heads, id: str, sender: str, now: int) -> Decided:
    head = heads(RESOURCE, id)
    if head is None or head.value is None or head.value.declared is None:
        raise resource_not_found(id)
    return Decided([Append(RESOURCE, id, ResourceRecord(None, sender, now))], head.version + 1)


def resource_not_found(id: str) -> NotFound:
    return NotFound(f"resource {id!r} is not declared", resource=id)
