"""The operation that flushes a window now."""

import asyncio
from functools import partial
from typing import Any, Final

from hivemem_contracts.errors import IllegalTransition, Unavailable
from hivemem_contracts.identifiers import derived_id
from hivemem_contracts.windows import operations, requests
from hivemem_contracts.windows.replies import WindowFlushed
from hivemem_runtime.clock import elapsed_seconds
from hivemem_runtime.ledger.port import Ledger, Write, value_of
from hivemem_runtime.service import Call, Service
from hivemem_windows.decisions.flushing import ask_flush
from hivemem_windows.decisions.windows import Rules
from hivemem_windows.endpoints.flusher import Flusher
from hivemem_windows.endpoints.leases import WindowLeases
from hivemem_windows.endpoints.names import window_of
from hivemem_windows.endpoints.resource_rules import ResourceRules
from hivemem_windows.entities.contents import CONTENT
from hivemem_windows.entities.messages import FLUSH, flush_place

WAIT_SECONDS: Final = 30.0
"""How long a request waits while another worker flushes; a repetition waits on."""
LOOK_SECONDS: Final = 0.1


def bind(service: Service, rules: ResourceRules, leases: WindowLeases, flusher: Flusher) -> None:
    service.handler(operations.FLUSH, partial(flush, service.ledger, rules, leases, flusher))


async def flush(
    ledger: Ledger,
    rules: ResourceRules,
    leases: WindowLeases,
    flusher: Flusher,
    call: Call,
    body: requests.FlushWindow,
) -> WindowFlushed:
    tenant = call.sender.tenant
    flush_id = derived_id("flush", call.request_name)
    name = window_of(body, await rules.rules(tenant, body.resource))
    async with leases.held(call, body) as lease:

        async def make(rules: Rules) -> Write:
            def decide(heads: Any, now: int) -> Any:
                return ask_flush(heads, name, rules, flush_id, body.strategy, lease.claim, now)

            return call.write(CONTENT, name.id, decide)

        asked = await rules.commit(call, body, make)
    deadline = elapsed_seconds() + WAIT_SECONDS
    while True:
        await flusher.flush(tenant, name.id)
        content = value_of(await ledger.head(CONTENT, tenant, name.id))
        done = value_of(await ledger.head(FLUSH, tenant, flush_place(name.id, flush_id)))
        if done is not None:
            return WindowFlushed(key=name.key, **done.outcome, duplicate=asked.duplicate)
        if content is None or content.flush is None:
            raise IllegalTransition(f"window {name.key!r} was cleared before it was flushed", allowed=[])
        if elapsed_seconds() > deadline:
            raise Unavailable("another worker is flushing this window", retry_after_ms=1_000)
        await asyncio.sleep(LOOK_SECONDS)
