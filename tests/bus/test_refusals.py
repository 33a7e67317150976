"""A service that observes refusals sees each one before the caller does, for requests and commands alike."""

import asyncio
from typing import Any

import orjson
import pytest
from nats.aio.client import Client

from hivemem_contracts.errors import HiveError, Internal, InvalidRequest, RevisionConflict, Unavailable
from hivemem_contracts.streams import DEAD, INGEST
from hivemem_runtime.bus.commands.execution import Commands
from hivemem_runtime.bus.commands.partitions import Partitions
from hivemem_runtime.bus.dead_letters import DeadLetters
from hivemem_runtime.bus.requests.intake import Requests
from hivemem_runtime.service import Call, Service

from .items import AddNumber, items_service
from .memory_ledger import MemoryLedger
from .stored import command, count_in, messages_in
from .waiting import eventually


class Looking:
    """Records the refusals it observes, and fails on demand."""

    def __init__(self) -> None:
        self.refusals: list[tuple[str, str, int | bytes, type[HiveError]]] = []
        self.failures: list[Exception] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def refused(self, call: Call, error: HiveError) -> None:
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        said = call.body.number if isinstance(call.body, AddNumber) else call.body
        assert isinstance(said, int | bytes)
        self.refusals.append((call.operation.name, call.message_id, said, type(error)))

    def at(self, service: Service) -> Service:
        service.on_refused(self.refused)
        return service


def refuse_odd(number: int) -> None:
    if number % 2:
        raise RevisionConflict("odd")


async def refuse_odd_slowly(number: int) -> None:
    refuse_odd(number)


@pytest.fixture
def looking() -> Looking:
    return Looking()


@pytest.fixture
def ledger() -> MemoryLedger:
    return MemoryLedger()


@pytest.fixture
def service(looking: Looking, ledger: MemoryLedger) -> Service:
    return looking.at(items_service(ledger.as_port(), decide=refuse_odd, slowly=refuse_odd_slowly))


class Asking:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, operation: str, number: Any, *, id: str = "m1") -> str | None:
        """Return the name of the error, or None for success."""
        data = number if isinstance(number, bytes) else orjson.dumps({"item": "a", "number": number})
        subject = f"hive.req.acme.bot.items.{operation}"
        message = await self._client.request(subject, data, timeout=10, headers={"Nats-Msg-Id": id})
        error = orjson.loads(message.data).get("error")
        return None if error is None else str(error["name"])


@pytest.fixture
async def ask(client: Client, service: Service) -> Any:
    requests = Requests(client, service, version="1.2.3", health=dict)
    await requests.start()
    yield Asking(client)
    await requests.stop()


@pytest.mark.parametrize("operation", ["add", "add_slowly"])
async def test_a_refused_write_is_looked_at_before_it_is_answered(
    ask: Asking, looking: Looking, operation: str
) -> None:
    looking.gate.clear()
    asking = asyncio.create_task(ask(operation, 1))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await asyncio.shield(asking)
    looking.gate.set()
    assert await asking == "RevisionConflict"
    assert looking.refusals == [(operation, "m1", 1, RevisionConflict)]


async def test_what_does_not_decode_is_looked_at_as_it_came(ask: Asking, looking: Looking) -> None:
    assert await ask("add", b"nonsense") == "InvalidRequest"
    assert await ask("add", 2, id="x" * 300) == "InvalidRequest"
    whole = orjson.dumps({"item": "a", "number": 2})
    assert looking.refusals == [
        ("add", "m1", b"nonsense", InvalidRequest),
        ("add", "x" * 300, whole, InvalidRequest),
    ]


async def test_reads_and_what_may_pass_are_not_looked_at(ask: Asking, looking: Looking, ledger: MemoryLedger) -> None:
    assert await ask("look", b"nonsense") == "InvalidRequest"
    ledger.down = True
    assert await ask("add", 2) == "Unavailable"
    assert looking.refusals == []


async def test_a_fault_of_the_worker_is_looked_at_as_such(looking: Looking, client: Client) -> None:
    def fail(number: int) -> None:
        raise KeyError("secret")

    requests = Requests(
        client, looking.at(items_service(MemoryLedger().as_port(), decide=fail)), version="1.2.3", health=dict
    )
    await requests.start()
    assert await Asking(client)("add", 1) == "Internal"
    await requests.stop()
    assert looking.refusals == [("add", "m1", 1, Internal)]


@pytest.mark.parametrize(("failure", "name"), [(Unavailable("away"), "Unavailable"), (KeyError("secret"), "Internal")])
async def test_a_refusal_that_cannot_be_looked_at_is_not_answered(
    ask: Asking, looking: Looking, failure: Exception, name: str
) -> None:
    looking.failures = [failure]
    assert await ask("add", 1) == name
    assert await ask("add", 1) == "RevisionConflict"


async def test_dead_letters_are_looked_at_before_they_are_stored(
    client: Client, service: Service, looking: Looking, ledger: MemoryLedger
) -> None:
    for number in range(4):
        await command(client, "add", "a", number)
    await command(client, "add_slowly", "a", 5)
    await command(client, "add_slowly", "a", 6)
    await command(client, "add", "a", 7, nonsense=True)
    await command(client, "fly", "a", 9)
    looking.failures = [Unavailable("away"), Unavailable("away")]
    looking.gate.clear()
    partitions = Partitions(client, "items", Commands(service, DeadLetters(client)).handle, partitions=8)
    await partitions.start()
    await eventually(lambda: 0 in ledger.numbers, "the commands are handled")
    assert await messages_in(client, DEAD) == []
    looking.gate.set()

    async def empty() -> bool:
        return await count_in(client, INGEST) == 0

    await eventually(empty, "every command is settled")
    await partitions.stop()
    assert ledger.numbers == [0, 2, 6]
    # At least once: a retry may look again at one behind it.
    assert {(name, id) for name, id, _, _ in looking.refusals} == {
        ("add", "a-1"),
        ("add", "a-3"),
        ("add_slowly", "a-5"),
        ("add", "a-7"),
    }
    assert len(await messages_in(client, DEAD)) == 5
