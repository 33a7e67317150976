"""The ways into Hivemem: through its library, and by a plain NATS client to show the cost of the library."""

from typing import Any, Final, Protocol

import orjson
from nats.aio.client import Client

import hivemem
from benchmarks.agents.step import AGENT, TENANT, proposal, result
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.streams import MESSAGE_ID
from hivemem_contracts.subjects import request_subject
from hivemem_runtime.bus.connection import connect

TIMEOUT_SECONDS: Final = 20.0
OPERATIONS: Final = (
    "register",
    "cycle_begin",
    "propose",
    "complete",
    "workflow_put",
    "run_start",
    "step_claim",
    "step_report",
)


class Contender(Protocol):
    """A place where agents keep how far they are."""

    @property
    def name(self) -> str: ...

    async def register(self, agent: str) -> None: ...

    async def begin(self, agent: str, number: int) -> None:
        """Begin a cycle; its numbers grow from 1."""
        ...

    async def propose(self, agent: str, number: int) -> None: ...

    async def complete(self, agent: str, number: int) -> None: ...

    async def close(self) -> None: ...


async def cycle(contender: Contender, agent: str, number: int) -> None:
    """Go through a whole cycle."""
    await contender.begin(agent, number)
    await contender.propose(agent, number)
    await contender.complete(agent, number)


class HivememContender:
    """The client library, as agents use it."""

    def __init__(self, name: str, hive: hivemem.Hive) -> None:
        self.name = name
        self.hive = hive

    @classmethod
    async def connect(cls, name: str, url: str) -> "HivememContender":
        return cls(name, await hivemem.connect(url, tenant=TENANT, agent=AGENT, timeout_seconds=TIMEOUT_SECONDS))

    async def register(self, agent: str) -> None:
        await self.hive.agents.register(agent_id=agent)

    async def begin(self, agent: str, number: int) -> None:
        begun = await self.hive.agents.cycle_begin(agent_id=agent)
        if begun.number != number:
            raise RuntimeError(f"{agent} began cycle {begun.number} instead of {number}")

    async def propose(self, agent: str, number: int) -> None:
        fields: Any = proposal(number)
        await self.hive.agents.propose(agent_id=agent, number=number, **fields)

    async def complete(self, agent: str, number: int) -> None:
        fields: Any = result(number)
        await self.hive.agents.complete(agent_id=agent, number=number, **fields)

    async def close(self) -> None:
        await self.hive.close()


class PlainNatsContender:
    """Requests by hand, with nothing but a NATS client and a JSON encoder."""

    def __init__(self, name: str, client: Client) -> None:
        self.name = name
        self._client = client
        self._subjects = {operation: request_subject(TENANT, AGENT, "agents", operation) for operation in OPERATIONS}

    @classmethod
    async def connect(cls, name: str, url: str) -> "PlainNatsContender":
        return cls(name, await connect(url, "benchmark"))

    async def register(self, agent: str) -> None:
        await self.ask("register", {"agent_id": agent})

    async def begin(self, agent: str, number: int) -> None:
        await self.ask("cycle_begin", {"agent_id": agent})

    async def propose(self, agent: str, number: int) -> None:
        await self.ask("propose", {"agent_id": agent, "number": number, **proposal(number)})

    async def complete(self, agent: str, number: int) -> None:
        await self.ask("complete", {"agent_id": agent, "number": number, **result(number)})

    async def close(self) -> None:
        await self._client.close()

    async def ask(self, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        message = await self._client.request(
            self._subjects[operation], orjson.dumps(body), TIMEOUT_SECONDS, headers={MESSAGE_ID: new_id()}
        )
        answer: dict[str, Any] = orjson.loads(message.data)
        if isinstance(answer.get("error"), dict) and "retryable" in answer["error"]:
            raise RuntimeError(f"agents.{operation}: {answer['error']}")
        return answer
