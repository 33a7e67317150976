"""The operations that read the messages of a window, and its originals."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import orjson

from hivemem_contracts.limits import REPLY_BYTES
from hivemem_contracts.windows import operations, requests
from hivemem_runtime.batches import slices
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.port import Ledger, value_of
from hivemem_runtime.paging import EXAMINED, READ_AT_ONCE, Bookmark, Lines
from hivemem_runtime.service import Call, Service
from hivemem_windows.decisions.reading import ReadUnit, select_units
from hivemem_windows.decisions.windows import require_content
from hivemem_windows.endpoints.message_cache import MessageCache
from hivemem_windows.endpoints.names import find_window
from hivemem_windows.endpoints.resource_rules import ResourceRules
from hivemem_windows.endpoints.touches import Touches
from hivemem_windows.entities.contents import CONTENT, SHARES
from hivemem_windows.entities.messages import MESSAGE
from hivemem_windows.entities.windows import WINDOW

UNITS_AT_ONCE: Final = 500


def bind(service: Service, rules: ResourceRules, touches: Touches) -> None:
    ledger = service.ledger
    service.handler(operations.READ, partial(read, ledger, rules, MessageCache(ledger), touches))
    service.handler(operations.ORIGINALS, partial(read_originals, ledger, rules))


async def read(
    ledger: Ledger, rules: ResourceRules, cache: MessageCache, touches: Touches, call: Call, body: requests.ReadWindow
) -> bytes:
    tenant = call.sender.tenant
    name, found = await find_window(ledger, rules, tenant, body)
    # The version is read first: a write that expects it then never overwrites an unread message.
    changes = await ledger.head(WINDOW, tenant, name.id)
    content = require_content(value_of(await ledger.head(CONTENT, tenant, name.id)), name, now_microseconds())
    # The resource may have lower limits since the last append.
    limits = (None, None) if found is None else (found.limits.max_messages, found.limits.max_tokens)
    selection = select_units(
        content, limit=_least(body.limit, limits[0]), max_tokens=_least(body.max_tokens, limits[1]), shares=body.shares
    )
    summary = content.summary if selection.with_summary else None
    units, texts, fitted = await _fetch(cache, tenant, name.id, selection.units)
    if found is not None:
        touches.note(tenant, name.id, found, [unit.unit for unit in units])
    return orjson.dumps(
        {
            "key": name.key,
            "messages": [orjson.Fragment(texts[sequence]) for sequence in sorted(texts)],
            "tokens": sum(unit.tokens for unit in units) + (0 if summary is None else summary["tokens"]),
            "summary": _wire_summary(summary),
            "version": 0 if changes is None else changes.version,
            "cut": selection.cut if fitted else "bytes",
        }
    )


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


async def _fetch(
    cache: MessageCache, tenant: str, window: str, wanted: Sequence[ReadUnit]
) -> tuple[list[ReadUnit], dict[int, bytes], bool]:
    """Return the first units that fit into one answer, with their messages, and whether all do."""
    units: list[ReadUnit] = []
    texts: dict[int, bytes] = {}
    room = REPLY_BYTES
    for some in slices(wanted, UNITS_AT_ONCE):
        found = await cache.messages(tenant, window, [sequence for unit in some for sequence in unit.sequences])
        for unit in some:
            if any(sequence not in found for sequence in unit.sequences):
                continue  # deleted since
            room -= sum(len(found[sequence]) + 1 for sequence in unit.sequences)
            if room < 0 and units:
                return units, texts, False
            units.append(unit)
            texts.update((sequence, found[sequence]) for sequence in unit.sequences)
    return units, texts, True


async def read_originals(ledger: Ledger, rules: ResourceRules, call: Call, body: requests.ReadOriginals) -> bytes:
    tenant = call.sender.tenant
    name, _ = await find_window(ledger, rules, tenant, body)
    content = require_content(value_of(await ledger.head(CONTENT, tenant, name.id)), name, now_microseconds())
    living = {sequence for share in SHARES for sequence in content.sequences(share)}
    bookmark = Bookmark("originals", body.resource, name.key)
    after = content.cleared_through
    if body.cursor is not None:
        after = max(after, *bookmark.find(body.cursor, int))
    lines = Lines(body.limit)
    examined = 0
    end = content.last + 1
    while after + 1 < end and examined < EXAMINED:
        page = await ledger.find(
            MESSAGE,
            tenant,
            "window",
            equals={"window": name.id},
            low=after + 1,
            high=end,
            limit=min(READ_AT_ONCE, lines.wanted(sieved=True)),
        )
        for head in page.items:
            message = head.value
            if message is None:
                continue
            if message.message is not None and message.sequence not in living and not lines.add(message.message):
                return lines.answer(bookmark.put(after))
            after = message.sequence
            examined += 1
        if page.cursor is None or not page.items:
            return lines.answer(None)
        if lines.complete:
            break
    return lines.answer(None if after + 1 >= end else bookmark.put(after))


def _wire_summary(summary: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if summary is None else {field: summary[field] for field in ("text", "tokens", "messages", "by")}
