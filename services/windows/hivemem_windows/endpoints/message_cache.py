"""Messages that were read lately, as JSON. A message never changes; one that is deleted is in no window."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import orjson

from hivemem_runtime.batches import slices
from hivemem_runtime.ledger.port import Ledger
from hivemem_windows.entities.messages import MESSAGE, message_place

CACHED_BYTES: Final = 32 * 1024 * 1024
READ_AT_ONCE: Final = 500


class MessageCache:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: OrderedDict[tuple[str, str, int], bytes] = OrderedDict()
        self._bytes = 0

    async def messages(self, tenant: str, window: str, sequences: Sequence[int]) -> dict[int, bytes]:
        """Return the messages that are still stored."""
        found: dict[int, bytes] = {}
        missing: list[int] = []
        for sequence in sequences:
            known = self._known.get((tenant, window, sequence))
            if known is None:
                missing.append(sequence)
            else:
                found[sequence] = known
        for some in slices(missing, READ_AT_ONCE):
            heads = await self._ledger.heads(MESSAGE, tenant, [message_place(window, sequence) for sequence in some])
            for head in heads.values():
                if head.value is not None and head.value.message is not None:
                    data = found[head.value.sequence] = orjson.dumps(head.value.message)
                    self._keep((tenant, window, head.value.sequence), data)
        return found

    def _keep(self, name: tuple[str, str, int], data: bytes) -> None:
        self._bytes += len(data) - len(self._known.get(name, b""))
        self._known[name] = data
        while self._bytes > CACHED_BYTES:
            self._bytes -= len(self._known.popitem(last=False)[1])
