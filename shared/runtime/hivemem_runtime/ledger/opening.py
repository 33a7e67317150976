"""The ledger that a worker's settings ask for. Only `worker.py` takes one from here."""

from collections.abc import Sequence
from pathlib import Path

from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_runtime.settings import SettingsError, WorkerSettings


def open_ledger(settings: WorkerSettings, entities: Sequence[AnyEntity], service: str) -> Ledger:
    """Of a service's own: one file below `data`, or its entities' collections in the database that all share."""
    if settings.store == "sqlite":
        return SqliteLedger(
            Path(settings.data) / f"{service}.db", entities, request_memory_seconds=settings.request_memory_seconds
        )
    try:
        from hivemem_runtime.ledger.mongo import MongoLedger  # its driver is an extra
    except ImportError as error:
        raise SettingsError(
            f"HIVEMEM_STORE=mongo needs a driver that is not installed: hivemem-{service}[mongo] ({error})"
        ) from error
    return MongoLedger(
        settings.mongo_url,
        entities,
        database=settings.mongo_database,
        request_memory_seconds=settings.request_memory_seconds,
    )
