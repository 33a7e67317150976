"""The services that a runner needs, which may belong to different clients."""

import asyncio
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, cast

from hivemem.artifacts import Artifacts
from hivemem.methods import ServiceMethods
from hivemem.services.agents import AgentsOperations
from hivemem.services.memory import MemoryOperations
from hivemem.sessions import Sessions
from hivemem.vectors import Vectors
from hivemem_contracts.errors import HiveError, InvalidRequest, Unavailable

if TYPE_CHECKING:
    from hivemem.hive import Hive

CHECK_SECONDS: Final = 2.0
"""How long a runner that starts looks for each service."""

SLOW_SECONDS: Final = 5.0
"""How much longer it waits for the answer of a service that is there."""

_KINDS: Final[dict[str, type[ServiceMethods]]] = {
    "sessions": Sessions,
    "vectors": Vectors,
    "memory": MemoryOperations,
    "artifacts": Artifacts,
    "agents": AgentsOperations,
}


def hive_of(service: ServiceMethods) -> "Hive":
    """Return the client that a service belongs to."""
    return cast("Hive", service.caller)


@dataclass(frozen=True, slots=True)
class RunnerServices:
    sessions: Sessions
    vectors: Vectors
    memory: MemoryOperations
    artifacts: Artifacts
    agents: AgentsOperations | None

    def __post_init__(self) -> None:
        """Raise `InvalidRequest`, which names every service that is missing, or is another one."""
        wrong = {name: given for name, given in self._given().items() if not isinstance(given, _KINDS[name])}
        if self.agents is None:
            wrong.pop("agents", None)
        if wrong:
            detail = "; ".join(f"{name}: `hive.{name}` is wanted, got {given!r:.80}" for name, given in wrong.items())
            raise InvalidRequest(detail, field=next(iter(wrong)), services=list(wrong))

    async def check(self) -> None:
        """Ask every service at the same time. Raises an error that names each one that does not answer in time, and
        why: of the errors' own class if they share one, else `Unavailable`."""
        given = {name: service for name, service in self._given().items() if service is not None}
        found = await asyncio.gather(*(_failure(name, service) for name, service in given.items()))
        failures = {name: error for name, error in zip(given, found, strict=True) if error is not None}
        if not failures:
            return
        kinds = {type(error) for error in failures.values()}
        kind = kinds.pop() if len(kinds) == 1 else Unavailable
        detail = "; ".join(f"{name}: {error.detail}" for name, error in failures.items())
        raise kind(detail, services=list(failures)) from next(iter(failures.values()))

    def _given(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


async def _failure(name: str, service: ServiceMethods) -> HiveError | None:
    hive = hive_of(service)
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await hive.connection.open()
        await _found(name, hive)
    except HiveError as error:
        return error
    except TimeoutError:
        return Unavailable(f"no NATS server at {hive.connection.shown_url} within {CHECK_SECONDS:g} s")
    return None


async def _found(name: str, hive: "Hive") -> None:
    try:
        await _probe(name, hive.with_options(timeout_seconds=CHECK_SECONDS, attempt_seconds=CHECK_SECONDS))
    except Unavailable as error:
        if error.context.get("reason") != "timeout":
            raise
        await _probe(name, hive.with_options(timeout_seconds=SLOW_SECONDS, attempt_seconds=SLOW_SECONDS))


async def _probe(name: str, hive: "Hive") -> None:
    """Ask a service for the least that it answers."""
    match name:
        case "sessions":
            await hive.sessions.list(limit=1)
        case "vectors":
            await hive.vectors.status(limit=1)
        case "memory":
            await hive.memory.namespaces(limit=1)
        case "artifacts":
            await hive.artifacts.list(session_id="-", limit=1)
        case _:
            await hive.agents.list(limit=1)
