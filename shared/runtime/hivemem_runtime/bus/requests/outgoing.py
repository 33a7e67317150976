"""What a worker asks other services, on its own connection: one try, with whose failure its caller can live."""

from contextlib import suppress
from typing import Any, Final

import nats.errors
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg
from pydantic import BaseModel

from hivemem_contracts.errors import CODE_HEADER, Unavailable, error_from_body
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.operations import AnyOperation
from hivemem_contracts.streams import MESSAGE_ID
from hivemem_contracts.subjects import Sender, inbox_prefix, request_subject
from hivemem_runtime.background import Background
from hivemem_runtime.bus.subscriptions import subscribe

TIMEOUT_SECONDS: Final = 5.0
RETRY_AFTER_MS: Final = 500
NO_RESPONDERS: Final = "503"


class Asking(Background):
    """Usable between `start` and `stop`; `Unavailable` where nobody answers, else the error that was answered."""

    def __init__(self) -> None:
        self._client: Client | None = None

    async def start(self, client: Client) -> None:
        self._client = client

    async def stop(self) -> None:
        self._client = None

    async def ask(
        self,
        tenant: str,
        agent: str,
        operation: AnyOperation,
        body: BaseModel,
        *,
        message_id: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> dict[str, Any]:
        """The answer's JSON, asked for in the name of an agent. A write that may be repeated needs its `message_id`."""
        if self._client is None:
            raise Unavailable(f"{operation.full_name}: this worker is stopping", retry_after_ms=RETRY_AFTER_MS)
        subject = request_subject(tenant, agent, operation.service, operation.name)
        payload = body.__pydantic_serializer__.to_json(body, exclude_unset=True)
        headers = None if message_id is None else {MESSAGE_ID: message_id}
        try:
            sender = Sender(tenant, agent)
            message = await request_as(self._client, sender, subject, payload, headers, timeout_seconds)
        except (nats.errors.Error, TimeoutError) as error:
            raise Unavailable(
                f"{operation.full_name} is not answered: {type(error).__name__}", retry_after_ms=RETRY_AFTER_MS
            ) from error
        answer: dict[str, Any] = orjson.loads(message.data)
        if message.headers and CODE_HEADER in message.headers:
            raise error_from_body(answer)
        return answer


async def request_as(
    client: Client, sender: Sender, subject: str, data: bytes, headers: dict[str, str] | None, timeout_seconds: float
) -> Msg:
    """Ask in the name of an agent. The answer comes to an inbox of that agent, because a worker may be set to answer
    nowhere else. Raises the same errors as the client's own `request`."""
    inbox = f"{inbox_prefix(sender.tenant, sender.agent)}.{new_id()}"
    subscription = await subscribe(client, inbox)
    try:
        await client.publish(subject, data, reply=inbox, headers=headers)
        message = await subscription.next_msg(timeout_seconds)
    finally:
        with suppress(nats.errors.Error):
            await subscription.unsubscribe()
    if not message.data and message.headers and message.headers.get("Status") == NO_RESPONDERS:
        raise nats.errors.NoRespondersError
    return message
