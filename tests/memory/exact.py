"""Answers that are serialized without their models must equal the models' output."""

from typing import Any

import orjson

from hivemem_contracts.memory.operations import MEMORY

from .hive import Agent, Body


async def exactly(bot: Agent, operation: str, body: Body | None = None, /, **fields: Any) -> Body:
    """Return the answer, after checking it against the operation's reply."""
    answer = await bot.ask(operation, body, **fields)
    model = MEMORY[operation].reply.model_validate_json(orjson.dumps(answer), strict=True)
    assert orjson.loads(model.model_dump_json()) == answer
    return answer
