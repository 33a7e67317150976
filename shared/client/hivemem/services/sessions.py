"""The operations of sessions as methods, generated from the contracts by `make docs`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from hivemem.methods import ServiceMethods, reads, writes
from hivemem_contracts.json_values import Json
from hivemem_contracts.sessions import operations
from hivemem_contracts.sessions.models import Machine, NewEvent
from hivemem_contracts.sessions.replies import (
    Appended,
    AppendedBatch,
    AppView,
    AppWritten,
    EventPage,
    MachineView,
    MachineWritten,
    SessionDeleted,
    SessionPage,
    SessionView,
    SessionWritten,
    SharedSessions,
    StateSet,
    StateView,
)
from hivemem_contracts.sessions.requests import AppendEvent


class SessionsOperations(ServiceMethods):
    """Sessions: events and state, statuses, state machines."""

    @writes(operations.CREATE)
    async def create(
        self,
        *,
        session_id: str | None = None,
        app_name: str,
        user_id: str,
        project_id: str | None = None,
        initial_state: dict[str, Json] | None = None,
        state_nulls: Sequence[str] | None = None,
        metadata: dict[str, Json] | None = None,
        machine: str | Machine | None = None,
    ) -> SessionWritten:
        """Create a session; fails if the id exists.

        Args:
            session_id: A ULID if left out.
            initial_state: Split into scopes by prefix, like every delta.
            state_nulls: Keys that begin with the value `None`; `initial_state` has none of them.
            machine: The name of a stored machine (its newest version), or a definition of the session's own.

        Raises:
            AlreadyExists: Something with this id exists already.
            NotFound: No such session, memory, artifact, agent, window or version.
            TooLarge: A value exceeds its limit; the context has `field`, `limit` and `actual`.
            HiveError: As any operation: InvalidRequest, Forbidden, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.CREATE, locals())

    @reads(operations.GET)
    async def get(
        self,
        *,
        session_id: str,
        events: int = 0,
        revision: int | None = None,
        at: datetime | None = None,
    ) -> SessionView:
        """Read a session with its newest events, now or as it was at a revision or a moment.

        Args:
            events: Number of newest events to return. From 0 to 1000.
            revision: As it was at this revision.
            at: As it was at this moment.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.GET, locals())

    @writes(operations.APPEND)
    async def append(
        self,
        *,
        session_id: str,
        event: NewEvent,
        state_delta: dict[str, Json] | None = None,
        state_nulls: Sequence[str] | None = None,
        expect_revision: int | None = None,
    ) -> Appended:
        """Append an event and merge its state delta in one atomic step.

        Args:
            state_delta: `None` deletes a key.
            state_nulls: Keys to set to the value `None`; `state_delta` has none of them.
            expect_revision: Refuse with RevisionConflict unless this is the current revision.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            RevisionConflict: `expect_revision` or `expect_version` does not match; the context has `expected` and
                `actual`.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            TooLarge: A value exceeds its limit; the context has `field`, `limit` and `actual`.
            HiveError: As any operation: InvalidRequest, Forbidden, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.APPEND, locals())

    @writes(operations.APPEND_BATCH)
    async def append_batch(
        self,
        *,
        appends: Sequence[AppendEvent],
    ) -> AppendedBatch:
        """Append many events to many sessions, each with its own outcome.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.APPEND_BATCH, locals())

    @reads(operations.EVENTS)
    async def events(
        self,
        *,
        session_id: str,
        after: int | None = None,
        before: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        type: str | None = None,
        author: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        reverse: bool = False,
    ) -> EventPage:
        """Page through a session's events, forwards or backwards, by type, author or time.

        Args:
            after: Only later sequences than this. From 0 to 9223372036854775807.
            before: Only earlier sequences than this. From 1 to 9223372036854775807.
            since: Only events committed at this moment or later.
            until: Only events committed before this moment.
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.
            reverse: Newest first.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.EVENTS, locals())

    @reads(operations.STATE_GET)
    async def state_get(
        self,
        *,
        session_id: str | None = None,
        scope: Literal["user", "app", "project"] | None = None,
        scope_id: str | None = None,
        key: str | None = None,
    ) -> StateView:
        """Read one state key, or all of them, of a session or of a shared scope.

        Args:
            session_id: The session; otherwise `scope` and `scope_id` are needed.
            scope: A shared scope, read without a session.
            scope_id: The user, app or project of the scope.
            key: One key, with its prefix if it is shared; all of them if left out.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.STATE_GET, locals())

    @writes(operations.STATE_SET)
    async def state_set(
        self,
        *,
        session_id: str,
        key: str,
        value: Json,
        keep_null: bool = False,
        expect_revision: int | None = None,
    ) -> StateSet:
        """Set or delete one state key.

        Args:
            value: `None` deletes the key, unless `keep_null` is true.
            keep_null: Set the key to the value `None`; `value` has to be `None` then.
            expect_revision: The session's revision, or for a shared key its scope's.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            RevisionConflict: `expect_revision` or `expect_version` does not match; the context has `expected` and
                `actual`.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            TooLarge: A value exceeds its limit; the context has `field`, `limit` and `actual`.
            HiveError: As any operation: InvalidRequest, Forbidden, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.STATE_SET, locals())

    @writes(operations.UPDATE)
    async def update(
        self,
        *,
        session_id: str,
        metadata: dict[str, Json] | None = None,
        project_id: str | None = None,
        expect_revision: int | None = None,
    ) -> SessionWritten:
        """Change the metadata or the project of a session, in any status.

        Args:
            metadata: A JSON merge patch (RFC 7396): `None` removes a field.
            project_id: The project that the session belongs to from now on.
            expect_revision: Refuse with RevisionConflict unless this is the current revision.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            RevisionConflict: `expect_revision` or `expect_version` does not match; the context has `expected` and
                `actual`.
            TooLarge: A value exceeds its limit; the context has `field`, `limit` and `actual`.
            HiveError: As any operation: InvalidRequest, Forbidden, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.UPDATE, locals())

    @writes(operations.SET_STATUS)
    async def set_status(
        self,
        *,
        session_id: str,
        status: Literal["created", "active", "paused", "terminated", "archived"],
    ) -> SessionWritten:
        """Change the status of a session.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.SET_STATUS, locals())

    @writes(operations.TERMINATE)
    async def terminate(
        self,
        *,
        session_id: str,
    ) -> SessionWritten:
        """End a session and clear its `temp:` state.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.TERMINATE, locals())

    @writes(operations.ARCHIVE)
    async def archive(
        self,
        *,
        session_id: str,
    ) -> SessionWritten:
        """Move a terminated session's events to cold storage, where they stay readable.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.ARCHIVE, locals())

    @writes(operations.DELETE)
    async def delete(
        self,
        *,
        session_id: str,
    ) -> SessionDeleted:
        """Erase a session: its head, events, history and request ids.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.DELETE, locals())

    @writes(operations.FORK)
    async def fork(
        self,
        *,
        session_id: str,
        revision: int | None = None,
        new_session_id: str | None = None,
    ) -> SessionWritten:
        """Create a new session that shares history up to a revision.

        Args:
            revision: Share history up to here; up to now if left out.
            new_session_id: A ULID if left out.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            AlreadyExists: Something with this id exists already.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.FORK, locals())

    @reads(operations.SHARED)
    async def shared(
        self,
        *,
        session_ids: Sequence[str],
    ) -> SharedSessions:
        """Find the sessions, living or deleted, whose events or large values living forks share.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.SHARED, locals())

    @reads(operations.LIST)
    async def list(
        self,
        *,
        status: Literal["created", "active", "paused", "terminated", "archived"] | None = None,
        user_id: str | None = None,
        app_name: str | None = None,
        project_id: str | None = None,
        active: bool | None = None,
        sort: Literal["-created_at", "-updated_at"] | None = None,
        where: dict[str, str | int | float | bool | None] | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> SessionPage:
        """List sessions, newest or last updated first.

        Args:
            active: True: created, active or paused. False: terminated or archived.
            sort: Newest or last updated first. If left out: last updated for a `status` without other filters but
                `active`, else newest.
            where: State keys and the value that each has in the session's own state. They are state indexes of
                `app_name`, which has to be given.
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.LIST, locals())

    @writes(operations.APP_PUT)
    async def app_put(
        self,
        *,
        app_name: str,
        state_indexes: Sequence[str],
    ) -> AppWritten:
        """Declare the state keys by which sessions of an app can be found.

        Args:
            state_indexes: All keys of the session's own state that `list` can find sessions by.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.APP_PUT, locals())

    @reads(operations.APP_GET)
    async def app_get(
        self,
        *,
        app_name: str,
    ) -> AppView:
        """Read the state indexes of an app.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.APP_GET, locals())

    @writes(operations.MACHINE_PUT)
    async def machine_put(
        self,
        *,
        name: str,
        definition: Machine,
        expect_version: int | None = None,
    ) -> MachineWritten:
        """Store a new version of a state machine.

        Args:
            expect_version: Refuse with RevisionConflict unless this is the current version; 0: must not exist.

        Raises:
            RevisionConflict: `expect_revision` or `expect_version` does not match; the context has `expected` and
                `actual`.
            TooLarge: A value exceeds its limit; the context has `field`, `limit` and `actual`.
            HiveError: As any operation: InvalidRequest, Forbidden, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.MACHINE_PUT, locals())

    @reads(operations.MACHINE_GET)
    async def machine_get(
        self,
        *,
        name: str,
        version: int | None = None,
    ) -> MachineView:
        """Read a state machine, its newest version or an older one.

        Args:
            version: The newest if left out.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.MACHINE_GET, locals())
