"""Calls that a service carries out without a bus."""

from pydantic import BaseModel

from hivemem_runtime.service import Call, Service


async def answer_of(service: Service, call: Call, data: bytes) -> BaseModel | bytes:
    """Return the service's answer, or raise its refusal."""
    begun = service.begin(call, data)
    if begun is None:
        return await service.run(call)
    answer = service.answer(call, await begun.commit)
    return answer if isinstance(answer, BaseModel) else await answer
