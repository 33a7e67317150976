"""The operations that check windows, count and list them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import orjson

from hivemem_contracts.identifiers import format_microseconds
from hivemem_contracts.windows import operations, requests
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.port import Ledger, value_of
from hivemem_runtime.paging import EXAMINED, Bookmark, Lines
from hivemem_runtime.service import Call, Service
from hivemem_windows.decisions.windows import Rules, is_there, require_content
from hivemem_windows.endpoints.names import find_window
from hivemem_windows.endpoints.resource_rules import ResourceRules
from hivemem_windows.entities.contents import CONTENT, SHARES, Content

BreakerOf = Callable[[], str]
"""Returns the state of the circuit breaker of the model, or `none`."""


def bind(service: Service, rules: ResourceRules, breaker_of: BreakerOf) -> None:
    ledger = service.ledger
    service.handler(operations.HEALTH, partial(read_health, ledger, rules, breaker_of))
    service.handler(operations.STATS, partial(read_stats, ledger, rules, breaker_of))
    service.handler(operations.LIST, partial(list_windows, ledger))


async def _inspect(
    ledger: Ledger, rules: ResourceRules, call: Call, body: requests.InspectWindow
) -> tuple[Content, dict[str, Any], bool]:
    """Return the content of a window, its limits, and whether it is within them."""
    tenant = call.sender.tenant
    name, found = await find_window(ledger, rules, tenant, body)
    content = require_content(value_of(await ledger.head(CONTENT, tenant, name.id)), name, now_microseconds())
    return content, _limits(found), found is not None and _within(content, found)


def _limits(rules: Rules | None) -> dict[str, Any]:
    if rules is None:
        return {}
    limits, shares = rules.limits, None
    if limits.shares and limits.max_tokens is not None:
        shares = {**limits.shares, "short_term": limits.max_tokens - sum(limits.shares.values())}
    return {"max_tokens": limits.max_tokens, "max_messages": rules.resource.max_messages, "shares": shares}


def _within(content: Content, rules: Rules) -> bool:
    limits = rules.limits
    tokens_fit = limits.max_tokens is None or content.total_tokens() <= limits.max_tokens
    return tokens_fit and content.message_count() <= limits.max_messages


async def read_health(
    ledger: Ledger, rules: ResourceRules, breaker_of: BreakerOf, call: Call, body: requests.InspectWindow
) -> bytes:
    content, limits, within = await _inspect(ledger, rules, call, body)
    now = now_microseconds()
    state = "idle"
    if content.flush is not None:
        state = "running" if content.flush["until"] > now else "queued"
    return orjson.dumps(
        {
            "key": content.key,
            "healthy": within and content.failures == 0,
            "messages": content.message_count(),
            "tokens": content.total_tokens(),
            "limits": limits,
            "flush": {
                "state": state,
                "last_at": None if content.flushed_at is None else format_microseconds(content.flushed_at),
                "failures": content.failures,
                "breaker": breaker_of(),
            },
            "age_seconds": max(now - content.created_at, 0) / 1_000_000,
        }
    )


async def read_stats(
    ledger: Ledger, rules: ResourceRules, breaker_of: BreakerOf, call: Call, body: requests.InspectWindow
) -> bytes:
    content, limits, _ = await _inspect(ledger, rules, call, body)
    stats = content.stats
    return orjson.dumps(
        {
            "key": content.key,
            "messages": content.message_count(),
            "tokens": content.total_tokens(),
            "shares": {share: sum(content.tokens[share]) for share in SHARES},
            "limits": limits,
            **{name: stats.get(name, 0) for name in ("appended", "evicted", "flushed")},
            "flushes": stats.get("flushes", {}),
            "lock_waits": stats.get("lock_waits", {"count": 0, "total_ms": 0}),
            "summaries": stats.get("summaries", {"count": 0, "total_ms": 0, "longest_ms": 0}),
            "breaker": breaker_of(),
        }
    )


async def list_windows(ledger: Ledger, call: Call, body: requests.ListWindows) -> bytes:
    bookmark = Bookmark("windows", body.resource, body.prefix)
    index, equals = ("key", {}) if body.resource is None else ("resource", {"resource": body.resource})
    # The character after ':' ends the keys below a prefix; some between are below none.
    low, high = (None, None) if body.prefix is None else (body.prefix, f"{body.prefix};")
    within = None if body.cursor is None else bookmark.find(body.cursor, str)[0]
    lines = Lines(body.limit)
    examined = 0
    now = now_microseconds()
    while examined < EXAMINED:
        find = partial(
            ledger.find, CONTENT, call.sender.tenant, index, equals=equals, low=low, high=high, cursor=within
        )
        page = await find(limit=lines.wanted())
        taken = 0
        for head in page.items:
            content = head.value
            wanted = content is not None and is_there(content, now) and _below(body.prefix, content.key)
            if content is not None and wanted and not lines.add(_listed(content)):
                break
            taken += 1
        if taken < len(page.items):
            # Read the part that fitted once more, for the cursor behind it.
            page = await find(limit=max(taken, 1))
        within = page.cursor
        examined += len(page.items)
        if within is None or lines.complete:
            break
    return lines.answer(None if within is None else bookmark.put(within))


def _below(prefix: str | None, key: str) -> bool:
    return prefix is None or key == prefix or key.startswith(f"{prefix}:")


def _listed(content: Content) -> dict[str, Any]:
    return {
        "resource": content.resource,
        "key": content.key,
        "status": content.status,
        "messages": content.message_count(),
        "tokens": content.total_tokens(),
        "session_id": content.session_id,
        "created_at": format_microseconds(content.created_at),
        "updated_at": format_microseconds(content.updated_at),
    }
