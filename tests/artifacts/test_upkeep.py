"""Timers drop abandoned uploads, finish interrupted deletions and collect unused bytes."""

import os
import time
from dataclasses import replace

import pytest

from hivemem_artifacts.entities.deletions import DELETION, Deletion
from hivemem_artifacts.entities.places import place_of
from hivemem_artifacts.entities.uploads import UPLOAD
from hivemem_contracts.limits import ARTIFACT_CHUNK_BYTES as CHUNK
from hivemem_runtime.ledger.port import Append, Write

from .conftest import Deployment
from .hive import Agent, Body, parts_of

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def age(bot: Agent, upload: Body, seconds: int) -> None:
    """Make the upload look as if its last chunk arrived `seconds` earlier."""
    head = await bot.ledger.head(UPLOAD, bot.tenant, upload["upload_id"])
    assert head is not None
    assert head.value is not None
    older = replace(head.value, expires_at=head.value.expires_at - seconds * 1_000_000)
    append = Append(UPLOAD, head.id, older)
    await bot.ledger.commit(Write(bot.tenant, "clock", UPLOAD, head.id, lambda heads, now: [append]))
    held = parts_of(bot.worker).open_uploads.opened.get(head.id)
    if held is not None:
        held.upload = older


async def staged(deployment: Deployment) -> list[str]:
    return [staging.upload_id async for staging in deployment.store.stagings()]


async def test_an_abandoned_upload_vanishes(bot: Agent, deployment: Deployment) -> None:
    abandoned, other = await bot.begin("a"), await bot.begin("b")
    for upload in (abandoned, other):
        await bot.chunk(upload, 0, os.urandom(CHUNK))
    await age(bot, abandoned, deployment.settings.upload_seconds)
    assert (await bot.refusal("commit", upload_id=abandoned["upload_id"])).code == 40401
    await parts_of(bot.worker).upkeep.expire()
    head = await bot.ledger.head(UPLOAD, bot.tenant, abandoned["upload_id"])
    assert head is not None
    assert head.value is None
    found = await staged(deployment)
    assert abandoned["upload_id"] not in found
    await bot.chunk(other, 1, b"end")
    assert (await bot.ask("commit", upload_id=other["upload_id"]))["size"] == CHUNK + 3


async def test_every_chunk_puts_the_end_off(bot: Agent, deployment: Deployment) -> None:
    seconds = deployment.settings.upload_seconds
    upload = await bot.begin("a")
    await bot.chunk(upload, 0, os.urandom(CHUNK))
    await age(bot, upload, seconds - 100)
    await bot.chunk(upload, 1, b"end")
    head = await bot.ledger.head(UPLOAD, bot.tenant, upload["upload_id"])
    assert head is not None
    assert head.value is not None
    assert head.value.expires_at > time.time_ns() // 1_000 + (seconds - 100) * 1_000_000


async def test_what_has_ended_is_forgotten_after_a_while(bot: Agent, deployment: Deployment) -> None:
    upload = await bot.begin("a")
    await bot.chunk(upload, 0, b"abc")
    saved = await bot.ask("commit", upload_id=upload["upload_id"])
    await age(bot, upload, deployment.settings.upload_seconds + 1)
    assert await bot.ask("commit", upload_id=upload["upload_id"]) == saved
    await parts_of(bot.worker).upkeep.expire()
    assert (await bot.refusal("commit", upload_id=upload["upload_id"])).code == 40401
    assert await bot.content("a") == b"abc"


async def test_a_deletion_whose_worker_ended_goes_on(bot: Agent) -> None:
    await bot.save("a", b"1")
    place = place_of("s1", "a")
    left = Deletion(1, 0, 1, bot.name, bot.id("m1"))
    await bot.ledger.commit(
        Write(bot.tenant, bot.name, DELETION, place, lambda heads, now: [Append(DELETION, place, left)])
    )
    await parts_of(bot.worker).upkeep.resume_deletions()
    assert (await bot.refusal("stat", session_id="s1", name="a")).code == 40401
    assert (await bot.save("a", b"2"))["version"] == 3


async def test_the_clock_collects_what_is_unused(
    bot: Agent, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = parts_of(bot.worker).upkeep
    await bot.save("a", b"collect me")
    await bot.ask("delete", session_id="s1", name="a")
    await clock.collect()
    assert (await bot.ask("gc", dry_run=True, grace_seconds=0))["removed"] == 1
    monkeypatch.setattr(clock, "_gc_seconds", 0)
    await clock.collect_all()
    assert (await bot.ask("gc", dry_run=True, grace_seconds=0))["removed"] == 0
    assert [stored async for stored in deployment.store.blobs() if stored.tenant == bot.tenant] == []


async def test_old_stagings_of_nobody_are_removed(
    bot: Agent, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = parts_of(bot.worker).upkeep
    staging = await deployment.store.open_staging("left-behind")
    await staging.append(b"x")
    await staging.close()
    await clock.sweep()
    assert "left-behind" in await staged(deployment)
    monkeypatch.setattr(clock, "_upload_seconds", -1)
    await clock.sweep()
    assert "left-behind" not in await staged(deployment)
