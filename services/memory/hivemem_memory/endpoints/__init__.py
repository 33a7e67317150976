"""The operations of the memory service, each bound to what does it."""

from hivemem_memory.endpoints import auditing, erasing, leasing, namespaces, reading, transfer, writing
from hivemem_memory.endpoints.auditing import Trail
from hivemem_memory.endpoints.erasing import Eraser
from hivemem_memory.endpoints.waiting import Waiting
from hivemem_runtime.service import Service


def bind(service: Service, *, trail: Trail, eraser: Eraser, waiting: Waiting) -> None:
    writing.bind(service, trail)
    reading.bind(service)
    namespaces.bind(service)
    transfer.bind(service, trail)
    auditing.bind(service, trail)
    erasing.bind(service, eraser)
    leasing.bind(service, waiting)
