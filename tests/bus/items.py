"""A service made for these tests: it appends numbers to items, in every way that an operation can be bound."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from hivemem_contracts.errors import RevisionConflict
from hivemem_contracts.model import ReplyBody, RequestBody
from hivemem_contracts.operations import Operation, ServiceContract
from hivemem_runtime.ledger.entity import Entity, Stamp
from hivemem_runtime.ledger.port import Append, Decision, Heads, Ledger, Outcome, Write
from hivemem_runtime.ledger.sqlite.ledger import SqliteLedger
from hivemem_runtime.service import Call, Service

TENANT = "acme"
AGENT = "bot"


@dataclass(frozen=True, slots=True)
class ItemHead:
    count: int
    last: int


@dataclass(frozen=True, slots=True)
class NumberAdded:
    number: int


def _evolve(head: ItemHead | None, record: NumberAdded, stamp: Stamp) -> ItemHead:
    return ItemHead((head.count if head else 0) + 1, record.number)


ITEM: Entity[ItemHead, NumberAdded] = Entity(
    name="item",
    head=ItemHead,
    record=NumberAdded,
    evolve=_evolve,
    announce=lambda record, stamp: (),
    indexed=lambda head: {},
)


class AddNumber(RequestBody):
    item: str = Field(min_length=1)
    number: int
    expect_last: int | None = None


class NumberReply(ReplyBody):
    version: int


ADD = Operation("items", "add", AddNumber, NumberReply, summary="One commit.", writes=True, route="item")
ADD_SLOWLY = Operation("items", "add_slowly", AddNumber, NumberReply, summary="Steps.", writes=True, route="item")
LOOK = Operation("items", "look", AddNumber, NumberReply, summary="A read.", route="item")
ITEMS = ServiceContract("items", "Numbers added to items.", (ADD, ADD_SLOWLY, LOOK))

Hook = Callable[[int], None]


def items_service(
    ledger: Ledger, *, decide: Hook | None = None, slowly: Callable[[int], Awaitable[None]] | None = None
) -> Service:
    """Build the service. `decide` runs inside each decision, `slowly` between the steps of the slow one; both get the
    number."""
    service = Service(ITEMS, ledger)

    def plan(call: Call, body: AddNumber) -> Write:
        def decision(heads: Heads, now: int) -> Decision:
            if decide is not None:
                decide(body.number)
            head = heads(ITEM, body.item)
            last = head.value.last if head is not None and head.value is not None else None
            if body.expect_last is not None and last != body.expect_last:
                raise RevisionConflict("not the last number", expected=body.expect_last, actual=last)
            return [Append(ITEM, body.item, NumberAdded(body.number))]

        return Write(
            tenant=call.sender.tenant,
            actor=call.sender.agent,
            entity=ITEM,
            id=body.item,
            decide=decision,
            request_id=call.request_id,
            cause=call.message_id,
        )

    async def answer(call: Call, body: AddNumber, outcome: Outcome) -> NumberReply:
        return NumberReply(version=outcome.stamp.version if outcome.stamp else 0)

    async def add_slowly(call: Call, body: AddNumber) -> NumberReply:
        await asyncio.sleep(0)
        if slowly is not None:
            await slowly(body.number)
        return await answer(call, body, await ledger.commit(plan(call, body)))

    async def look(call: Call, body: AddNumber) -> NumberReply:
        return NumberReply(version=0)

    service.command(ADD, plan, answer)
    service.handler(ADD_SLOWLY, add_slowly)
    service.handler(LOOK, look)
    return service


def sqlite_ledger(path: Path) -> SqliteLedger:
    return SqliteLedger(path, [ITEM])


async def numbers_of(ledger: Ledger, item: str, tenant: str = TENANT) -> list[int]:
    """Return the numbers that were added to an item, in commit order."""
    found = await ledger.history(ITEM, tenant, item, limit=100_000)
    return [record.value.number for record in found]


async def count_of(ledger: Ledger, items: list[str]) -> int:
    heads = await ledger.heads(ITEM, TENANT, items)
    return sum(head.value.count for head in heads.values() if head.value is not None)


def body(item: str, number: int, **more: Any) -> dict[str, Any]:
    return {"item": item, "number": number, **more}
