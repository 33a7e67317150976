"""What a worker asks other services, on its own connection: one try, with whose failure its caller can live."""

from typing import Any, Final

import nats.errors
import orjson
from nats.aio.client import Client
from pydantic import BaseModel

from hivemem_contracts.errors import CODE_HEADER, Unavailable, error_from_body
from hivemem_contracts.operations import AnyOperation
from hivemem_contracts.streams import MESSAGE_ID
from hivemem_contracts.subjects import request_subject

TIMEOUT_SECONDS: Final = 5.0
RETRY_AFTER_MS: Final = 500


class Asking:
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
            message = await self._client.request(subject, payload, timeout=timeout_seconds, headers=headers)
        except (nats.errors.Error, TimeoutError) as error:
            raise Unavailable(
                f"{operation.full_name} is not answered: {type(error).__name__}", retry_after_ms=RETRY_AFTER_MS
            ) from error
        answer: dict[str, Any] = orjson.loads(message.data)
        if message.headers and CODE_HEADER in message.headers:
            raise error_from_body(answer)
        return answer
