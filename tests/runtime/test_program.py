"""A worker as a program serves until a signal ends it, and names faults of its environment."""

import asyncio
import os
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import nats.errors
import orjson
import pytest
from nats.aio.client import Client

from hivemem_runtime.program import main
from hivemem_sessions.worker import WORKER
from hivemem_testing.ports import free_port
from hivemem_testing.process import ProcessServer

from .asking import SECONDS, ask, get


class Program:
    """`python -m hivemem_sessions` with an environment."""

    def __init__(self, **variables: str) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HIVEMEM_")}
        self._environment = inherited | {f"HIVEMEM_{name.upper()}": value for name, value in variables.items()}
        self.lines: list[dict[str, Any]] = []
        self.process: asyncio.subprocess.Process

    async def start(self) -> "Program":
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hivemem_sessions"),
            env=self._environment,
            umask=0,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        return self

    async def logged(self, event: str) -> dict[str, Any]:
        assert self.process.stderr is not None
        async with asyncio.timeout(SECONDS):
            while line := await self.process.stderr.readline():
                self.lines.append(orjson.loads(line))
                if self.lines[-1]["event"] == event:
                    return self.lines[-1]
        raise AssertionError(f"never said {event!r}: {self.lines}")

    async def ended(self) -> tuple[int, str]:
        async with asyncio.timeout(SECONDS):
            out, error = await self.process.communicate()
        assert out == b""
        return self.process.returncode or 0, error.decode()


async def test_the_program_serves_until_it_is_told_to_end_and_finishes_what_it_took(
    bus: ProcessServer, caller: Client, tmp_path: Path
) -> None:
    program = await Program(nats_url=bus.url, data=str(tmp_path / "data"), http_port="0").start()
    address = (await program.logged("health is served"))["address"]
    await program.logged("worker started")
    assert (await get(address, "/readyz"))[0] == 200
    assert await ask(caller, "create", session_id="s1", app_name="a", user_id="u")
    writes = [asyncio.create_task(ask(caller, "append", session_id="s1", event={"type": "n"})) for _ in range(300)]
    await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
    program.process.send_signal(signal.SIGTERM)
    answered = await asyncio.gather(*writes, return_exceptions=True)
    code, _ = await program.ended()
    assert code == 0
    refused = [answer for answer in answered if isinstance(answer, BaseException)]
    assert {type(error) for error in refused} <= {nats.errors.NoRespondersError}
    sequences = sorted(answer["sequence"] for answer in answered if not isinstance(answer, BaseException))
    assert sequences == list(range(1, len(sequences) + 1))
    jetstream = caller.jetstream()  # pyright: ignore[reportUnknownMemberType]  # untyped keyword options
    last = await jetstream.get_last_msg("CHANGES", "hive.chg.acme.event.s1")
    assert orjson.loads(last.data or b"")["version"] == len(sequences)
    for path in (tmp_path / "data", *(tmp_path / "data").iterdir()):
        assert path.stat().st_mode & 0o077 == 0, f"{path} is not for its owner alone"


async def test_the_program_can_be_ended_while_it_waits_for_a_server(tmp_path: Path) -> None:
    url = f"nats://127.0.0.1:{free_port()}"
    program = await Program(nats_url=url, data=str(tmp_path), http_port="0", store="mongo").start()
    address = (await program.logged("health is served"))["address"]
    assert "cannot be reached" in (await program.logged("waiting for a server"))["error"]
    assert (await get(address, "/healthz"))[0] == 200
    assert (await get(address, "/readyz"))[0] == 503
    program.process.send_signal(signal.SIGINT)
    assert (await program.ended())[0] == 0


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"store": "paper"}, "HIVEMEM_STORE='paper'"),
        ({"archive_after_events": "1"}, "HIVEMEM_ARCHIVE_AFTER_EVENTS='1'"),
        ({"http_host": "256.256.256.256"}, "HIVEMEM_HTTP_HOST=256.256.256.256"),
    ],
)
async def test_the_program_refuses_wrong_settings_by_name(variables: dict[str, str], said: str) -> None:
    program = await Program(**({"http_port": "0"} | variables)).start()
    code, error = await program.ended()
    assert (code, error.count("\n")) == (2, 1)
    assert error.startswith("hivemem-sessions: ")
    assert said in error


def test_main_answers_a_wrong_setting_with_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HIVEMEM_STORE", "paper")
    assert main(WORKER, []) == 2
    assert "HIVEMEM_STORE='paper'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "code", "said"),
    [
        ("--help", 0, "HIVEMEM_ARCHIVE_AFTER_EVENTS=1000\n"),
        ("--version", 0, f"hivemem-sessions {version('hivemem-sessions')}\n"),
        ("--store=mongo", 2, "unrecognized arguments: --store=mongo"),
    ],
)
def test_the_command_line_explains_itself(
    capsys: pytest.CaptureFixture[str], argument: str, code: int, said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(WORKER, [argument])
    assert ended.value.code == code
    assert said in "".join(capsys.readouterr())


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    code, error = await (await Program(http_port=str(port)).start()).ended()
    server.close()
    assert code == 2
    assert f"HIVEMEM_HTTP_PORT={port}" in error
