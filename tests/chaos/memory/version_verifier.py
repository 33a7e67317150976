"""The history of one memory against the writes that were sent to it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any, cast

from ..journal import Sent
from .held import Body
from .writing import place


def check_versions(
    where: tuple[str, str], versions: Sequence[Body], sent: Sequence[Sent], unsure: Set[str]
) -> Iterator[str]:
    """Check that every write appears once, as it was answered, in the order of its writer, and yields the stored
    values. Writes in `unsure` appear at most once."""
    name = place(*where)
    yield from _check_row(name, versions)
    waiting: dict[str, list[Sent]] = defaultdict(list)
    for each in sent:
        waiting[each.id].append(each)
    reached: dict[str, int] = defaultdict(int)
    left = set(unsure)
    before: Body | None = None
    value: Any = None
    for version in versions:
        number, id = version["version"], version["request_id"]
        if waiting[id]:
            each = waiting[id].pop(0)
            if each.number < reached[each.writer]:
                yield f"{name}: version {number} is {id}, after number {reached[each.writer]} of its writer"
            reached[each.writer] = each.number
            value = _folded(value, each)
            yield from _check_write(name, each, version, before)
            yield from _check_value(name, each, version, value)
        elif id in left:
            left.remove(id)
            value = version["value"]
        else:
            yield f"{name}: version {number} is {id}, which nobody sent, or which is there already"
        before = version
    for each in (each for some in waiting.values() for each in some):
        if not _was_erased(each, versions):
            yield f"{name}: {each.id} was acknowledged with {each.answer} and is not there"


def _check_row(name: str, versions: Sequence[Body]) -> Iterator[str]:
    """Check that versions have no gap, and that each is later than the one before."""
    for before, after in pairwise(versions):
        number, at = after["version"], after["updated_at"]
        if number != before["version"] + 1:
            yield f"{name}: version {number} follows {before['version']}"
        if at <= before["updated_at"]:
            yield f"{name}: version {number} is of {at}, that before of {before['updated_at']}"


def _check_write(name: str, sent: Sent, version: Body, before: Body | None) -> Iterator[str]:
    number = version["version"]
    answer = sent.answer or {}
    if not sent.durable and answer["version"] != number:
        yield f"{name}: version {number} is {sent.id}, which was answered {answer['version']}"
    if (version["operation"], version["updated_by"]) != (sent.kind, sent.writer):
        yield f"{name}: version {number} is a {version['operation']} of {version['updated_by']}, not as {sent.id}"
    lived = before is not None and not before["deleted"]
    if not sent.durable and sent.kind == "put" and answer["created"] is lived:
        yield f"{name}: {sent.id} was answered created {answer['created']} at version {number}"
    expected = sent.body.get("expect_version")
    if expected is not None and expected != (before["version"] if before is not None and lived else 0):
        yield f"{name}: version {number} is {sent.id}, which expected {expected}"


def _check_value(name: str, sent: Sent, version: Body, value: Any) -> Iterator[str]:
    deleted = sent.kind == "delete"
    if version["deleted"] is not deleted or version["value"] != (None if deleted else value):
        yield f"{name}: version {version['version']} is {version['value']}, {sent.id} makes it {value}"


def _folded(value: Any, sent: Sent) -> Any:
    """Return the value after a write. A deletion keeps it, since a restore brings it back."""
    if sent.kind == "put":
        return sent.body["value"]
    return merged(value, sent.body["patch"]) if sent.kind == "patch" else value


def merged(value: Any, patch: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a merge patch by RFC 7396. The load sends objects without null."""
    return {**(cast("dict[str, Any]", value) if isinstance(value, dict) else {}), **patch}


def _was_erased(sent: Sent, versions: Sequence[Body]) -> bool:
    """Return whether the load has erased this write, which it does to namespaces of mayflies. The feed shows those."""
    if not sent.writer.startswith("mayfly"):
        return False
    return sent.durable or not versions or (sent.answer or {})["version"] < versions[0]["version"]
