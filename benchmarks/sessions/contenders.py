"""The ways into Hivemem: through its library, and by a plain NATS client to show the cost of the library."""

from typing import Any, Final, Protocol

import nats.errors
import orjson
from nats.aio.client import Client

import hivemem
from benchmarks.sessions.event import AGENT, APP, KIND, TENANT, USER, append_body, content, delta
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.streams import MESSAGE_ID
from hivemem_contracts.subjects import request_subject
from hivemem_runtime.bus.connection import connect

BATCH: Final = 1_000
TIMEOUT_SECONDS: Final = 20


class Refused(Exception):
    """A failed append. It is counted, and the run continues."""


class Contender(Protocol):
    """A store of sessions, as one agent uses it."""

    @property
    def name(self) -> str: ...

    async def create(self, session: str) -> None: ...

    def prepare(self, session: str, number: int) -> Any:
        """Return the event in the form of this contender."""
        ...

    async def append(self, event: Any) -> None: ...

    async def newest(self, session: str, count: int) -> int:
        """Read a session with its newest events, and return their number."""
        ...

    async def fill(self, session: str, first: int, count: int) -> None:
        """Give the session a history, in the fastest way."""
        ...

    async def close(self) -> None: ...


class HivememContender:
    """The client library, as agents use it."""

    def __init__(self, name: str, hive: hivemem.Hive) -> None:
        self.name = name
        self.hive = hive
        self._content = content()

    @classmethod
    async def connect(cls, name: str, url: str) -> "HivememContender":
        return cls(name, await hivemem.connect(url, tenant=TENANT, agent=AGENT))

    async def create(self, session: str) -> None:
        await self.hive.sessions.create(session_id=session, app_name=APP, user_id=USER)

    def prepare(self, session: str, number: int) -> tuple[str, hivemem.NewEvent, dict[str, Any]]:
        return session, hivemem.NewEvent(type=KIND, author=AGENT, content=self._content), delta(number)

    async def append(self, event: tuple[str, hivemem.NewEvent, dict[str, Any]]) -> None:
        session, new, changed = event
        try:
            await self.hive.sessions.append(session_id=session, event=new, state_delta=changed)
        except hivemem.HiveError as error:
            raise Refused(str(error)) from error

    async def newest(self, session: str, count: int) -> int:
        view = await self.hive.sessions.get(session_id=session, events=count)
        return len(view.events)

    async def fill(self, session: str, first: int, count: int) -> None:
        for start in range(first, first + count, BATCH):
            numbers = range(start, min(start + BATCH, first + count))
            body = {"appends": [append_body(session, number) for number in numbers]}
            await self.hive.request("sessions.append_batch", body)

    async def close(self) -> None:
        await self.hive.close()


class PlainNatsContender:
    """Requests by hand, with nothing but a NATS client and a JSON encoder."""

    def __init__(self, name: str, client: Client) -> None:
        self.name = name
        self._client = client
        self._subjects = {
            operation: request_subject(TENANT, AGENT, "sessions", operation)
            for operation in ("create", "append", "append_batch", "get")
        }

    @classmethod
    async def connect(cls, name: str, url: str) -> "PlainNatsContender":
        return cls(name, await connect(url, "benchmark"))

    async def create(self, session: str) -> None:
        await self._ask("create", {"session_id": session, "app_name": APP, "user_id": USER})

    def prepare(self, session: str, number: int) -> tuple[bytes, dict[str, str]]:
        return orjson.dumps(append_body(session, number)), {MESSAGE_ID: new_id()}

    async def append(self, event: tuple[bytes, dict[str, str]]) -> None:
        payload, headers = event
        answer = await self._client.request(self._subjects["append"], payload, TIMEOUT_SECONDS, headers=headers)
        if "error" in orjson.loads(answer.data):
            raise Refused(answer.data.decode())

    async def newest(self, session: str, count: int) -> int:
        return len((await self._ask("get", {"session_id": session, "events": count}))["events"])

    async def fill(self, session: str, first: int, count: int) -> None:
        for start in range(first, first + count, BATCH):
            numbers = range(start, min(start + BATCH, first + count))
            await self._ask("append_batch", {"appends": [append_body(session, number) for number in numbers]})

    async def close(self) -> None:
        await self._client.close()

    async def _ask(self, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {MESSAGE_ID: new_id()}
        try:
            message = await self._client.request(
                self._subjects[operation], orjson.dumps(body), TIMEOUT_SECONDS, headers=headers
            )
        except (TimeoutError, nats.errors.Error) as error:
            raise Refused(f"sessions.{operation}: {error!r}") from error
        answer: dict[str, Any] = orjson.loads(message.data)
        if "error" in answer:
            raise Refused(str(answer["error"]))
        return answer
