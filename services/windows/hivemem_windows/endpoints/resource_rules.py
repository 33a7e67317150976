"""The resources that this worker has in use."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.windows.models import WindowResource
from hivemem_contracts.windows.requests import WindowWrite
from hivemem_runtime.bounded import BoundedDict
from hivemem_runtime.clock import elapsed_seconds
from hivemem_runtime.ledger.port import Committed, Ledger, Outcome, Write
from hivemem_runtime.service import Call
from hivemem_runtime.tokens import token_counter
from hivemem_windows.decisions.access import require_writer
from hivemem_windows.decisions.limits import limits_of
from hivemem_windows.decisions.resources import resource_not_found
from hivemem_windows.decisions.screening import Screen
from hivemem_windows.decisions.windows import Rules, StaleResource
from hivemem_windows.entities.resources import RESOURCE

CACHED: Final = 10_000
FRESH_SECONDS: Final = 1.0
"""How long a read may rely on a resource. A write never does: its decision compares the version."""
TRIES: Final = 5
PROVIDER: Final = "resource.token_provider"


class ResourceRules:
    """Reads resources, and prepares what their requests need."""

    def __init__(self, ledger: Ledger, tokenizers: Mapping[str, Path] | None = None) -> None:
        """`tokenizers` names the files of tokenizers for `huggingface:` providers."""
        self._ledger = ledger
        self._tokenizers = tokenizers
        self._known: BoundedDict[tuple[str, str], tuple[float, Rules]] = BoundedDict(CACHED)
        ledger.on_commit(self._committed)

    def _committed(self, records: Sequence[Committed]) -> None:
        for committed in records:
            if committed.entity is RESOURCE:
                self._known.pop((committed.stamp.tenant, committed.stamp.id), None)

    async def rules(self, tenant: str, id: str) -> Rules:
        """Return a resource with its limits. Raises `NotFound`."""
        known = self._known.get((tenant, id))
        if known is not None and elapsed_seconds() - known[0] < FRESH_SECONDS:
            return known[1]
        began = elapsed_seconds()
        head = await self._ledger.head(RESOURCE, tenant, id)
        if head is None or head.value is None or head.value.declared is None:
            self._known.pop((tenant, id), None)
            raise resource_not_found(id)
        if known is not None and known[1].version == head.version:
            rules = known[1]
        else:
            rules = self.prepared(WindowResource.model_validate(head.value.declared), head.version)
        self._known[tenant, id] = began, rules
        return rules

    def prepared(self, resource: WindowResource, version: int = 0) -> Rules:
        """Return the rules of a resource. Raises `InvalidRequest` for an unknown provider or an invalid pattern."""
        counter = token_counter(resource.token_provider or "estimate", self._tokenizers, PROVIDER)
        return Rules(resource, version, limits_of(resource), counter, Screen(resource.privacy))

    async def commit(self, call: Call, body: WindowWrite, make: Callable[[Rules], Awaitable[Write]]) -> Outcome:
        """Commit a write that was prepared for the newest version of a resource. Raises `Forbidden` for a sender that
        may only read."""
        tenant, id = call.sender.tenant, body.resource
        for _ in range(TRIES):
            try:
                rules = await self.rules(tenant, id)
                require_writer(rules.resource, call.sender.agent, body.mode)
                return await self._ledger.commit(await make(rules))
            except StaleResource:
                self._known.pop((tenant, id), None)
        raise Unavailable(f"resource {id!r} changes all the time", retry_after_ms=100)
