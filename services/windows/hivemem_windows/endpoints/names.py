"""The window that a request names."""

from typing import Any

from hivemem_contracts.errors import InvalidRequest, NotFound
from hivemem_contracts.subjects import Address, change_subject
from hivemem_contracts.windows.requests import NamedWindow
from hivemem_runtime.ledger.port import Ledger, value_of
from hivemem_windows.decisions.templates import key_of
from hivemem_windows.decisions.windows import Rules, WindowName
from hivemem_windows.endpoints.resource_rules import ResourceRules
from hivemem_windows.entities.contents import CONTENT

SESSION: str = "session_id"


def announced_window(tenant: str, body: NamedWindow, rules: Rules) -> WindowName:
    """Return the window that an append names. Raises `TooLarge` for one whose changes no subject can carry."""
    name = window_of(body, rules)
    change_subject(tenant, "window", Address((name.resource,), name.key))
    return name


def window_of(body: NamedWindow, rules: Rules) -> WindowName:
    """Return the window that a body names. Raises `InvalidRequest` for a context that the template does not fit."""
    if body.key is not None:
        if body.context is not None:
            raise InvalidRequest("context: a window is named by its key or by a context, not by both", field="context")
        return WindowName(body.resource, body.key)
    context: dict[str, Any] = body.context or {}
    session_id = context.get(SESSION)
    return WindowName(
        body.resource, key_of(rules.resource.key, context), session_id if isinstance(session_id, str) else None
    )


async def find_window(
    ledger: Ledger, rules: ResourceRules, tenant: str, body: NamedWindow
) -> tuple[WindowName, Rules | None]:
    """Return the window that a read names, with its rules. A window outlives its resource."""
    try:
        found = await rules.rules(tenant, body.resource)
    except NotFound:
        name = WindowName(body.resource, body.key or "")
        if body.key is None or value_of(await ledger.head(CONTENT, tenant, name.id)) is None:
            raise
        return name, None
    return window_of(body, found), found
