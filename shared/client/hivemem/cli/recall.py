"""`hivemem recall`: search by meaning and by words."""

import sys
from typing import TYPE_CHECKING, Annotated, Final, get_args

import typer
from rich.text import Text

from hivemem.cli import terminal
from hivemem.cli.cells import folded, short_text
from hivemem.cli.fields import JSON_HELP, read_json
from hivemem.cli.positional_fields import BY_POSITION, OperationCommand
from hivemem.cli.rendering import print_json, print_notes, print_rows
from hivemem.cli.settings import Json, Settings, run
from hivemem.cli.visible import visible
from hivemem_contracts.limits import RECALL_CONTEXT, RECALL_MAXIMUM, RECALL_WAIT_MAXIMUM_MS
from hivemem_contracts.memory.models import MemoryType
from hivemem_contracts.vectors.models import ItemKind
from hivemem_contracts.vectors.operations import RECALL

if TYPE_CHECKING:
    from hivemem.hive import Hive
    from hivemem_contracts.vectors.models import Recalled, Turn
    from hivemem_contracts.vectors.replies import RecallAnswer

KINDS: Final[tuple[str, ...]] = get_args(ItemKind)
TYPES: Final[tuple[str, ...]] = get_args(MemoryType)
SHOWN_CHARACTERS: Final = 240
"""The characters shown of an item's text, enough to recognise it."""
INDENT: Final = "  "
DIM: Final = "bright_black"

app = typer.Typer(add_completion=False, rich_markup_mode="rich")


@app.command(cls=OperationCommand)
def recall(
    ctx: typer.Context,
    query: Annotated[
        str, typer.Option(metavar="QUERY", rich_help_panel=BY_POSITION, help="The question, in plain words.")
    ],
    namespace_prefix: Annotated[
        str | None, typer.Option("--prefix", help="A namespace, or the first segments of namespaces; all if left out.")
    ] = None,
    user_id: Annotated[str | None, typer.Option(help="Only events of this user's sessions.")] = None,
    app_name: Annotated[str | None, typer.Option(help="Only events of this app's sessions.")] = None,
    project_id: Annotated[str | None, typer.Option(help="Only events of this project's sessions.")] = None,
    session_ids: Annotated[
        list[str] | None,
        typer.Option("--session-id", help="Only events of this session, or of several if repeated."),
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option("--kind", help=f"Only items of this kind, or of several if repeated: {' or '.join(KINDS)}."),
    ] = None,
    context: Annotated[
        int, typer.Option(min=0, max=RECALL_CONTEXT, help="Show this many events before and after each event.")
    ] = 0,
    limit: Annotated[int, typer.Option(min=1, max=RECALL_MAXIMUM, help="Maximum number of items.")] = 10,
    memory_type: Annotated[
        MemoryType | None, typer.Option(metavar="TYPE", help=f"Only memories of this type: {' or '.join(TYPES)}.")
    ] = None,
    filter: Annotated[
        str | None, typer.Option(help=f'Conditions for the items, such as \'{{"created_by": "planner"}}\'. {JSON_HELP}')
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help=f"The weights of the score, such as '{{\"recency\": 0.3}}'. {JSON_HELP}")
    ] = None,
    rerank: Annotated[bool, typer.Option("--rerank", help="Let the hive's reranker order the best items.")] = False,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Limit the values to about this many tokens.")] = None,
    min_version: Annotated[
        int | None, typer.Option(min=1, help="Wait until a memory is indexed at this version or a later one.")
    ] = None,
    wait_ms: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=RECALL_WAIT_MAXIMUM_MS,
            help="Wait at most this long until all earlier writes are indexed.",
        ),
    ] = None,
    cursor: Annotated[str | None, typer.Option(help="The cursor of the previous answer.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the parts of each score, and the words that matched.")
    ] = False,
    json: Json = False,
) -> None:
    """Find memories and events by meaning and by words, the best first.

    If the answer is incomplete, standard error says why.
    """
    settings = Settings.of(ctx, json)
    given = {
        "namespace_prefix": namespace_prefix,
        "memory_type": memory_type,
        "user_id": user_id,
        "app_name": app_name,
        "project_id": project_id,
        "session_ids": session_ids or None,
        "kinds": kinds or None,
        "context": context or None,
        "filter": None if filter is None else read_json(filter, "--filter"),
        "weights": None if weights is None else read_json(weights, "--weights"),
        "rerank": rerank or None,
        "max_tokens": max_tokens,
        "min_version": min_version,
        "wait_ms": wait_ms,
        "cursor": cursor,
        "explain": explain or None,
    }
    body = {"query": query, "limit": limit} | {name: value for name, value in given.items() if value is not None}

    async def work(hive: "Hive") -> "RecallAnswer":
        return await hive.send(RECALL, body)

    answer = run(settings, work, waiting="searching")
    show(answer, settings.json, explain=explain)
    if answer.cursor is not None and not settings.json:
        sys.stdout.write(f"more: {settings.next_page(answer.cursor)}\n")


def show(answer: "RecallAnswer", json: bool, *, explain: bool) -> None:
    if answer.degraded is not None:
        sys.stderr.write(f"degraded ({', '.join(answer.degraded.reasons)}): {visible(answer.degraded.detail)}\n")
    if json:
        print_json(answer)
        return
    if terminal.is_there():
        rows = [{"score": f"{item.score:.3f}", "namespace": item.namespace, "key": item.key} for item in answer.items]
        print_rows(rows, below=[below(item, terminal.width(), explain=explain) for item in answer.items])
    else:
        print_rows(answer.items)
    if answer.cut is not None:
        why = "--max-tokens" if answer.cut == "tokens" else "the answer reached its size limit"
        print_notes([f"there is more: {why}"])


def below(item: "Recalled", width: int, *, explain: bool) -> list[Text]:
    """Return the lines under an item: its text, between its neighbours, and the parts of its score if requested."""
    found = _short(short_text(item.value, json=True) if item.text is None else item.text)
    before, after = ([], []) if item.context is None else (item.context.before, item.context.after)
    lines = [
        *((_turn(turn), DIM) for turn in before),
        (found if item.context is None else f"{visible(item.key)}  {found}", "none"),
        *((_turn(turn), DIM) for turn in after),
    ]
    if explain:
        parts = item.scores.model_dump(exclude_none=True)
        words = "  ".join(f"{visible(word)}:{part:.2f}" for word, part in (item.matched or {}).items())
        lines.append(("  ".join(f"{name} {part:.3f}" for name, part in parts.items()), DIM))
        lines.append((f"matched {words or '-'}", DIM))
    return [
        Text(INDENT).append(part, style=style) for line, style in lines for part in folded(line, width - len(INDENT))
    ]


def _turn(turn: "Turn") -> str:
    return f"{visible(turn.key)}  {_short(turn.text)}"


def _short(text: str) -> str:
    line = visible(" ".join(text.split()))
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]}…"
