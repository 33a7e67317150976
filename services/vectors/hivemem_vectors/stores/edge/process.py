"""The engine's process as its store sees it: started on demand, and again after it ended."""

import asyncio
import os
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson
import structlog

from hivemem_contracts.errors import Unavailable, error_from_body
from hivemem_runtime.backoff import Backoff
from hivemem_vectors.stores.edge.frames import HEAD, encoded

START_SECONDS: Final = 30.0
CALL_SECONDS: Final = 30.0
STOP_SECONDS: Final = 10.0
RETRY_AFTER_MS: Final = 200

PROGRAM: Final = "hivemem_vectors.stores.edge.program"
_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 5.0

log = structlog.get_logger()


class Ended(Unavailable):
    """The process has ended. Calls under way may be done or not."""


class EngineProcess:
    """One process, for one event loop."""

    def __init__(self, folder: Path, optimize_after: int) -> None:
        self._folder = folder
        self._log = folder / "engine.log"
        self._optimize_after = optimize_after
        self._starting = asyncio.Lock()
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._count = 0
        self._backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        self._not_before = 0.0
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process id of the running engine."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def call(self, fields: Mapping[str, Any], data: bytes = b"") -> Any:
        """Return the answer to a frame. Raises the error in it, or `Ended`."""
        process = await self._running()
        self._count += 1
        number = self._count
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            async with asyncio.timeout(CALL_SECONDS):
                assert process.stdin is not None
                process.stdin.write(encoded({**fields, "id": number}, data))
                await process.stdin.drain()
                return await answer
        except TimeoutError as error:
            _kill(process)  # it is stuck, and its log has every acknowledged change
            raise _ended("the vector engine gives no answer, and is started again") from error
        except (ConnectionError, RuntimeError) as error:
            raise _ended("the vector engine has ended, and is started again") from error
        finally:
            del self._waiting[number]

    async def close(self) -> None:
        async with self._starting:
            self._closed = True
            if self._process is None:
                return
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
            except TimeoutError:
                _kill(self._process)
                await self._process.wait()
            await self._forget()

    async def _running(self) -> Process:
        async with self._starting:
            if self._closed:
                raise Unavailable("the vector store is closed", retry_after_ms=RETRY_AFTER_MS)
            # The end of its output is noticed before its end is.
            if self._process is not None and self._reading is not None and not self._reading.done():
                return self._process
            await self._forget()
            if (pause := self._not_before - asyncio.get_running_loop().time()) > 0:
                raise Ended("the vector engine has just failed", retry_after_ms=int(pause * 1_000) + 1)
            try:
                return await self._started()
            except BaseException:
                await self._forget()
                raise

    async def _started(self) -> Process:
        # Each start counts as a failure until the process answers.
        self._not_before = asyncio.get_running_loop().time() + self._backoff.failed()
        try:
            self._process = process = await self._spawned()
        except OSError as error:
            raise _ended(f"the vector engine cannot be started: {error.strerror}") from error
        assert process.stdout is not None
        try:
            async with asyncio.timeout(START_SECONDS):
                ready = await _read(process.stdout)
        except (asyncio.IncompleteReadError, TimeoutError) as error:
            raise _ended(f"the vector engine does not start: see {self._log.name} in its folder") from error
        if "error" in ready:
            raise error_from_body(ready)
        self._reading = asyncio.create_task(self._read_answers(process.stdout), name="vectors-answers")
        return process

    async def _spawned(self) -> Process:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._log.open("wb") as output:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", PROGRAM, str(self._folder), str(self._optimize_after), str(os.getpid())),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=output,
                start_new_session=True,  # an interrupt from the terminal is for the fleet, which ends this one in order
            )

    async def _read_answers(self, pipe: asyncio.StreamReader) -> None:
        try:
            while True:
                fields = await _read(pipe)
                self._backoff.succeeded()
                answer = self._waiting.get(fields["id"])
                if answer is None or answer.done():
                    continue  # nobody waits any more
                if "error" in fields:
                    answer.set_exception(error_from_body(fields))
                else:
                    answer.set_result(fields["result"])
        except asyncio.IncompleteReadError:
            if not self._closed:
                log.warning("the vector engine has ended, it is started again", folder=str(self._folder))
        finally:
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(_ended("the vector engine has ended, and is started again"))

    async def _forget(self) -> None:
        """Reap a process that has ended or is no longer wanted."""
        process, reading, self._process, self._reading = self._process, self._reading, None, None
        if process is not None:
            _kill(process)
            await process.wait()
        if reading is not None:
            reading.cancel()
            await asyncio.wait([reading])


def _ended(detail: str) -> Ended:
    return Ended(detail, retry_after_ms=RETRY_AFTER_MS)


def _kill(process: Process) -> None:
    if process.returncode is None:
        process.kill()


async def _read(pipe: asyncio.StreamReader) -> dict[str, Any]:
    text_bytes, data_bytes = HEAD.unpack(await pipe.readexactly(HEAD.size))
    text = await pipe.readexactly(text_bytes)
    await pipe.readexactly(data_bytes)
    fields: dict[str, Any] = orjson.loads(text)
    return fields
