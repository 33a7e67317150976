"""The program of the engine's process: it answers frames from its input, one after the other.

When its input ends, it flushes everything and ends.
"""

import fcntl
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

from hivemem_contracts.errors import HiveError, Internal, NotFound, Unavailable
from hivemem_vectors.stores.arguments import check_same
from hivemem_vectors.stores.edge import generations, shards
from hivemem_vectors.stores.edge.collection import Building, EngineCollection, Stage
from hivemem_vectors.stores.edge.frames import Frame, encoded, read_frame
from hivemem_vectors.stores.edge.optimizing import die_with_parent
from hivemem_vectors.stores.ports import Schema

WAITING: Final = 128
LOCK_SECONDS: Final = 2.0
_LOCK_POLL_SECONDS: Final = 0.02
_CHANGES: Final = ("delete", "delete_where", "upsert")

Event = tuple[str, Building, Stage] | Frame | None


class Engine:
    def __init__(self, root: Path, optimize_after: int, output: BinaryIO) -> None:
        self._root = root
        self._optimize_after = optimize_after
        self._output = output
        self._events: queue.Queue[Event] = queue.Queue(WAITING)
        self._collections: dict[str, EngineCollection] = {}
        self._reads: dict[str, Callable[[EngineCollection, Frame], Any]] = {
            "count": lambda collection, frame: shards.count(collection.shard, frame.fields["where"]),
            "schema": lambda collection, _: _schema(collection),
            "scroll": lambda collection, frame: shards.scroll(collection.shard, frame.fields),
            "search": lambda collection, frame: shards.search(collection.shard, frame.fields, frame.data),
        }

    def run(self, pipe: BinaryIO) -> None:
        threading.Thread(target=self._read, args=(pipe,), name="vectors-frames", daemon=True).start()
        while True:
            catching_up = [found for found in self._collections.values() if found.catching_up]
            try:
                event = self._events.get(block=not catching_up, timeout=self._build())
            except queue.Empty:
                pass
            else:
                if event is None:
                    break
                self._handle(event)
            for collection in catching_up:
                collection.catch_up()
        for collection in self._collections.values():
            collection.close()

    def _build(self) -> float | None:
        """Build the graphs that are due. Returns the seconds until the next one is, if any will be."""
        next_at: float | None = None
        for collection in self._collections.values():
            if (at := collection.builds_at) is None:
                continue
            if at <= time.monotonic():
                collection.build()
            else:
                next_at = at if next_at is None else min(next_at, at)
        return None if next_at is None else max(0.0, next_at - time.monotonic())

    def _read(self, pipe: BinaryIO) -> None:
        frame: Frame | None = Frame({}, b"")
        while frame is not None:
            frame = read_frame(pipe)
            self._events.put(frame)

    def _handle(self, event: Frame | tuple[str, Building, Stage]) -> None:
        if isinstance(event, Frame):
            self._serve(event)
            return
        name, building, stage = event
        if (collection := self._collections.get(name)) is not None:
            for frame in collection.turn(building, stage):
                self._serve(frame)

    def _serve(self, frame: Frame) -> None:
        try:
            answer = self._answer(frame)
            fields = None if answer is None else {"result": answer}
        except HiveError as error:
            fields = error.body()
        except Exception as error:  # the engine raises them by its own types, and the caller waits for an answer
            fields = Internal(f"the vector engine failed: {type(error).__name__}: {error}").body()
        if fields is not None:
            _send(self._output, {"id": frame.fields["id"], **fields})

    def _answer(self, frame: Frame) -> Any:
        """Return the answer to a frame; None if it comes later."""
        op, name = frame.fields["op"], frame.fields["collection"]
        match op:
            case "ensure":
                self._ensure(name, Schema(**frame.fields["schema"]))
                return True
            case "drop":
                self._drop(name)
                return True
            case "check":
                return True
            case _ if op in _CHANGES:
                return True if self._open(name).change(frame) else None
            case _:
                return self._reads[op](self._open(name), frame)

    def _ensure(self, name: str, schema: Schema) -> None:
        if not generations.exists(self._root, name):
            folder = generations.begin(self._root, name, generations.About(schema.dimension, schema.model))
            shard = shards.create_shard(generations.generation(folder, 1), schema.dimension)
            shard.flush()
            shard.close()
            generations.finish(self._root, name)
        collection = self._open(name)
        check_same(name, Schema(*collection.about), schema)
        lacking = set(schema.fields) - set(shards.fields_of(collection.shard))
        if lacking:
            collection.change(Frame({"id": 0, "op": "index", "collection": name, "fields": dict(schema.fields)}, b""))

    def _drop(self, name: str) -> None:
        if (collection := self._collections.pop(name, None)) is not None:
            collection.close()
        if (self._root / name).exists():
            generations.drop(self._root, name)

    def _open(self, name: str) -> EngineCollection:
        if (collection := self._collections.get(name)) is None:
            if not generations.exists(self._root, name):
                raise NotFound(f"there is no collection {name}", collection=name)

            def tell(building: Building, stage: Stage) -> None:
                self._events.put((name, building, stage))

            collection = self._collections[name] = EngineCollection(self._root / name, self._optimize_after, tell)
        return collection


def _send(output: BinaryIO, fields: dict[str, Any]) -> None:
    output.write(encoded(fields))
    output.flush()


def _schema(collection: EngineCollection) -> dict[str, Any]:
    fields = shards.fields_of(collection.shard)
    return {**collection.about._asdict(), "fields": fields, "optimized": collection.optimized}


def _locked(root: Path) -> bool:
    """Take the lock of the files. A process that was killed a moment ago may still hold it."""
    handle = os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOCK_POLL_SECONDS)
        else:
            return True


def main(root: Path, optimize_after: int) -> int:
    # What a library prints must not get among the frames.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if not _locked(root):
        taken = Unavailable("another process has the vectors of this folder", retry_after_ms=1_000)
        _send(output, {"id": 0, **taken.body()})
        return 1
    generations.sweep(root)
    _send(output, {"id": 0, "result": True})
    Engine(root, optimize_after, output).run(sys.stdin.buffer)
    return 0


if __name__ == "__main__":
    die_with_parent(int(sys.argv[3]))
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
