"""Compares the content of the fleet with its acknowledgements. A finding names namespace, key and version."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from nats.aio.client import Client

from hivemem_contracts.identifiers import NAMESPACE_ROOTS

from ..asking import AGENT, Asking
from ..feed import Entry, in_order, read_dead_letters, read_feed
from ..journal import Sent
from .audit_verifier import check_chain, check_links
from .held import Body, read_audit, read_history, read_list, verify_audit
from .journal import Journal
from .lease_verifier import check_grants, check_lease_feed
from .leasing import GUARDED
from .life_verifier import check_feed, check_late, check_receipts
from .version_verifier import check_versions
from .writing import memory, place

_AT_ONCE: Final = 16
_MOMENTS: Final = 30

Place = tuple[str, str]
ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


async def verify(client: Client, journal: Journal, seed: int, *, skewed: bool = False) -> list[str]:
    asking = Asking(client, "memory", AGENT)
    feed = _by_entity(await read_feed(client))
    told, leases = _by_place(feed.pop("memory", [])), _by_place(feed.pop("lease", []))
    found = check_index_feed(_by_place(feed.pop("index", [])))
    erasures = feed.pop("erasure", [])
    found += [f"the feed has {len(entries)} changes of {entity}" for entity, entries in feed.items()]
    links = await read_audit(asking)
    held = await _histories(asking, journal, told)
    sent = _by_what_they_write(journal.sent)
    for each, versions in held.items():
        found += check_versions(each, versions, sent[each], journal.unsure)
        found += check_feed(each, versions, told.get(each, []), sent[each])
    found += check_late(journal, told, links, await read_dead_letters(client))
    lease = leases.pop(GUARDED, [])
    found += [f"the feed has changes of the lease {each}" for each in leases]
    found += check_lease_feed(lease, skewed=skewed)
    found += check_grants(journal, held.get(GUARDED, []), lease)
    found += check_links(journal, links, told, sent)
    found += check_chain(await verify_audit(asking), len(links))
    found += await check_receipts(asking, journal, links, erasures)
    found += await check_lists(asking, held)
    found += await check_moments(asking, held, random.Random(f"{seed}/moments"))
    return found


def check_index_feed(told: dict[Place, list[Entry]]) -> list[str]:
    """Check that index announcements are numbered from 1, once and in order. Without a vectors worker there are no
    announcements."""
    found: list[str] = []
    for each, entries in told.items():
        versions = [entry.body["version"] for entry in entries]
        found += in_order(f"index {place(*each)}", versions, range(1, max(versions) + 1))
    return found


def _by_what_they_write(sent: Iterable[Sent]) -> dict[Place, list[Sent]]:
    found: dict[Place, list[Sent]] = defaultdict(list)
    for each in sent:
        found[each.body["namespace"], each.body["key"]].append(each)
    return found


def _by_entity(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        found[entry.body["entity"]].append(entry)
    return found


def _by_place(entries: Iterable[Entry]) -> dict[Place, list[Entry]]:
    found: dict[Place, list[Entry]] = defaultdict(list)
    for entry in entries:
        found[entry.body["namespace"], entry.body["key"]].append(entry)
    return dict(found)


async def _histories(asking: Asking, journal: Journal, told: dict[Place, list[Entry]]) -> dict[Place, list[Body]]:
    """Return the histories of all memories that were written or appear on the feed."""
    places = {(sent.body["namespace"], sent.body["key"]): None for sent in journal.sent} | dict.fromkeys(told)
    histories = await _each(places, lambda each: read_history(asking, *each))
    return dict(zip(places, histories, strict=True))


async def _each(items: Iterable[ItemT], act: Callable[[ItemT], Awaitable[ResultT]]) -> list[ResultT]:
    """Work like `gather`, with a limit that a newly started worker handles well."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(item: ItemT) -> ResultT:
        async with room:
            return await act(item)

    return await asyncio.gather(*map(one, items))


async def check_lists(asking: Asking, held: dict[Place, list[Body]]) -> list[str]:
    """Check that the lists have the same newest versions as the histories, and the same number of living memories."""
    found: list[str] = []
    for root in NAMESPACE_ROOTS:
        newest = {each: versions[-1] for each, versions in held.items() if versions and each[0].split(":")[0] == root}
        listed = {(item["namespace"], item["key"]): item for item in await read_list(asking, root)}
        for each in sorted(newest.keys() | listed.keys()):
            expected, actual = (known[each]["version"] if each in known else None for known in (newest, listed))
            if expected != actual:
                found.append(f"{place(*each)}: listed at version {actual}, its history ends at {expected}")
        living = sum(not version["deleted"] for version in newest.values())
        count = (await asking.request("count", {"prefix": root}))["count"]
        if count != living:
            found.append(f"{root}: {count} are counted, {living} live")
    return found


async def check_moments(asking: Asking, held: dict[Place, list[Body]], choice: random.Random) -> list[str]:
    """Check that a read as of the time of a version returns that version."""
    versions = [version for versions in held.values() for version in versions]
    some = choice.sample(versions, min(_MOMENTS, len(versions)))
    results = await _each(some, lambda version: _at_its_moment(asking, version))
    return list(_differing(some, results))


async def _at_its_moment(asking: Asking, version: Body) -> Body:
    key = memory(version["namespace"], version["key"])
    return await asking.request("get", {**key, "as_of": version["updated_at"], "include_deleted": True})


def _differing(versions: Sequence[Body], found: Sequence[Body]) -> Iterator[str]:
    for version, there in zip(versions, found, strict=True):
        if (there["version"], there["digest"]) != (version["version"], version["digest"]):
            name = place(version["namespace"], version["key"])
            yield f"{name}: version {version['version']}, as of its own moment, is {there['version']}"
