"""Large values of sessions: files with a reference in their place, stored before a write and read after a read."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from hivemem_contracts.errors import Forbidden, HiveError, Internal, InvalidRequest, NotFound, TooLarge, Unavailable
from hivemem_contracts.identifiers import derived_id
from hivemem_contracts.json_limits import refuse_unportable
from hivemem_contracts.large_values import LARGE, LargeValue, reference_in, reference_to, value_name
from hivemem_contracts.limits import LARGE_VALUE_BYTES, VALUE_BYTES
from hivemem_contracts.sessions import operations
from hivemem_contracts.sessions.requests import AppendEvent, AppendEvents, CreateSession, SetState
from hivemem_contracts.sizes import check_size

if TYPE_CHECKING:
    from hivemem.hive import Hive

log = logging.getLogger("hivemem")

WRITES: Final = (operations.CREATE, operations.APPEND, operations.APPEND_BATCH, operations.STATE_SET)
READS: Final = (operations.GET, operations.EVENTS, operations.STATE_GET)
REPLY_BYTES: Final = 67_108_864
"""All large values of one reply together."""

IN_A_REPLY: Final = LARGE.encode()
_SHARED_PREFIXES: Final = ("user:", "app:", "project:")

ShownT = TypeVar("ShownT")
BodyT = TypeVar("BodyT", bound=BaseModel)


class LargeValueWriter:
    """Stores the large values of one write, and puts references in their place. The write's `message_id` makes it the
    same body, and the same files, when the write is repeated."""

    def __init__(self, hive: "Hive", message_id: str, *, requested: bool) -> None:
        """Prepare for a write. One that is `requested` is refused at once if its session does not exist; the session
        of a durable command may not exist yet."""
        self._hive = hive
        self._message_id = message_id
        self._requested = requested
        self._must_exist = False

    async def body(self, body: BodyT) -> BodyT:
        """Return the body with references. Raises `TooLarge` for a value that is too large for a file, too."""
        return cast("BodyT", await self._body(body))

    async def _body(self, body: BaseModel) -> BaseModel:
        if isinstance(body, AppendEvents):
            appends = [await self._append(append, f"appends.{place}.") for place, append in enumerate(body.appends)]
            return body.model_copy(update={"appends": appends})
        self._must_exist = self._requested and isinstance(body, AppendEvent | SetState)
        if isinstance(body, AppendEvent):
            return await self._append(body)
        if isinstance(body, SetState):
            value = await self._state_value(body.session_id, body.key, body.value, "value")
            return body.model_copy(update={"value": value})
        if isinstance(body, CreateSession) and body.initial_state:
            session_id = body.session_id or derived_id(operations.CREATE.full_name, self._hive.agent, self._message_id)
            state = await self._state(session_id, body.initial_state, "initial_state")
            return body.model_copy(update={"session_id": session_id, "initial_state": state})
        return body

    async def _append(self, body: AppendEvent, path: str = "") -> AppendEvent:
        changed: dict[str, Any] = {}
        content = await self._value(body.session_id, body.event.content, f"{path}event.content")
        if content is not body.event.content:
            changed["event"] = body.event.model_copy(update={"content": content})
        if body.state_delta:
            changed["state_delta"] = await self._state(body.session_id, body.state_delta, f"{path}state_delta")
        return body.model_copy(update=changed)

    async def _state(self, session_id: str, delta: Mapping[str, Any], path: str) -> dict[str, Any]:
        return {key: await self._state_value(session_id, key, value, f"{path}.{key}") for key, value in delta.items()}

    async def _state_value(self, session_id: str, key: str, value: object, field: str) -> object:
        if not key.startswith(_SHARED_PREFIXES):
            return await self._value(session_id, value, field)
        check_size(field, len(to_json(value)), VALUE_BYTES)  # no session has the values of a shared scope
        return value

    async def _value(self, session_id: str, value: object, field: str) -> object:
        """Return the value if it is small, else the reference to the file with it."""
        data = to_json(value)
        size = len(data)
        if size <= VALUE_BYTES:
            return value
        if size > LARGE_VALUE_BYTES:
            detail = f"{field}: {size} bytes, {LARGE_VALUE_BYTES} at most; save it as a file with `artifacts.upload`"
            raise TooLarge(detail, field=field, limit=LARGE_VALUE_BYTES, actual=size)
        try:
            refuse_unportable(data)
        except InvalidRequest as error:
            path = f"{field}.{error.context['field']}"
            raise InvalidRequest(f"{field}.{error.detail}", **{**error.context, "field": path}) from error
        digest = (await asyncio.to_thread(sha256, data)).hexdigest()
        await self._save(session_id, digest, data, field)
        return reference_to(self._hive.tenant, session_id, digest, size)

    async def _save(self, session_id: str, digest: str, data: bytes, field: str) -> None:
        """Save a file, also if it exists: the new version belongs to this session, an older one perhaps to a deleted
        one with the same id."""
        hive = self._hive.with_options(message_id=derived_id("large value", self._message_id, session_id, digest))
        if self._must_exist:
            await hive.with_options(message_id=None, large_values=False).sessions.get(session_id=session_id)
            self._must_exist = False
        name = value_name(digest)
        try:
            await hive.artifacts.upload(session_id, name, data, content_type="application/json", sha256=digest)
        except Unavailable as error:
            raise _without_worker(error, f"{field}: {len(data)} bytes are kept as a file") from error


async def resolved(hive: "Hive", shown: ShownT, *, dangling: bool) -> ShownT:
    """Return a reply, a part of one or a value, with the values that its references name.

    With `dangling`, references without their file stay; otherwise they raise `NotFound`. Raises `TooLarge` if the
    values are more than fits one reply.
    """
    wanted: dict[LargeValue, bytes | None] = {}

    def note(value: object) -> object:
        reference = reference_in(value)
        if reference is not None:
            wanted[reference] = None
        return value

    _replaced(shown, note)
    total = sum(reference.size for reference in wanted)
    if total > REPLY_BYTES:
        detail = (
            f"large values: those of this answer have {total} bytes, {REPLY_BYTES} at most; ask for fewer, or keep "
            "their references with `large_values=False`"
        )
        raise TooLarge(detail, field="large values", limit=REPLY_BYTES, actual=total)
    for reference in wanted:
        try:
            wanted[reference] = await _read(hive, reference)
        except NotFound as error:
            if not dangling:
                raise
            log.warning("%s", error)

    def put(value: object) -> object:
        reference = reference_in(value)
        data = None if reference is None else wanted[reference]
        return value if data is None else from_json(data)

    return cast("ShownT", _replaced(shown, put)) if wanted else shown


async def _read(hive: "Hive", reference: LargeValue) -> bytes:
    """Return the JSON of a value. Raises `NotFound` if there is no such file, or if it is not the named one."""
    pieces: list[bytes] = []
    size = 0
    try:
        async with aclosing(cast("Any", hive.artifacts.stream(reference.url))) as found:
            async for piece in found:
                size += len(piece)
                if size > reference.size:
                    break
                pieces.append(piece)
        data = b"".join(pieces)
        if size != reference.size or (await asyncio.to_thread(sha256, data)).hexdigest() != reference.sha256:
            raise _dangling(reference, "its file has other bytes")
        from_json(data)
    except Unavailable as error:
        raise _without_worker(error, f"{reference.url}: a large value is a file") from error
    except (NotFound, InvalidRequest, Forbidden, Internal) as error:
        raise _dangling(reference, error.detail) from error
    except ValueError as error:
        raise _dangling(reference, f"its file is not JSON: {error}") from error
    return data


def _dangling(reference: LargeValue, why: str) -> NotFound:
    return NotFound(f"{reference.url}: this large value does not exist: {why}", url=reference.url)


def _without_worker(error: Unavailable, what: str) -> HiveError:
    if error.context.get("reason") != "no_responders":
        return error
    return Unavailable(f"{what}, and no artifacts worker answers: start one", **error.context)


def _replaced(shown: object, put: Callable[[object], object]) -> object:
    """Return a reply, a part of one or a value with `put` applied to every value that may be a reference."""
    if isinstance(shown, BaseModel):
        fields = {name: _field(name, value, put) for name, value in vars(shown).items()}
        changed = {name: value for name, value in fields.items() if value is not getattr(shown, name)}
        return shown.model_copy(update=changed) if changed else shown
    return put(shown)


def _field(name: str, value: object, put: Callable[[object], object]) -> object:
    if name in ("content", "value"):
        return put(value)
    if name in ("state", "state_delta") and isinstance(value, dict):
        return {key: put(item) for key, item in cast("dict[str, object]", value).items()}
    if name in ("events", "items") and isinstance(value, list):
        return [_replaced(item, put) for item in cast("list[object]", value)]
    return _replaced(value, put) if name == "session" else value
