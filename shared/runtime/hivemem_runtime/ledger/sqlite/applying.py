"""What a batch staged, as rows."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple

from hivemem_runtime.ledger.codec import dump, squeeze
from hivemem_runtime.ledger.sqlite.cache import CachedHead, SqliteHeadCache
from hivemem_runtime.ledger.sqlite.rows import write
from hivemem_runtime.ledger.sqlite.tables import Table, changes
from hivemem_runtime.ledger.stored import StoredRecord


class NewRecord(NamedTuple):
    head: CachedHead
    stored: StoredRecord
    requests: bytes | None
    """The scopes that it answers."""


class NewRequest(NamedTuple):
    """A row of `requests`: `head` and `version` name the record that answers, `at` is None if the row lives as long as
    that record's key, `digest` is the command's, and `stamp` the record's if records are not kept."""

    entity: str
    head: CachedHead | None
    version: int
    at: int | None
    digest: bytes | None
    stamp: str | None = None


def write_heads(
    connection: sqlite3.Connection, tables: Mapping[str, Table], cache: SqliteHeadCache, heads: Iterable[CachedHead]
) -> None:
    """Heads whose rows are new get their keys."""
    added: dict[str, list[CachedHead]] = defaultdict(list)
    changed: dict[tuple[str, tuple[int, ...]], list[CachedHead]] = defaultdict(list)
    for head in heads:
        table = tables[head.entity.name]
        before, head.indexed = head.indexed or table.unindexed, table.indexed(head.value)
        if head.key is None:
            added[table.name].append(head)
        else:
            changed[table.name, changes(before, head.indexed)].append(head)
    for name, group in added.items():
        # By id: what stands together in the indexes by id is put there together.
        group.sort(key=attrgetter("tenant", "id"))
        for head in group:
            head.key = cache.new_key(connection, tables[name])
        rows = [(head.key, head.tenant, head.id, *_changing(head), *head.indexed) for head in group]
        write(connection, tables[name].insert_heads, rows)
    for (name, places), group in changed.items():
        start, end = tables[name].update_heads(places)
        rows = [(head.key, *_changing(head), *[head.indexed[place] for place in places]) for head in group]
        write(connection, start, rows, end)


def _changing(head: CachedHead) -> tuple[int, int, int, int, bytes]:
    """What changes with every record."""
    body = dump(head.value)
    head.size = len(body)
    return head.version, head.at, head.announced, head.entity.schema, squeeze(body)


def write_records(connection: sqlite3.Connection, table: Table, records: Sequence[NewRecord]) -> None:
    tags = table.entity.tag_fields
    rows = [
        (
            head.key,
            requests,
            stored.version,
            stored.at,
            stored.actor,
            stored.cause,
            stored.traceparent,
            stored.schema,
            stored.body,
            stored.snapshot,
            stored.position,
            *[stored.tags.get(tag) for tag in tags],
        )
        for head, stored, requests in records
    ]
    rows.sort(key=itemgetter(0, 2))
    write(connection, table.insert_records, rows)


def write_requests(connection: sqlite3.Connection, requests: Mapping[bytes, NewRequest]) -> None:
    rows = [
        (scope, entity, 0 if head is None else head.key, version, at, stamp, digest)
        for scope, (entity, head, version, at, digest, stamp) in requests.items()
    ]
    # In the order of the key: neighbours share pages, and the cursor need not search anew for each row.
    rows.sort()
    write(connection, "INSERT OR FAIL INTO requests (scope, entity, key, version, at, stamp, digest)", rows)
