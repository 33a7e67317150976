"""The client on a bus that loses, repeats and corrupts messages: the file arrives, or an error gives the reason."""

import asyncio
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from nats.aio.msg import Msg

import hivemem
from hivemem import presigned
from hivemem.connection import Connection, NoAnswer
from hivemem_contracts.limits import ARTIFACT_CHUNK_BYTES as CHUNK

from .conftest import Deployment

pytestmark = pytest.mark.asyncio(loop_scope="session")

LARGE = os.urandom(9 * CHUNK + 99)
SUBJECTS = (".artifacts.chunk.", ".artifacts.read.")

Request = Callable[..., Any]


async def lost(request: Request, connection: Connection, subject: str, data: bytes, *rest: Any) -> Msg:
    raise NoAnswer("timeout")


async def answer_lost(request: Request, connection: Connection, subject: str, data: bytes, *rest: Any) -> Msg:
    await request(connection, subject, data, *rest)
    raise NoAnswer("timeout")


async def gone(request: Request, connection: Connection, subject: str, data: bytes, *rest: Any) -> Msg:
    raise NoAnswer("no_responders")


async def disconnected(request: Request, connection: Connection, subject: str, data: bytes, *rest: Any) -> Msg:
    raise NoAnswer("disconnected")


async def spoiled(request: Request, connection: Connection, subject: str, data: bytes, *rest: Any) -> Msg:
    broken = bytes([data[0] ^ 1]) + data[1:] if data else data
    message: Msg = await request(connection, subject, broken, *rest)
    return message


async def doubled(request: Request, connection: Connection, subject: str, data: bytes, *rest: Any) -> Msg:
    messages = await asyncio.gather(*(request(connection, subject, data, *rest) for _ in range(2)))
    found: Msg = messages[1]
    return found


FAULTS = (lost, answer_lost, gone, disconnected, spoiled, doubled)


def break_some(monkeypatch: pytest.MonkeyPatch, fault: Callable[..., Any], which: Callable[[int], bool]) -> list[int]:
    """Let the fault hit some of the chunks, chosen by the order in which they are sent."""
    request, calls = Connection.request, list[int]()

    async def broken(self: Connection, subject: str, *rest: Any) -> Any:
        if not any(part in subject for part in SUBJECTS):
            return await request(self, subject, *rest)
        calls.append(len(calls))
        if which(calls[-1]):
            return await fault(request, self, subject, *rest)
        return await request(self, subject, *rest)

    monkeypatch.setattr(Connection, "request", broken)
    return calls


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_file_gets_through(
    hive: hivemem.Hive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[..., Any]
) -> None:
    calls = break_some(monkeypatch, fault, lambda call: call % 4 == 1)
    path = tmp_path / "source"
    path.write_bytes(LARGE)
    artifact = await hive.artifacts.upload("s1", "a", path)
    assert (artifact.version, artifact.sha256) == (1, sha256(LARGE).hexdigest())
    assert len(calls) >= 10
    calls.clear()
    await hive.artifacts.download("s1", "a", to=tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == LARGE
    assert len(calls) >= 10


@pytest.mark.parametrize("fault", [lost, gone])
async def test_where_nothing_gets_through_it_is_said(
    hive: hivemem.Hive, monkeypatch: pytest.MonkeyPatch, fault: Callable[..., Any]
) -> None:
    await hive.artifacts.upload("s1", "there", LARGE)
    break_some(monkeypatch, fault, lambda call: True)
    impatient = hive.with_options(timeout_seconds=0.5, attempt_seconds=0.2)
    with pytest.raises(hivemem.Unavailable):
        await impatient.artifacts.upload("s1", "a", LARGE)
    with pytest.raises(hivemem.Unavailable):
        await impatient.artifacts.read("s1", "there")
    with pytest.raises(hivemem.NotFound):
        await hive.artifacts.stat(session_id="s1", name="a")


async def test_what_is_spoiled_every_time_is_given_up(hive: hivemem.Hive, monkeypatch: pytest.MonkeyPatch) -> None:
    break_some(monkeypatch, spoiled, lambda call: True)
    with pytest.raises(hivemem.InvalidRequest, match="Crc32"):
        await hive.artifacts.upload("s1", "a", LARGE)


async def test_the_object_store_may_fail_a_few_times(
    hive: hivemem.Hive, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not deployment.store.presigned.able:
        pytest.skip("files have no URLs")
    put, failures = presigned.put, list[str]()

    def failing(url: str, *rest: Any) -> str:
        failures.append(url)
        return put("http://127.0.0.1:1/nobody?there" if len(failures) < 3 else url, *rest)

    monkeypatch.setattr(presigned, "put", failing)
    artifact = await hive.artifacts.upload("s1", "a", LARGE, presigned=True)
    assert (artifact.sha256, len(failures)) == (sha256(LARGE).hexdigest(), 3)
