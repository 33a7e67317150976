"""Shares: the events and large values that a fork has from another session, and the deletions that wait for them."""

from dataclasses import dataclass
from typing import Final

from hivemem_runtime.ledger.entity import Index, record_entity


@dataclass(frozen=True, slots=True)
class Share:
    """A fork's claim on the events of a session, through a position, and on its large values. Head and record have the
    same shape.

    The status is "shared" while the fork lives, "ended" after the fork is deleted, and "released" once events that no
    other fork shares are removed. A retry of an interrupted deletion continues from the status.
    """

    owner: str
    fork: str
    position: int
    status: str = "shared"


def share_id(owner: str, fork: str) -> str:
    """Return the id of a share. It is unambiguous because session ids hold no control characters."""
    return f"{owner}\n{fork}"


SHARE: Final = record_entity(
    "share",
    Share,
    indexed=lambda share: {
        "owner": share.owner if share.status == "shared" else None,
        "fork": share.fork if share.status != "released" else None,
        "position": share.position,
    },
    indexes=(Index("owner", ("owner",), "position"), Index("fork", ("fork",), "position")),
)


@dataclass(frozen=True, slots=True)
class Deletion:
    """The start of a session's deletion. `revision` tells that session apart from a later one with the same id."""

    revision: int


DELETION: Final = record_entity("deletion", Deletion)
