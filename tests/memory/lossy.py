"""A feed that loses its tail as by a power cut: JetStream's folder is restored from an earlier copy."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from nats.aio.client import Client

from hivemem_contracts.streams import CHANGES, FEED_EPOCH
from hivemem_runtime.bus.jetstream import ask
from hivemem_testing.process import ProcessServer


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
        """Save a copy of the folder for a later loss."""
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
    """Begin a new epoch, as the fleet does when it detects that the feed has lost messages."""
    info = await ask(client, f"STREAM.INFO.{CHANGES}")
    config = info["config"]
    config["metadata"] = {**config.get("metadata", {}), FEED_EPOCH: epoch}
    await ask(client, f"STREAM.UPDATE.{CHANGES}", config)
