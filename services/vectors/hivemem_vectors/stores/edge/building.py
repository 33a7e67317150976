"""The building of a collection's graphs by a process of its own, as the process of the engine sees it."""

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import Final

from hivemem_vectors.stores.edge import optimizing
from hivemem_vectors.stores.edge.frames import Frame

LOGGED_BYTES: Final = 128 * 1024 * 1024
"""The most changes that wait in memory for the new generation; with more, building is given up and begun anew later."""


class Stage(Enum):
    COPYING = auto()
    """Nothing may change: changes wait."""
    BUILDING = auto()
    """Changes are made to the generation that is there, and kept for the next one."""
    FAILED = auto()
    BUILT = auto()


class Building:
    """`tell` is called from a thread each time the stage has changed."""

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
        """Keep a change for the next generation; False where there is no room."""
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
