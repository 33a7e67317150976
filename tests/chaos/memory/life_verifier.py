"""The feed of each memory since its last erasure, and the receipts of the erasures."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from ..asking import Asking
from ..feed import Entry, in_order
from ..journal import Sent
from .held import Body
from .journal import Journal
from .writing import place

_TOLD_AS: Final = {"put": "put", "patch": "put", "delete": "deleted", "restore": "restored"}


def check_feed(
    where: tuple[str, str], versions: Sequence[Body], entries: Sequence[Entry], sent: Sequence[Sent]
) -> Iterator[str]:
    """Check that each version since the last erasure is announced once and in order, and agrees with history and
    answers, and that nothing from before the erasure is left."""
    name = place(*where)
    told = {entry.body["version"]: entry.body for entry in entries}
    last = versions[-1]["version"] if versions else max(told, default=0)
    first = first_on_feed(entries)
    tombstones = [entry.body["version"] for entry in entries if entry.body["operation"] == "erased"]
    expected = sorted({*tombstones, *range(first, last + 1)})
    yield from in_order(name, (entry.body["version"] for entry in entries), expected)
    for before, after in pairwise(entry.body for entry in entries):
        if after["at"] <= before["at"]:
            yield f"feed {name}: version {after['version']} is of {after['at']}, that before of {before['at']}"
    for version, body in told.items():
        if body["previous_version"] != (version - 1 or None):
            yield f"feed {name}: version {version} has the previous version {body['previous_version']}"
    for version in versions:
        yield from _check_told(name, version, told.get(version["version"]))
    before_life = versions[0]["version"] - 1 if versions else last
    if before_life and told.get(before_life, {}).get("operation") != "erased":
        yield f"feed {name}: version {before_life} is gone from the history, and nobody erased it"
    for each in sent:
        version = 0 if each.durable else (each.answer or {}).get("version", 0)
        if version >= first and told.get(version, {}).get("cause") != each.id:
            yield f"feed {name}: version {version} is {told.get(version)}, {each.id} was answered it"


def first_on_feed(entries: Sequence[Entry]) -> int:
    """Return the version from which on the feed has to be whole: the last erasure, or the first version."""
    erasures = (entry.body["version"] for entry in entries if entry.body["operation"] == "erased")
    return max(erasures, default=1)


def _check_told(name: str, version: Body, told: Body | None) -> Iterator[str]:
    if told is None:
        return
    expected = (
        _TOLD_AS.get(version["operation"]),
        version["updated_by"],
        version["request_id"],
        version["updated_at"],
        version["digest"],
        version["value"],
    )
    actual = (
        told["operation"],
        told["actor"],
        told["cause"],
        told["at"],
        told["value"]["digest"],
        told["value"]["value"],
    )
    if actual != expected:
        yield f"feed {name}: version {version['version']} is told as {actual}, the history has {expected}"


def check_late(
    journal: Journal,
    told: Mapping[tuple[str, str], Sequence[Entry]],
    links: Sequence[Body],
    letters: Sequence[Entry],
) -> Iterator[str]:
    """Check that each command which an erasure may overtake was done before it, or refused."""
    refused = Counter(_writer_and_number(entry.body["value"]) for entry in letters)
    done = {link["request_id"] for link in links if link["outcome"] == "done"}
    for where, entries in told.items():
        last = entries[-1].body
        if where[1] == "late" and last["operation"] != "erased":
            yield f"{place(*where)}: version {last['version']} came after the erasure that it was sent before"
    for id in sorted(journal.late - done - refused.keys()):
        yield f"{id} was acknowledged by the stream, and is neither done nor refused"
    for id in sorted(refused.keys() - journal.late):
        yield f"{id} is a dead letter"


def _writer_and_number(value: Body) -> str:
    return f"{value['writer']}-{value['number']}"


async def check_receipts(
    asking: Asking, journal: Journal, links: Sequence[Body], announced: Sequence[Entry]
) -> list[str]:
    """Check that every erasure is done, is announced as removed and then as done, counted each version once, and
    erased each memory once."""
    erased_by = Counter(link["request_id"] for link in links if link["operation"] == "erased")
    steps: dict[str, list[str]] = defaultdict(list)
    for entry in announced:
        steps[entry.body["value"]["receipt"]].append(entry.body["operation"])
    found: list[str] = []
    for erased in journal.erased:
        receipt = await asking.request("erasure", {"receipt": erased.receipt})
        name = f"{erased.namespace}: erasure {erased.receipt}"
        if receipt["status"] != "done":
            found.append(f"{name} is {receipt['status']}")
        for what, (least, most) in (("entries", erased.entries), ("versions", erased.versions)):
            if not least <= receipt[what] <= most:
                found.append(f"{name} counted {receipt[what]} {what}, there were {least} to {most}")
        if erased_by[erased.id] != receipt["entries"]:
            found.append(f"{name} counted {receipt['entries']}, the audit tells of {erased_by[erased.id]}")
        if steps[erased.receipt] != ["removed", "done"]:
            found.append(f"{name} is announced as {steps[erased.receipt]}")
        confirmed = {each["worker"]: each["removed"] for each in receipt["confirmed"]}
        # The number depends on what a killed worker had purged already.
        if confirmed.pop("feed", None) is None:
            found.append(f"{name} did not purge the feed")
        # A vectors worker counts each memory once, however many of its versions were indexed.
        expected = {"memory": receipt["versions"], "vectors": receipt["entries"]}
        if confirmed not in ({"memory": receipt["versions"]}, expected):
            found.append(f"{name} is confirmed by {confirmed}, and should be by {expected}")
    return found
