"""Contents: the messages that a window holds, and their facts for eviction and flushing.

A *unit* leaves a window as a whole: a message, or a tool call with its results. Its number is the sequence of its first
message.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hivemem_runtime.ledger.entity import Index, Scalar, record_entity

SHARES: Final = ("system", "long_term", "short_term")


@dataclass(frozen=True, slots=True)
class Content:
    """What a window holds; times are microseconds since 1970. JSON has text for keys, so a unit's key is its number as
    text.

    `units` and `tokens` list the units of each share and their tokens, the oldest first. The other fields name only the
    units that differ from most: `pinned` ones, those with another `importance` (in thousandths) than the usual, with
    `results` (their sequences and tokens), and those read under a policy that asks (`used`, `uses`). `calls` maps the
    open tool calls to their units; the number is negative once the unit has left.

    `flush` is the flush that is queued. Everything up to `cleared_through` is deleted, and `purging` until nothing of
    it is left; then an `ended` window is erased.
    """

    resource: str
    key: str
    created_at: int
    updated_at: int
    session_id: str | None = None
    status: str = "open"
    last: int = 0
    units: dict[str, list[int]] = field(default_factory=lambda: {share: [] for share in SHARES})
    tokens: dict[str, list[int]] = field(default_factory=lambda: {share: [] for share in SHARES})
    pinned: list[int] = field(default_factory=list[int])
    importance: dict[str, int] = field(default_factory=dict[str, int])
    results: dict[str, list[list[int]]] = field(default_factory=dict[str, list[list[int]]])
    used: dict[str, int] = field(default_factory=dict[str, int])
    uses: dict[str, int] = field(default_factory=dict[str, int])
    calls: dict[str, int] = field(default_factory=dict[str, int])
    summary: dict[str, Any] | None = None
    flush: dict[str, Any] | None = None
    flush_at: int | None = None
    flushed_at: int | None = None
    since_flush: int = 0
    failures: int = 0
    deletions: int = 0
    cleared_through: int = 0
    purging: bool = False
    ended: bool = False
    expires_at: int | None = None
    lease: dict[str, Any] | None = None
    stats: dict[str, Any] = field(default_factory=dict[str, Any])

    def total_tokens(self) -> int:
        """Return the tokens of all messages and of the summary."""
        return sum(map(sum, self.tokens.values())) + (0 if self.summary is None else int(self.summary["tokens"]))

    def message_count(self) -> int:
        return sum(map(len, self.units.values())) + sum(map(len, self.results.values()))

    def sequences(self, share: str) -> list[int]:
        """Return the messages of a share, the results of a tool call behind it."""
        found: list[int] = []
        for unit in self.units[share]:
            found.append(unit)
            if self.results:
                found += [sequence for sequence, _ in self.results.get(str(unit), ())]
        return found


def _index_content(content: Content) -> Mapping[str, Scalar]:
    return {
        "resource": content.resource,
        "key": content.key,
        "listed": not content.ended,
        "session_id": content.session_id,
        "flush_at": content.flush_at,
        "expires_at": content.expires_at,
        "purging": content.purging,
    }


CONTENT: Final = record_entity(
    "window_content",
    Content,
    indexed=_index_content,
    indexes=(
        Index("resource", ("resource",), "key", only="listed"),
        Index("key", (), "key", only="listed"),
        Index("session", ("session_id",), None),
        Index("flush", (), "flush_at"),
        Index("expiry", (), "expires_at"),
        Index("purging", (), None, only="purging"),
    ),
    history=False,
)
