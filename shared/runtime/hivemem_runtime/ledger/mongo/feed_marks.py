"""The feed mark of a ledger as a document, and making announced keys due again."""

from typing import Any, Final

from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.feed_mark import FeedMark
from hivemem_runtime.ledger.mongo.documents import META, heads_of
from hivemem_runtime.ledger.mongo.driver import MAJORITY, Document, Query
from hivemem_runtime.ledger.mongo.errors import translated
from hivemem_runtime.ledger.mongo.workbench import Workbench

_UNFINISHED: Final = -1
_OLDER: Final[Document] = {
    "$or": [
        {"$lt": [{"$ifNull": ["$number", -1]}, "$$number"]},
        {"$and": [{"$eq": ["$number", "$$number"]}, {"$lt": ["$sequence", "$$sequence"]}]},
    ]
}


async def write_feed_mark(bench: Workbench, mark: FeedMark) -> bool:
    """Keep the newest mark of all workers of the service; see `FeedMark.replaces`. Return whether that is of this feed,
    too: else the keys are due again, whatever this worker has announced."""
    newer = {
        "$let": {
            "vars": {"number": mark.epoch_number, "sequence": mark.sequence},
            "in": {"$cond": [_OLDER, {"$literal": _fields(mark)}, {}]},
        }
    }
    await _update(bench, [{"$replaceWith": {"$mergeObjects": ["$$ROOT", newer]}}])
    kept = await read_feed_mark(bench)
    return kept is not None and (kept.stream, kept.epoch) == (mark.stream, mark.epoch)


async def read_feed_mark(bench: Workbench) -> FeedMark | None:
    with translated():
        found = await bench.database.find(META, Query({"_id": _identity(bench)}))
    return FeedMark(**{name: found[0][name] for name in FeedMark._fields if name in found[0]}) if found else None


async def announce_again(bench: Workbench, mark: FeedMark) -> None:
    """Make keys due again, between two batches. Each key is updated by itself, and repeating that is harmless. The mark
    is written before the keys, so that other workers' marks of an earlier feed are refused, and again when all are
    due."""
    bench.marks.clear()
    bench.feed = None
    await _update(bench, {"$set": _fields(mark._replace(sequence=_UNFINISHED))})
    operations = bench.operations()
    for entity in _announced(bench):
        operations.update_many(
            heads_of(entity.name), {"at": {"$gte": mark.begins}}, {"$set": {"announced": 0, "due": True}}
        )
    await bench.write(operations)
    bench.cache.clear()
    await _update(bench, {"$set": _fields(mark)})
    bench.fence = mark


async def _update(bench: Workbench, changes: Document | list[Document]) -> None:
    update: Document = {"q": {"_id": _identity(bench)}, "u": changes, "upsert": True}
    with translated():
        await bench.database.command({"update": META, "updates": [update], "writeConcern": MAJORITY})


def _fields(mark: FeedMark) -> dict[str, Any]:
    return {**mark._asdict(), "number": mark.epoch_number}


def _announced(bench: Workbench) -> list[AnyEntity]:
    return [entity for entity in bench.entities.values() if entity.history]


def _identity(bench: Workbench) -> str:
    """Services share a database, and each kind of thing belongs to one of them."""
    return f"feed/{next(iter(bench.entities))}"
