"""The neighbours of events that were found: which of them are read, and what is answered of them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from hivemem_vectors.pipeline.decisions.changes import event_text, moment_of

TURN_CHARACTERS: Final = 2_000


class Run(NamedTuple):
    """A range of events of one session, by their sequences; both ends are part of it."""

    session_id: str
    first: int
    last: int


def runs(events: Iterable[tuple[str, int]], context: int) -> list[Run]:
    """Return the runs that cover the events, given by session and sequence, and `context` neighbours on each side.
    Neighbourhoods that overlap or touch are one run."""
    found: list[Run] = []
    for session_id, sequence in sorted(events):
        first, last = max(sequence - context, 1), sequence + context
        if found and found[-1].session_id == session_id and first <= found[-1].last + 1:
            found[-1] = found[-1]._replace(last=last)
        else:
            found.append(Run(session_id, first, last))
    return found


def turn_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event in its wire format as a neighbour."""
    return {
        "key": event["event_id"],
        "sequence": event["sequence"],
        "author": event["author"],
        "occurred_at": moment_of(event),
        "text": event_text(event)[:TURN_CHARACTERS],
    }


def around(turns: Mapping[int, dict[str, Any]], sequence: int, context: int) -> dict[str, list[dict[str, Any]]]:
    """Return the neighbours of an event, given the turns of its session by their sequences."""

    def between(first: int, end: int) -> list[dict[str, Any]]:
        return [turns[number] for number in range(first, end) if number in turns]

    return {"before": between(sequence - context, sequence), "after": between(sequence + 1, sequence + context + 1)}
