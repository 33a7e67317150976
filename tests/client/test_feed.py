"""The feed: which changes it yields, where it starts, and how it reports missing changes."""

import asyncio
import gc
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import orjson
import pytest

import hivemem
from hivemem_contracts.changes import Change
from hivemem_contracts.streams import CHANGES, PURGED, PURGED_SUBJECT, SIGNATURE

from .fleet import Fleet, eventually


async def read(feed: hivemem.Feed, count: int) -> list[hivemem.Change]:
    async with asyncio.timeout(10):
        return [await anext(feed) for _ in range(count)]


async def read_all(feed: hivemem.Feed) -> list[hivemem.Change]:
    return [change async for change in feed]


async def announce(fleet: Fleet, *versions: int, session_id: str = "s1", tenant: str = "acme") -> None:
    for version in versions:
        await fleet.announce(tenant, session_id, version)


async def consumers(fleet: Fleet) -> int:
    return len((await fleet.api(f"CONSUMER.LIST.{CHANGES}"))["consumers"])


async def test_a_feed_yields_whole_changes_in_order(hive: hivemem.Hive, fleet: Fleet) -> None:
    await announce(fleet, 1, 2, 3)

    async with hive.changes(since="start") as feed:
        changes = await read(feed, 3)

    assert [change.version for change in changes] == [1, 2, 3]
    assert [change.sequence for change in changes] == [1, 2, 3]
    first = changes[0]
    assert (first.entity, first.operation, first.namespace) == ("event", "appended", "s1")
    assert isinstance(first.value, hivemem.Event)
    assert (first.value.event_id, first.value.sequence) == ("e1", 1)
    assert first.subject == "hive.chg.acme.event.s1"


async def test_a_change_of_a_newer_fleet_is_read_as_json(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.announce("acme", "s1", 1, entity="note", operation="put", value={"text": "hello"})
    await fleet.announce("acme", "s1", 2, operation="hidden", value=None)
    await fleet.announce("acme", "s1", 3, value={"event_id": "e3", "form": "of later"})
    await fleet.announce("acme", "s1", 4, entity="session", operation="deleted", value={"by": "rule"})

    async with hive.changes(since="start") as feed:
        *others, deleted = await read(feed, 4)

    assert [(change.entity, change.operation) for change in others] == [("other", "other")] * 3
    assert [change.kind for change in others] == ["note.put", "event.hidden", "event.appended"]
    assert [change.value for change in others] == [{"text": "hello"}, None, {"event_id": "e3", "form": "of later"}]
    assert [change.version for change in others] == [1, 2, 3]
    assert (deleted.kind, deleted.entity, deleted.value) == ("session.deleted", "session", None)
    assert orjson.loads(deleted.data)["value"] == {"by": "rule"}


async def test_types_narrow_by_entity_and_operation(hive: hivemem.Hive, fleet: Fleet) -> None:
    await announce(fleet, 1)
    await fleet.announce("acme", "s1", 2, value=None, value_omitted=True)

    async with hive.changes(since="start") as feed:
        for change in await read(feed, 2):
            assert change.entity == "event"
            assert_type(change.value, hivemem.Event | None)
            if change.value_omitted:
                assert (change.version, change.value) == (2, None)
            elif change.value is not None:
                assert_type(change.value.sequence, int)
                assert change.value.sequence == 1


async def test_now_is_the_moment_of_opening(hive: hivemem.Hive, fleet: Fleet) -> None:
    await announce(fleet, 1)
    async with hive.changes() as feed:
        await announce(fleet, 2)

        assert [change.version for change in await read(feed, 1)] == [2]


async def test_a_bare_loop_opens_by_itself_and_leaves_nothing_behind(hive: hivemem.Hive, fleet: Fleet) -> None:
    await announce(fleet, 1)

    async for change in hive.changes(since="start"):
        assert change.version == 1
        break
    gc.collect()

    await eventually(lambda: none_left(fleet), "the consumer is dropped")


async def none_left(fleet: Fleet) -> bool:
    return await consumers(fleet) == 0


async def test_closing_drops_the_consumer_and_ends_the_loop(hive: hivemem.Hive, fleet: Fleet) -> None:
    feed = hive.changes()
    await feed.open()
    assert await consumers(fleet) == 1
    reader = asyncio.create_task(read_all(feed))
    await asyncio.sleep(0)
    await feed.close()

    assert await reader == []
    await eventually(lambda: none_left(fleet), "the consumer is dropped")


async def test_closing_the_client_ends_its_feeds(hive: hivemem.Hive, fleet: Fleet) -> None:
    await announce(fleet, 1, 2)
    task = asyncio.create_task(read_all(hive.changes(since="start")))
    await eventually(lambda: some_consumer(fleet), "the feed is open")
    await hive.close()

    assert len(await task) <= 2


async def some_consumer(fleet: Fleet) -> bool:
    return await consumers(fleet) > 0


async def test_a_prefix_matches_whole_tokens_of_free_text(hive: hivemem.Hive, fleet: Fleet) -> None:
    await announce(fleet, 1, session_id="a.b")
    await announce(fleet, 1, session_id="a")
    await announce(fleet, 2, session_id="a.b")

    async with hive.changes(hivemem.prefix("event", "a.b"), since="start") as feed:
        changes = await read(feed, 2)

    assert [(change.namespace, change.version) for change in changes] == [("a.b", 1), ("a.b", 2)]


async def test_an_entity_of_a_newer_fleet_is_followed_by_its_subject(hive: hivemem.Hive, fleet: Fleet) -> None:
    await announce(fleet, 1)
    note = Change(
        entity="note", operation="put", tenant="acme", namespace="n1", version=1, actor="x", at=datetime.now(UTC)
    )
    await fleet.store("hive.chg.acme.note.n1", note.model_dump_json().encode())

    async with hive.changes("hive.chg.acme.note", since="start") as feed:
        assert [change.kind for change in await read(feed, 1)] == ["note.put"]


async def test_another_tenant_is_never_seen(hive: hivemem.Hive, fleet: Fleet) -> None:
    await announce(fleet, 1, tenant="other")
    await announce(fleet, 2)

    async with hive.changes(since="start") as feed:
        assert [change.tenant for change in await read(feed, 1)] == ["acme"]


async def test_a_wrong_prefix_or_start_is_refused_at_once(hive: hivemem.Hive) -> None:
    with pytest.raises(hivemem.InvalidRequest, match="did you mean 'event'"):
        hive.changes("events")
    with pytest.raises(hivemem.InvalidRequest, match="since"):
        hive.changes(since="last tuesday")
    with pytest.raises(hivemem.InvalidRequest, match="offset"):
        hive.changes(since=datetime(2025, 1, 1))  # noqa: DTZ001 - that is the point


async def test_a_cursor_goes_on_after_its_change(hive: hivemem.Hive, fleet: Fleet) -> None:
    await announce(fleet, 1, 2, 3)
    async with hive.changes(since="start") as feed:
        cursor = (await read(feed, 2))[-1].cursor
        assert feed.cursor == cursor

    async with hive.changes(since=cursor) as feed:
        assert [change.version for change in await read(feed, 1)] == [3]


async def test_a_feed_that_read_nothing_has_a_cursor_too(hive: hivemem.Hive, fleet: Fleet) -> None:
    await announce(fleet, 1)
    feed = hive.changes()
    before = feed.cursor
    async with feed:
        cursor = feed.cursor
    await announce(fleet, 2)

    assert before is None
    assert cursor is not None
    async with hive.changes(since=cursor) as feed:
        assert [change.version for change in await read(feed, 1)] == [2]


async def test_a_time_starts_at_the_first_change_after_it(hive: hivemem.Hive, fleet: Fleet) -> None:
    await announce(fleet, 1)
    async with hive.changes(since="start") as feed:
        await read(feed, 1)
    moment = datetime.now(UTC)
    await announce(fleet, 2, 3)

    async with hive.changes(since=moment) as feed:
        assert feed.cursor is None
        assert [change.version for change in await read(feed, 2)] == [2, 3]


async def test_a_body_cannot_forge_its_place(hive: hivemem.Hive, fleet: Fleet) -> None:
    forged: dict[str, Any] = {"kind": "session.deleted", "sequence": 99, "subject": "x", "cursor": "c1-1", "data": "{}"}
    body = {"entity": "session", "operation": "state_changed", "tenant": "acme", "namespace": "s1", "version": 1}
    body |= {"actor": "worker", "at": "2026-01-31T09:30:00Z", **forged}
    for version, entity in enumerate(("session", "other", "note"), start=1):
        await fleet.store("hive.chg.acme.session.s1", orjson.dumps({**body, "entity": entity, "version": version}))

    async with hive.changes(since="start") as feed:
        changes = await read(feed, 3)
        cursor = feed.cursor

    kinds = ["session.state_changed", "other.state_changed", "note.state_changed"]
    assert [(change.kind, change.sequence) for change in changes] == list(zip(kinds, (1, 2, 3), strict=True))
    assert {change.subject for change in changes} == {"hive.chg.acme.session.s1"}
    assert changes[-1].cursor == cursor
    assert orjson.loads(changes[0].data)["kind"] == "session.deleted"


async def test_truncated_history_is_raised_and_can_be_resumed(hive: hivemem.Hive, fleet: Fleet) -> None:
    await announce(fleet, 1, 2, 3, 4)
    async with hive.changes(since="start") as feed:
        cursor = (await read(feed, 1))[0].cursor
    await fleet.api(f"STREAM.PURGE.{CHANGES}", {"seq": 4})

    with pytest.raises(hivemem.FeedTruncated, match="2 up to 3") as raised:
        await hive.changes(since=cursor).open()

    assert (raised.value.expected, raised.value.first_available) == (2, 4)
    async with hive.changes(since=raised.value.resume) as feed:
        assert [change.version for change in await read(feed, 1)] == [4]


async def test_a_time_before_what_is_kept_is_truncated_too(hive: hivemem.Hive, fleet: Fleet) -> None:
    await announce(fleet, 1, 2)
    await fleet.api(f"STREAM.PURGE.{CHANGES}", {"seq": 2})

    with pytest.raises(hivemem.FeedTruncated):
        await hive.changes(since=datetime.now(UTC) - timedelta(days=1)).open()


async def test_a_gap_is_passed_over_only_when_told_to_and_with_a_warning(
    hive: hivemem.Hive, fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    await announce(fleet, 1, 2, 3)
    async with hive.changes(since="start") as feed:
        cursor = (await read(feed, 1))[0].cursor
    await fleet.api(f"STREAM.PURGE.{CHANGES}", {"seq": 3})

    async with hive.changes(since=cursor, on_gap="skip") as feed:
        assert [change.version for change in await read(feed, 1)] == [3]

    assert "no longer kept" in caplog.text


async def test_a_stream_made_anew_is_noticed(hive: hivemem.Hive, fleet: Fleet) -> None:
    await announce(fleet, 1)
    async with hive.changes(since="start") as feed:
        cursor = (await read(feed, 1))[0].cursor
    await fleet.make_streams()
    await announce(fleet, 7)

    with pytest.raises(hivemem.FeedRecreated, match="recreated") as raised:
        await hive.changes(since=cursor).open()

    async with hive.changes(since=raised.value.resume) as feed:
        assert [change.version for change in await read(feed, 1)] == [7]
    async with hive.changes(since=cursor, on_gap="skip") as feed:
        assert [change.version for change in await read(feed, 1)] == [7]


async def test_a_cursor_past_the_end_is_noticed(hive: hivemem.Hive, fleet: Fleet) -> None:
    await announce(fleet, 1)
    async with hive.changes(since="start") as feed:
        (change,) = await read(feed, 1)
    ahead = hivemem.Cursor(hivemem.Cursor.parse(change.cursor).created, 50)

    with pytest.raises(hivemem.FeedRecreated, match="lost its end"):
        await hive.changes(since=str(ahead)).open()


async def test_what_is_no_change_is_raised_once_and_then_passed(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.store("hive.chg.acme.event.s1", b"not json", {SIGNATURE: "of a newer worker"})
    await announce(fleet, 1)

    async with hive.changes(since="start") as feed:
        with pytest.raises(hivemem.UnreadableChange) as raised:
            await anext(feed)
        assert [change.version for change in await read(feed, 1)] == [1]

    assert raised.value.context["sequence"] == 1
    async with hive.changes(since=raised.value.resume) as feed:
        assert [change.version for change in await read(feed, 1)] == [1]


async def test_an_acknowledgement_that_was_sent_to_the_feed_is_passed_over(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.client.publish("hive.in.acme.bot.sessions.append.s", b"{}", reply="hive.chg.acme.event.s1")
    await fleet.client.flush()
    await announce(fleet, 1)

    async with hive.changes(since="start") as feed:
        (change,) = await read(feed, 1)
    assert change.version == 1
    assert change.sequence == 2


async def test_without_the_stream_the_feed_cannot_be_opened(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.api(f"STREAM.DELETE.{CHANGES}")

    with pytest.raises(hivemem.Unavailable, match=r"stream not found.*hivemem doctor"):
        await hive.with_options(timeout_seconds=0.5).changes().open()


async def test_a_reader_that_pauses_misses_nothing(
    hive: hivemem.Hive, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A buffer of ten messages: the server is far ahead, so the client drops the excess and requests it again.
    monkeypatch.setattr("hivemem.feed_buffer.BUFFERED_MESSAGES", 10)
    await announce(fleet, *range(1, 101))

    async with hive.changes(since="start") as feed:
        versions = [change.version for change in await read(feed, 100)]

    assert versions == list(range(1, 101))


async def test_the_server_holds_back_while_nobody_reads(hive: hivemem.Hive, fleet: Fleet) -> None:
    padding = "x" * 60_000
    for version in range(1, 101):
        await fleet.announce("acme", "s1", version, value=padding)

    async with hive.changes(since="start") as feed:
        first = await anext(feed)
        # Flow control starts at a fraction of its window, so most of the six megabytes stay with the server.
        (consumer,) = (await fleet.api(f"CONSUMER.LIST.{CHANGES}"))["consumers"]
        assert consumer["num_pending"] > 0
        rest = await read(feed, 99)

    assert [first.version, *(change.version for change in rest)] == list(range(1, 101))


async def test_retention_that_overtakes_a_slow_reader_is_noticed(
    hive: hivemem.Hive, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hivemem.feed.VERIFY_SECONDS", 0.0)
    padding = "x" * 60_000
    for version in range(1, 201):
        await fleet.announce("acme", "s1", version, value=padding)

    async with hive.changes(since="start") as feed:
        await anext(feed)
        await fleet.api(f"STREAM.PURGE.{CHANGES}", {"seq": 190})
        with pytest.raises(hivemem.FeedTruncated):
            await read(feed, 199)
        # After the error the same feed continues with the remaining changes.
        seen = await read(feed, 1)

    assert seen[0].version > 1


async def test_nobody_is_led_over_a_hole_in_the_middle(hive: hivemem.Hive, fleet: Fleet) -> None:
    """The workers replace such a stream; until then the feed does not open."""
    await announce(fleet, *range(1, 11))
    await fleet.api(f"STREAM.MSG.DELETE.{CHANGES}", {"seq": 5})

    with pytest.raises(hivemem.Unavailable, match="being recreated"):
        await hive.with_options(timeout_seconds=0.5).changes(since="start").open()

    await fleet.make_streams()
    await announce(fleet, *range(1, 11))
    async with hive.changes(since="start") as feed:
        assert [change.version for change in await read(feed, 10)] == list(range(1, 11))


async def test_what_was_purged_on_purpose_is_passed_over(hive: hivemem.Hive, fleet: Fleet) -> None:
    await announce(fleet, 1, 2, 3, 4)
    cursors = [change.cursor for change in await read(hive.changes(since="start"), 4)]
    await fleet.api(f"STREAM.DELETE.KV_{PURGED}")
    await fleet.make_stream(f"KV_{PURGED}", subjects=[PURGED_SUBJECT])
    created = (await fleet.api(f"STREAM.INFO.{CHANGES}"))["created"]
    record = {"feed": created, "total": 2, "ranges": [[2, 3]]}
    await fleet.store(PURGED_SUBJECT, orjson.dumps(record))
    for sequence in (2, 3):
        await fleet.api(f"STREAM.MSG.DELETE.{CHANGES}", {"seq": sequence})

    async with hive.changes(since="start") as feed:
        assert [change.version for change in await read(feed, 2)] == [1, 4]
    async with hive.changes(since=cursors[1]) as feed:
        assert [change.version for change in await read(feed, 1)] == [4]
