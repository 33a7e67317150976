"""Decides whether reads and conditional writes of versioned registers could have happened one after another.

Each write expects a version and, if it succeeds, makes the next one. So the writes of a key form one chain without a
fork, and an operation that begins after another one has ended sees the version of that one or a later one.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["read", "write", "refused"]
"""A `refused` write got a conflict, because its expected version was not the current one."""
History = Mapping[int, str]
"""For each version after the first one, the id of its write, as the fleet answers it at the end."""


@dataclass(frozen=True)
class Operation:
    """One read or write. `began` and `ended` are readings of one clock."""

    kind: Kind
    key: str
    id: str
    """The id of a write; for a read the id that it found as the value, empty if nothing was written yet."""
    version: int
    """The version that a write made, a read found, or a refused write expected."""
    began: float
    ended: float
    expected: int = 0
    """The version that a write expected."""
    tries: int = 1
    """The number of tries. An earlier try of a refused write may have succeeded."""


def check(operations: Sequence[Operation], histories: Mapping[str, History]) -> Iterator[str]:
    """Yield the contradictions, each with its key and its versions."""
    by_key: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        by_key[operation.key].append(operation)
    for key, history in histories.items():
        of_key = by_key[key]
        yield from (f"{key}: {what}" for what in _check_chain(of_key, history))
        yield from (f"{key}: {what}" for what in _check_values(of_key, history))
        yield from (f"{key}: {what}" for what in _check_order(of_key))
        yield from (f"{key}: {what}" for what in _check_refusals(of_key, history))


def _check_chain(operations: Sequence[Operation], history: History) -> Iterator[str]:
    made: dict[int, str] = {}
    for write in operations:
        if write.kind != "write":
            continue
        if write.version != write.expected + 1:
            yield f"{write.id} expected version {write.expected} and made {write.version}"
        if write.version in made:
            yield f"{made[write.version]} and {write.id} both made version {write.version}: one update is lost"
        made[write.version] = write.id
        if history.get(write.version) != write.id:
            yield f"{write.id} made version {write.version}, which is {history.get(write.version)} at the end"
    unsure = {each.id for each in operations if each.kind == "refused" and each.tries > 1}
    places: dict[str, int] = {}
    for version, id in history.items():
        if version not in made and id not in unsure:
            yield f"version {version} is {id}, which was never acknowledged"
        if id in places:
            yield f"{id} is there twice, as version {places[id]} and {version}"
        places[id] = version
    if history and sorted(history) != list(range(min(history), min(history) + len(history))):
        yield f"the versions at the end are {sorted(history)}"


def _check_values(operations: Sequence[Operation], history: History) -> Iterator[str]:
    for read in operations:
        if read.kind == "read" and read.id != history.get(read.version, ""):
            yield f"a read found version {read.version} as {read.id or 'nothing'}, it is {history.get(read.version)}"


def _check_order(operations: Sequence[Operation]) -> Iterator[str]:
    """Check the order in a sweep over time: `newest` is the highest version seen before an operation began."""
    ending = sorted((each for each in operations if each.kind != "refused"), key=lambda each: each.ended)
    newest: Operation | None = None
    place = 0
    for each in sorted(ending, key=lambda each: each.began):
        while place < len(ending) and ending[place].ended < each.began:
            if newest is None or ending[place].version > newest.version:
                newest = ending[place]
            place += 1
        if newest is None:
            continue
        lowest = newest.version + (1 if each.kind == "write" else 0)
        if each.version < lowest:
            verb = "made" if each.kind == "write" else "found"
            yield f"a {each.kind} {verb} version {each.version} after a {newest.kind} had ended with {newest.version}"


def _check_refusals(operations: Sequence[Operation], history: History) -> Iterator[str]:
    """Check that another write made the version in question, and had begun before the refusal."""
    began = {each.id: each.began for each in operations if each.kind != "read"}
    for refused in operations:
        if refused.kind != "refused" or refused.tries > 1:
            continue
        winner = history.get(refused.version + 1)
        if winner is None or began.get(winner, 0.0) > refused.ended:
            yield f"{refused.id} expected version {refused.version}, which was the newest one, and was refused"
