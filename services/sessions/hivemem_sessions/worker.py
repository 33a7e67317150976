"""The wiring of the sessions worker. Only this module chooses adapters."""

from typing import Final

from pydantic import Field

from hivemem_contracts.sessions.operations import SESSIONS
from hivemem_runtime.bus.feed.announcer import Announcer
from hivemem_runtime.ledger.opening import open_ledger
from hivemem_runtime.program import WorkerKind
from hivemem_runtime.service import Service
from hivemem_runtime.settings import WorkerSettings
from hivemem_runtime.worker import Parts, Worker
from hivemem_sessions.endpoints import bind
from hivemem_sessions.endpoints.deletion import SessionEraser
from hivemem_sessions.entities import ENTITIES
from hivemem_sessions.reactions import reactions
from hivemem_sessions.reactions.cold_storage import Archiver


class SessionsSettings(WorkerSettings):
    archive_after_events: int = Field(
        default=1_000, ge=100, description="How many of a session's newest events stay in hot storage."
    )


def build(settings: SessionsSettings) -> Worker:
    ledger = open_ledger(settings, ENTITIES, "sessions")
    announcer = Announcer(ledger, ENTITIES)
    service = Service(SESSIONS, ledger, settings.policy())
    bind(service, SessionEraser(ledger, announcer))
    archiver = Archiver(ledger, settings.archive_after_events)
    parts = Parts(service, ledger, announcer, reactions=reactions(ledger), background=(archiver,))
    return Worker(settings, parts)


WORKER: Final = WorkerKind(SESSIONS, SessionsSettings, build)
