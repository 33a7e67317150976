"""The rules of appending to a window, and of replacing its messages."""

from collections.abc import Sequence
from typing import Any, Final

from hivemem_contracts.errors import RevisionConflict
from hivemem_contracts.identifiers import format_microseconds
from hivemem_contracts.memory.models import LeaseClaim
from hivemem_runtime.ledger.port import Append, Decided, Decision, Heads
from hivemem_windows.decisions.drafts import Added, Draft, NewMessage, all_units
from hivemem_windows.decisions.flushing import next_flush
from hivemem_windows.decisions.windows import Rules, WindowName, begun, expiry, require_current
from hivemem_windows.entities.contents import CONTENT, Content
from hivemem_windows.entities.messages import MESSAGE, MessageRecord, message_place
from hivemem_windows.entities.windows import WINDOW, WindowRecord

STORED: Final = ("role", "name", "tool_calls", "tool_call_id", "importance", "pinned", "metadata")


def append_messages(
    heads: Heads,
    name: WindowName,
    rules: Rules,
    messages: Sequence[NewMessage],
    lease: LeaseClaim | None,
    sender: str,
    now: int,
    *,
    waited_ms: int | None = None,
) -> Decided:
    """Append messages in order, each within the limits. `waited_ms` is how long the writer waited for its lease."""
    require_current(heads, rules)
    content = begun(heads, name, rules, lease, now)
    draft = Draft(content, rules.limits)
    stored = [message for message in messages if message.persist]
    if not stored:
        return Decided((), {"total_tokens": draft.total, "messages": draft.count, "version": version_of(heads, name)})
    return Decided(_appended(draft, name, rules, stored, sender, now, replaced=False, waited_ms=waited_ms), None)


def replace_messages(
    heads: Heads,
    name: WindowName,
    rules: Rules,
    messages: Sequence[NewMessage],
    expect_version: int | None,
    lease: LeaseClaim | None,
    sender: str,
    now: int,
) -> Decision:
    """Append messages to a window without its earlier ones."""
    actual = version_of(heads, name)
    if expect_version is not None and expect_version != actual:
        raise RevisionConflict(
            f"window {name.key!r} is at version {actual}, {expect_version} was expected",
            expected=expect_version,
            actual=actual,
        )
    require_current(heads, rules)
    content = begun(heads, name, rules, lease, now)
    draft = Draft(content, rules.limits)
    draft.remove(all_units(content))
    draft.summary = None
    stored = [message for message in messages if message.persist]
    return _appended(draft, name, rules, stored, sender, now, replaced=True, waited_ms=None)


def version_of(heads: Heads, name: WindowName) -> int:
    head = heads(WINDOW, name.id)
    return 0 if head is None or head.value is None else head.version


def _appended(
    draft: Draft,
    name: WindowName,
    rules: Rules,
    messages: Sequence[NewMessage],
    sender: str,
    now: int,
    *,
    replaced: bool,
    waited_ms: int | None,
) -> Decision:
    added = [draft.add(message) for message in messages]
    left = sorted(draft.evicted)
    flush = next_flush(draft, rules, len(messages), now)
    state = {"total_tokens": draft.total, "messages": draft.count}
    value = {
        "appended": [_announced(message, place) for message, place in zip(messages, added, strict=True)],
        "replaced": replaced,
        **state,
        "evicted": left,
        "flush": "queued" if flush["flush"] is not None and draft.content.flush is None else "none",
    }
    stats = counted(draft.content, appended=len(messages), evicted=len(left))
    if waited_ms is not None:
        waits = stats.get("lock_waits", {"count": 0, "total_ms": 0})
        stats["lock_waits"] = {"count": waits["count"] + 1, "total_ms": waits["total_ms"] + waited_ms}
    content = draft.finished(now, stats=stats, expires_at=expiry(rules, now), **flush)
    appends: list[Append[Any, Any]] = [Append(WINDOW, name.id, WindowRecord("appended", value))]
    if left:
        appends.append(Append(WINDOW, name.id, WindowRecord("evicted", {"sequences": left, **state})))
    appends.append(Append(CONTENT, name.id, content))
    for message, place in zip(messages, added, strict=True):
        record = MessageRecord(
            name.id, place.sequence, place.unit, message.message_id, _stored(message, place, sender, now)
        )
        appends.append(Append(MESSAGE, message_place(name.id, place.sequence), record))
    return appends


def counted(content: Content, **more: int) -> dict[str, Any]:
    """Return the counters of a window after some were raised."""
    stats = dict(content.stats)
    for name, number in more.items():
        stats[name] = stats.get(name, 0) + number
    return stats


def _announced(message: NewMessage, place: Added) -> dict[str, Any]:
    return {
        "message_id": message.message_id,
        "sequence": place.sequence,
        "role": message.fields["role"],
        "share": place.share,
        "tokens": message.tokens,
    }


def _stored(message: NewMessage, place: Added, sender: str, now: int) -> dict[str, Any]:
    fields = {name: message.fields[name] for name in STORED if message.fields.get(name) not in (None, False)}
    return {
        "sequence": place.sequence,
        "message_id": message.message_id,
        "tokens": message.tokens,
        "share": place.share,
        "content": message.fields.get("content"),
        **fields,
        "by": sender,
        "at": format_microseconds(now),
    }
