"""A collection that is open in the engine's process, and the build of its graphs by a process of its own."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import Final

from qdrant_edge import EdgeShard

from hivemem_vectors.stores.edge import generations, optimizing, shards
from hivemem_vectors.stores.edge.frames import Frame

LOGGED_BYTES: Final = 128 * 1024 * 1024
"""The most bytes of changes in memory for the next generation; with more, the build is given up and begun anew later.
"""


class Stage(Enum):
    COPYING = auto()
    """Changes are held back while the files are copied."""
    BUILDING = auto()
    """Changes are applied to the current generation, and logged for the next one."""
    FAILED = auto()
    BUILT = auto()


class Building:
    """A running build. It calls `tell` from a thread at each new stage."""

    def __init__(self, source: Path, target: Path, tell: Callable[["Building", Stage], None]) -> None:
        self.stage = Stage.COPYING
        self.target = target
        self.held: list[Frame] = []
        self.log: deque[Frame] = deque()
        self._logged_bytes = 0
        self._tell = tell
        self._process = subprocess.Popen(  # noqa: S603  # this program's own arguments
            [sys.executable, "-m", optimizing.__name__, str(source), str(target), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        threading.Thread(target=self._follow, name="vectors-building", daemon=True).start()

    def note(self, frame: Frame) -> bool:
        """Log a change for the next generation. Returns False if there is no room."""
        self.log.append(frame)
        self._logged_bytes += len(frame.data)
        return self._logged_bytes <= LOGGED_BYTES

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                if line.decode().strip() == optimizing.COPIED:
                    self._tell(self, Stage.BUILDING)
        self._tell(self, Stage.BUILT if self._process.wait() == 0 else Stage.FAILED)


GROWTH: Final = 0.2
"""The share of a large collection that changes before its graphs are built anew."""

QUIET_SECONDS: Final = 2.0
"""The graphs are built after this time without changes, because changes need the processor more."""

AT_MOST: Final = 10
"""After this many times the needed changes, the build begins without a quiet time."""


class EngineCollection:
    """An open collection. Changes go to the current generation. While the next one is built they are also logged, and
    applied to it between two frames; then it becomes the current one."""

    def __init__(self, folder: Path, optimize_after: int, tell: Callable[[Building, Stage], None]) -> None:
        self._folder = folder
        self._optimize_after = optimize_after
        self._tell = tell
        self.about = generations.about(folder)
        self._current = generations.current(folder)
        generations.remove_others(folder, self._current.generation)
        self.shard = EdgeShard.load(str(generations.generation(folder, self._current.generation)))
        self._changed = max(0, shards.count(self.shard, None) - self._current.optimized)
        """The changes since the files were copied for the graphs, which contain none of them."""
        self._changed_at = time.monotonic()
        self._copied = 0
        self._building: Building | None = None
        self._next: EdgeShard | None = None

    @property
    def optimized(self) -> int:
        return self._current.optimized

    @property
    def catching_up(self) -> bool:
        return self._next is not None

    def change(self, frame: Frame) -> bool:
        """Make a change. Returns False if it is held back until the files are copied."""
        building = self._building
        if building is not None and building.stage is Stage.COPYING:
            building.held.append(frame)
            return False
        shards.apply(self.shard, frame.fields, frame.data)
        self._changed += len(frame.fields.get("numbers", [0]))
        self._changed_at = time.monotonic()
        if building is not None and not building.note(frame):
            self._give_up()
        return True

    @property
    def builds_at(self) -> float | None:
        """The monotonic time at which its graphs are to be built; None if they are up to date, or being built."""
        enough = max(self._optimize_after, GROWTH * self._current.optimized)
        if self._building is not None or self._changed < enough:
            return None
        is_much = self._changed >= max(self._optimize_after * AT_MOST, enough)
        return self._changed_at if is_much else self._changed_at + QUIET_SECONDS

    def build(self) -> None:
        """Begin to build the graphs in the background."""
        self._changed, self._copied = 0, shards.count(self.shard, None)
        number = self._current.generation
        source = generations.generation(self._folder, number)
        self._building = Building(source, generations.generation(self._folder, number + 1), self._tell)

    def turn(self, building: Building, stage: Stage) -> list[Frame]:
        """Note a stage of the build. Returns changes that were held back."""
        if building is not self._building:
            return []
        building.stage = stage
        held, building.held = building.held, []
        if stage is Stage.BUILT:
            self._next = EdgeShard.load(str(building.target))
        elif stage is Stage.FAILED:
            self._give_up()
        return held

    def catch_up(self) -> None:
        """Apply one logged change to the next generation, which becomes current after the last one."""
        building, following = self._building, self._next
        if building is None or following is None:
            return
        if building.log:
            frame = building.log.popleft()
            shards.apply(following, frame.fields, frame.data)
        if not building.log:
            self._replace(following)

    def close(self) -> None:
        if self._building is not None:
            self._give_up()
        self.shard.flush()
        self.shard.close()

    def _give_up(self) -> None:
        """Give up the build, and count changes anew, so that it is not repeated at once."""
        assert self._building is not None, "it is called while something is built"
        building, self._building, self._changed = self._building, None, 0
        building.end()
        if self._next is not None:
            self._next.close()
            self._next = None
        shutil.rmtree(building.target, ignore_errors=True)

    def _replace(self, following: EdgeShard) -> None:
        self._current = generations.Current(self._current.generation + 1, self._copied)
        generations.set_current(self._folder, self._current)
        self.shard.close()
        self.shard, self._next, self._building = following, None, None
        generations.remove_others(self._folder, self._current.generation)
