"""Questions before a command deletes something that nothing can bring back."""

import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hivemem.cli.counts import counted
from hivemem.cli.settings import FAILED, WRONG, Settings, run
from hivemem.cli.visible import visible
from hivemem_contracts.limits import LIST_MAXIMUM

if TYPE_CHECKING:
    from hivemem.hive import Hive

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")]


def confirm(settings: Settings, describe: "Callable[[Hive], Awaitable[str]]", waiting: str = "") -> None:
    """Say what will be lost, and go on only after a yes; `waiting` is shown as by `run`.

    Exits with code 2 if there is no terminal to ask on, and with code 1 after any other answer.
    """
    if not sys.stdin.isatty():
        sys.stderr.write("This deletes for good, and standard input is no terminal to ask on: confirm it with --yes.\n")
        raise typer.Exit(WRONG)
    loss = run(settings, describe, waiting)
    sys.stderr.write(f"{visible(loss)} This cannot be undone. Continue? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        sys.stderr.write("nothing was deleted\n")
        raise typer.Exit(FAILED)


async def _session(hive: "Hive", body: Mapping[str, Any]) -> str:
    session = (await hive.sessions.get(session_id=body["session_id"])).session
    return f"Session {session.session_id!r} goes, with {counted(session.event_count, 'event')} and its state."


async def _memories(hive: "Hive", body: Mapping[str, Any]) -> str:
    namespace, key = body["namespace"], body.get("key")
    if key is not None:
        memory = await hive.memory.get(namespace=namespace, key=key, include_deleted=True)
        return f"Memory {namespace} {key} goes, with {counted(memory.version, 'version')}."
    memories = (await hive.memory.count(prefix=namespace, include_deleted=True)).count
    found = counted(memories, "memory", "memories")
    return f"Everything in and below {namespace} goes: {found}, each with all its versions."


async def _file(hive: "Hive", body: Mapping[str, Any]) -> str:
    page = await hive.artifacts.versions(session_id=body["session_id"], name=body["name"], limit=LIST_MAXIMUM)
    more = "more than " if page.cursor else ""
    size = sum(version.size for version in page.items)
    versions = counted(len(page.items), "version")
    return f"File {body['name']!r} of session {body['session_id']!r} goes: {more}{versions}, {counted(size, 'byte')}."


async def _workspace(hive: "Hive", body: Mapping[str, Any]) -> str:
    page = await hive.artifacts.workspace_versions(workspace_id=body["workspace_id"], limit=1)
    newest = page.items[0]
    files = f"{counted(newest.files, 'file')} at the newest"
    return f"Workspace {body['workspace_id']!r} goes, at version {newest.version}, with {files}."


async def _vector(hive: "Hive", body: Mapping[str, Any]) -> str:
    del hive
    where = f" of collection {body['collection']!r}" if "collection" in body else ""
    return f"Vector {body['id']!r}{where} goes."


async def _window(hive: "Hive", body: Mapping[str, Any]) -> str:
    named = {name: body[name] for name in ("resource", "key", "context") if name in body}
    window = await hive.windows.health(**named)
    return f"All of window {window.key!r} goes: {counted(window.messages, 'message')}, the summary and the originals."


async def _message(hive: "Hive", body: Mapping[str, Any]) -> str:
    del hive
    return f"Message {body['message_id']!r} goes, with the tool call or the results that belong to it."


LOSSES: Final[dict[str, "Callable[[Hive, Mapping[str, Any]], Awaitable[str]]"]] = {
    "sessions.delete": _session,
    "memory.erase": _memories,
    "artifacts.delete": _file,
    "artifacts.workspace_delete": _workspace,
    "vectors.delete": _vector,
    "windows.delete": _message,
    "windows.clear": _window,
}
"""What each operation deletes for good, in words; all others leave a history or can be repeated."""
