"""The kinds of cuts: which process dies, which copy is made before, and which damage is done while nothing runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, Literal, NamedTuple

from ..seeds import SOAK
from ..strikes.cuts import (
    Folder,
    Ledger,
    delete_changes,
    delete_jetstream,
    flip_in_block,
    flip_in_index,
    put_back_jetstream,
    put_back_ledger,
    truncate_block,
)

Victim = Literal["fleet", "nats-server", "in order"]
"""kill -9 of every process; kill -9 of the nats-server alone, which the fleet restarts; or an orderly stop, after which
the server trusts its index and does not read its blocks."""
Copied = Literal["jetstream", "sessions", "memory"]

LONGEST_AGE_SECONDS: Final = 2.0


class Place(NamedTuple):
    """The arguments of a damage: the folder, an earlier copy, and the source of random choices."""

    folder: Folder
    copy: Path
    """A copy of an earlier state; it does not exist for kinds that copy nothing."""
    choice: Random


@dataclass(frozen=True)
class Kind:
    name: str
    victims: Sequence[Victim]
    damage: Callable[[Place], str]
    """Does the damage and returns a description of it."""
    copied: Copied | None = None

    @property
    def ledger(self) -> Ledger | None:
        return None if self.copied == "jetstream" else self.copied


def _ledger(ledger: Ledger) -> Kind:
    return Kind(
        f"{ledger}-put-back", ["fleet"], lambda place: put_back_ledger(place.folder, ledger, place.copy), ledger
    )


KILLED: Final[Sequence[Victim]] = ("fleet", "fleet", "nats-server")

KINDS: Final = (
    Kind("nothing", KILLED, lambda _: "nothing damaged"),
    Kind("put-back", KILLED, lambda place: put_back_jetstream(place.folder, place.copy), "jetstream"),
    Kind("truncated", KILLED, lambda place: truncate_block(place.folder, place.choice)),
    Kind("flipped", KILLED, lambda place: flip_in_block(place.folder, place.choice)),
    Kind("flipped-at-rest", ["in order"], lambda place: flip_in_block(place.folder, place.choice)),
    Kind("index-flipped", ["in order"], lambda place: flip_in_index(place.folder, place.choice)),
    Kind("changes-deleted", KILLED, lambda place: delete_changes(place.folder)),
    Kind("all-deleted", KILLED, lambda place: delete_jetstream(place.folder)),
    _ledger("sessions"),
    _ledger("memory"),
)


@dataclass(frozen=True)
class Plan:
    """The cuts of one fleet, one after another."""

    name: str
    kinds: Sequence[Kind]
    seed: int


CUTS_OF_A_KIND: Final = 3 if SOAK else 2
"""The second cut meets a feed that has begun again; a soak repeats the found seeds with all their cuts."""
CUTS_OF_A_MIXTURE: Final = 20
ONE_OF_EACH: Final = CUTS_OF_A_KIND * len(KINDS)


def plans(cuts: int, seed: int) -> list[Plan]:
    """Plan each kind by itself first, which shows the kind that fails, then mixtures until there are `cuts`."""
    found = [Plan(kind.name, [kind] * CUTS_OF_A_KIND, seed) for kind in KINDS]
    left = cuts - ONE_OF_EACH
    choice = Random(f"{seed}/plans")
    while left > 0:
        kinds = choice.choices(KINDS, k=min(left, CUTS_OF_A_MIXTURE))
        found.append(Plan(f"mixed-{len(found) - len(KINDS) + 1}", kinds, seed))
        left -= len(kinds)
    return found
