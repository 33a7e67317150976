"""Fills the fleet before the cases begin, and collects the ids and cursors that it answers."""

import asyncio
from random import Random
from typing import Any, Final

from nats.aio.client import Client

from hivemem_contracts.catalog import SERVICES
from hivemem_contracts.operations import AnyOperation
from hivemem_runtime.ledger.cursor import encode_cursor

from ..chaos.asking import Asking, Refused
from .bodies import BASE64, GONE_WORKSPACE, IDS, NAMESPACES, POOLS, WORKSPACES, Bodies, Known
from .cases import AGENT, OPERATIONS, TENANT

UPLOADS: Final = 8
PAGES: Final = 30
MACHINE: Final = {
    "initial": "a",
    "states": ["a", "b"],
    "transitions": [{"from": "a", "event": "go", "to": "b"}, {"from": "b", "event": "go", "to": "a"}],
    "open": True,
}


class Filling:
    """One agent that writes a little of everything."""

    def __init__(self, client: Client, seed: int) -> None:
        self._asking = {service.name: Asking(client, service.name, AGENT, TENANT) for service in SERVICES}
        self._seed = seed
        self.known = Known()

    async def fill(self) -> Known:
        await self._ask("sessions", "machine_put", name="machine", definition=MACHINE)
        await self._ask("agents", "workflow_put", name="machine", definition={"steps": [{"id": "a"}, {"id": "b"}]})
        for number in range(5):
            await self._ask("agents", "run_start", name="machine", run_id=f"run{number}")
        await asyncio.gather(*map(self._fill_session, IDS), *map(self._fill_namespace, NAMESPACES))
        for number in range(5):
            await self._ask("vectors", "store", id=f"v{number}", embedding=[0.1, 0.2, number])
        await asyncio.gather(*map(self._fill_windows, ("chat", "gone")))
        await self._begin_uploads()
        await asyncio.gather(*map(self._fill_workspace, (*WORKSPACES, GONE_WORKSPACE)))
        receipt = await self._ask("memory", "erase", namespace=NAMESPACES[-1])
        self.known.receipts.append(receipt["receipt"])
        await asyncio.gather(*(self._collect_cursors(operation) for operation in OPERATIONS if takes_cursor(operation)))
        return self.known

    async def _fill_session(self, id: str) -> None:
        state = {"l": list(range(200)), "s": "x" * 500, "n": 5, "user:name": "ann"}
        await self._ask("sessions", "create", session_id=id, app_name="crm", user_id="ann", initial_state=state)
        for number in range(3):
            await self._ask("sessions", "append", session_id=id, event={"type": "message", "content": {"a": number}})
            await self._ask("artifacts", "save", session_id=id, name="a.txt", data_base64=BASE64[number])
        await self._ask("artifacts", "save", session_id=id, name="b/c.bin", data_base64=BASE64[2])

    async def _fill_namespace(self, namespace: str) -> None:
        for key in ("k0", "k1", "k2"):
            for number in range(3):
                value = {"text": f"ann likes tea {number}"}
                await self._ask("memory", "put", namespace=namespace, key=key, value=value)

    async def _fill_windows(self, id: str) -> None:
        resource = {"id": id, "type": "message", "key": "k{{ n }}", "max_messages": 5}
        await self._ask("windows", "resource_put", resource=resource)
        for key in POOLS["key"]:
            for number in range(3):
                message = {"role": "user", "content": f"message {number}"}
                await self._ask("windows", "append", resource=id, key=key, message=message, message_id=f"m{number}")

    async def _fill_workspace(self, id: str) -> None:
        saved = await self._ask("artifacts", "workspace_save", workspace_id=id, blobs=[{"data_base64": BASE64[1]}])
        for number in range(1, 4):
            files = [{"path": f"{number}{name}", **saved["items"][0]} for name in ("a", "b/c")]
            await self._ask("artifacts", "workspace_commit", workspace_id=id, files=files)

    async def _begin_uploads(self) -> None:
        for number in range(UPLOADS):
            upload = await self._ask("artifacts", "begin", session_id="s1", name=f"u{number}")
            self.known.chunk_subjects.append(upload["chunk_subject"])
            if number % 2:
                self.known.upload_ids.append(upload["upload_id"])

    async def _collect_cursors(self, operation: AnyOperation) -> None:
        """Request pages of one item. An operation without a second page gets a made-up cursor."""
        bodies, random = Bodies(operation, Known()), Random(f"{self._seed} {operation.full_name}")
        found: list[str] = []
        for _ in range(PAGES):
            body = {name: value for name, value in bodies.make(random).items() if name != "cursor"}
            if "limit" in operation.request.model_fields:
                body["limit"] = 1
            try:
                answer = await self._asking[operation.service].request(operation.name, body, seconds=10.0)
            except Refused:
                continue
            if answer.get("cursor"):
                found.append(answer["cursor"])
        self.known.cursors[operation.full_name] = found or [encode_cursor("list", "00", 1, "a")]

    async def _ask(self, service: str, operation: str, **body: Any) -> dict[str, Any]:
        return await self._asking[service].request(operation, body, seconds=10.0)


def takes_cursor(operation: AnyOperation) -> bool:
    return "cursor" in operation.request.model_fields
