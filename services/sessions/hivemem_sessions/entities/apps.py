"""Apps: the state keys by which their sessions can be found."""

from dataclasses import dataclass
from typing import Any, Final

from hivemem_contracts.subjects import Address, change_subject
from hivemem_runtime.ledger.entity import Announcement, Entity, Stamp


@dataclass(frozen=True, slots=True)
class App:
    """Head and record of an app. `slots` maps each indexed key to the number of its index, in the order of the request.

    `declared` grows when keys are added. Each session has a copy of the slots and of this number, so that no write of
    a session reads the app. `pending` are the keys that earlier sessions do not have in their copy yet.
    """

    slots: dict[str, int]
    declared: int
    pending: list[str]


def app_value(app: App) -> dict[str, Any]:
    """Return the wire format of an app, without its name."""
    return {"state_indexes": list(app.slots), "pending": app.pending}


def require_app_announceable(tenant: str, app_name: str) -> None:
    """Raise `TooLarge` for a name whose changes would exceed the subject limit."""
    change_subject(tenant, "app", Address((app_name,)))


def _announce(app: App, stamp: Stamp) -> tuple[Announcement, ...]:
    previous = stamp.version - 1 or None
    return (Announcement("app", "changed", Address((stamp.id,)), stamp.id, stamp.version, previous, app_value(app)),)


APP: Final = Entity(
    name="app",
    head=App,
    record=App,
    evolve=lambda head, record, stamp: record,
    announce=_announce,
    told_as={"app": lambda namespace, key: namespace},
    indexed=lambda head: {},
    snapshot_every=1,
)
