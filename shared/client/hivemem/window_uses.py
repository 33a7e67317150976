"""The windows in an agent's configuration: a name, a name with a key, or a list of them with modes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import pydantic
from pydantic import Field

from hivemem.window import Mode, Window
from hivemem_contracts.error_values import shown
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import Id
from hivemem_contracts.model import RequestBody, invalid_request
from hivemem_contracts.windows.models import ResourceId

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
