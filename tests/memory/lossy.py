"""A feed that loses its end, as by a power cut: JetStream's folder is put back to how it was before."""

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.streams import CHANGES, FEED_EPOCH
from hivemem_runtime.bus.jetstream import ask
from hivemem_runtime.bus.reacting import ReceivedChange
from hivemem_testing.process import ProcessServer

from .hive import eventually
from .test_audit_feed import make_anew, tell


@dataclass(frozen=True)
class LossyBus:
    """A server that keeps its port, so that clients reconnect by themselves."""

    server: ProcessServer
    directory: Path

    @property
    def _store(self) -> Path:
        return self.directory / "nats"

    @property
    def _kept(self) -> Path:
        return self.directory / "kept"

    def keep(self) -> None:
        """Save the folder as it is now, for a later loss."""
        self.server.stop()
        shutil.rmtree(self._kept, ignore_errors=True)
        shutil.copytree(self._store, self._kept)
        self.server.start()

    def lose(self) -> None:
        self.server.kill()
        shutil.rmtree(self._store)
        shutil.copytree(self._kept, self._store)
        self.server.start()


async def begin_epoch(client: Client, epoch: str) -> None:
    """Do as the fleet does when it finds that the feed has lost messages."""
    info = await ask(client, f"STREAM.INFO.{CHANGES}")
    config = info["config"]
    config["metadata"] = {**config.get("metadata", {}), FEED_EPOCH: epoch}
    await ask(client, f"STREAM.UPDATE.{CHANGES}", config)


async def is_back(client: Client) -> None:
    async def answers() -> bool:
        try:
            await ask(client, f"STREAM.INFO.{CHANGES}", timeout_seconds=0.5)
        except Unavailable:
            return False
        return True

    await eventually(answers, "the feed is there again")


class Telling:
    """The versions that were written, and the ones that the feed has."""

    def __init__(self, client: Client, bus: LossyBus, chance: random.Random) -> None:
        self.versions = dict.fromkeys("abc", 0)
        self._on_feed = dict(self.versions)
        self._kept = dict(self.versions)
        self._client = client
        self._bus = bus
        self._chance = chance

    @property
    def is_complete(self) -> bool:
        return self._on_feed == self.versions

    async def tell(self, count: int) -> list[ReceivedChange]:
        """Lost versions first, then new ones; keys in any order."""
        told: list[ReceivedChange] = []
        for _ in range(count):
            key = self._chance.choice("abc")
            self._on_feed[key] += 1
            self.versions[key] = max(self.versions[key], self._on_feed[key])
            told.append(await tell(self._client, key, self._on_feed[key]))
        return told

    async def keep(self) -> None:
        self._bus.keep()
        await is_back(self._client)
        self._kept = dict(self._on_feed)

    async def lose(self, epoch: str) -> None:
        if self._chance.random() < 0.3:
            await make_anew(self._client)
            self._on_feed = dict.fromkeys("abc", 0)
        else:
            self._bus.lose()
            await is_back(self._client)
            await begin_epoch(self._client, epoch)
            self._on_feed = dict(self._kept)
