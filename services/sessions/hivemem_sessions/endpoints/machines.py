"""The operations that write and read definitions of state machines."""

from functools import partial
from typing import Any

from hivemem_contracts.errors import NotFound
from hivemem_contracts.identifiers import time_from_microseconds
from hivemem_contracts.sessions import operations, requests
from hivemem_contracts.sessions.models import Machine
from hivemem_contracts.sessions.replies import MachineView, MachineWritten
from hivemem_runtime.ledger.entity import Stamp
from hivemem_runtime.ledger.port import Ledger, Outcome, Write
from hivemem_runtime.service import Call, Service
from hivemem_sessions.decisions import put_machine
from hivemem_sessions.decisions.machines import unreachable_states
from hivemem_sessions.entities import MACHINE, MachineRecord


def bind(service: Service) -> None:
    service.command(operations.MACHINE_PUT, plan_machine_put, answer_machine)
    service.handler(operations.MACHINE_GET, partial(get_machine, service.ledger))


def plan_machine_put(call: Call, body: requests.PutMachine) -> Write:
    return call.write(MACHINE, body.name, lambda heads, now: put_machine(heads, body))


def answer_machine(call: Call, body: Any, outcome: Outcome) -> MachineWritten:
    assert outcome.stamp is not None
    view = _view(outcome.stamp, outcome.record)
    return MachineWritten(**vars(view), duplicate=outcome.duplicate, unreachable=unreachable_states(view.definition))


async def get_machine(ledger: Ledger, call: Call, body: requests.GetMachine) -> MachineView:
    tenant = call.sender.tenant
    head = await ledger.head(MACHINE, tenant, body.name)
    version = body.version or (head.version if head else 0)
    record = await ledger.record(MACHINE, tenant, body.name, version) if version else None
    if record is None:
        which = f" version {body.version}" if body.version else ""
        raise NotFound(f"machine {body.name!r}{which} does not exist", machine=body.name)
    return _view(record.stamp, record.value)


def _view(stamp: Stamp, record: MachineRecord) -> MachineView:
    return MachineView(
        name=stamp.id,
        version=stamp.version,
        definition=Machine.model_validate(record.definition),
        created_at=time_from_microseconds(stamp.at),
        created_by=stamp.actor,
    )
