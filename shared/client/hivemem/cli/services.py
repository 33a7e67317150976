"""Builds a subcommand for each operation from the registry, except for those that send several requests."""

import inspect
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.markup import escape

from hivemem.cli.audit import audit_verify_command
from hivemem.cli.collection import gc_command
from hivemem.cli.confirmation import LOSSES, Yes, confirm
from hivemem.cli.fields import options_of, values_of
from hivemem.cli.files import COMMANDS as FILE_COMMANDS
from hivemem.cli.positional_fields import OperationCommand
from hivemem.cli.recall import recall
from hivemem.cli.rendering import print_fields, print_json, print_reply
from hivemem.cli.settings import Json, Settings, run
from hivemem.cli.sweep import sweep_command
from hivemem.cli.transfer import export_command, import_command
from hivemem.cli.windows import COMMANDS as WINDOW_COMMANDS
from hivemem_contracts.catalog import SERVICES
from hivemem_contracts.operations import AnyOperation

MessageId = Annotated[
    str | None,
    typer.Option(help="The idempotency key: the same write with the same key is carried out once."),
]
Durable = Annotated[
    bool, typer.Option("--durable", help="Publish it and print the receipt; a worker carries it out later.")
]
Route = Annotated[str | None, typer.Option(help="With --durable: commands of one route keep their order.")]


OWN: dict[str, Callable[..., None]] = {
    "artifacts.gc": gc_command,
    "memory.audit_verify": audit_verify_command,
    "memory.export": export_command,
    "memory.import": import_command,
    "vectors.recall": recall,
    "vectors.sweep": sweep_command,
}
"""Operations whose pages form one result, or whose result has a form of its own."""

MORE: dict[str, dict[str, Callable[..., None]]] = {"artifacts": FILE_COMMANDS, "windows": WINDOW_COMMANDS}
"""Subcommands that combine several operations of a service."""

ALIASES: dict[str, dict[str, str]] = {"windows": {"list": "windows"}}
"""Other words for operations of a service."""


def service_app(name: str) -> typer.Typer:
    """Return the subcommands of a service."""
    contract = next(service for service in SERVICES if service.name == name)
    app = typer.Typer(
        help=escape(contract.summary), add_completion=False, no_args_is_help=True, rich_markup_mode="rich"
    )
    for operation in contract:
        _add(app, operation)
    for word, name_of_operation in ALIASES.get(name, {}).items():
        found = contract.get(name_of_operation)
        assert found is not None, "an alias is of an operation"
        _add(app, found, word)
    for word, command in MORE.get(name, {}).items():
        app.command(word, cls=OperationCommand)(command)
    return app


def _add(app: typer.Typer, operation: AnyOperation, word: str | None = None) -> None:
    word = word or operation.name.replace("_", "-")
    own = OWN.get(operation.full_name)
    if own is not None:
        app.command(word, cls=OperationCommand)(own)
        return
    errors = ", ".join(error.__name__ for error in operation.errors)
    text = escape(operation.summary) + (f"\n\nFails with {errors}." if errors else "")
    app.command(word, cls=OperationCommand, help=text)(_command(operation))


def _command(operation: AnyOperation) -> Callable[..., None]:
    def command(ctx: typer.Context, **given: Any) -> None:
        settings = Settings.of(ctx, given.pop("json"))
        body = values_of(operation.request, given)
        describe = LOSSES.get(operation.full_name)
        if describe is not None and not given["yes"]:
            confirm(settings, lambda hive: describe(hive, body), waiting="looking up what will be lost")
        if "message_id" in body:  # the id of what it names, not of the request
            del given["message_id"]
        if given.get("durable"):
            publish(settings, operation, body, given)
        else:
            request(settings, operation, body, given)

    own: dict[str, Any] = {"json": Json}
    if operation.full_name in LOSSES:
        own["yes"] = Yes
    if operation.writes and "message_id" not in operation.request.model_fields:
        own["message_id"] = MessageId
    if operation.durable:
        own["durable"] = Durable
        if operation.route is None:
            own["route"] = Route
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_default(name), annotation=annotation)
        for name, annotation in own.items()
    ]
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [context, *options_of(operation.request), *options]
    signature = inspect.Signature(parameters)
    # Typer reads the options from the signature.
    setattr(command, "__signature__", signature)  # noqa: B010 - functions declare no such attribute
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _default(name: str) -> bool | None:
    return False if name in ("json", "yes", "durable") else None


def request(settings: Settings, operation: AnyOperation, body: dict[str, Any], given: dict[str, Any]) -> None:
    """Send the request, and show the reply."""
    message_id = given.get("message_id")
    # People see a large value by its reference; programs get it.
    large_values = settings.json or operation.writes
    reply = run(
        settings,
        lambda hive: hive.with_options(message_id=message_id, large_values=large_values).request(
            operation.full_name, body
        ),
        waiting=f"waiting for {operation.full_name}",
    )
    if settings.json:
        print_json(reply)
    else:
        cursor = getattr(reply, "cursor", None) if "cursor" in operation.request.model_fields else None
        asked = [name for name, value in body.items() if value]
        print_reply(reply, settings.next_page(cursor) if cursor else "", asked)


def publish(settings: Settings, operation: AnyOperation, body: dict[str, Any], given: dict[str, Any]) -> None:
    """Publish the command, and show the receipt."""
    receipt = run(
        settings,
        lambda hive: hive.publish(
            operation.full_name, body, route=given.get("route"), message_id=given.get("message_id")
        ),
    )
    if settings.json:
        print_json(asdict(receipt))
    else:
        print_fields(asdict(receipt))
