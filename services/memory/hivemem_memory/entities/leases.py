"""Leases: the holder, the expiry time, the fencing token and the queue."""

from dataclasses import dataclass, field
from typing import Any, Final

from hivemem_contracts.identifiers import format_microseconds
from hivemem_memory.entities.memories import memory_address
from hivemem_runtime.ledger.entity import Announcement, Entity, Stamp
from hivemem_runtime.ledger.places import namespace_and_key, place_of


@dataclass(frozen=True, slots=True)
class Lease:
    """The newest state of a lease. `change` names the last change: acquired, renewed, released, expired, or awaited for
    a change of the queue.

    `token` belongs to the current or last holder. `ticket` is the request that got the lease. A waiter is `[ticket,
    agent, ttl in ms, deadline]`, in queue order.
    """

    change: str
    token: int
    holder: str | None = None
    ticket: str | None = None
    ttl_ms: int = 0
    expires_at: int | None = None
    waiters: list[list[Any]] = field(default_factory=list[list[Any]])


@dataclass(frozen=True, slots=True)
class LeaseStep:
    """One change of a lease. It stores only the difference of the queue, because a queue may be long."""

    change: str
    token: int
    holder: str | None
    ticket: str | None
    ttl_ms: int
    expires_at: int | None
    waiting: int
    joined: list[Any] | None = None
    left: list[str] = field(default_factory=list[str])


def step_between(before: Lease, after: Lease) -> LeaseStep:
    """Return the record that turns one state of a lease into the next. At most one waiter joins, at the end of the
    queue."""
    known = {waiter[0] for waiter in before.waiters}
    staying = {waiter[0] for waiter in after.waiters}
    return LeaseStep(
        after.change,
        after.token,
        after.holder,
        after.ticket,
        after.ttl_ms,
        after.expires_at,
        len(after.waiters),
        next((waiter for waiter in after.waiters[-1:] if waiter[0] not in known), None),
        [waiter[0] for waiter in before.waiters if waiter[0] not in staying],
    )


def evolve_lease(before: Lease | None, step: LeaseStep, stamp: Stamp) -> Lease:
    left = set(step.left)
    waiters = [] if before is None else [waiter for waiter in before.waiters if waiter[0] not in left]
    if step.joined is not None:
        waiters.append(step.joined)
    return Lease(step.change, step.token, step.holder, step.ticket, step.ttl_ms, step.expires_at, waiters)


def announce_lease(step: LeaseStep, stamp: Stamp) -> tuple[Announcement, ...]:
    namespace, key = namespace_and_key(stamp.id)
    value = {
        "holder": step.holder,
        "token": step.token,
        "expires_at": None if step.expires_at is None else format_microseconds(step.expires_at),
        "waiting": step.waiting,
    }
    address = memory_address(namespace, key)
    previous = stamp.version - 1 or None
    return (Announcement("lease", step.change, address, namespace, stamp.version, previous, value, key),)


LEASE: Final = Entity(
    name="lease",
    head=Lease,
    record=LeaseStep,
    evolve=evolve_lease,
    announce=announce_lease,
    told_as={"lease": place_of},
    indexed=lambda head: {},
)
