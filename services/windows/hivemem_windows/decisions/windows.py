"""The rules of every write: the window is there and open, the lease is the newest, and the resource has not changed
since the message was counted."""

from dataclasses import dataclass, replace
from typing import Any

from hivemem_contracts.errors import IllegalTransition, InvalidRequest, LeaseHeld, NotFound
from hivemem_contracts.memory.models import LeaseClaim
from hivemem_contracts.windows.models import WindowResource
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Heads, value_of
from hivemem_runtime.tokens import TokenCounter
from hivemem_windows.decisions.limits import Limits
from hivemem_windows.decisions.resources import resource_not_found
from hivemem_windows.decisions.screening import Screen
from hivemem_windows.entities.contents import CONTENT, Content
from hivemem_windows.entities.resources import RESOURCE


class StaleResource(Exception):
    """The resource changed after a request was prepared."""


@dataclass(frozen=True, slots=True)
class Rules:
    """A resource at a version, with its limits, the counter of its tokens and its privacy rules."""

    resource: WindowResource
    version: int
    limits: Limits
    counter: TokenCounter
    screen: Screen


@dataclass(frozen=True, slots=True)
class WindowName:
    """A window: its resource, its key and the session that it belongs to."""

    resource: str
    key: str
    session_id: str | None = None

    @property
    def id(self) -> str:
        return place_of(self.resource, self.key)


def require_current(heads: Heads, rules: Rules) -> None:
    head = heads(RESOURCE, rules.resource.id)
    if head is None or head.value is None or head.value.declared is None:
        raise resource_not_found(rules.resource.id)
    if head.version != rules.version:
        raise StaleResource


def window_not_found(name: WindowName) -> NotFound:
    return NotFound(f"resource {name.resource!r} has no window {name.key!r}", resource=name.resource, key=name.key)


def is_there(content: Content | None, now: int) -> bool:
    return content is not None and not content.ended and (content.expires_at is None or content.expires_at > now)


def require_content(content: Content | None, name: WindowName, now: int) -> Content:
    """Return the content of a living window. Raises `NotFound`."""
    if content is None or not is_there(content, now):
        raise window_not_found(name)
    return content


def require_open(heads: Heads, name: WindowName, rules: Rules, lease: LeaseClaim | None, now: int) -> Content:
    """Return the content of a window that may be written, with the newest lease."""
    content = require_content(value_of(heads(CONTENT, name.id)), name, now)
    return claimed(content, rules, lease)


def begun(heads: Heads, name: WindowName, rules: Rules, lease: LeaseClaim | None, now: int) -> Content:
    """Return the content of a window that may be written, and of a new one if it is not there."""
    content = value_of(heads(CONTENT, name.id))
    if content is None:
        content = Content(name.resource, name.key, now, now, session_id=name.session_id)
    elif not is_there(content, now):
        content = replace(emptied(content, now), session_id=name.session_id, created_at=now)
    return claimed(content, rules, lease)


def emptied(content: Content, now: int) -> Content:
    """Return the content without anything that it held; `purging` removes the messages. Open tool calls have left."""
    return Content(
        content.resource,
        content.key,
        content.created_at,
        now,
        content.session_id,
        last=content.last,
        calls={call: -abs(unit) for call, unit in content.calls.items()},
        deletions=content.deletions + 1,
        cleared_through=content.last,
        purging=True,
        lease=content.lease,
        stats=content.stats,
        expires_at=content.expires_at,
    )


def expiry(rules: Rules, now: int) -> int | None:
    seconds = rules.resource.ttl_seconds
    return None if seconds is None else now + seconds * 1_000_000


def claimed(content: Content, rules: Rules, claim: LeaseClaim | None) -> Content:
    """Return an open content with the newest lease. Raises `LeaseHeld` for a claim of an earlier holder."""
    if content.status != "open":
        raise IllegalTransition(f"window {content.key!r} is {content.status}", status=content.status, allowed=[])
    if claim is None:
        if rules.resource.locking:
            raise InvalidRequest(
                f"lease: resource {content.resource!r} is locking: a write needs a lease", field="lease"
            )
        return content
    fields: dict[str, Any] = {"namespace": claim.namespace, "key": claim.key, "token": claim.token}
    held = content.lease
    if held is not None and (held["namespace"], held["key"]) == (claim.namespace, claim.key):
        if claim.token < held["token"]:
            raise LeaseHeld(
                f"lease: window {content.key!r} has token {held['token']}, token {claim.token} is outdated",
                token=held["token"],
            )
        if claim.token == held["token"]:
            return content
    return replace(content, lease=fields)
