"""The session services of google-adk, each on an SQLite file of its own, with their defaults."""

import sqlite3
from pathlib import Path
from typing import Any

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import BaseSessionService, DatabaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai.types import Content
from sqlalchemy.exc import SQLAlchemyError

from benchmarks.sessions.contenders import Refused
from benchmarks.sessions.event import AGENT, APP, USER, content, delta

NO_EVENTS = GetSessionConfig(num_recent_events=0)


class AdkContender:
    """A service in the measuring process, with the advantage that it needs no bus."""

    def __init__(self, name: str, service: BaseSessionService, file: Path) -> None:
        self.name = name
        self._service = service
        self._file = file
        self._sessions: dict[str, Session] = {}
        self._content = Content.model_validate(content())

    @classmethod
    def sqlite(cls, directory: Path) -> "AdkContender":
        file = directory / "adk-sqlite.db"
        return cls("adk-sqlite", SqliteSessionService(str(file)), file)

    @classmethod
    def database(cls, directory: Path) -> "AdkContender":
        file = directory / "adk-database.db"
        return cls("adk-database", DatabaseSessionService(f"sqlite+aiosqlite:///{file}"), file)

    async def create(self, session: str) -> None:
        self._sessions[session] = await self._service.create_session(app_name=APP, user_id=USER, session_id=session)

    def prepare(self, session: str, number: int) -> tuple[str, Event]:
        actions = EventActions(state_delta=delta(number))
        return session, Event(author=AGENT, invocation_id="benchmark", content=self._content, actions=actions)

    async def append(self, event: tuple[str, Event]) -> None:
        session, new = event
        try:
            await self._service.append_event(self._sessions[session], new)
        except (sqlite3.Error, SQLAlchemyError, StaleSessionError) as error:
            await self._reload(session)
            raise Refused(repr(error)) from error

    async def newest(self, session: str, count: int) -> int:
        config = GetSessionConfig(num_recent_events=count)
        found = await self._service.get_session(app_name=APP, user_id=USER, session_id=session, config=config)
        assert found is not None
        return len(found.events)

    async def fill(self, session: str, first: int, count: int) -> None:
        """Copy one event by SQL, because appends one after the other would take minutes."""
        await self.append(self.prepare(session, first))
        with sqlite3.connect(self._file) as connection:
            columns = [row[1] for row in connection.execute("PRAGMA table_info(events)")]
            kind = connection.execute("SELECT typeof(timestamp) FROM events LIMIT 1").fetchone()[0]
            earlier = "strftime('%Y-%m-%d %H:%M:%f000', e.timestamp, printf('-%.3f seconds', n.i / 1000.0))"
            replaced = {
                "id": "lower(hex(randomblob(16)))",
                "timestamp": "e.timestamp - n.i / 1000.0" if kind == "real" else earlier,
            }
            chosen = ", ".join(replaced.get(name, f"e.{name}") for name in columns)
            copy = f"""
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
                INSERT INTO events ({", ".join(columns)}) SELECT {chosen}
                FROM n, (SELECT * FROM events WHERE session_id = ? ORDER BY timestamp DESC LIMIT 1) AS e
            """  # noqa: S608  # the names are those of its own columns
            connection.execute(copy, (count - 1, session))
        connection.close()

    async def close(self) -> None:
        close: Any = getattr(self._service, "close", None)
        if close is not None:
            await close()

    async def _reload(self, session: str) -> None:
        found = await self._service.get_session(app_name=APP, user_id=USER, session_id=session, config=NO_EVENTS)
        assert found is not None
        self._sessions[session] = found
