"""`tenants` returns every tenant that ever wrote an entity of a kind."""

import asyncio

from hivemem_runtime.ledger.port import Ledger

from .backends import Backend
from .entities import COUNTER, NOTE
from .waiting import announce_all
from .writes import TENANT, Told, count, edit

ODD = ("a", "A", "a b", "ab", "b", "\u00e9", "\uffff", "\U0001f41d", "0", "-")


async def test_each_tenant_is_named_once_and_in_order(backend: Backend, ledger: Ledger) -> None:
    assert await ledger.tenants(NOTE) == []

    told = [Told(tenant=tenant) for tenant in ODD]
    await asyncio.gather(*[ledger.commit(edit(f"n{n}", told=each)) for n in range(5) for each in reversed(told)])
    await ledger.commit(count("c", told=Told(tenant="counts only")))

    for each in (ledger, await backend.open()):
        assert await each.tenants(NOTE) == sorted(ODD)
        assert await each.tenants(COUNTER) == ["counts only"]


async def test_tenant_whose_things_are_erased_is_still_named(ledger: Ledger) -> None:
    await ledger.commit(edit("n"))
    await announce_all(ledger)
    await ledger.erase(NOTE, TENANT, "n", actor="eve", cause=None)

    assert await ledger.tenants(NOTE) == [TENANT]


async def test_many_tenants_are_all_named(ledger: Ledger) -> None:
    tenants = [f"t{number:04}" for number in range(700)]
    await asyncio.gather(*[ledger.commit(count("c", told=Told(tenant=tenant))) for tenant in tenants])

    assert await ledger.tenants(COUNTER) == tenants
