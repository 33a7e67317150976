"""The lease on a window whose resource is locking."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from hivemem_contracts.errors import HiveError
from hivemem_contracts.memory import operations
from hivemem_contracts.memory.models import LeaseClaim
from hivemem_contracts.memory.requests import AcquireLease, ReleaseLease
from hivemem_contracts.windows.models import LEASE_NAMESPACE
from hivemem_contracts.windows.requests import WindowWrite
from hivemem_runtime.bus.requests.outgoing import TIMEOUT_SECONDS, Asking
from hivemem_runtime.clock import elapsed_seconds
from hivemem_runtime.service import Call
from hivemem_windows.decisions.access import require_writer
from hivemem_windows.endpoints.names import window_of
from hivemem_windows.endpoints.resource_rules import ResourceRules

TTL_MS: Final = 10_000
WAIT_MS: Final = 3_000


@dataclass(frozen=True, slots=True)
class HeldLease:
    """The claim of a write, and how long it waited for the lease; None if it did not have to take one."""

    claim: LeaseClaim | None
    waited_ms: int | None = None


class WindowLeases:
    """Takes the lease for a write that has none, from the memory service and in the name of its sender."""

    def __init__(self, asking: Asking, rules: ResourceRules) -> None:
        self._asking, self._rules = asking, rules

    @asynccontextmanager
    async def held(self, call: Call, body: WindowWrite) -> AsyncGenerator[HeldLease]:
        """Hold the lease while a write is done. Raises `LeaseHeld` if another holder keeps it for too long, `Forbidden`
        for a sender that may only read."""
        if body.lease is not None:
            yield HeldLease(body.lease)
            return
        rules = await self._rules.rules(call.sender.tenant, body.resource)
        require_writer(rules.resource, call.sender.agent, body.mode)
        if not rules.resource.locking:
            yield HeldLease(None)
            return
        sender, began = call.sender, elapsed_seconds()
        namespace, key = f"{LEASE_NAMESPACE}:{body.resource}", window_of(body, rules).key
        asked = AcquireLease(namespace=namespace, key=key, ttl_ms=TTL_MS, wait_ms=WAIT_MS)
        granted = await self._asking.ask(
            sender.tenant, sender.agent, operations.LEASE, asked, timeout_seconds=TIMEOUT_SECONDS
        )
        claim = LeaseClaim(namespace=namespace, key=key, token=granted["token"])
        try:
            yield HeldLease(claim, int((elapsed_seconds() - began) * 1_000))
        finally:
            released = ReleaseLease(namespace=namespace, key=key, token=claim.token)
            with suppress(HiveError):  # it ends by itself
                await self._asking.ask(sender.tenant, sender.agent, operations.RELEASE, released)
