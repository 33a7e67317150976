"""The operations that append to a window, and that replace its messages."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from hivemem_contracts.errors import TooLarge
from hivemem_contracts.identifiers import derived_id
from hivemem_contracts.windows import operations, requests
from hivemem_contracts.windows.models import WindowMessage
from hivemem_contracts.windows.replies import AppendedMessage, MessageAppended, MessagesAppended
from hivemem_runtime.ledger.port import Outcome, Write
from hivemem_runtime.service import Call, Service
from hivemem_runtime.turns import offloaded
from hivemem_windows.decisions.appends import append_messages, replace_messages
from hivemem_windows.decisions.drafts import NewMessage
from hivemem_windows.decisions.windows import Rules, WindowName
from hivemem_windows.endpoints.leases import WindowLeases
from hivemem_windows.endpoints.names import announced_window
from hivemem_windows.endpoints.resource_rules import ResourceRules
from hivemem_windows.entities.contents import CONTENT
from hivemem_windows.entities.resources import RESOURCE
from hivemem_windows.entities.windows import WINDOW


def bind(service: Service, rules: ResourceRules, leases: WindowLeases) -> None:
    service.handler(operations.APPEND, partial(append, rules, leases))
    service.handler(operations.APPEND_MANY, partial(append_many, rules, leases))
    service.handler(operations.WRITE, partial(write, rules, leases))


async def append(
    rules: ResourceRules, leases: WindowLeases, call: Call, body: requests.AppendMessage
) -> MessageAppended:
    message_id = body.message_id or derived_id("message", call.request_name)
    prepared, name, outcome = await _append(rules, leases, call, body, [body.message], [message_id], body.message_id)
    state = _state(outcome)
    (result,) = _results(prepared, state)
    return MessageAppended(key=name.key, **_answer(outcome, state), **result.model_dump())


async def append_many(
    rules: ResourceRules, leases: WindowLeases, call: Call, body: requests.AppendMessages
) -> MessagesAppended:
    prepared, name, outcome = await _append(rules, leases, call, body, body.messages, _ids(call, body.messages))
    state = _state(outcome)
    return MessagesAppended(key=name.key, **_answer(outcome, state), results=_results(prepared, state))


async def _append(
    rules: ResourceRules,
    leases: WindowLeases,
    call: Call,
    body: requests.WindowWrite,
    messages: Sequence[WindowMessage],
    ids: Sequence[str],
    once: str | None = None,
) -> tuple[list[NewMessage], WindowName, Outcome]:
    tenant, sender = call.sender.tenant, call.sender.agent
    async with leases.held(call, body) as lease:
        prepared: list[NewMessage] = []
        name = WindowName(body.resource, "")

        async def make(found: Rules) -> Write:
            nonlocal name
            name = announced_window(tenant, body, found)
            prepared[:] = await prepare(messages, ids, found)

            def decide(heads: Any, now: int) -> Any:
                return append_messages(
                    heads, name, found, prepared, lease.claim, sender, now, waited_ms=lease.waited_ms
                )

            reads = ((RESOURCE, body.resource), (CONTENT, name.id))
            return call.step(WINDOW, name.id, decide, reads, request_id=call.request_id, once=once)

        outcome = await rules.commit(call, body, make)
    return prepared, name, outcome


async def write(rules: ResourceRules, leases: WindowLeases, call: Call, body: requests.WriteWindow) -> MessagesAppended:
    tenant, sender = call.sender.tenant, call.sender.agent
    async with leases.held(call, body) as lease:
        prepared: list[NewMessage] = []
        name = WindowName(body.resource, "")

        async def make(found: Rules) -> Write:
            nonlocal name
            name = announced_window(tenant, body, found)
            prepared[:] = await prepare(body.messages, _ids(call, body.messages), found)

            def decide(heads: Any, now: int) -> Any:
                return replace_messages(heads, name, found, prepared, body.expect_version, lease.claim, sender, now)

            return call.write(WINDOW, name.id, decide, ((RESOURCE, body.resource), (CONTENT, name.id)))

        outcome = await rules.commit(call, body, make)
    state = _state(outcome)
    return MessagesAppended(key=name.key, **_answer(outcome, state), results=_results(prepared, state))


def _ids(call: Call, messages: Sequence[WindowMessage]) -> list[str]:
    return [derived_id("message", call.request_name, str(place)) for place in range(len(messages))]


async def prepare(messages: Sequence[WindowMessage], ids: Sequence[str], rules: Rules) -> list[NewMessage]:
    """Screen and count messages, long ones in a thread. Raises `TooLarge` for one that no window of the resource can
    hold."""
    characters = sum(len(message.content) if isinstance(message.content, str) else 1_000 for message in messages)
    return await offloaded(characters, lambda: _prepared(messages, ids, rules))


def _prepared(messages: Sequence[WindowMessage], ids: Sequence[str], rules: Rules) -> list[NewMessage]:
    limit = rules.limits.max_tokens
    found: list[NewMessage] = []
    for place, (message, id) in enumerate(zip(messages, ids, strict=True)):
        fields, persist = rules.screen.apply(message.model_dump(mode="json", exclude_unset=True))
        tokens = rules.counter.count_message(fields)
        if limit is not None and tokens > limit:
            field = "message" if len(messages) == 1 else f"messages.{place}"
            raise TooLarge(f"{field}: {tokens} tokens, {limit} at most", field=field, limit=limit, actual=tokens)
        found.append(NewMessage(id, tokens, fields, persist and message.persist))
    return found


def _state(outcome: Outcome) -> dict[str, Any]:
    """Return what an append came to; nothing for a repeated one that stored nothing."""
    return outcome.answer or (outcome.record.value if outcome.record is not None else {})


def _results(messages: Sequence[NewMessage], state: dict[str, Any]) -> list[AppendedMessage]:
    stored = {each["message_id"]: each for each in state.get("appended", ())}
    return [
        AppendedMessage(message_id=message.message_id, tokens=message.tokens)
        if message.message_id not in stored
        else AppendedMessage.model_validate(stored[message.message_id])
        for message in messages
    ]


def _answer(outcome: Outcome, state: dict[str, Any]) -> dict[str, Any]:
    version = state.get("version", 0) if outcome.stamp is None else outcome.stamp.version
    return {
        "total_tokens": state.get("total_tokens", 0),
        "messages": state.get("messages", 0),
        "evicted": state.get("evicted", []),
        "flush": state.get("flush", "none"),
        "version": version,
        "duplicate": outcome.duplicate,
    }
