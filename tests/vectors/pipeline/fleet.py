"""Two workers that share the reactions to the feed, with a real memory worker and a real sessions worker."""

import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from nats.aio.client import Client

from hivemem_contracts.sessions.models import Session
from hivemem_memory.worker import MemorySettings
from hivemem_memory.worker import build as build_memory
from hivemem_runtime.bus.feed.announcer import Announcer
from hivemem_runtime.bus.reactions.consumers import Reactions
from hivemem_runtime.bus.requests.outgoing import Asking
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_runtime.worker import Worker
from hivemem_sessions.worker import SessionsSettings
from hivemem_sessions.worker import build as build_sessions
from hivemem_testing import agent
from hivemem_testing.agent import Body, connect
from hivemem_testing.contract import Server
from hivemem_vectors.pipeline.endpoints.peers import MemoryService, SessionService
from hivemem_vectors.pipeline.entities import ITEM, Item, event_place
from hivemem_vectors.pipeline.reactions import reactions
from hivemem_vectors.stores.edge.store import EdgeVectors
from hivemem_vectors.upkeep.reactions.retries import ItemRetry
from hivemem_vectors.worker import ENTITIES

from .bench import NAMESPACE, Bench, open_ledger, place

SERVICE = "vectors"
ASKING: Final = {"index_events": True}


class Remembering(agent.Agent):
    SERVICE: ClassVar[str] = "memory"

    async def put(self, key: str, value: Any, **fields: Any) -> Body:
        return await self.ask("put", {"namespace": NAMESPACE, "key": key, "value": value, **fields})


class Talking(agent.Agent):
    SERVICE: ClassVar[str] = "sessions"

    async def begin(self, session_id: str, **fields: Any) -> Body:
        body = {"session_id": session_id, "app_name": "app", "user_id": "alice", **fields}
        return await self.ask("create", body)

    async def say(self, session_id: str, event_id: str, content: Any, **fields: Any) -> Body:
        event = {"event_id": event_id, "type": "said", "content": content, **fields}
        return await self.ask("append", {"session_id": session_id, "event": event})


@dataclass
class Fleet:
    client: Client
    memory: Worker
    sessions: Worker
    ledger: SqliteLedger
    bench: Bench
    """The first of two vectors workers, which share an embedder."""
    asking: Asking

    def tenant(self) -> "Tenant":
        name = f"tenant-{uuid.uuid4().hex[:12]}"
        return Tenant(
            self, name, Remembering(self.client, self.memory, name), Talking(self.client, self.sessions, name)
        )


@dataclass
class Tenant:
    """A new tenant."""

    fleet: Fleet
    name: str
    memory: Remembering
    sessions: Talking

    async def session(self, session_id: str) -> Body:
        found: Body = (await self.sessions.ask("get", session_id=session_id))["session"]
        return found

    async def items(self) -> dict[str, Item]:
        found: dict[str, Item] = {}
        cursor: str | None = None
        while True:
            page = await self.fleet.ledger.find(ITEM, self.name, "all", equals={}, cursor=cursor, limit=1_000)
            found |= {head.id: head.value for head in page.items if head.value is not None}
            cursor = page.cursor
            if cursor is None:
                return found

    async def are_indexed(self, versions: dict[str, int | None]) -> bool:
        """Return whether exactly these keys are found, each at its version; None means a deleted memory."""
        return {id: item.indexed for id, item in (await self.items()).items()} == {
            place(key): version for key, version in versions.items()
        }

    async def are_events_indexed(self, session_id: str, ids: Sequence[str]) -> bool:
        found = {id for id, item in (await self.items()).items() if item.indexed is not None}
        return found == {event_place(session_id, id) for id in ids}


@asynccontextmanager
async def running(server: Server, folder: Path) -> AsyncGenerator[Fleet]:
    memory = build_memory(MemorySettings(nats_url=server.url, store="sqlite", data=folder / "memory"))
    sessions = build_sessions(SessionsSettings(nats_url=server.url, store="sqlite", data=folder / "sessions"))
    await memory.start()
    await sessions.start()
    client = await connect(server.url)
    asking, ledger, store = Asking(), open_ledger(folder), EdgeVectors(folder / "edge")
    await asking.start(client)
    await ledger.open()
    announcer = Announcer(ledger, ENTITIES)
    announcer.start(client)
    bench = Bench(ledger, store, memories=MemoryService(asking))
    at_work = [worker_of(server, one, asking) for one in (bench, bench.another())]
    for one in at_work:
        await one.start()
    clock = ItemRetry(ledger, bench.indexer)
    await clock.start(client)
    yield Fleet(client, memory, sessions, ledger, bench, asking)
    await clock.stop()
    for one in at_work:
        await one.stop()
    await announcer.stop()
    await store.close()
    await ledger.close()
    await client.close()
    await sessions.stop()
    await memory.stop()


class AskingSessions(SessionService):
    """The session service, where all sessions ask for their events to be indexed."""

    async def session(self, tenant: str, session_id: str) -> dict[str, Any] | None:
        found = await super().session(tenant, session_id)
        return None if found is None else {**found, "metadata": ASKING}


def worker_of(server: Server, bench: Bench, asking: Asking) -> Reactions:
    at_work = Reactions(server.url, service=SERVICE)
    for reaction in reactions(bench.ledger, bench.indexer, SessionService(asking)):
        at_work.add(reaction)
    return at_work


def session_value(session_id: str, at: str, **fields: Any) -> dict[str, Any]:
    """Return a session in its wire format."""
    session = Session.model_validate(
        {
            "session_id": session_id,
            "app_name": "app",
            "user_id": "alice",
            "status": "created",
            "state": {},
            "metadata": {},
            "revision": 1,
            "event_count": 0,
            "created_at": at,
            "updated_at": at,
            **fields,
        }
    )
    return session.model_dump(mode="json")
