"""Compares the files of the fleet with its acknowledgements. A finding names the file and the version."""

from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

from nats.aio.client import Client

from ..asking import Asking
from ..feed import Entry, in_order, read_dead_letters, read_feed
from ..journal import Journal, Sent
from .load import SESSION

_PAGE: Final = 1_000
_ANSWER_SECONDS: Final = 10.0

Body = dict[str, Any]


async def verify(client: Client, journal: Journal) -> list[str]:
    asking = Asking(client, "artifacts")
    told: dict[str, list[Entry]] = defaultdict(list)
    for entry in await read_feed(client):
        told[entry.body["key"]].append(entry)
    sent: dict[str, list[Sent]] = defaultdict(list)
    for each in journal.sent:
        sent[each.place].append(each)
    found = [f"a dead letter: {entry.subject}: {entry.body}" for entry in await read_dead_letters(client)]
    newest = {entry["name"]: entry for entry in await _pages(asking, "manifest", {"session_id": SESSION})}
    for name, of_name in sent.items():
        versions = (await _pages(asking, "versions", {"session_id": SESSION, "name": name}))[::-1]
        found += check_versions(name, versions, of_name)
        found += check_feed(name, versions, told.pop(name, []))
        found += [what for version in versions for what in await check_bytes(asking, version)]
        if versions and newest[name]["sha256"] != versions[-1]["sha256"]:
            found.append(f"{name}: the manifest has {newest[name]}, the newest version is {versions[-1]}")
    return [*found, *(f"the feed tells of {name}, which nobody saved" for name in told)]


def check_versions(name: str, versions: Sequence[Body], sent: Sequence[Sent]) -> Iterator[str]:
    """Check that the versions of a name are its saves in order; its writer waits for each answer."""
    if [version["version"] for version in versions] != list(range(1, len(versions) + 1)):
        yield f"{name}: the versions are {[version['version'] for version in versions]}"
    for each, version in zip(sent, versions, strict=False):
        if version["sha256"] != each.body["sha256"]:
            yield f"{name}: version {version['version']} is not as {each.id}"
        if each.answer is not None and each.answer["version"] != version["version"]:
            yield f"{name}: {each.id} was answered version {each.answer['version']}, it is {version['version']}"
    if len(versions) != len(sent):
        yield f"{name}: {len(sent)} saves made {len(versions)} versions"


def check_feed(name: str, versions: Sequence[Body], entries: Sequence[Entry]) -> Iterator[str]:
    yield from in_order(name, (entry.body["version"] for entry in entries), range(1, len(versions) + 1))
    for entry in entries:
        number: int = entry.body["version"]
        if number <= len(versions) and entry.body["value"]["sha256"] != versions[number - 1]["sha256"]:
            yield f"feed {name}: version {number} was told with other bytes than it has"


async def check_bytes(asking: Asking, version: Body) -> list[str]:
    body = {"session_id": SESSION, "name": version["name"], "version": version["version"]}
    answer = await asking.request("get", body, seconds=_ANSWER_SECONDS)
    if sha256(b64decode(answer["data_base64"])).hexdigest() == version["sha256"]:
        return []
    return [f"{version['name']}: the bytes of version {version['version']} are not those that were saved"]


async def _pages(asking: Asking, operation: str, body: Body) -> list[Body]:
    items: list[Body] = []
    cursor: str | None = None
    while True:
        more = {"cursor": cursor} if cursor else {}
        page = await asking.request(operation, {**body, "limit": _PAGE, **more}, seconds=_ANSWER_SECONDS)
        items += page["items"]
        cursor = page["cursor"]
        if cursor is None:
            return items
