"""The audit chain has a done link for each committed version and a link for each refusal."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ..feed import Entry
from ..journal import Sent
from .held import Body
from .journal import Journal
from .life_verifier import first_on_feed
from .writing import place

Place = tuple[str, str]


def check_links(
    journal: Journal,
    links: Sequence[Body],
    told: Mapping[Place, Sequence[Entry]],
    sent: Mapping[Place, Sequence[Sent]],
) -> Iterator[str]:
    for position, link in enumerate(links, 1):
        if link["position"] != position:
            yield f"audit: link {position} is number {link['position']}"
    done: dict[Place, list[Body]] = {}
    for link in links:
        if link["outcome"] == "done":
            done.setdefault((link["namespace"], link["key"]), []).append(link)
    for where in sorted(told.keys() | done.keys() | sent.keys()):
        yield from _check_done(where, done.get(where, []), told.get(where, []))
        yield from _check_answered(where, done.get(where, []), sent.get(where, []))
    yield from _check_refused(journal, [link for link in links if link["outcome"] == "refused"])


def _check_done(where: Place, links: Sequence[Body], entries: Sequence[Entry]) -> Iterator[str]:
    name = place(*where)
    counts = Counter(link["to_version"] for link in links)
    for version, count in sorted(counts.items()):
        if count > 1:
            yield f"audit {name}: {count} links tell of version {version}"
    known = {link["to_version"]: link for link in links}
    versions = [link["to_version"] for link in links]
    if versions != sorted(versions):
        yield f"audit {name}: the links tell of the versions in the order {versions}"
    for body in (entry.body for entry in entries):
        link = known.pop(body["version"], None)
        if link is None:
            yield f"audit {name}: no link tells of version {body['version']}"
            continue
        expected = (body["operation"], body["actor"], body["cause"], body["at"], body["value"].get("digest"))
        actual = (link["operation"], link["actor"], link["request_id"], link["at"], link["digest"])
        if actual != expected or link["from_version"] != body["previous_version"]:
            yield f"audit {name}: version {body['version']} is linked as {actual}, told as {expected}"
    first = first_on_feed(entries)
    for version in sorted(version for version in known if version >= first):
        position = known[version]["position"]
        yield f"audit {name}: link {position} tells of version {version}, of which the feed has nothing"


def _check_answered(where: Place, links: Sequence[Body], sent: Sequence[Sent]) -> Iterator[str]:
    """Check that each answered version was made by its request, also where an erasure removed it from the feed."""
    made_by = {link["to_version"]: link["request_id"] for link in links}
    for each in sent:
        version = (each.answer or {}).get("version")
        if version is not None and made_by.get(version) != each.id:
            yield f"audit {place(*where)}: version {version} is of {made_by.get(version)}, {each.id} was answered it"


def _check_refused(journal: Journal, links: Sequence[Body]) -> Iterator[str]:
    """Check that the chain has each refusal once. A caller that retried may know only the second of two reasons, and
    hears nothing of an earlier copy of its request that is refused after an erasure."""
    counts = Counter((link["request_id"], link["error"]) for link in links)
    for (id, error), count in sorted(counts.items()):
        if count > 1:
            yield f"audit: {count} links tell that {id} was refused: {error}"
    for refusal in journal.refusals:
        if not counts[refusal]:
            yield f"audit: no link tells that {refusal.id} was refused: {refusal.error}"
    known = {refusal.id for refusal in journal.refusals} | journal.late | journal.resent
    for id, error in sorted(counts):
        if id not in known and counts[id, error]:
            yield f"audit: a link tells that {id} was refused: {error}; it heard nothing of that"


def check_chain(answer: Body, links: int) -> Iterator[str]:
    """Check the service's own verification of its chain."""
    if not answer["ok"]:
        yield f"audit: link {answer['broken_at']} is broken: {answer['problem']}"
    elif answer["cursor"] is not None or answer["checked"] < links:
        yield f"audit: the verification of {links} links came to {answer}"
