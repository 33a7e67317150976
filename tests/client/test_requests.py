"""Requests take typed fields, and return a typed reply or raise an error."""

from pathlib import Path

import orjson
import pytest

import hivemem
from hivemem_contracts.errors import ALL_ERRORS, HiveError
from hivemem_contracts.limits import MESSAGE_BYTES
from hivemem_contracts.sessions.replies import StateSet
from hivemem_testing.contract import Server
from hivemem_testing.servers import packaged_nats

from .fleet import Fleet, join

NOTE = hivemem.NewEvent(type="note")


async def test_a_request_answers_the_reply_of_its_operation(hive: hivemem.Hive, fleet: Fleet) -> None:
    reply = await hive.sessions.append(session_id="s1", event=NOTE, state_delta={"a": None})

    assert (reply.session_id, reply.sequence, reply.revision) == ("s1", 1, 2)
    (asked,) = fleet.asked
    assert asked.subject == "hive.req.acme.bot.sessions.append"
    assert asked.body == {"session_id": "s1", "event": {"type": "note"}, "state_delta": {"a": None}}


async def test_a_request_by_name_takes_a_mapping_or_a_body(hive: hivemem.Hive, fleet: Fleet) -> None:
    await hive.request("sessions.append", {"session_id": "s1", "event": {"type": "note"}})
    await hive.request("sessions.append", hivemem.AppendEvent(session_id="s1", event=NOTE))

    assert fleet.asked[0].body == fleet.asked[1].body


async def test_values_are_converted_or_refused_before_they_are_sent(hive: hivemem.Hive, fleet: Fleet) -> None:
    photo = {"session_id": "s1", "event": {"type": "photo", "content": {"raw": b"x"}}}
    refused = r"event\.content\.raw: bytes are not JSON: save them as an artifact"
    with pytest.raises(hivemem.InvalidRequest, match=refused):
        await hive.request("sessions.append", photo)
    with pytest.raises(hivemem.InvalidRequest, match=refused):
        await hive.publish("sessions.append", photo)
    async with hive.pipeline() as pipeline:
        with pytest.raises(hivemem.InvalidRequest, match=refused):
            await pipeline.publish("sessions.append", photo)
    with pytest.raises(hivemem.InvalidRequest, match=r"state_delta\.seat: half of a surrogate pair"):
        await hive.sessions.append(session_id="s1", event=NOTE, state_delta={"seat": "\ud800"})
    with pytest.raises(hivemem.InvalidRequest, match="session_id: half of a surrogate pair") as odd:
        await hive.sessions.get(session_id="\udc9b")
    assert odd.value.detail.isprintable()
    with pytest.raises(hivemem.InvalidRequest, match="metadata: half of a surrogate pair"):
        await hive.sessions.update(session_id="s1", metadata={"\udc9b": 1})

    await hive.sessions.append(session_id="s1", event=NOTE, state_delta={"seat": (12, "A")})

    (asked,) = fleet.asked
    assert asked.body["state_delta"] == {"seat": [12, "A"]}


async def test_null_is_sent_where_it_was_given(hive: hivemem.Hive, fleet: Fleet) -> None:
    fleet.answers["state_set"] = lambda _: StateSet(session_id="s1", key="k", revision=1, duplicate=False)

    await hive.sessions.state_set(session_id="s1", key="k", value=None)

    assert fleet.asked[0].body == {"session_id": "s1", "key": "k", "value": None}


async def test_every_write_has_an_id_of_its_own_and_a_read_has_none(hive: hivemem.Hive, fleet: Fleet) -> None:
    fleet.answers["events"] = lambda _: b'{"items": [], "cursor": null}'

    await hive.sessions.append(session_id="s1", event=NOTE)
    await hive.sessions.append(session_id="s1", event=NOTE)
    await hive.sessions.events(session_id="s1")

    first, second, read = (asked.message_id for asked in fleet.asked)
    assert first is not None
    assert second not in (None, first)
    assert read is None


async def test_a_copy_with_options_shares_the_connection(hive: hivemem.Hive, fleet: Fleet) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    copy = hive.with_options(message_id="m1", traceparent=trace)

    await copy.sessions.append(session_id="s1", event=NOTE)

    assert copy.connection is hive.connection
    assert hive.options.message_id is None
    assert fleet.asked[0].message_id == "m1"
    assert fleet.asked[0].headers["traceparent"] == trace


@pytest.mark.parametrize("kind", [kind for kind in ALL_ERRORS if not kind.retryable], ids=lambda kind: kind.__name__)
async def test_an_error_is_raised_as_its_own_class(hive: hivemem.Hive, fleet: Fleet, kind: type[HiveError]) -> None:
    fleet.answers["append"] = lambda _: kind("so it is", field="x")

    with pytest.raises(kind, match="so it is") as raised:
        await hive.sessions.append(session_id="s1", event=NOTE)

    assert type(raised.value) is kind
    assert raised.value.context == {"field": "x"}
    assert len(fleet.asked) == 1


async def test_an_error_of_a_newer_fleet_keeps_its_code_and_name(hive: hivemem.Hive, fleet: Fleet) -> None:
    class TooShy(HiveError):
        code = 49999

    fleet.answers["append"] = lambda _: TooShy("not today")

    with pytest.raises(HiveError, match="not today") as raised:
        await hive.sessions.append(session_id="s1", event=NOTE)

    assert (raised.value.code, raised.value.name) == (49999, "TooShy")


async def test_a_wrong_field_is_refused_before_it_is_sent(hive: hivemem.Hive, fleet: Fleet) -> None:
    with pytest.raises(hivemem.InvalidRequest, match="session_id") as raised:
        await hive.sessions.append(session_id="", event=NOTE)
    with pytest.raises(hivemem.InvalidRequest, match="colour"):
        await hive.request("sessions.append", {"session_id": "s1", "event": {"type": "note"}, "colour": 1})

    assert raised.value.context["field"] == "session_id"
    assert fleet.asked == []


async def test_an_unknown_operation_is_refused(hive: hivemem.Hive) -> None:
    with pytest.raises(hivemem.InvalidRequest, match=r"sessions\.sing"):
        await hive.request("sessions.sing", {})


async def test_a_body_of_another_operation_is_refused(hive: hivemem.Hive) -> None:
    with pytest.raises(hivemem.InvalidRequest, match="AppendEvent"):
        await hive.request("sessions.get", hivemem.AppendEvent(session_id="s1", event=NOTE))


async def test_a_body_over_the_limit_is_refused_before_it_is_sent(hive: hivemem.Hive, fleet: Fleet) -> None:
    plain = hive.with_options(large_values=False)
    with pytest.raises(hivemem.TooLarge, match=str(MESSAGE_BYTES)):
        await plain.sessions.append(session_id="s1", event=hivemem.NewEvent(type="note", content="x" * MESSAGE_BYTES))

    assert fleet.asked == []


async def test_what_the_server_does_not_take_is_too_large_and_keeps_the_connection(tmp_path: Path) -> None:
    with packaged_nats(tmp_path, extra_configuration="max_payload: 1024") as server:
        fleet = await join(server.url)
        await fleet.serve()
        async with hivemem.connect(server.url) as hive:
            refused: list[int] = []
            for size in range(800, 1100, 20):
                event = hivemem.NewEvent(type="note", content="x" * size)
                try:
                    await hive.sessions.append(session_id="s1", event=event)
                except hivemem.TooLarge as error:
                    refused.append(error.context["limit"])
            assert hive.connection.epoch == 1
        assert set(refused) == {1024}
        assert len(fleet.asked) == 15 - len(refused) > 0
        await fleet.close()


async def test_a_reply_may_have_fields_of_a_newer_fleet(hive: hivemem.Hive, fleet: Fleet) -> None:
    fleet.answers["append"] = lambda _: (
        b'{"session_id":"s1","event_id":"e","sequence":1,"revision":1,"duplicate":true,"mood":"good"}'
    )

    assert (await hive.sessions.append(session_id="s1", event=NOTE)).duplicate


async def test_a_reply_that_is_none_is_an_internal_error(hive: hivemem.Hive, fleet: Fleet) -> None:
    fleet.answers["append"] = lambda _: b"[]"

    with pytest.raises(hivemem.Internal, match=r"sessions\.append"):
        await hive.sessions.append(session_id="s1", event=NOTE)


async def test_an_answer_goes_to_the_inbox_of_the_agent_and_no_other(shared_server: Server, fleet: Fleet) -> None:
    replies = await fleet.listen("_INBOX_ac%2Eme_bot.>")

    async with hivemem.connect(shared_server.url, tenant="ac.me", agent="bot") as hive:
        await hive.sessions.append(session_id="s1", event=NOTE)

    assert [orjson.loads(data)["session_id"] for data in await replies()] == ["s1"]


@pytest.mark.parametrize("name", ["tenant", "agent"])
@pytest.mark.parametrize("value", ["", "\udc9b"])
def test_a_tenant_or_agent_that_is_no_text_is_refused(name: str, value: str) -> None:
    with pytest.raises(hivemem.InvalidRequest, match=f"^{name}: "):
        hivemem.connect(**{name: value})  # type: ignore[arg-type]  # the name is one of the two


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timeout_seconds", 0),
        ("timeout_seconds", "3"),
        ("attempt_seconds", -1),
        ("retries", -1),
        ("message_id", ""),
        ("message_id", "\udc9b"),
        ("traceparent", "a\nb"),
    ],
)
def test_options_that_make_no_sense_are_refused(name: str, value: object) -> None:
    with pytest.raises(hivemem.InvalidRequest) as refused:
        hivemem.CallOptions(**{name: value})  # type: ignore[arg-type]  # the values of the table above
    assert refused.value.context == {"field": name}
    assert repr(value) in refused.value.detail


async def test_a_closed_client_says_so(shared_server: Server, fleet: Fleet) -> None:
    hive = await hivemem.connect(shared_server.url)
    await hive.close()

    with pytest.raises(RuntimeError, match="closed"):
        await hive.sessions.append(session_id="s1", event=NOTE)
