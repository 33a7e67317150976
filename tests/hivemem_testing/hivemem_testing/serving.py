"""A call carried out by a service, without a bus."""

from pydantic import BaseModel

from hivemem_runtime.service import Call, Service


async def answer_of(service: Service, call: Call, data: bytes) -> BaseModel | bytes:
    """Return what the service answers. Raises the error that it refuses the call with."""
    begun = service.begin(call, data)
    if begun is None:
        return await service.run(call)
    answer = service.answer(call, await begun.commit)
    return answer if isinstance(answer, BaseModel) else await answer
