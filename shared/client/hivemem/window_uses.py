"""The windows of a client: one by its name, or those in an agent's configuration."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import pydantic
from pydantic import Field

from hivemem.window import Window
from hivemem_contracts.error_values import shown
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import Id
from hivemem_contracts.model import RequestBody, invalid_request
from hivemem_contracts.windows.models import Mode, ResourceId

if TYPE_CHECKING:
    from hivemem.hive import Hive

WINDOWS_OF_AN_AGENT: Final = 64

WindowConfig = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
"""The name of a resource; its name and a key; or a list of these, each with a mode and an alias."""


class WindowUse(RequestBody):
    """A window that an agent uses."""

    name: ResourceId = Field(description="The resource.")
    key: Id | None = Field(default=None, description="The window; that of the variables if left out.")
    mode: Mode = "read-write"
    alias: Id | None = Field(default=None, description="The agent's name for it; that of the resource if left out.")


class WindowUses(RequestBody):
    """The windows of an agent."""

    windows: list[WindowUse] = Field(min_length=1, max_length=WINDOWS_OF_AN_AGENT)


def windows_of(hive: "Hive", config: WindowConfig, context: Mapping[str, Any]) -> dict[str, Window]:
    """Return the windows of a configuration by alias. Raises `InvalidRequest` by field."""
    several = isinstance(config, Sequence) and not isinstance(config, str)
    listed = list(cast("Sequence[object]", config)) if several else [config]
    uses = [{"name": use} if isinstance(use, str) else use for use in listed]
    try:
        checked = WindowUses.model_validate({"windows": uses})
    except pydantic.ValidationError as error:
        raise invalid_request(error, model=WindowUses) from error
    found: dict[str, Window] = {}
    for place, use in enumerate(checked.windows):
        name = use.alias or use.name
        if name in found:
            raise InvalidRequest(
                f"windows.{place}.alias: {shown(name)} is there twice: give one of them an alias",
                field=f"windows.{place}.alias",
            )
        if use.key is not None and "{{" in use.key:
            raise InvalidRequest(
                f"windows.{place}.key: a key has no variables, only the resource's template has, got {shown(use.key)}",
                field=f"windows.{place}.key",
            )
        found[name] = Window(hive, use.name, use.key, {} if use.key is not None else context, use.mode)
    return found


class WindowHandles:
    """The methods of a client that return windows."""

    def window(
        self,
        resource: str,
        /,
        *,
        key: str | None = None,
        mode: Mode = "read-write",
        context: Mapping[str, Any] | None = None,
        **variables: Any,
    ) -> Window:
        """Return a window of a resource, by the variables of its key template or by its key; sends nothing.

        `hive.window("customer-support", user_id="u1")`, or `key="user:u1"`. `context` takes variables that are
        named like an argument. In the mode `read-only`, methods that write raise `Forbidden`.
        """
        return Window(cast("Hive", self), resource, key, {**(context or {}), **variables}, mode)

    def windows_of(
        self, config: WindowConfig, /, *, context: Mapping[str, Any] | None = None, **variables: Any
    ) -> dict[str, Window]:
        """Return the windows that an agent's configuration names, by name or alias; sends nothing.

        A configuration is the name of a resource, or `{"name": …, "key": …}`, or a list of these, each with a `mode`
        (`read-write` or `read-only`) and an `alias`. Windows without a key have that of the variables. Raises
        `InvalidRequest` by field.
        """
        return windows_of(cast("Hive", self), config, {**(context or {}), **variables})
