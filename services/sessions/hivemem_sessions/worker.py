"""The sessions worker, wired: the only place that picks its adapters."""

from pathlib import Path

from pydantic import Field

from hivemem_contracts.sessions.operations import SESSIONS
from hivemem_runtime.bus.announcer import Announcer
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_runtime.service import Service
from hivemem_runtime.settings import SettingsError, WorkerSettings
from hivemem_runtime.worker import Parts, Worker
from hivemem_sessions.endpoints import Endpoints
from hivemem_sessions.endpoints.deletion import Eraser
from hivemem_sessions.entities import ENTITIES
from hivemem_sessions.reactions import reactions
from hivemem_sessions.reactions.archiving import Archiver


class SessionsSettings(WorkerSettings):
    archive_after_events: int = Field(
        default=1_000, ge=100, description="How many of a session's newest events stay in hot storage."
    )


def open_ledger(settings: SessionsSettings) -> Ledger:
    if settings.store == "sqlite":
        return SqliteLedger(
            Path(settings.data) / "sessions.db", ENTITIES, request_memory_seconds=settings.request_memory_seconds
        )
    try:
        from hivemem_runtime.ledger.mongo import MongoLedger  # its driver is an extra
    except ImportError as error:
        raise SettingsError(
            f"HIVEMEM_STORE=mongo needs a driver that is not installed: hivemem-sessions[mongo] ({error})"
        ) from error
    return MongoLedger(
        settings.mongo_url,
        ENTITIES,
        database=settings.mongo_database,
        request_memory_seconds=settings.request_memory_seconds,
    )


def build(settings: SessionsSettings) -> Worker:
    ledger = open_ledger(settings)
    service = Service(SESSIONS, ledger)
    archiver = Archiver(ledger, settings.archive_after_events)

    def bind(announcer: Announcer) -> None:
        Endpoints(service, Eraser(ledger, announcer))

    return Worker(
        settings,
        Parts(service, ledger, ENTITIES, bind, reactions=reactions(ledger), background=(archiver,)),
    )
