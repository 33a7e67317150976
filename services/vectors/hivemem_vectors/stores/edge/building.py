"""The build of a collection's graphs by a process of its own, as the engine's process sees it."""

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
