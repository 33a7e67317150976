"""Requests are bounded, listed by the services protocol, and finished before a worker stops."""

import asyncio
from typing import Any, cast

import nats.errors
import orjson
import pytest
from nats.aio.client import Client

from hivemem_runtime.bus.requests.intake import Requests
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_runtime.service import Service
from hivemem_testing.process import ProcessServer

from .served import CONTRACT, ECHO, HELD, LIMIT, Served, ask, code_of, operation
from .things import eventually


async def test_a_request_is_answered(requests: Requests, caller: Client) -> None:
    message = await ask(caller, "echo", b'{"text":"hi"}')
    assert orjson.loads(message.data) == {"text": "hi", "agent": "bot"}
    assert code_of(message) is None


async def test_an_answer_that_is_written_already_goes_out_as_it_is(requests: Requests, caller: Client) -> None:
    message = await ask(caller, "written", b'{"text":"hi"}')
    assert message.data == b'{"text": "hi"}'
    assert code_of(message) is None


async def test_past_the_limit_the_answer_is_overloaded_at_once(
    requests: Requests, caller: Client, served: Served
) -> None:
    held = [asyncio.create_task(ask(caller, "hold", b'{"text":"held"}')) for _ in range(HELD)]
    await eventually(lambda: served.held == HELD, "all of them are under way")
    status = requests.status()
    assert (status["under_way"], status["limit"], status["waiting"]) == (HELD, LIMIT, 0)
    refused = await ask(caller, "echo")
    error = orjson.loads(refused.data)["error"]
    assert (code_of(refused), error["name"], error["retryable"]) == ("42901", "Overloaded", True)
    assert error["context"]["limit"] == LIMIT
    assert error["context"]["retry_after_ms"] > 0
    served.gate.set()
    answers = [orjson.loads(message.data)["text"] for message in await asyncio.gather(*held)]
    assert answers == ["held"] * HELD
    (told,) = [
        each
        for each in orjson.loads((await caller.request("$SRV.STATS.things")).data)["endpoints"]
        if each["num_errors"]
    ]
    assert (told["name"], told["num_requests"], told["num_errors"], told["last_error"]) == (
        "echo",
        1,
        1,
        "42901:Overloaded",
    )
    assert code_of(await ask(caller, "echo")) is None


async def test_leaving_takes_nothing_more_and_answers_what_was_taken(
    requests: Requests, caller: Client, served: Served
) -> None:
    held = [asyncio.create_task(ask(caller, "hold")) for _ in range(HELD)]
    await eventually(lambda: served.held == HELD, "all of them are under way")
    leaving = asyncio.create_task(requests.stop())

    async def nobody_there() -> bool:
        try:
            return code_of(await ask(caller, "echo")) is not None and False
        except nats.errors.NoRespondersError:
            return True

    await eventually(nobody_there, "nothing more is taken")
    assert not leaving.done()
    served.gate.set()
    assert [code_of(message) for message in await asyncio.gather(*held)] == [None] * HELD
    await leaving


async def test_leaving_does_not_wait_for_ever(requests: Requests, caller: Client, served: Served) -> None:
    held = asyncio.create_task(ask(caller, "hold"))
    await eventually(lambda: served.held == 1, "it is under way")
    await requests.stop(timeout_seconds=0.05)
    assert requests.status()["under_way"] == 1
    served.gate.set()
    assert code_of(await held) is None


@pytest.mark.parametrize(
    ("name", "data"), [("fail", b""), ("count", b'{"text":"fail"}'), ("count", b'{"text":"fail late"}')]
)
async def test_a_fault_is_told_as_such_and_no_more(
    requests: Requests, caller: Client, name: str, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    message = await ask(caller, name, data)
    assert code_of(message) == "50001"
    assert b"secret" not in message.data
    assert "secret" in "".join(capsys.readouterr())
    assert requests.status()["under_way"] == 0


async def test_the_text_of_an_error_is_one_header_line(requests: Requests, caller: Client) -> None:
    message = await ask(caller, "refuse")
    assert code_of(message) == "40301"
    text = (message.headers or {})["Nats-Service-Error"]
    assert text == "Forbidden: line one Nats-Service-Error-Code: 0"
    assert orjson.loads(message.data)["error"]["context"] == {"who": "bot"}


async def test_a_write_is_done_once_for_its_id(requests: Requests, caller: Client) -> None:
    answers = [orjson.loads((await ask(caller, "count", headers={"Nats-Msg-Id": "m1"})).data)["text"] for _ in range(2)]
    assert answers == ["1 False", "1 True"]


async def test_the_service_is_found_by_the_ecosystems_own_tools(requests: Requests, caller: Client) -> None:
    await ask(caller, "echo")
    await ask(caller, "fail")
    found: dict[str, dict[str, Any]] = {}
    for verb in ("PING", "INFO", "STATS"):
        found[verb] = cast("dict[str, Any]", orjson.loads((await caller.request(f"$SRV.{verb}.things")).data))
        assert (found[verb]["name"], found[verb]["version"]) == ("things", "1.2.3")
        assert found[verb]["type"] == f"io.nats.micro.v1.{verb.lower()}_response"
    assert found["INFO"]["description"] == "Things of a test."
    assert found["INFO"]["metadata"]["product"] == "hivemem"
    endpoints = {endpoint["name"]: endpoint for endpoint in found["INFO"]["endpoints"]}
    assert set(endpoints) == {"echo", "hold", "fail", "refuse", "written", "large", "count"}
    assert endpoints["echo"]["subject"] == "hive.req.*.*.things.echo"
    assert endpoints["echo"]["queue_group"] == "things"
    assert endpoints["echo"]["metadata"] == {"summary": "echo."}
    figures = {endpoint["name"]: endpoint for endpoint in found["STATS"]["endpoints"]}
    assert (figures["fail"]["num_requests"], figures["fail"]["num_errors"]) == (1, 1)
    assert figures["fail"]["last_error"] == "50001:Internal"
    assert figures["fail"]["processing_time"] == figures["fail"]["average_processing_time"] > 0
    stats = {endpoint["name"]: endpoint["data"] for endpoint in found["STATS"]["endpoints"]}
    assert (stats["echo"]["completed"], stats["echo"]["errors"], stats["echo"]["health"]) == (1, 0, {"ready": True})
    assert (stats["fail"]["completed"], stats["fail"]["errors"]) == (1, 1)
    assert stats["hold"]["average_ms"] == 0.0


async def test_an_answer_that_cannot_be_sent_ends_the_request_all_the_same(
    bus: ProcessServer, client: Client, requests: Requests, caller: Client, served: Served
) -> None:
    held = asyncio.create_task(ask(caller, "hold"))
    await eventually(lambda: served.held == 1, "it is under way")
    held.cancel()
    bus.kill()
    await eventually(lambda: not client.is_connected, "the connection is noticed to be gone")
    served.gate.set()
    await eventually(lambda: requests.status()["under_way"] == 0, "nothing is under way")
    bus.start()

    async def back() -> bool:
        try:
            return code_of(await ask(caller, "echo")) is None
        except nats.errors.Error:
            return False

    await eventually(back, "requests are served again")


def test_an_operation_is_bound_once_and_to_its_own_service(ledger: SqliteLedger, served: Served) -> None:
    service = served.service()
    with pytest.raises(ValueError, match="bound twice"):
        service.handler(ECHO, served.echo)
    with pytest.raises(ValueError, match="does not belong"):
        service.handler(operation("echo"), served.echo)
    assert service.unbound() == []
    assert Service(CONTRACT, ledger).unbound() == list(CONTRACT)
