"""A lease on the feed: one holder at a time, each with the next token, and every holder is announced."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from ..feed import Entry, in_order
from .held import Body
from .journal import Journal
from .leasing import GUARDED
from .writing import place

_NOBODY: Final[Body] = {"holder": None, "token": 0, "expires_at": None, "waiting": 0}


def check_lease_feed(entries: Sequence[Entry], *, skewed: bool = False) -> Iterator[str]:
    """Check the order of a lease's changes. If the workers' clocks differ, one may see an end before another does, so
    times are not compared."""
    name = f"lease {place(*GUARDED)}"
    versions = [entry.body["version"] for entry in entries]
    yield from in_order(name, versions, range(1, max(versions, default=0) + 1))
    before = _NOBODY
    for body in (entry.body for entry in entries):
        problem = _step(before, body["value"], body, skewed=skewed)
        if problem is not None:
            yield f"feed {name}: version {body['version']} is {body['operation']}: {problem}"
        before = body["value"]


def _step(before: Body, after: Body, body: Body, *, skewed: bool) -> str | None:
    """Return the fault of one change of the lease, or None."""
    if body["operation"] == "acquired":
        return _acquired(before, after, body, skewed=skewed)
    if after["token"] != before["token"]:
        return f"token {after['token']} follows {before['token']}"
    if body["operation"] in ("renewed", "awaited"):
        return None if after["holder"] == before["holder"] else f"{after['holder']} follows {before['holder']}"
    return _ended(before, after, body, skewed=skewed)


def _ended(before: Body, after: Body, body: Body, *, skewed: bool) -> str | None:
    if after["holder"] is not None or before["holder"] is None:
        return f"{after['holder']} follows {before['holder']}"
    if body["operation"] == "released" and body["actor"] != before["holder"]:
        return f"{body['actor']} gave back what {before['holder']} held"
    if body["operation"] == "expired" and not skewed and body["at"] < before["expires_at"]:
        return f"it ended at {body['at']}, before {before['expires_at']}"
    return None


def _acquired(before: Body, after: Body, body: Body, *, skewed: bool) -> str | None:
    if after["token"] != before["token"] + 1 or after["holder"] is None:
        return f"{after['holder']} got token {after['token']} after {before['token']}"
    held = before["holder"] is not None and body["at"] < before["expires_at"]
    if held and body["actor"] != before["holder"] and not skewed:
        return f"{after['holder']} got it at {body['at']}, {before['holder']} held it until {before['expires_at']}"
    return None


def check_grants(journal: Journal, versions: Sequence[Body], entries: Sequence[Entry]) -> Iterator[str]:
    """Check that every grant is announced to its one holder, and that no write under a token follows one under a later
    token."""
    holders: dict[int, str] = {
        entry.body["value"]["token"]: entry.body["value"]["holder"]
        for entry in entries
        if entry.body["value"]["holder"] is not None
    }
    for grant in journal.grants:
        if holders.get(grant.token) != grant.agent:
            yield f"{place(*GUARDED)}: {grant.agent} was granted token {grant.token} of {holders.get(grant.token)}"
    for before, after in pairwise(versions):
        if _token(after) < _token(before):
            yield (
                f"{place(*GUARDED)}: version {after['version']} was written under token {_token(after)}, "
                f"the version before under {_token(before)}"
            )
    for version in versions:
        if holders.get(_token(version)) != version["updated_by"]:
            yield (
                f"{place(*GUARDED)}: version {version['version']} was written by {version['updated_by']} "
                f"under token {_token(version)} of {holders.get(_token(version))}"
            )


def _token(version: Mapping[str, Any]) -> int:
    return int(version["value"]["token"])
