"""The ways into Hivemem: through its library, and by a plain NATS client to show the cost of the library."""

from datetime import datetime
from typing import Any, Final, Protocol

import orjson
from nats.aio.client import Client

import hivemem
from benchmarks.memory.item import AGENT, TENANT, namespace, put_body, value
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.streams import MESSAGE_ID
from hivemem_contracts.subjects import request_subject
from hivemem_runtime.bus.connection import connect

TIMEOUT_SECONDS: Final = 60.0
PAGE: Final = 1_000


class Contender(Protocol):
    """A store of memories, as one agent uses it. `name` is the name of a namespace, see `item.namespace`."""

    @property
    def name(self) -> str: ...

    async def put(self, name: str, key: str, number: int) -> None: ...

    async def get(self, name: str, key: str) -> int:
        """Read a memory, and return the number in its value."""
        ...

    async def put_batch(self, name: str, first: int, count: int) -> None:
        """Put memories with their numbers as keys, in one call."""
        ...

    async def list(self, name: str, limit: int) -> int:
        """List the first memories below a prefix, and return their number."""
        ...

    async def close(self) -> None: ...


class HivememContender:
    """The client library, as agents use it."""

    def __init__(self, name: str, hive: hivemem.Hive) -> None:
        self.name = name
        self.hive = hive

    @classmethod
    async def connect(cls, name: str, url: str) -> "HivememContender":
        options = {"timeout_seconds": TIMEOUT_SECONDS, "attempt_seconds": TIMEOUT_SECONDS}
        return cls(name, await hivemem.connect(url, tenant=TENANT, agent=AGENT, **options))

    async def put(self, name: str, key: str, number: int) -> None:
        await self.hive.memory.put(namespace=namespace(name), key=key, value=value(number))

    async def get(self, name: str, key: str) -> int:
        found: Any = (await self.hive.memory.get(namespace=namespace(name), key=key)).value
        return int(found["number"])

    async def put_batch(self, name: str, first: int, count: int) -> None:
        puts = [put_body(name, str(number), number) for number in range(first, first + count)]
        await self.hive.request("memory.put_batch", {"puts": puts})

    async def list(self, name: str, limit: int) -> int:
        return len((await self.hive.memory.list(prefix=namespace(name), limit=limit)).items)

    async def history(self, name: str, key: str, limit: int) -> int:
        return len((await self.hive.memory.history(namespace=namespace(name), key=key, limit=limit)).items)

    async def get_as_of(self, name: str, key: str, moment: datetime) -> int:
        return (await self.hive.memory.get(namespace=namespace(name), key=key, as_of=moment)).version

    async def snapshot(self, name: str) -> int:
        """Read a snapshot of a namespace, page by page, and return the number of memories."""
        page = await self.hive.memory.snapshot(namespace=namespace(name), limit=PAGE)
        count = len(page.items)
        while page.cursor is not None:
            page = await self.hive.memory.snapshot(namespace=namespace(name), limit=PAGE, cursor=page.cursor)
            count += len(page.items)
        return count

    async def close(self) -> None:
        await self.hive.close()


class PlainNatsContender:
    """Requests by hand, with nothing but a NATS client and a JSON encoder."""

    def __init__(self, name: str, client: Client) -> None:
        self.name = name
        self._client = client
        self._subjects = {
            operation: request_subject(TENANT, AGENT, "memory", operation)
            for operation in ("put", "get", "put_batch", "list")
        }

    @classmethod
    async def connect(cls, name: str, url: str) -> "PlainNatsContender":
        return cls(name, await connect(url, "benchmark"))

    async def put(self, name: str, key: str, number: int) -> None:
        await self._ask("put", put_body(name, key, number))

    async def get(self, name: str, key: str) -> int:
        return int((await self._ask("get", {"namespace": namespace(name), "key": key}))["value"]["number"])

    async def put_batch(self, name: str, first: int, count: int) -> None:
        puts = [put_body(name, str(number), number) for number in range(first, first + count)]
        results = (await self._ask("put_batch", {"puts": puts}))["results"]
        refused = next((result["error"] for result in results if result.get("error")), None)
        if refused:
            raise RuntimeError(f"memory.put_batch: {refused}")

    async def list(self, name: str, limit: int) -> int:
        return len((await self._ask("list", {"prefix": namespace(name), "limit": limit}))["items"])

    async def close(self) -> None:
        await self._client.close()

    async def _ask(self, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        message = await self._client.request(
            self._subjects[operation], orjson.dumps(body), TIMEOUT_SECONDS, headers={MESSAGE_ID: new_id()}
        )
        answer: dict[str, Any] = orjson.loads(message.data)
        if "error" in answer:
            raise RuntimeError(f"memory.{operation}: {answer['error']}")
        return answer
