"""Whether the feed tells of changes that the ledger does not have: then the ledger is older than the feed.

A ledger that was restored from a copy, or that lost the end of its log, would use the same versions a second time for
something else.
"""

from collections.abc import Iterable
from typing import Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from pydantic import ValidationError

from hivemem_contracts.changes import Change
from hivemem_runtime.bus.feed.pull import reader
from hivemem_runtime.bus.feed.stream_keeper import Loss, StreamState
from hivemem_runtime.bus.feed.subject_places import ledger_of, version_of
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.feed_mark import FeedMark
from hivemem_runtime.ledger.port import Ledger

BATCH: Final = 500
MESSAGES: Final = 20_000
"""At most this many messages are read: more than a second of changes."""
WAIT_SECONDS: Final = 2.0


async def changes_ahead(
    client: Client, ledger: Ledger, entities: Iterable[AnyEntity], key: bytes, mark: FeedMark, state: StreamState
) -> Loss | None:
    """Return a loss if the feed has a version that the ledger it came from does not have: behind `mark`, or, in another
    epoch than the mark's, among the newest messages."""
    told = {name: (entity, locate) for entity in entities for name, locate in entity.told_as.items()}
    same = (mark.stream, mark.epoch) == (state.created, state.epoch) and mark.sequence <= state.last
    after = max(mark.sequence, 0) if same else max(state.first - 1, state.last - MESSAGES)
    if state.last <= after or not told:
        return None
    pull = await reader(client, after=after, subjects=[f"hive.chg.*.{entity}.>" for entity in told])
    seen = 0
    try:
        while seen < MESSAGES:
            batch = await pull.fetch(BATCH, timeout=WAIT_SECONDS)
            seen += len(batch)
            versions: dict[tuple[str, str, str], int] = {}
            for change, version in filter(None, (_told_of(key, mark.ledger, message) for message in batch)):
                id = told[change.entity][1](change.namespace, change.key)
                versions[change.entity, change.tenant, id] = version
            for (name, tenant, id), version in versions.items():
                head = await ledger.head(told[name][0], tenant, id)
                if head is None or head.version < version:
                    return Loss(f"the ledger is older: the feed has version {version} of {name} {id!r}", anew=True)
    except TimeoutError:
        return None
    finally:
        await pull.unsubscribe()
    return None


def _told_of(key: bytes, ledger: str, message: Msg) -> tuple[Change, int] | None:
    """Return a change of this ledger, and the version of the record that it announces."""
    headers = message.headers or {}
    version = version_of(key, message.subject, headers, message.data)
    if version is None or ledger_of(headers) != ledger:
        return None
    try:
        return Change.model_validate_json(message.data), version
    except ValidationError:
        return None
