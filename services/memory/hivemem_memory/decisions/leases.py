"""The rules of leases: who holds one, the queue of waiters, and the writes that a lease permits.

The queue is part of the lease, so all workers see the same order. A lease ends at its expiry time even if the holder
crashed; the next reader records the end.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from hivemem_contracts.errors import InvalidRequest, LeaseHeld, RevisionConflict
from hivemem_contracts.identifiers import covers, format_microseconds
from hivemem_contracts.limits import LEASE_WAITERS
from hivemem_contracts.memory.models import LeaseClaim
from hivemem_memory.entities.leases import LEASE, Lease, step_between
from hivemem_runtime.ledger.places import namespace_and_key, place_of
from hivemem_runtime.ledger.port import Append, Decision, Head, Heads


class Waiter(NamedTuple):
    """An entry in the queue of a lease."""

    ticket: str
    agent: str
    ttl_ms: int
    until: int


def require_claim(heads: Heads, claim: LeaseClaim, namespace: str, key: str, now: int) -> None:
    """Refuse a write if its lease does not cover the key, or is no longer held under this token."""
    if claim.key is None:
        covered = covers(claim.namespace, namespace)
    else:
        covered = (claim.namespace, claim.key) == (namespace, key)
    place = place_of(claim.namespace, claim.key)
    if not covered:
        raise InvalidRequest(f"lease: {_named(place)} does not cover key {key!r} of {namespace!r}", field="lease")
    _require_token(lease_of(heads(LEASE, place)), place, claim.token, now)


def acquire_lease(heads: Heads, place: str, waiter: Waiter, *, waits: bool, now: int) -> Decision:
    """Grant the lease if it is free and nobody waits for it. Otherwise join the queue, or refuse."""
    before = lease_of(heads(LEASE, place))
    if before.ticket == waiter.ticket or is_waiting(before, waiter.ticket):
        return []  # a retry that came after the ledger forgot its idempotency key
    lease = _settled(before, now)
    if lease.holder is None:
        return _write(place, before, _granted(lease.token, waiter, [], now))
    if not waits:
        raise lease_held(place, lease)
    if len(lease.waiters) >= LEASE_WAITERS:
        raise lease_held(place, lease, f", and {LEASE_WAITERS} wait for it")
    return _write(place, before, _queued(before, lease, [*lease.waiters, list(waiter)]))


def renew_lease(heads: Heads, place: str, agent: str, token: int, ttl_ms: int | None, now: int) -> Decision:
    """Prolong the lease for its holder, counted from now. An expired lease cannot be prolonged, because another
    agent may have held it since."""
    lease = lease_of(heads(LEASE, place))
    _require_token(lease, place, token, now)
    _require_holder(lease, place, agent)
    expires_at = _after(now, ttl_ms or lease.ttl_ms)
    renewed = replace(lease, change="renewed", expires_at=expires_at, waiters=_present(lease, now))
    return _write(place, lease, renewed)


def release_lease(heads: Heads, place: str, agent: str, token: int, now: int) -> Decision:
    """Release the lease and grant it to the first waiter. Does nothing if the lease has already ended."""
    lease = lease_of(heads(LEASE, place))
    if lease.token != token or not _is_held(lease, now):
        return []
    _require_holder(lease, place, agent)
    return _write(place, lease, _handed_over(lease, _present(lease, now), now, "released"))


def end_lease(heads: Heads, place: str, now: int) -> Decision:
    """Grant an expired lease to the first waiter. Any number of workers may try."""
    lease = lease_of(heads(LEASE, place))
    return [] if lease.holder is None or _is_held(lease, now) else _write(place, lease, _settled(lease, now))


def give_up(heads: Heads, place: str, ticket: str, now: int) -> Decision:
    """Leave the queue, unless the lease was granted at the same moment. Does nothing if the ticket is not in the
    queue."""
    before = lease_of(heads(LEASE, place))
    if not is_waiting(before, ticket):
        return []
    lease = _settled(before, now, ticket)
    if lease.ticket == ticket:
        return _write(place, before, lease)
    staying = [waiter for waiter in lease.waiters if waiter[0] != ticket]
    return _write(place, before, _queued(before, lease, staying))


def lease_of(head: Head[Lease] | None) -> Lease:
    """Return the lease as last written. After an erasure, new fencing tokens continue above all earlier ones."""
    if head is None:
        return Lease("released", 0)
    return Lease("released", head.version) if head.value is None else head.value


def is_waiting(lease: Lease, ticket: str) -> bool:
    return any(waiter[0] == ticket for waiter in lease.waiters)


def lease_held(place: str, lease: Lease, more: str = "") -> LeaseHeld:
    expires_at = None if lease.expires_at is None else format_microseconds(lease.expires_at)
    # If nobody holds the lease now, other agents held it during the whole wait.
    held = "was held by others" if lease.holder is None else f"is held by {lease.holder!r} until {expires_at}"
    return LeaseHeld(
        f"{_named(place)} {held}{more}",
        holder=lease.holder,
        expires_at=expires_at,
        waiting=len(lease.waiters),
    )


def _require_token(lease: Lease, place: str, token: int, now: int) -> None:
    if not _is_held(lease, now):
        raise RevisionConflict(
            f"{_named(place)} has ended: its newest token is {lease.token}, {token} was named",
            expected=token,
            actual=lease.token,
        )
    if lease.token != token:
        raise lease_held(place, lease, f" under token {lease.token}, {token} was named")


def _require_holder(lease: Lease, place: str, agent: str) -> None:
    if lease.holder != agent:
        raise lease_held(place, lease, ", who alone may renew or release it")


def _is_held(lease: Lease, now: int) -> bool:
    return lease.expires_at is not None and lease.expires_at > now


def _settled(lease: Lease, now: int, asking: str | None = None) -> Lease:
    """Return the state of a lease at a time. Waiters past their deadline are skipped, except the ticket `asking`."""
    waiters = _present(lease, now, asking)
    return replace(lease, waiters=waiters) if _is_held(lease, now) else _handed_over(lease, waiters, now, "expired")


def _present(lease: Lease, now: int, asking: str | None = None) -> list[list[Any]]:
    return [waiter for waiter in lease.waiters if waiter[3] > now or waiter[0] == asking]


def _handed_over(lease: Lease, waiters: list[list[Any]], now: int, otherwise: str) -> Lease:
    if not waiters:
        return Lease(otherwise, lease.token)
    return _granted(lease.token, Waiter(*waiters[0]), waiters[1:], now)


def _granted(last_token: int, waiter: Waiter, waiters: list[list[Any]], now: int) -> Lease:
    expires_at = _after(now, waiter.ttl_ms)
    return Lease("acquired", last_token + 1, waiter.agent, waiter.ticket, waiter.ttl_ms, expires_at, waiters)


def _queued(before: Lease, lease: Lease, waiters: list[list[Any]]) -> Lease:
    """Return the lease with another queue. If the step also granted the lease, the grant is what it announces."""
    change = "awaited" if lease.token == before.token else "acquired"
    return replace(lease, change=change, waiters=waiters)


def _after(now: int, milliseconds: int) -> int:
    return now + milliseconds * 1_000


def _write(place: str, before: Lease, lease: Lease) -> Decision:
    return [Append(LEASE, place, step_between(before, lease))]


def _named(place: str) -> str:
    namespace, key = namespace_and_key(place)
    return f"the lease on {namespace!r}" if key is None else f"the lease on key {key!r} of {namespace!r}"
