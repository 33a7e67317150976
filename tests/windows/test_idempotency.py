"""One idempotency key means one command, for each operation that writes."""

import pytest

from hivemem_contracts.windows.operations import WINDOWS
from hivemem_testing.agent import Body
from hivemem_testing.idempotency import check_one_command, writes_of

from .conftest import Writer

pytestmark = pytest.mark.asyncio(loop_scope="session")

MESSAGE: Body = {"role": "user", "content": "hi"}
FIELDS: dict[str, Body] = {
    "append": {"message": MESSAGE},
    "append_many": {"messages": [MESSAGE]},
    "write": {"messages": [MESSAGE]},
    "delete": {"message_id": "m"},
}


def resource(id: str) -> Body:
    return {"id": id, "type": "message", "key": "k", "max_messages": 10}


async def bodies(writer: Writer, operation: str) -> tuple[Body, Body]:
    if operation == "resource_put":
        return {"resource": resource("a")}, {"resource": resource("b")}
    for id in ("chat", "other"):
        await writer.ask("resource_put", resource=resource(id))
    if operation == "resource_delete":
        return {"id": "chat"}, {"id": "other"}
    for key in "ab":
        await writer.ask("append", resource="chat", key=key, message=MESSAGE, message_id="m")
    one, two = ({"resource": "chat", "key": key, **FIELDS.get(operation, {})} for key in "ab")
    return one, two


@pytest.mark.parametrize("operation", writes_of(WINDOWS))
async def test_a_message_id_is_one_command(writer: Writer, operation: str) -> None:
    await check_one_command(writer, operation, lambda writer: bodies(writer, operation))
