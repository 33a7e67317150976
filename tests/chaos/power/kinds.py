"""The kinds of cuts: who is struck, what is copied before, and which state is laid while nothing runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, Literal

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
"""kill -9 of all; of the nats-server alone, which the fleet starts again; or an orderly stop, after which the server
trusts its index and does not read its blocks."""
Copied = Literal["jetstream", "sessions", "memory"]

LONGEST_AGE_SECONDS: Final = 2.0


@dataclass(frozen=True)
class Kind:
    name: str
    victims: Sequence[Victim]
    lay: Callable[[Folder, Path, Random], str]
    """Takes the copy, where there is one, and says what it did."""
    copied: Copied | None = None


def _ledger(ledger: Ledger) -> Kind:
    return Kind(f"{ledger}-put-back", ["fleet"], lambda folder, copy, _: put_back_ledger(folder, ledger, copy), ledger)


KILLED: Final[Sequence[Victim]] = ("fleet", "fleet", "nats-server")

KINDS: Final = (
    Kind("nothing", KILLED, lambda *_: "nothing more"),
    Kind("put-back", KILLED, lambda folder, copy, _: put_back_jetstream(folder, copy), "jetstream"),
    Kind("truncated", KILLED, lambda folder, _, choice: truncate_block(folder, choice)),
    Kind("flipped", KILLED, lambda folder, _, choice: flip_in_block(folder, choice)),
    Kind("flipped-at-rest", ["in order"], lambda folder, _, choice: flip_in_block(folder, choice)),
    Kind("index-flipped", ["in order"], lambda folder, _, choice: flip_in_index(folder, choice)),
    Kind("changes-deleted", KILLED, lambda folder, *_: delete_changes(folder)),
    Kind("all-deleted", KILLED, lambda folder, *_: delete_jetstream(folder)),
    _ledger("sessions"),
    _ledger("memory"),
)


@dataclass(frozen=True)
class Plan:
    """The cuts of one fleet, one after the other."""

    name: str
    kinds: Sequence[Kind]


CUTS_OF_A_KIND: Final = 3
CUTS_OF_A_MIXTURE: Final = 20


def plans(cuts: int, seed: int) -> list[Plan]:
    """First each kind by itself, so that it shows which one does not hold; then mixtures, until there are `cuts`."""
    found = [Plan(kind.name, [kind] * CUTS_OF_A_KIND) for kind in KINDS]
    left = cuts - CUTS_OF_A_KIND * len(KINDS)
    choice = Random(f"{seed}/plans")
    while left > 0:
        kinds = choice.choices(KINDS, k=min(left, CUTS_OF_A_MIXTURE))
        found.append(Plan(f"mixed-{len(found) - len(KINDS) + 1}", kinds))
        left -= len(kinds)
    return found
