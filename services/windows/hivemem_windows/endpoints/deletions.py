"""The operations that delete a message, and all messages of a window."""

from functools import partial
from typing import Any

from hivemem_contracts.windows import operations, requests
from hivemem_contracts.windows.replies import MessageDeleted, WindowCleared
from hivemem_runtime.ledger.port import Ledger, Write
from hivemem_runtime.service import Call, Service, earlier_outcome
from hivemem_windows.decisions.endings import clear_window, delete_unit, message_not_found
from hivemem_windows.decisions.windows import Rules, WindowName
from hivemem_windows.endpoints.leases import WindowLeases
from hivemem_windows.endpoints.names import window_of
from hivemem_windows.endpoints.resource_rules import ResourceRules
from hivemem_windows.entities.contents import CONTENT
from hivemem_windows.entities.messages import MESSAGE, MessageRecord, message_place
from hivemem_windows.entities.windows import WINDOW

UNIT_MESSAGES = 1_000


def bind(service: Service, rules: ResourceRules, leases: WindowLeases) -> None:
    service.handler(operations.DELETE, partial(delete_message, service.ledger, rules, leases))
    service.handler(operations.CLEAR, partial(clear, rules, leases))


async def delete_message(
    ledger: Ledger, rules: ResourceRules, leases: WindowLeases, call: Call, body: requests.DeleteMessage
) -> MessageDeleted:
    tenant = call.sender.tenant
    name = window_of(body, await rules.rules(tenant, body.resource))
    outcome = await earlier_outcome(ledger, call, WINDOW, name.id)
    if outcome is None:
        found = await _unit_of(ledger, tenant, name, body.message_id)
        async with leases.held(call, body) as lease:

            async def make(rules: Rules) -> Write:
                def decide(heads: Any, now: int) -> Any:
                    return delete_unit(heads, name, rules, body.message_id, found, lease.claim, now)

                reads = tuple((MESSAGE, message_place(name.id, each.sequence)) for each in found)
                return call.write(WINDOW, name.id, decide, ((CONTENT, name.id), *reads))

            outcome = await rules.commit(call, body, make)
    assert outcome.stamp is not None, "a deletion appends"
    return MessageDeleted(
        key=name.key, **outcome.record.value, version=outcome.stamp.version, duplicate=outcome.duplicate
    )


async def _unit_of(ledger: Ledger, tenant: str, name: WindowName, message_id: str) -> list[MessageRecord]:
    """Return the messages of the unit of a message. Raises `NotFound`."""
    equals = {"window": name.id, "message_id": message_id}
    page = await ledger.find(MESSAGE, tenant, "message_id", equals=equals, limit=1)
    if not page.items or page.items[0].value is None:
        raise message_not_found(name, message_id)
    unit = page.items[0].value.unit
    first = await ledger.head(MESSAGE, tenant, message_place(name.id, unit))
    results = await ledger.find(
        MESSAGE, tenant, "results", equals={"window": name.id, "result_of": unit}, limit=UNIT_MESSAGES
    )
    return [head.value for head in (first, *results.items) if head is not None and head.value is not None]


async def clear(rules: ResourceRules, leases: WindowLeases, call: Call, body: requests.ClearWindow) -> WindowCleared:
    name = window_of(body, await rules.rules(call.sender.tenant, body.resource))
    async with leases.held(call, body) as lease:

        async def make(rules: Rules) -> Write:
            return call.write(WINDOW, name.id, lambda heads, now: clear_window(heads, name, rules, lease.claim, now))

        outcome = await rules.commit(call, body, make)
    assert outcome.stamp is not None, "clearing appends"
    deleted = outcome.record.value["messages"]
    return WindowCleared(key=name.key, deleted=deleted, version=outcome.stamp.version, duplicate=outcome.duplicate)
