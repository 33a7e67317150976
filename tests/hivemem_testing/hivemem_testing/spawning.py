"""Starts child processes that die with this one."""

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue

LAUNCHER = Path(__file__).with_name("launcher.py")

Job = tuple[Future[subprocess.Popen[bytes]], Callable[[], subprocess.Popen[bytes]]]


def spawn(
    command: Sequence[str], *, directory: Path, environment: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, with its output appended to `log`."""
    started: Future[subprocess.Popen[bytes]] = Future()
    _jobs().put((started, functools.partial(_popen, tuple(command), directory, dict(environment), log)))
    return started.result()


def _popen(
    command: tuple[str, ...], directory: Path, environment: dict[str, str], log: Path
) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), *command],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


@functools.cache
def _jobs() -> SimpleQueue[Job]:
    # To the kernel the parent of a process is the thread that forked it. One thread that lives as long as this process
    # therefore starts them all; a server started in a short-lived thread would die with it.
    jobs: SimpleQueue[Job] = SimpleQueue()
    threading.Thread(target=_work, args=(jobs,), name="test-servers", daemon=True).start()
    return jobs


def _work(jobs: SimpleQueue[Job]) -> None:
    while True:
        started, job = jobs.get()
        try:
            started.set_result(job())
        except OSError as error:
            started.set_exception(error)
