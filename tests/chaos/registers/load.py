"""The load: agents read a register and write it on condition that nobody has written it since."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from nats.aio.client import Client

from .. import journal
from ..asking import Asking, Refused
from .checker import History, Operation

WRITERS: Final = 4
"""The number of writers of each register."""
_THINK_SECONDS: Final = 0.004
_READS_ALONE: Final = 0.3
_NAMESPACE: Final = "project:registers"
_SLOT: Final = "written"


@dataclass(slots=True)
class Journal(journal.Journal):
    operations: list[Operation] = field(default_factory=list[Operation])

    def acknowledged(self) -> int:
        return len(self.operations)

    def answered(self) -> int:
        return len(self.operations)

    def summary(self) -> str:
        kinds = [operation.kind for operation in self.operations]
        return ", ".join(f"{kind} {kinds.count(kind)}" for kind in ("read", "write", "refused"))


class Register(Protocol):
    """A versioned value. A write stores its own id as the value."""

    name: str

    async def create(self, client: Client) -> None: ...

    async def read(self, client: Client) -> tuple[int, str]:
        """Return the version, and the id of the write that made it."""
        ...

    async def write(self, client: Client, id: str, expected: int) -> int:
        """Write and return the new version. Raises `Refused`."""
        ...

    async def history(self, client: Client) -> History: ...


class SessionRegister:
    """The revision of a session, changed alternately by events and by its state alone."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def create(self, client: Client) -> None:
        body = {"session_id": self.name, "app_name": "registers", "user_id": "alice"}
        await Asking(client, "sessions").request("create", body, f"create-{self.name}")

    async def read(self, client: Client) -> tuple[int, str]:
        return await self._read(client)

    async def write(self, client: Client, id: str, expected: int) -> int:
        body: dict[str, Any] = {"session_id": self.name, "expect_revision": expected}
        if expected % 2:
            operation = "append"
            body |= {"event": {"event_id": id, "type": "note", "content": id}, "state_delta": {_SLOT: id}}
        else:
            operation = "state_set"
            body |= {"key": _SLOT, "value": id}
        return int((await Asking(client, "sessions").request(operation, body, id))["revision"])

    async def history(self, client: Client) -> History:
        newest, _ = await self._read(client)
        return {revision: (await self._read(client, revision=revision))[1] for revision in range(2, newest + 1)}

    async def _read(self, client: Client, **at: int) -> tuple[int, str]:
        session = (await Asking(client, "sessions").request("get", {"session_id": self.name, **at}))["session"]
        return session["revision"], session["state"].get(_SLOT, "")


class MemoryRegister:
    def __init__(self, name: str) -> None:
        self.name = name
        self._memory = {"namespace": _NAMESPACE, "key": name}

    async def create(self, client: Client) -> None:
        await Asking(client, "memory").request("put", {**self._memory, "value": ""}, f"create-{self.name}")

    async def read(self, client: Client) -> tuple[int, str]:
        memory = await Asking(client, "memory").request("get", self._memory)
        return memory["version"], memory["value"]

    async def write(self, client: Client, id: str, expected: int) -> int:
        body = {**self._memory, "value": id, "expect_version": expected}
        return int((await Asking(client, "memory").request("put", body, id))["version"])

    async def history(self, client: Client) -> History:
        newest, _ = await self.read(client)
        asking = Asking(client, "memory")
        found = [await asking.request("get", {**self._memory, "version": number}) for number in range(2, newest + 1)]
        return {memory["version"]: memory["value"] for memory in found}


async def read_and_write(
    registers: Sequence[Register], clients: Sequence[Client], journal: Journal, seed: int, stopping: Callable[[], bool]
) -> None:
    await asyncio.gather(*(register.create(clients[0]) for register in registers))
    await asyncio.gather(
        *(
            _Writer(register, clients[number % len(clients)], journal, f"{register.name}-w{number}", seed).run(stopping)
            for register in registers
            for number in range(WRITERS)
        )
    )


class _Writer:
    def __init__(self, register: Register, client: Client, journal: Journal, name: str, seed: int) -> None:
        self._register = register
        self._client = client
        self._journal = journal
        self._name = name
        self._choice = random.Random(f"{seed}/{name}")
        self._number = 0

    async def run(self, stopping: Callable[[], bool]) -> None:
        while not stopping():
            version = await self._read()
            if self._choice.random() > _READS_ALONE:
                try:
                    await self._write(version)
                except Refused as refused:
                    self._journal.findings.append(f"{self._register.name}: refused: {refused}")
                    return
            await asyncio.sleep(_THINK_SECONDS)

    async def _read(self) -> int:
        began = _now()
        version, id = await self._register.read(self._client)
        self._journal.operations.append(Operation("read", self._register.name, id, version, began, _now()))
        return version

    async def _write(self, expected: int) -> None:
        self._number += 1
        key, id, began = self._register.name, f"{self._name}-{self._number}", _now()
        try:
            version = await self._register.write(self._client, id, expected)
        except Refused as refused:
            if refused.name != "RevisionConflict":
                raise
            done = Operation("refused", key, id, expected, began, _now(), tries=refused.tries)
        else:
            done = Operation("write", key, id, version, began, _now(), expected)
        self._journal.operations.append(done)


def _now() -> float:
    return asyncio.get_running_loop().time()
