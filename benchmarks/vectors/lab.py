"""The contenders of the suite, set up once for the whole run, on one disk."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import hivemem
from benchmarks.fleets import Fleet, Store, running_fleet, worker_process
from benchmarks.results import Results
from benchmarks.vectors.corpus import Corpus
from benchmarks.vectors.endpoint import precomputed
from benchmarks.vectors.peers import LangGraphContender
from benchmarks.vectors.sizes import FULL, QUICK, Sizes
from hivemem_testing.process import ProcessServer
from hivemem_testing.servers import packaged_qdrant
from hivemem_vectors.embedders.offline.embedder import DIMENSION, MODEL

AGENT: Final = "agent"
TIMEOUT_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.05
LONGEST_SECONDS: Final = 400.0
NAMESPACES: Final = 100

ON_SERVER: Final = "sqlite+server"
"""The ledger on SQLite and the index on a Qdrant server, to compare the index alone."""

How = Literal["given", "offline"]
"""The source of embeddings: a prepared endpoint, or the model in the worker."""


def namespace(number: int) -> str:
    return f"user:u{number % NAMESPACES}:notes"


@dataclass
class HivememContender:
    """A fleet with a memory worker, and a vectors worker with one of two sources of embeddings."""

    name: str
    fleet: Fleet
    hive: hivemem.Hive
    workers: Mapping[How, ProcessServer]
    qdrant: ProcessServer | None
    running: How | None = field(default=None, init=False)

    async def use(self, how: How | None) -> None:
        """Stop the vectors worker, and start the other one."""
        if how == self.running:
            return
        if self.running is not None:
            await asyncio.to_thread(self.workers[self.running].stop)
        self.running = how
        if how is not None:
            await asyncio.to_thread(self.workers[how].start)

    async def put_batch(self, corpus: Corpus, numbers: Sequence[int]) -> None:
        puts = [
            {"namespace": namespace(number), "key": str(number), "value": corpus.text(number)} for number in numbers
        ]
        await self.hive.request("memory.put_batch", {"puts": puts})

    async def recall(self, question: str, limit: int, prefix: str | None = None) -> list[str]:
        """Recall, and return the keys of the results."""
        answer = await self.hive.recall(question, namespace_prefix=prefix, limit=limit)
        if answer.degraded is not None:
            raise RuntimeError(f"{self.name}: {answer.degraded}")
        return [item.key for item in answer.items]

    async def indexed(self, count: int) -> None:
        """Wait until the given number of memories is indexed, and none waits."""
        async with asyncio.timeout(LONGEST_SECONDS):
            while True:
                overview = await self.hive.vectors.overview()
                if overview.synced >= count and overview.waiting == overview.pending == overview.stale == 0:
                    return
                await asyncio.sleep(POLL_SECONDS)


@dataclass(frozen=True)
class Lab:
    sizes: Sizes
    results: Results
    corpus: Corpus
    hivemem: dict[Store, HivememContender]
    on_server: HivememContender | None
    """Start SQLite with a Qdrant server, if SQLite is measured."""

    peer: LangGraphContender

    @property
    def fleets(self) -> Mapping[Store, Fleet]:
        return {store: contender.fleet for store, contender in self.hivemem.items()}

    @property
    def fillers(self) -> list[HivememContender]:
        return [*self.hivemem.values(), *([] if self.on_server is None else [self.on_server])]

    @property
    def everybody(self) -> list[HivememContender | LangGraphContender]:
        return [*self.fillers, self.peer]


@asynccontextmanager
async def open_lab(directory: Path, stores: Sequence[Store], results: Results) -> AsyncGenerator[Lab]:
    sizes = QUICK if results.quick else FULL
    corpus = await Corpus.load()
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(precomputed(corpus))
        given = {
            "HIVEMEM_EMBEDDER": "openai",
            "HIVEMEM_EMBEDDER_URL": url,
            "HIVEMEM_EMBEDDER_MODEL": MODEL,
            "HIVEMEM_EMBEDDER_DIMENSION": str(DIMENSION),
        }

        async def contender(name: str, store: Store, *, server: bool) -> HivememContender:
            folder = directory / name
            fleet = stack.enter_context(running_fleet(folder, store, "memory"))
            qdrant = stack.enter_context(packaged_qdrant(folder / "qdrant")) if server else None
            settings = {**fleet.settings, **(_on_server(qdrant) if qdrant else {})}
            workers: dict[How, ProcessServer] = {
                "given": worker_process(folder / "given", "vectors", {**settings, **given}),
                "offline": worker_process(folder / "offline", "vectors", settings),
            }
            for worker in workers.values():
                stack.callback(worker.stop)
            connecting = hivemem.connect(fleet.url, agent=AGENT, timeout_seconds=TIMEOUT_SECONDS)
            hive = await stack.enter_async_context(connecting)
            return HivememContender(name, fleet, hive, workers, qdrant)

        contenders = {store: await contender(store, store, server=store == "mongo") for store in stores}
        on_server = await contender(ON_SERVER, "sqlite", server=True) if "sqlite" in stores else None
        peer = await LangGraphContender.open(directory, corpus)
        stack.push_async_callback(peer.close)
        yield Lab(sizes, results, corpus, contenders, on_server, peer)


def _on_server(qdrant: ProcessServer) -> dict[str, str]:
    host = qdrant.url.rpartition(":")[0]
    return {"HIVEMEM_VECTORS": "qdrant", "HIVEMEM_QDRANT_URL": f"{host}:{qdrant.address.grpc_port}"}
