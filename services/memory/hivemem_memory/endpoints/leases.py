"""The operations on leases: acquire, with or without waiting, renew and release."""

from functools import partial
from typing import Any

from hivemem_contracts.identifiers import derived_id, time_from_microseconds
from hivemem_contracts.memory import operations, replies, requests
from hivemem_memory.decisions.leases import (
    Waiter,
    acquire_lease,
    lease_held,
    lease_of,
    release_lease,
    renew_lease,
)
from hivemem_memory.endpoints.lease_queues import LeaseAddress, LeaseQueues, QueuedRequest
from hivemem_memory.entities.leases import LEASE, Lease, LeaseStep
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.port import Decision, Heads, Ledger, Outcome, Write
from hivemem_runtime.service import Call, Service


def bind(service: Service, queues: LeaseQueues) -> None:
    service.handler(operations.LEASE, partial(acquire, service.ledger, queues))
    service.command(operations.RENEW, plan_renew, answer_renew)
    service.command(operations.RELEASE, plan_release, answer_release)


async def acquire(ledger: Ledger, queues: LeaseQueues, call: Call, body: requests.AcquireLease) -> replies.LeaseGranted:
    """Acquire a lease, after a wait in its queue if requested. A retry finds its ticket on any worker: granted, or
    still at its position in the queue."""
    sender = call.sender
    if body.wait_ms:
        queues.require_room(sender.tenant)
    place = LeaseAddress.of(sender.tenant, body.namespace, body.key)
    ticket = derived_id(call.request_name)
    until = now_microseconds() + body.wait_ms * 1_000
    waiter = Waiter(ticket, sender.agent, body.ttl_ms, until)

    def decide(heads: Heads, now: int) -> Decision:
        return acquire_lease(heads, place.id, waiter, waits=body.wait_ms > 0, now=now)

    outcome = await ledger.commit(call.write(LEASE, place.id, decide))
    step: LeaseStep | None = outcome.record
    if step is not None and step.ticket == ticket:
        return _granted(step)
    if step is not None and step.joined is not None:
        until = Waiter(*step.joined).until
    since = outcome.stamp.version if outcome.stamp is not None else 0
    grant = await queues.until_granted(place, QueuedRequest(ticket, sender.agent, call.message_id, since, until))
    if grant is None:
        raise lease_held(place.id, lease_of(await ledger.head(LEASE, place.tenant, place.id)))
    return _granted(grant)


def plan_renew(call: Call, body: requests.RenewLease) -> Write:
    place = LeaseAddress.of(call.sender.tenant, body.namespace, body.key)
    agent = call.sender.agent
    return call.write(
        LEASE, place.id, lambda heads, now: renew_lease(heads, place.id, agent, body.token, body.ttl_ms, now)
    )


def answer_renew(call: Call, body: Any, outcome: Outcome) -> replies.LeaseGranted:
    return _granted(outcome.record)


def plan_release(call: Call, body: requests.ReleaseLease) -> Write:
    place = LeaseAddress.of(call.sender.tenant, body.namespace, body.key)
    agent = call.sender.agent
    return call.write(LEASE, place.id, lambda heads, now: release_lease(heads, place.id, agent, body.token, now))


def answer_release(call: Call, body: Any, outcome: Outcome) -> replies.LeaseReleased:
    """Answer a release. A retry gets the answer of the first release."""
    return replies.LeaseReleased(released=outcome.record is not None)


def _granted(lease: Lease | LeaseStep) -> replies.LeaseGranted:
    assert lease.expires_at is not None, "it was granted"
    return replies.LeaseGranted(token=lease.token, expires_at=time_from_microseconds(lease.expires_at))
