"""Large values of deleted sessions, which are kept while living forks share them."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hivemem_artifacts.decisions.kept_values import end_keeping, keep_values
from hivemem_artifacts.endpoints.deletions import ArtifactDeleter
from hivemem_artifacts.entities.artifacts import ARTIFACT
from hivemem_artifacts.entities.kept_values import KEPT_VALUES, KeptValues
from hivemem_artifacts.entities.places import within
from hivemem_contracts.errors import NotFound
from hivemem_contracts.large_values import FOLDER
from hivemem_contracts.limits import BATCH_ITEMS
from hivemem_contracts.sessions import operations, requests
from hivemem_runtime.bus.requests.outgoing import Asking
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.port import Head, Ledger, system_write

AGENT: Final = "hivemem"
"""The agent in whose name the worker asks the sessions service."""

AT_ONCE: Final = 100
assert AT_ONCE <= BATCH_ITEMS


@dataclass(frozen=True, slots=True)
class ForkedValues:
    """Keeps the large values that forks of deleted sessions share, and deletes them with the last such fork.

    The sessions service knows which sessions are shared. A deleted session cannot be forked any more, so that it is no
    longer shared is final.
    """

    ledger: Ledger
    deleter: ArtifactDeleter
    asking: Asking

    async def is_shared(self, tenant: str, session_id: str) -> bool:
        """Return whether living forks share a session. Raises `Unavailable` while no sessions worker answers."""
        return bool(await self._shared(tenant, [session_id]))

    async def keep(self, tenant: str, session_id: str, values: KeptValues) -> None:
        """Record that the values of a deleted session are kept."""
        await self.ledger.commit(
            system_write(tenant, KEPT_VALUES, session_id, lambda heads, now: keep_values(heads, session_id, values))
        )

    async def release_all(self) -> None:
        for tenant in await self.ledger.tenants(KEPT_VALUES):
            await self.release(tenant)

    async def release(self, tenant: str) -> None:
        """Delete the values of the tenant that no fork shares any more. Raises `Unavailable` while no sessions worker
        answers."""
        async for heads in pages(
            lambda cursor: self.ledger.find(KEPT_VALUES, tenant, "kept", equals={}, cursor=cursor, limit=AT_ONCE)
        ):
            shared = await self._shared(tenant, [head.id for head in heads])
            for head in heads:
                if head.id not in shared:
                    await self._delete(tenant, head)

    async def _delete(self, tenant: str, head: Head[KeptValues]) -> None:
        session_id, values = head.id, head.value
        if values is None:
            return
        low, high = within(session_id, FOLDER)
        async for found in pages(
            lambda cursor: self.ledger.find(
                ARTIFACT, tenant, "place", equals={}, low=low, high=high, cursor=cursor, limit=AT_ONCE
            )
        ):
            for artifact in found:
                with suppress(NotFound):  # another worker has deleted it
                    await self.deleter.delete_for(
                        tenant, artifact.id, actor=values.actor, cause=values.cause, saved_until=values.until
                    )
        await self.ledger.commit(
            system_write(
                tenant, KEPT_VALUES, session_id, lambda heads, now: end_keeping(heads, session_id, values.until)
            )
        )

    async def _shared(self, tenant: str, session_ids: Sequence[str]) -> list[str]:
        if not session_ids:
            return []
        body = requests.FindShared(session_ids=list(session_ids))
        answer = await self.asking.ask(tenant, AGENT, operations.SHARED, body)
        found: list[str] = answer["session_ids"]
        return found
