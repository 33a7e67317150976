"""Workers discover one another and share the partitions evenly."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client

from hivemem_contracts.streams import MEMBERS
from hivemem_runtime.bus import jetstream
from hivemem_runtime.bus.commands.members import Members, assign
from hivemem_runtime.bus.jetstream import ask
from hivemem_runtime.clock import elapsed_seconds

from .stored import count_in, publish
from .waiting import eventually

names = st.lists(st.text("abcdef0123", min_size=1, max_size=6), min_size=1, max_size=20, unique=True)


@given(names, st.integers(1, 64))
def test_partitions_are_shared_as_evenly_as_can_be(members: list[str], partitions: int) -> None:
    owners = assign(tuple(sorted(members)), partitions)
    held = [owners.count(member) for member in members]
    assert len(owners) == partitions
    assert max(held) - min(held) <= 1


def test_few_partitions_move_when_a_member_joins() -> None:
    members = tuple(f"member{number}" for number in range(4))
    before, after = assign(members, 64), assign((*members, "member4"), 64)
    moved = sum(one != other for one, other in zip(before, after, strict=True))
    assert 12 <= moved <= 32


async def test_members_hear_of_each_other_and_of_a_goodbye(client: Client) -> None:
    one, other = Members(client, "items"), Members(client, "items")
    changes: list[int] = []
    one.on_change(lambda: changes.append(len(one.living)))
    await one.start()
    await other.start()
    assert other.living == tuple(sorted((one.name, other.name)))
    await eventually(lambda: one.living == other.living, "the first hears of the second")
    assert [one.owns(partition, 8) + other.owns(partition, 8) for partition in range(8)] == [1] * 8
    await other.leave()
    await eventually(lambda: one.living == (one.name,), "the first hears the goodbye", deadline_seconds=1)
    assert changes == [1, 2, 1]
    assert not any(other.owns(partition, 8) for partition in range(8))
    await one.leave()


async def test_services_do_not_mix(client: Client) -> None:
    one, other = Members(client, "items"), Members(client, "others")
    await one.start()
    await other.start()
    assert other.living == (other.name,)
    await one.leave()
    await other.leave()


async def say_once(client: Client, member: str, ttl_seconds: int) -> None:
    """Publish the heartbeat of a member that then stays silent."""
    headers = {"Nats-TTL": f"{ttl_seconds}s"}
    await publish(client, f"$KV.{MEMBERS}.items.{member}", b"{}", headers)


async def test_a_silent_member_is_forgotten_and_leaves_nothing_behind(client: Client) -> None:
    one = Members(client, "items", ttl_seconds=1)
    await one.start()
    await say_once(client, "silent", 1)
    await eventually(lambda: "silent" in one.living, "it is heard")
    began = elapsed_seconds()
    await eventually(lambda: one.living == (one.name,), "the silent one is forgotten")
    assert 0.5 < elapsed_seconds() - began < 3
    await one.leave()

    async def empty() -> bool:
        return await count_in(client, f"KV_{MEMBERS}") == 0

    await eventually(empty, "the bucket is empty", deadline_seconds=5)


async def test_who_joins_hears_of_those_who_spoke_before(client: Client) -> None:
    await say_once(client, "earlier", 60)
    one = Members(client, "items")
    await one.start()
    assert "earlier" in one.living
    await one.leave()


async def test_a_silent_member_is_forgotten_while_the_bucket_is_away_too(client: Client) -> None:
    one = Members(client, "items", ttl_seconds=1)
    await one.start()
    await say_once(client, "silent", 1)
    await eventually(lambda: "silent" in one.living, "it is heard")
    await ask(client, f"STREAM.DELETE.KV_{MEMBERS}")
    await eventually(lambda: one.living == (one.name,), "the silent one is forgotten", deadline_seconds=4)
    await one.leave()


async def test_who_stood_still_does_not_take_the_others_for_dead(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Members(client, "items")
    await one.start()
    await say_once(client, "other", 60)
    await eventually(lambda: "other" in one.living, "it is heard")
    changes: list[int] = []
    one.on_change(lambda: changes.append(len(one.living)))
    later = elapsed_seconds() + 100
    asked: list[float] = []

    def jumped() -> float:
        asked.append(later)
        return later

    monkeypatch.setattr("hivemem_runtime.bus.commands.members.elapsed_seconds", jumped)
    await eventually(lambda: len(asked) > 3, "it woke up and went on")
    assert changes == []
    assert "other" in one.living
    await one.leave()


async def test_who_leaves_ends_even_if_its_cancellation_is_lost(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`wait_for` loses a cancellation before Python 3.12 if the answer arrives at the same moment."""
    one = Members(client, "items", ttl_seconds=1)
    await one.start()
    saying = asyncio.Event()
    publish = jetstream.publish

    async def published(*args: Any, **fields: Any) -> None:
        saying.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await publish(*args, **fields)

    monkeypatch.setattr(jetstream, "publish", published)
    await asyncio.wait_for(saying.wait(), 10)
    monkeypatch.setattr(jetstream, "publish", publish)
    leaving = asyncio.create_task(one.leave())
    await asyncio.wait([leaving], timeout=10)
    assert leaving.done()
