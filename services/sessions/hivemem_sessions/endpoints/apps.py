"""The operations that declare and read the state indexes of an app."""

from hivemem_contracts.sessions import operations, requests
from hivemem_contracts.sessions.replies import AppView, AppWritten
from hivemem_runtime.ledger.port import Ledger, Outcome, Write, value_of
from hivemem_runtime.service import Call, Service
from hivemem_sessions.decisions import put_app
from hivemem_sessions.entities import APP, App
from hivemem_sessions.entities.apps import app_value, require_app_announceable


def bind(service: Service) -> None:
    ledger = service.ledger

    async def answer(call: Call, body: requests.PutApp, outcome: Outcome) -> AppWritten:
        app = outcome.record or await _read(ledger, call, body.app_name)
        return AppWritten(app_name=body.app_name, **app_value(app), duplicate=outcome.duplicate)

    async def get_app(call: Call, body: requests.GetApp) -> AppView:
        app = await _read(ledger, call, body.app_name)
        return AppView(app_name=body.app_name, **app_value(app))

    service.command(operations.APP_PUT, plan_app_put, answer)
    service.handler(operations.APP_GET, get_app)


def plan_app_put(call: Call, body: requests.PutApp) -> Write:
    require_app_announceable(call.sender.tenant, body.app_name)
    return call.write(APP, body.app_name, lambda heads, now: put_app(heads, body))


async def _read(ledger: Ledger, call: Call, app_name: str) -> App:
    return value_of(await ledger.head(APP, call.sender.tenant, app_name)) or App({}, 0, [])
