"""`hivemem memory audit-verify`: verifies the whole audit chain, part by part."""

from typing import TYPE_CHECKING, Annotated

import typer

from hivemem.cli.counts import counted
from hivemem.cli.progress import counter
from hivemem.cli.rendering import print_json, print_reply
from hivemem.cli.settings import FAILED, Json, Settings, interrupted, run

if TYPE_CHECKING:
    from hivemem.hive import Hive
    from hivemem_contracts.memory.replies import AuditVerified


def audit_verify_command(
    ctx: typer.Context,
    cursor: Annotated[str | None, typer.Option(help="Continue an interrupted verification from here.")] = None,
    json: Json = False,
) -> None:
    """Verify the tenant's audit chain, and the memories against it.

    The exit code is 1 if they do not agree.
    """
    settings = Settings.of(ctx, json)
    reached = cursor

    async def verify(hive: "Hive") -> "AuditVerified":
        nonlocal reached
        checked = memories = 0
        with counter("verifying the audit") as shown:
            while True:
                part = await hive.memory.audit_verify(**({} if reached is None else {"cursor": reached}))
                checked, memories = checked + part.checked, memories + part.memories
                if part.cursor is None or not part.ok:
                    return part.model_copy(update={"checked": checked, "memories": memories})
                reached = part.cursor
                shown(f"verified {counted(checked, 'link')}, {counted(memories, 'memory', 'memories')}")

    try:
        verified = run(settings, verify)
    except KeyboardInterrupt:
        interrupted(f"stopped; go on with: {settings.next_page(reached)}" if reached else "stopped")
    if settings.json:
        print_json(verified)
    else:
        print_reply(verified)
    if not verified.ok:
        raise typer.Exit(FAILED)
