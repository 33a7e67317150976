"""The rules of deletions: of a message, of all messages, and of a window that expires or whose session ends."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hivemem_contracts.errors import NotFound
from hivemem_contracts.memory.models import LeaseClaim
from hivemem_runtime.ledger.port import Append, Decision, Heads, value_of
from hivemem_windows.decisions.drafts import Draft
from hivemem_windows.decisions.windows import Rules, WindowName, emptied, expiry, require_open
from hivemem_windows.entities.contents import CONTENT, Content
from hivemem_windows.entities.messages import MESSAGE, MessageRecord, message_place
from hivemem_windows.entities.windows import WINDOW, WindowRecord


def message_not_found(name: WindowName, message_id: str) -> NotFound:
    return NotFound(f"window {name.key!r} has no message {message_id!r}", message_id=message_id)


def delete_unit(
    heads: Heads,
    name: WindowName,
    rules: Rules,
    message_id: str,
    found: Sequence[MessageRecord],
    lease: LeaseClaim | None,
    now: int,
) -> Decision:
    """Delete a message and what belongs to it, in the window or out of it. `found` are the messages of its unit."""
    content = require_open(heads, name, rules, lease, now)
    gone: list[MessageRecord] = []
    for message in found:
        there = value_of(heads(MESSAGE, message_place(name.id, message.sequence)))
        if there is not None and there.message is not None and there.sequence > content.cleared_through:
            gone.append(there)
    if message_id not in [message.message_id for message in gone]:
        raise message_not_found(name, message_id)
    draft = Draft(content, rules.limits)
    left = not draft.remove([gone[0].unit])
    if left and draft.summary is not None and gone[0].sequence <= draft.summary["through"]:
        # The summary may say what the message said.
        draft.summary = None
    sequences = [message.sequence for message in gone]
    value = {
        "message_id": message_id,
        "sequences": sequences,
        "total_tokens": draft.total,
        "messages": draft.count,
    }
    after = draft.finished(now, deletions=content.deletions + 1, expires_at=expiry(rules, now))
    erased = [
        Append(MESSAGE, message_place(name.id, message.sequence), replace(message, message=None)) for message in gone
    ]
    return [Append(WINDOW, name.id, WindowRecord("deleted", value)), Append(CONTENT, name.id, after), *erased]


def clear_window(heads: Heads, name: WindowName, rules: Rules, lease: LeaseClaim | None, now: int) -> Decision:
    content = require_open(heads, name, rules, lease, now)
    return _cleared(name.id, content, replace(emptied(content, now), expires_at=expiry(rules, now)), "request")


def expire_window(heads: Heads, id: str, now: int) -> Decision:
    """End a window whose time has come."""
    content = value_of(heads(CONTENT, id))
    if content is None or content.ended or content.expires_at is None or content.expires_at > now:
        return []
    return _cleared(id, content, replace(emptied(content, now), expires_at=None, ended=True), "expired")


def end_with_session(heads: Heads, id: str, session_id: str, action: str, now: int) -> Decision:
    """Archive or end a window of a session that has ended."""
    content = value_of(heads(CONTENT, id))
    if content is None or content.ended or content.session_id != session_id:
        return []
    if action == "delete":
        return _cleared(id, content, replace(emptied(content, now), expires_at=None, ended=True), "session")
    if content.status == "archived":
        return []
    archived = replace(content, status="archived", flush=None, flush_at=None, updated_at=now)
    return [Append(WINDOW, id, WindowRecord("archived")), Append(CONTENT, id, archived)]


def _cleared(id: str, content: Content, after: Content, reason: str) -> Decision:
    value: dict[str, Any] = {"reason": reason, "messages": content.message_count()}
    return [Append(WINDOW, id, WindowRecord("cleared", value)), Append(CONTENT, id, after)]


def touch_content(heads: Heads, id: str, reads: dict[int, int], rules: Rules, now: int) -> Decision:
    """Note what was read of a window, and that it was used."""
    content = value_of(heads(CONTENT, id))
    if content is None or content.ended:
        return []
    draft = Draft(content, rules.limits)
    draft.touch(reads)
    after = draft.finished(content.updated_at, expires_at=expiry(rules, now))
    return [Append(CONTENT, id, after)]


def purged(heads: Heads, id: str, through: int) -> Decision:
    """Note that the deleted messages up to a sequence are removed."""
    content = value_of(heads(CONTENT, id))
    if content is None or not content.purging or content.cleared_through != through:
        return []
    return [Append(CONTENT, id, replace(content, purging=False))]
