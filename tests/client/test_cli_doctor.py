"""`hivemem doctor` finds each fault, names it and gives advice."""

from pathlib import Path
from typing import Any

from hivemem.cli import checks
from hivemem_contracts.catalog import SERVICES
from hivemem_contracts.sessions.replies import SessionPage
from hivemem_contracts.streams import CHANGES, DEAD, INGEST
from hivemem_testing.contract import Server
from hivemem_testing.servers import packaged_nats

from .commands import invoke, invoke_json, on_screen
from .fleet import Fleet, join
from .test_cli_dead import GONE


async def healthy(fleet: Fleet) -> None:
    fleet.answers["list"] = lambda _: SessionPage(items=[], cursor=None)
    for name, config in checks.STREAMS.items():
        await fleet.api(f"STREAM.DELETE.{name}")
        await fleet.make_stream(name, **config)


async def outcomes(url: str) -> dict[str, Any]:
    document = await invoke_json(url, "doctor")
    return {check["name"]: check for check in document["checks"]}


async def test_a_healthy_fleet_passes_every_check(shared_server: Server, fleet: Fleet) -> None:
    await healthy(fleet)

    shown = await on_screen(shared_server.url, "doctor")
    piped = await invoke(shared_server.url, "doctor")
    document = await invoke_json(shared_server.url, "doctor")

    assert shown.startswith("✓  server ")
    assert {tuple(line.split("\t"))[1] for line in piped.stdout.splitlines()} == {"ok"}
    assert document["healthy"] is True
    assert {check["outcome"] for check in document["checks"]} == {"ok"}
    assert len(document["checks"]) == 10 + len(SERVICES)


async def test_a_missing_stream_and_a_different_one_are_found(shared_server: Server, fleet: Fleet) -> None:
    await healthy(fleet)
    await fleet.api(f"STREAM.DELETE.{CHANGES}")
    await fleet.api(f"STREAM.DELETE.{INGEST}")
    await fleet.make_stream(INGEST, subjects=["hive.in.>"], discard="new", retention="workqueue")

    result = await invoke(shared_server.url, "doctor")
    found = await outcomes(shared_server.url)

    assert result.exit_code == 1
    assert found["stream CHANGES"]["outcome"] == "failed"
    assert "hivemem up" in found["stream CHANGES"]["advice"]
    assert "subjects is ['hive.in.>']" in found["stream INGEST"]["detail"]


async def test_dead_letters_and_a_full_stream_are_warnings(shared_server: Server, fleet: Fleet) -> None:
    await healthy(fleet)
    await fleet.bury("acme", GONE)
    await fleet.api(f"STREAM.DELETE.{INGEST}")
    await fleet.make_stream(INGEST, **checks.STREAMS[INGEST], max_bytes=1000)
    await fleet.store("hive.in.acme.bot.sessions.append.s1", b"x" * 900)

    found = await outcomes(shared_server.url)

    assert found[f"stream {DEAD}"]["outcome"] == "warning"
    assert "hivemem dead list" in found[f"stream {DEAD}"]["advice"]
    assert found[f"stream {INGEST}"]["outcome"] == "warning"
    assert (await invoke(shared_server.url, "doctor")).exit_code == 0


async def test_commands_that_wait_are_told_by_service(shared_server: Server, fleet: Fleet) -> None:
    await healthy(fleet)
    await fleet.api(f"STREAM.DELETE.{INGEST}")
    tokens = ".".join(f"{{{{wildcard({place})}}}}" for place in range(1, 6))
    partitioned = {"src": checks.STREAMS[INGEST]["subjects"][0], "dest": f"hive.in.0.{tokens}"}
    await fleet.make_stream(INGEST, **checks.STREAMS[INGEST], subject_transform=partitioned)
    for service, count in (("memory", 2), ("gone", 3)):
        for _ in range(count):
            await fleet.store(f"hive.in.acme.bot.{service}.append.s1", b"{}")

    found = (await outcomes(shared_server.url))["commands"]

    assert (found["outcome"], found["detail"]) == ("warning", "3 wait for gone, 2 wait for memory")
    assert found["advice"].startswith("start a worker of gone:")


async def test_what_the_feed_or_a_store_lost_is_told(shared_server: Server, fleet: Fleet) -> None:
    await healthy(fleet)
    losses = ["it ends at 5, and ended at 9", "the ledger is older: the feed has version 9 of memory 'a'"]
    fleet.health = {"ready": True, "announcer": {"losses": losses}}

    document = await invoke_json(shared_server.url, "doctor")

    told = [check for check in document["checks"] if check["name"] == "feed of sessions"]
    assert [check["outcome"] for check in told] == ["warning", "warning"]
    assert "it ends at 5" in told[0]["detail"]
    assert "restore a newer copy" in told[1]["advice"]


async def test_a_worker_that_is_not_ready_is_found(shared_server: Server, fleet: Fleet) -> None:
    await healthy(fleet)
    fleet.health = {"ready": False, "store_error": "the disk is full"}

    found = await outcomes(shared_server.url)

    assert found["worker sessions"]["outcome"] == "failed"
    assert "the disk is full" in found["worker sessions"]["detail"]


async def test_each_trouble_of_a_worker_is_a_line_with_advice(shared_server: Server, fleet: Fleet) -> None:
    await healthy(fleet)
    troubles = ["store: the disk is full", "server: restart the nats-server once its disk has room", "odd: it is"]
    fleet.health = {"ready": False, "troubles": troubles}

    document = await invoke_json(shared_server.url, "doctor")

    found = [check for check in document["checks"] if check["name"] == "worker sessions"]
    assert [check["detail"].partition("is not ready: ")[2] for check in found] == troubles
    assert [check["advice"].split()[0] for check in found] == ["check", "free", "see"]
    assert document["healthy"] is False


async def test_the_durability_promise_is_told(shared_server: Server, fleet: Fleet) -> None:
    await healthy(fleet)
    told: dict[str | None, str] = {}
    for sync in (None, "always", "120s"):
        fleet.health = {"ready": True, "server": {"sync": sync}}
        check = (await outcomes(shared_server.url))["durability"]
        told[sync] = f"{check['outcome']}: {check['detail']}"

    assert told[None].startswith("ok: unknown")
    assert told["always"].startswith("ok: the server syncs each message")
    assert told["120s"].startswith("warning: the server syncs to the disk every 120s")


async def test_workers_of_different_versions_are_a_warning(shared_server: Server, fleet: Fleet) -> None:
    await healthy(fleet)
    newer = await join(shared_server.url)
    newer.answers = fleet.answers
    await newer.serve(version="0.2.0")

    found = await outcomes(shared_server.url)
    await newer.close()

    assert found["service sessions"]["outcome"] == "warning"
    assert "2 workers, version 0.1.0, 0.2.0" in found["service sessions"]["detail"]


async def test_without_workers_the_service_and_the_round_trip_fail(shared_server: Server, fleet: Fleet) -> None:
    await healthy(fleet)
    await fleet.leave()

    result = await invoke(shared_server.url, "--timeout", "0.5", "doctor")

    assert result.exit_code == 1
    assert "no worker answers" in result.stdout
    assert "round trip" in result.stdout
    assert "hivemem doctor" not in result.stdout


async def test_a_server_without_jetstream_is_found(tmp_path: Path) -> None:
    accounts = "accounts { A { users: [{ user: bot, password: good }] } }"
    with packaged_nats(tmp_path, extra_configuration=accounts) as server:
        url = server.url.replace("//", "//bot:good@")
        found = {check["name"]: check for check in (await invoke_json(url, "--timeout", "0.5", "doctor"))["checks"]}

    assert found["jetstream"]["outcome"] == "failed"
    assert "store_dir" in found["jetstream"]["advice"]
    assert "good" not in found["server"]["detail"]
    assert "stream INGEST" not in found


async def test_an_old_server_and_a_small_payload_are_found(
    shared_server: Server, fleet: Fleet, monkeypatch: Any
) -> None:
    monkeypatch.setattr(checks, "MINIMUM_SERVER", (99, 0, 0))
    monkeypatch.setattr(checks, "MESSAGE_BYTES", 2**40)

    found = await outcomes(shared_server.url)

    assert "99.0.0" in found["version"]["advice"]
    assert found["payload"]["outcome"] == "warning"


async def test_no_server_is_the_only_finding(tmp_path: Path) -> None:
    result = await invoke("nats://127.0.0.1:1", "doctor")

    assert result.exit_code == 1
    assert "hivemem up" in result.stdout
    assert "hivemem doctor" not in result.stdout


async def test_refused_credentials_are_told_as_that(tmp_path: Path) -> None:
    with packaged_nats(tmp_path, extra_configuration="authorization { user: bot, password: good }") as server:
        result = await invoke(server.url, "doctor")

    assert result.exit_code == 1
    assert "check the user and the password" in result.stdout
