"""The services of the fleet and all their changes: the one list that everything about every service follows from."""

from importlib import import_module
from typing import Any, Final

from hivemem_contracts.changes import ChangeKind
from hivemem_contracts.operations import ServiceContract

NAMES: Final = (
    "sessions",
    "memory",
    "artifacts",
    "vectors",
    "agents",
    "windows",
)
"""Each service is a package of its name beside this module. The documents and the command keep this order."""


def _of(service: str, module: str, name: str) -> Any:
    return getattr(import_module(f"hivemem_contracts.{service}.{module}"), name)


SERVICES: Final[tuple[ServiceContract, ...]] = tuple(_of(name, "operations", name.upper()) for name in NAMES)
CHANGES: Final[tuple[ChangeKind, ...]] = tuple(kind for name in NAMES for kind in _of(name, "changes", "CHANGES"))
