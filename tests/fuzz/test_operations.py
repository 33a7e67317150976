"""Any message to any operation gets success or a coded error in time, and the fleet stays healthy."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from nats.aio.client import Client

from hivemem_contracts.catalog import SERVICES
from hivemem_contracts.errors import CODE_HEADER, Internal
from hivemem_contracts.streams import DEAD, INGEST
from hivemem_runtime.bus.jetstream import ask

from ..chaos.asking import connect
from ..chaos.fleet import Command, Fleet, running_fleet, worker_command
from ..chaos.servers import Store
from .asking import asking
from .cases import OPERATIONS, Cases
from .health import MEMORY_BYTES, at_rest, most_memory
from .known import Filling
from .numbers import CASES, MONGO_SHARE, SQLITE_SHARE
from .verdict import outcome

FAULTS_SHOWN = 20
EACH = 100
"""With this many cases per operation, each operation succeeds at least once."""

WORKERS: Sequence[Command] = [worker_command(f"hivemem_{service.name}") for service in SERVICES]


@pytest.mark.slow
@pytest.mark.timeout(900 + CASES // 20)
@pytest.mark.parametrize(
    ("store", "workers", "share"),
    [("embedded", [], SQLITE_SHARE), ("mongo", WORKERS, MONGO_SHARE)],
    ids=["embedded", "mongo"],
)
async def test_any_message_is_answered_and_leaves_the_fleet_as_well_as_before(
    store: Store, workers: Sequence[Command], share: float, tmp_path: Path, seed: int
) -> None:
    with running_fleet(tmp_path, store, workers) as fleet:
        client = await connect(fleet.nats_url)
        cases = Cases(seed, await Filling(client, seed).fill())
        count = int(CASES * share)
        outcomes, faults = await answers(fleet, cases, count)
        assert not faults, f"{len(faults)} of {count}, seed {seed}:\n" + "\n".join(faults[:FAULTS_SHOWN])
        if count >= EACH * len(OPERATIONS):
            assert {operation for operation in OPERATIONS if not outcomes[operation.full_name, 0]} == set()
        await at_rest(fleet)
        assert (await ask(client, f"STREAM.INFO.{INGEST}"))["state"]["messages"] == 0
        assert str(Internal.code) not in await dead_codes(client)
        assert max(most_memory(worker) for worker in fleet.workers) < MEMORY_BYTES
        for worker in fleet.workers:
            said = worker.log.read_text(errors="replace")
            assert not [line for line in said.splitlines() if "Traceback" in line or '"disconnected"' in line], said
        await client.close()


async def answers(fleet: Fleet, cases: Cases, count: int) -> tuple[Counter[tuple[str, int]], list[str]]:
    """Return how often each operation answered each code, 0 for success, and the invalid answers."""
    outcomes, faults = Counter[tuple[str, int]](), list[str]()
    async with asking(fleet.nats_url) as line:
        async for case, answer in line.ask_all(cases[number] for number in range(count)):
            try:
                assert answer is not None, "no answer"
                outcomes[case.name, outcome(case, answer)] += 1
            except AssertionError as fault:
                faults.append(f"{fault}\n  {case}")
    return outcomes, faults


async def dead_codes(client: Client) -> Counter[str]:
    """Return the codes of all dead letters."""
    codes = Counter[str]()
    state = (await ask(client, f"STREAM.INFO.{DEAD}"))["state"]
    for sequence in range(state["first_seq"], state["last_seq"] + 1):
        letter = await client.request(f"$JS.API.DIRECT.GET.{DEAD}", orjson.dumps({"seq": sequence}), timeout=20)
        codes[(letter.headers or {}).get(CODE_HEADER, "")] += 1
    return codes
